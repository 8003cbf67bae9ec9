import BrokerWire

/// Cutting a stream into frames: the same frames come out however the stream arrives, each where its length says.
///
/// The first byte chooses the limit and the sizes of the pieces; the rest is the stream.
final class FrameTarget: FuzzTarget {
    private static let smallLimit = FrameLimits(maximumPayloadCount: 48, maximumContentCount: 4096)

    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let choice = input.byte()
        let limits = choice & 1 == 0 ? FrameLimits() : Self.smallLimit
        let stream = Array(input.rest)
        let whole = try Self.cut(stream, pieces: stream.count, limits)
        let pieces = try Self.cut(stream, pieces: 1 + Int(choice >> 1) % 16, limits)
        try require(whole.frames == pieces.frames, "the frames are others when the stream comes in pieces")
        try require(
            (whole.error == nil) == (pieces.error == nil), "a stream is good whole and bad in pieces, or otherwise")
    }

    private struct Cut {
        var frames: [Range<Int>] = []
        var error: WireError?
    }

    /// The places of the payloads in the stream, and what ended it.
    private static func cut(_ stream: [UInt8], pieces size: Int, _ limits: FrameLimits) throws -> Cut {
        var cut = Cut()
        var begin = 0
        var end = 0
        while true {
            end = min(stream.count, end + max(1, size))
            // Memory of just these bytes, so that a sanitizer sees who reads beyond.
            var unread = Array(stream[begin..<end])
            var scan = FrameScan.incomplete(totalCount: nil)
            while true {
                do throws(WireError) {
                    scan = try unread.withUnsafeBytes { bytes in
                        Result { () throws(WireError) in try FrameScanner.scan(bytes, limits: limits) }
                    }.get()
                } catch {
                    try require(error.endsConnection, "a framing error does not end the connection")
                    try requireSound(error)
                    cut.error = error
                    return cut
                }
                guard case .frame(let payload) = scan else { break }
                try check(payload, unread, limits)
                cut.frames.append(begin + payload.lowerBound..<begin + payload.upperBound)
                unread.removeFirst(payload.upperBound)
                begin += payload.upperBound
            }
            guard case .incomplete(let total) = scan else { break }
            try require(
                total.map { $0 > unread.count } ?? (unread.count < FrameScanner.prefixCount), "nothing is missing")
            guard end < stream.count else {
                cut.error = FrameScanner.endOfStream(unread.count, totalCount: total)
                try require((cut.error == nil) == unread.isEmpty, "a stream that ends inside a frame is good")
                break
            }
        }
        return cut
    }

    private static func check(_ payload: Range<Int>, _ unread: [UInt8], _ limits: FrameLimits) throws {
        let length = unread.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        try require(payload.lowerBound == 4 && payload.count == length, "the payload is not where the length says")
        try require(payload.upperBound <= unread.count, "the payload ends after the bytes that were read")
        try require((1...limits.maximumPayloadCount).contains(payload.count), "the payload is not within the limits")
        unread.withUnsafeBytes { bytes in
            let payload = UnsafeRawBufferPointer(rebasing: bytes[payload])
            _ = FrameDecoder.contentBytesAtMost(payload, limits)
            _ = StoredFrame.content(of: payload)
        }
    }
}
