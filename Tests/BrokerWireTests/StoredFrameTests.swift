import BrokerWire
import TestSupport
import Testing

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
