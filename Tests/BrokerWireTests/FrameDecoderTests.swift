import BrokerWire
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(5))) struct FrameDecoderTests {
    private func refused(_ payload: [UInt8], limits: FrameLimits = FrameLimits()) -> WireError? {
        refusal { () throws(WireError) in _ = try decode(payload: payload, limits: limits) }
    }

    private func expectMalformed(
        _ payload: [UInt8], _ fact: String, at location: SourceLocation = #_sourceLocation
    ) {
        let error = refused(payload)
        #expect(error?.code == .malformedLZ4, sourceLocation: location)
        #expect(error?.endsConnection == true, sourceLocation: location)
        #expect(error?.message.contains(fact) == true, "\(error?.message ?? "-")", sourceLocation: location)
    }

    /// A frame made by hand: no declared size, no checksums, one stored block.
    private func handmade(flags: UInt8 = 0x60, descriptor: UInt8 = 0x40, tail: [UInt8] = [0, 0, 0, 0]) -> [UInt8] {
        [0x04, 0x22, 0x4D, 0x18, flags, descriptor, 0x82, 2, 0, 0, 0x80, UInt8(ascii: "{"), UInt8(ascii: "}")] + tail
    }

    @Test func `a frame with one stored block is read`() throws {
        #expect(try decode(payload: handmade()) == utf8("{}"))
    }

    @Test func `empty content is an empty text`() throws {
        #expect(try decode(payload: payload(of: [])) == [])
        #expect(try decode(payload: lz4(["-1"], on: [])) == [])
    }

    @Test func `a payload that is no LZ4 frame is reported by its kind`() throws {
        expectMalformed(utf8(#"{"entity":"A"}"#), "plain JSON")
        expectMalformed(utf8("[]"), "plain JSON")
        expectMalformed([0x1F, 0x8B, 8, 0], "gzip")
        expectMalformed([0x28, 0xB5, 0x2F, 0xFD, 0], "Zstandard")
        expectMalformed(try lz4(["-l"], on: utf8("{}")), "legacy format")
        expectMalformed([0x53, 0x2A, 0x4D, 0x18, 0, 0, 0, 0], "skippable")
        expectMalformed([1, 2, 3, 4, 5, 6, 7, 8], "begin with 0x01 0x02 0x03 0x04")
        expectMalformed([1], "cut off after 1 bytes")
        expectMalformed([], "cut off after 0 bytes")
    }

    @Test func `headers that the format reserves are refused`() {
        expectMalformed(handmade(flags: 0xA0), "version 2")
        expectMalformed(handmade(flags: 0x62), "reserved bit is set in the LZ4 frame's flags")
        expectMalformed(handmade(flags: 0x61), "dictionary")
        expectMalformed(handmade(descriptor: 0xC0), "block descriptor")
        expectMalformed(handmade(descriptor: 0x41), "block descriptor")
        expectMalformed(handmade(descriptor: 0x30), "block size code 3")
    }

    @Test func `a wrong header checksum is refused`() {
        var frame = handmade()
        frame[6] ^= 1
        expectMalformed(frame, "header does not match its checksum")
    }

    @Test func `a missing end mark is refused, wherever the frame is cut`() throws {
        let whole = try payload(of: utf8(#"{"entity": "Employee", "json": [{"id": 1}, {"id": 2}]}"#))
        for count in 0..<whole.count { expectMalformed(Array(whole.prefix(count)), "cut off") }
        expectMalformed(handmade(tail: []), "before its end mark")
    }

    @Test func `trailing bytes and a second frame are refused`() throws {
        let whole = try payload(of: utf8("{}"))
        expectMalformed(whole + [0], "1 bytes follow the end")
        expectMalformed(whole + whole, "second LZ4 frame")
        expectMalformed(whole + [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0], "8 bytes follow the end")
    }

    @Test func `damage is found by the checksums that are there`() throws {
        let content = utf8(String(repeating: "0123456789", count: 3)) + (0...255).map { UInt8($0) }
        var frame = try lz4(["-1", "-BX"], on: content)
        frame[frame.count - 1] ^= 1
        expectMalformed(frame, "content does not match the LZ4 frame's checksum")
        frame[frame.count - 1] ^= 1
        frame[frame.count - 9] ^= 1  // end mark and content checksum after it
        expectMalformed(frame, "block of the LZ4 frame does not match its checksum")
    }

    @Test func `a declared size that is not the content's is refused`() throws {
        let content = utf8(String(repeating: "a", count: 300))
        // liblz4 checks the header too, so the size is changed together with its checksum byte, found by trial.
        for (size, fact) in [(301, "not of the size"), (299, "not of the size"), (0, "longer than the 0 bytes")] {
            var frame = try payload(of: content)
            frame[6] = UInt8(truncatingIfNeeded: size)
            frame[7] = UInt8(truncatingIfNeeded: size >> 8)
            let facts = (0...255).compactMap { checksum in
                frame[14] = UInt8(checksum)
                return refused(frame)?.message
            }
            #expect(facts.count == 256)
            #expect(facts.filter { $0.contains(fact) }.count == 1, "\(Set(facts))")
        }
    }

    @Test func `a size declared above the limit is refused before anything is decompressed`() throws {
        let limits = FrameLimits(maximumContentCount: 100)
        let error = refused(try payload(of: [UInt8](repeating: 32, count: 101)), limits: limits)
        #expect(error?.code == .contentTooLarge)
        #expect(error?.message.contains("declares 101 bytes of content; the limit is 100") == true)
        let content = [UInt8](repeating: 32, count: 100)
        #expect(try decode(payload: payload(of: content), limits: limits) == content)
    }

    @Test func `content that goes on beyond the limit is refused there`() throws {
        let limits = FrameLimits(maximumContentCount: 1_000_000)
        let atLimit = [UInt8](repeating: 32, count: 1_000_000)
        #expect(try decode(payload: lz4(["-1"], on: atLimit), limits: limits) == atLimit)
        let error = refused(try lz4(["-1"], on: atLimit + [32]), limits: limits)
        #expect(error?.code == .contentTooLarge)
        #expect(error?.message.contains("holds more than 1,000,000 bytes of content") == true)
    }

    @Test func `a frame that declares exabytes is refused`() throws {
        var frame = try payload(of: utf8("{}"))
        for index in 6..<14 { frame[index] = 0xFF }
        #expect(refused(frame)?.code == .contentTooLarge)
    }

    @Test func `after an error a decoder decodes the next frame`() throws {
        var decoder = FrameDecoder()
        let content = SeededGeneratorSample.bytes
        let whole = try payload(of: content)
        for cut in [8, whole.count / 2, whole.count - 1] {
            let error = refusal { () throws(WireError) in
                _ = try decode(payload: Array(whole.prefix(cut)), with: &decoder)
            }
            #expect(error?.code == .malformedLZ4)
            #expect(try decode(payload: whole, with: &decoder) == content)
        }
    }

    private enum SeededGeneratorSample {
        static let bytes: [UInt8] = {
            var generator = SeededGenerator(seed: 7)
            return generator.content(count: 300_000)
        }()
    }
}
