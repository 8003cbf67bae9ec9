import BrokerWire
import Testing

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
