import BrokerJSON
import BrokerWire
import Foundation
import TestSupport
import Testing

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
        expectMalformed([0x1F, 0x8B, 8, 0], "begin with 0x1F 0x8B")
        expectMalformed(try lz4(["-l"], on: utf8("{}")), "begin with 0x02 0x21 0x4C 0x18")
        expectMalformed([0x53, 0x2A, 0x4D, 0x18, 0, 0, 0, 0], "begin with 0x53 0x2A 0x4D 0x18")
        expectMalformed([1, 2, 3, 4, 5, 6, 7, 8], "begin with 0x01 0x02 0x03 0x04")
        expectMalformed([1], "cut off after 1 bytes")
        expectMalformed([], "cut off after 0 bytes")
    }

    @Test func `headers that the format reserves are refused`() {
        expectMalformed(handmade(flags: 0xA0), "(0xA0 0x40) is not of version 1")
        expectMalformed(handmade(flags: 0x62), "(0x62 0x40) is not of version 1, or has a dictionary, a reserved bit")
        expectMalformed(handmade(flags: 0x61), "(0x61 0x40)")
        expectMalformed(handmade(descriptor: 0xC0), "0xC0)")
        expectMalformed(handmade(descriptor: 0x41), "0x41)")
        expectMalformed(handmade(descriptor: 0x30), "0x30)")
    }

    @Test func `a wrong header checksum is refused`() {
        var frame = handmade()
        frame[6] ^= 1
        expectMalformed(frame, "headerChecksum")
    }

    @Test func `a missing end mark is refused, wherever the frame is cut`() throws {
        let whole = try payload(of: utf8(#"{"entity": "Employee", "json": [{"id": 1}, {"id": 2}]}"#))
        for count in 0..<whole.count { expectMalformed(Array(whole.prefix(count)), "cut off") }
        expectMalformed(handmade(tail: []), "before its end mark")
    }

    @Test(arguments: [0, 1, 600, 4 << 20, 4 << 20 | 1, 17 << 20])
    func `a frame within a process is not compressed, and may be larger than one of a socket`(count: Int) throws {
        let content = utf8(String(repeating: "a", count: count))
        var encoder = FrameEncoder(limits: .inProcess)
        let frame = try encoder.encode(content)
        #expect(frame.count > count)
        let scan = try frame.withUnsafeBytes { bytes throws(WireError) in
            try FrameScanner.scan(bytes, limits: .inProcess)
        }
        #expect(scan == .frame(payload: 4..<frame.count))
        #expect(try decode(payload: Array(frame[4...]), limits: .inProcess) == content)
    }

    @Test func `trailing bytes and a second frame are refused`() throws {
        let whole = try payload(of: utf8("{}"))
        expectMalformed(whole + [0], "1 bytes follow the end")
        expectMalformed(whole + whole, "\(whole.count) bytes follow the end")
        expectMalformed(whole + [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0], "8 bytes follow the end")
    }

    @Test func `damage is found by the checksums that are there`() throws {
        let content = utf8(String(repeating: "0123456789", count: 3)) + (0...255).map { UInt8($0) }
        var frame = try lz4(["-1", "-BX"], on: content)
        frame[frame.count - 1] ^= 1
        expectMalformed(frame, "contentChecksum")
        frame[frame.count - 1] ^= 1
        frame[frame.count - 9] ^= 1  // end mark and content checksum after it
        expectMalformed(frame, "blockChecksum")
    }

    @Test func `a declared size that is not the content's is refused`() throws {
        let content = utf8(String(repeating: "a", count: 300))
        // liblz4 checks the header too, so the size is changed together with its checksum byte, found by trial.
        for (size, fact) in [(301, "frameSize"), (299, "frameSize"), (0, "longer than the 0 bytes")] {
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

@Suite(.timeLimit(.minutes(5))) struct FrameScannerTests {
    private func scan(_ bytes: [UInt8], limits: FrameLimits = FrameLimits()) throws(WireError) -> FrameScan {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 8)
        defer { buffer.deallocate() }
        buffer.copyBytes(from: bytes)
        return try FrameScanner.scan(UnsafeRawBufferPointer(rebasing: buffer[..<bytes.count]), limits: limits)
    }

    @Test func `a frame is known when all of it is there, and not before`() throws {
        let frame: [UInt8] = [0, 0, 0, 3, 7, 8, 9]
        #expect(try scan([]) == .incomplete(totalCount: nil))
        for count in 1...3 { #expect(try scan(Array(frame.prefix(count))) == .incomplete(totalCount: nil)) }
        for count in 4...6 { #expect(try scan(Array(frame.prefix(count))) == .incomplete(totalCount: 7)) }
        #expect(try scan(frame) == .frame(payload: 4..<7))
        #expect(try scan(frame + frame) == .frame(payload: 4..<7))
    }

    @Test func `the largest length is taken, and needs no memory`() throws {
        #expect(try scan([0, 0xFF, 0xFF, 0xFF]) == .incomplete(totalCount: 16_777_219))
    }

    @Test func `a length of zero is refused`() {
        let error = refusal { () throws(WireError) in _ = try scan([0, 0, 0, 0]) }
        #expect(error?.code == .malformedFrame)
        #expect(error?.message.contains("length 0") == true)
    }

    @Test(arguments: ["{", "[", "\"", " ", "\n", "\t", "\r"])
    func `bare JSON is known by its first byte`(start: String) {
        let error = refusal { () throws(WireError) in _ = try scan(utf8(start)) }
        #expect(error?.code == .malformedFrame)
        #expect(error?.message.contains("Bare JSON") == true)
        #expect(error?.message.contains("broker frame") == true)
        #expect(error?.endsConnection == true)
    }

    @Test func `a bare LZ4 frame is known by its first byte`() {
        for bytes in [[0x04], [0x04, 0x22], [0x04, 0x22, 0x4D, 0x18, 0x64]] as [[UInt8]] {
            let error = refusal { () throws(WireError) in _ = try scan(bytes) }
            #expect(error?.code == .malformedFrame)
            #expect(error?.message.contains("bare LZ4 frame") == true)
        }
    }

    @Test func `text and a byte order mark are distinguished from lengths`() {
        for bytes in [utf8("GET / HTTP/1.1"), utf8("h"), [0xEF, 0xBB, 0xBF, 0x7B]] {
            let error = refusal { () throws(WireError) in _ = try scan(bytes) }
            #expect(error?.code == .malformedFrame)
            #expect(error?.message.contains("Plain text") == true)
        }
    }

    @Test func `a length of 4 GiB is refused from its first byte on`() {
        for count in 1...4 {
            let error = refusal { () throws(WireError) in _ = try scan([UInt8](repeating: 0xFF, count: count)) }
            #expect(error?.code == .frameTooLarge)
            #expect(error?.message.contains(count == 4 ? "4,294,967,295" : "at least 4,278,190,080") == true)
        }
        let error = refusal { () throws(WireError) in _ = try scan([4, 0, 0, 0]) }
        #expect(error?.code == .frameTooLarge)
    }

    @Test func `a lower limit refuses a length above it and takes one at it`() throws {
        let limits = FrameLimits(maximumPayloadCount: 10)
        #expect(try scan([0, 0, 0, 10], limits: limits) == .incomplete(totalCount: 14))
        let error = refusal { () throws(WireError) in _ = try scan([0, 0, 0, 11], limits: limits) }
        #expect(error?.code == .frameTooLarge)
        #expect(error?.message.contains("is 11 bytes; the limit is 10") == true)
    }

    @Test func `a stream that ends inside a frame says how much is missing`() {
        #expect(FrameScanner.endOfStream(0, totalCount: nil) == nil)
        let inPrefix = FrameScanner.endOfStream(3, totalCount: nil)
        #expect(inPrefix?.code == .malformedFrame)
        #expect(inPrefix?.message.contains("3 of its bytes came, 1 are missing") == true)
        let inPayload = FrameScanner.endOfStream(14, totalCount: 1004)
        #expect(inPayload?.code == .malformedFrame)
        #expect(inPayload?.message.contains("says 1,000 bytes, 990 of them are missing") == true)
    }
}

@Suite(.timeLimit(.minutes(5))) struct StoredFrameTests {
    private func stored(_ content: [UInt8]) -> [UInt8]? { content.withUnsafeBytes { StoredFrame.encode($0) } }

    private func content(ofStored payload: [UInt8]) -> [UInt8]? {
        payload.withUnsafeBytes { StoredFrame.content(of: $0).map { Array($0) } }
    }

    @Test func `a small content is in its frame as it is, and every reader of LZ4 frames finds it`() throws {
        var generator = SeededGenerator()
        for count in 1...512 {
            let text = generator.content(count: count)
            let frame = try #require(stored(text))
            #expect(try BrokerWireTests.content(ofFrame: frame) == text, "\(count) bytes")
            let payload = Array(frame.dropFirst(FrameScanner.prefixCount))
            #expect(content(ofStored: payload) == text)
            #expect(text.withUnsafeBytes { StoredFrame.payload($0) } == payload)
            #expect(StoredFrame.payloadCount(count) == payload.count)
            var enclosed = text
            #expect(StoredFrame.enclose(&enclosed) && enclosed == frame, "in the memory of the content")
            if count % 64 == 0 { #expect(try lz4(["-d"], on: payload) == text) }
        }
    }

    @Test func `large content is compressed, and the decoder reads compressed content`() throws {
        #expect(stored([]) == nil)
        #expect(stored([UInt8](repeating: 7, count: 513)) == nil)
        var long = [UInt8](repeating: 7, count: 513)
        #expect(!StoredFrame.enclose(&long) && long == [UInt8](repeating: 7, count: 513))
        let large = try payload(of: [UInt8](repeating: 7, count: 513))
        #expect(large.count < 100)
        #expect(content(ofStored: large) == nil)
        #expect(content(ofStored: try lz4(["-1", "--content-size"], on: utf8(#"{"type":"pong"}"#))) == nil)
    }

    @Test func `a damaged frame is left to the decoder, or read as the decoder reads it`() throws {
        var generator = SeededGenerator()
        var counts = [true: 0, false: 0]
        for _ in 0..<4_000 {
            var damaged = try payload(of: generator.content(count: Int.random(in: 1...60, using: &generator)))
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: damaged.removeLast(Int.random(in: 1...damaged.count, using: &generator))
            case 1: damaged.append(UInt8.random(in: 0...255, using: &generator))
            default:
                let place = Int.random(in: damaged.indices, using: &generator)
                damaged[place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
            }
            let read = content(ofStored: damaged)
            counts[read != nil, default: 0] += 1
            if let read { #expect(try decode(payload: damaged) == read) }
        }
        #expect(counts.values.allSatisfy { $0 > 400 }, "the damage is one-sided: \(counts)")
    }
}

/// The frames of `protocol/examples` hold what the JSON beside them says, and both are messages of the protocol.
@Suite(.timeLimit(.minutes(5))) struct GoldenFrameTests {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().appendingPathComponent("../../protocol/examples").standardizedFileURL

    private static let answers: Set<String> = [
        "welcome", "completed", "failed", "error", "accepted", "progress", "cancelled", "objects", "done",
        "stats", "jobs", "rejects", "model", "subscribed", "committed",
        "bookmark",
    ]

    private static func names(_ suffix: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(suffix) }.map { String($0.dropLast(suffix.count)) }.sorted()
    }

    private static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(name)))
    }

    @Test func `every example is a pair`() throws {
        let names = try Self.names(".frame")
        #expect(names.count >= 8)
        #expect(names == (try Self.names(".json")))
    }

    @Test func `every frame holds the JSON beside it, byte for byte`() throws {
        for name in try Self.names(".frame") {
            let content = try content(ofFrame: Self.bytes("\(name).frame"))
            #expect(content == (try Self.bytes("\(name).json")), "\(name)")
        }
    }

    @Test func `every example is a message`() throws {
        for name in try Self.names(".json") {
            let text = JSONText(copying: try Self.bytes("\(name).json"))
            let kind = name.split(separator: "-").first.map(String.init) ?? name
            if Self.answers.contains(kind) {
                let message = "\(try ServerEnvelope.decode(parsing: text).message)"
                #expect(message.hasPrefix(kind), "\(name)")
            } else {
                let message = "\(try ClientEnvelope.decode(parsing: text).message)"
                // These are actions of `admin` with fields of their own.
                let actions = ["admin-backup": "backup", "admin-migrate": "migrate"]
                #expect(message.hasPrefix(actions[name] ?? kind), "\(name)")
            }
        }
    }

    @Test func `the examples cover linked and independent blocks, sizes and checksums`() throws {
        let flags = try Self.names(".frame").map { try Self.bytes("\($0).frame")[8] }
        for (bit, meaning) in [(0x20, "independent"), (0x10, "block checksum"), (8, "size"), (4, "content checksum")] {
            #expect(flags.contains { Int($0) & bit != 0 } && flags.contains { Int($0) & bit == 0 }, "\(meaning)")
        }
    }
}
