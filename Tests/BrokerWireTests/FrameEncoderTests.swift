import BrokerWire
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(5))) struct FrameEncoderTests {
    @Test func `content limits hold before anything is compressed`() {
        var encoder = FrameEncoder(limits: FrameLimits(maximumContentCount: 10))
        let error = refusal { () throws(WireError) in _ = try encoder.encode([UInt8](repeating: 1, count: 11)) }
        #expect(error?.code == .contentTooLarge)
        #expect(error?.message.contains("11 bytes long; the limit is 10") == true)
    }

    @Test func `content that does not compress below the limit is refused`() throws {
        var generator = SeededGenerator(seed: 1)
        let noise = (0..<200).map { _ in UInt8.random(in: 0...255, using: &generator) }
        var encoder = FrameEncoder(limits: FrameLimits(maximumPayloadCount: 100))
        let error = refusal { () throws(WireError) in _ = try encoder.encode(noise) }
        #expect(error?.code == .frameTooLarge)
        let content = [UInt8](repeating: 7, count: 200)
        #expect(try BrokerWireTests.content(ofFrame: encoder.encode(content)) == content)
    }

    @Test func `every frame begins with its length, whose first byte is 0`() throws {
        var encoder = FrameEncoder()
        let frame = try encoder.encode(utf8("{}"))
        #expect(frame.prefix(4) == [0, 0, 0, UInt8(frame.count - 4)])
        #expect(frame[4..<8] == [0x04, 0x22, 0x4D, 0x18])
    }

    @Test func `random content comes back through one encoder and one decoder`() throws {
        var generator = SeededGenerator()
        var encoder = FrameEncoder()
        var decoder = FrameDecoder()
        for size in [0, 1, 13, 300, 65_535, 65_536, 65_537, 262_144, 262_145, 1_000_000] {
            let content = generator.content(count: size)
            let frame = try encoder.encode(content)
            #expect(try decode(payload: Array(frame.dropFirst(4)), with: &decoder) == content, "\(size) bytes")
        }
        for _ in 0..<200 {
            let content = generator.content(count: Int.random(in: 0...5000, using: &generator))
            let frame = try encoder.encode(content)
            #expect(try decode(payload: Array(frame.dropFirst(4)), with: &decoder) == content)
        }
    }

    @Test(arguments: [
        ["-1"], ["-9"], ["-1", "--content-size"], ["-9", "-BD", "--content-size"], ["-1", "-B4"], ["-1", "-B7", "-BD"],
        ["-1", "-BX"], ["-1", "--no-frame-crc"], ["--fast=5"],
    ])
    func `frames of the lz4 program are read`(arguments: [String]) throws {
        var generator = SeededGenerator()
        for size in [2, 5000, 700_000] {
            let content = generator.content(count: size)
            #expect(try decode(payload: lz4(arguments, on: content)) == content)
        }
    }

    @Test func `the lz4 program reads our frames`() throws {
        var generator = SeededGenerator()
        for size in [0, 2, 300, 70_000, 700_000] {
            let content = generator.content(count: size)
            #expect(try lz4(["-d"], on: payload(of: content)) == content)
        }
    }
}
