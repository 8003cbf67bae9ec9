import BrokerWire
import Testing
import TestSupport

/// Damaged frames: refused or, where a checksum is missing, read as something within the limit; never a crash.
@Suite(.timeLimit(.minutes(5))) struct FrameFuzzTests {
    private static let limits = FrameLimits(maximumContentCount: 100_000)

    private func samples(_ generator: inout SeededGenerator) throws -> [[UInt8]] {
        let small = utf8(#"{"id":"a","entity":"Employee","json":[{"id":1,"name":"Ada"},{"id":2,"name":"Ada"}]}"#)
        let large = generator.content(count: 90_000)
        return try [small, large].flatMap { content in
            try [
                payload(of: content), lz4(["-1", "-B4", "-BD", "-BX"], on: content),
                lz4(["-1", "-BX", "--content-size"], on: content), lz4(["--no-frame-crc"], on: content),
            ]
        }
    }

    @Test func `damaged frames never crash and never exceed the limit`() throws {
        var generator = SeededGenerator()
        var decoder = FrameDecoder(limits: Self.limits)
        var refusals = 0
        for sample in try samples(&generator) {
            for round in 0..<400 {
                var damaged = sample
                if round % 4 == 0 { damaged.removeLast(Int.random(in: 1...damaged.count, using: &generator)) }
                for _ in 0..<Int.random(in: round % 4 == 0 ? 0...2 : 1...8, using: &generator) where !damaged.isEmpty {
                    let range = Bool.random(using: &generator) ? damaged.indices : 0..<min(24, damaged.count)
                    damaged[Int.random(in: range, using: &generator)] ^= 1 << UInt8.random(in: 0...7, using: &generator)
                }
                do throws(WireError) {
                    let content = try decode(payload: damaged, with: &decoder)
                    #expect(content.count <= Self.limits.maximumContentCount)
                } catch {
                    refusals += 1
                    #expect([.malformedLZ4, .contentTooLarge].contains(error.code))
                }
            }
            #expect(throws: Never.self) { _ = try decode(payload: sample, with: &decoder) }
        }
        #expect(refusals > 1000)
    }

    @Test func `random bytes are scanned and decoded without a crash`() {
        var generator = SeededGenerator()
        var decoder = FrameDecoder(limits: Self.limits)
        for _ in 0..<2000 {
            var bytes = generator.content(count: Int.random(in: 0...64, using: &generator))
            bytes.withUnsafeBytes { bytes in
                do throws(WireError) { _ = try FrameScanner.scan(bytes) } catch { #expect(error.endsConnection) }
            }
            bytes.replaceSubrange(0..<min(4, bytes.count), with: [0x04, 0x22, 0x4D, 0x18])
            do throws(WireError) { _ = try decode(payload: bytes, with: &decoder) } catch {
                #expect(error.endsConnection)
            }
        }
    }
}
