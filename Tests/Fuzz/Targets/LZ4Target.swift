import BrokerJSON
import BrokerWire

/// Frames of any bytes: refused, or within the limits and always the same; what we compress comes back.
///
/// The first byte chooses: an arbitrary payload after LZ4's magic number, or a content to compress.
final class LZ4Target: FuzzTarget {
    private static let limits = FrameLimits(maximumContentCount: 100_000)
    private static let known = Array(#"{"entity": "Employee", "json": [{"id": 1, "name": "Ada"}]}"#.utf8)
    private var decoder = Decoder(limits: LZ4Target.limits)
    private var encoder = FrameEncoder()
    private let knownFrame: [UInt8]

    init() throws { knownFrame = try encoder.encode(Self.known) }

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        switch input.byte() % 3 {
        case 0: try decode(Array(input.rest))
        case 1: try decode([0x04, 0x22, 0x4D, 0x18] + input.rest)
        default: try encode(Array(input.rest))
        }
    }

    private func decode(_ payload: [UInt8]) throws {
        let allowance = CountingAllowance()
        let first = try decoder.decode(payload, allowance)
        try require(first == (try decoder.decode(payload, nil)), "a payload is decoded differently the second time")
        try require(
            try decoder.decode(Array(knownFrame.dropFirst(FrameScanner.prefixCount)), nil) == .content(Self.known),
            "after this payload the decoder is not as good as new")
        let (bound, stored) = payload.withUnsafeBytes { bytes in
            (
                FrameDecoder.contentBytesAtMost(bytes, Self.limits),
                bytes.count > 0 ? StoredFrame.content(of: bytes).map { Array($0) } : nil
            )
        }
        switch first {
        case .content(let content):
            try require(content.count <= Self.limits.maximumContentCount, "the content is above the limit")
            try require(content.count <= bound, "the content is longer than was declared")
            try require(allowance.taken == content.count, "\(allowance.taken) bytes stay taken for \(content.count)")
            try require(stored == nil || stored == content, "a stored frame is read as something else")
        case .fault(let error):
            try require([.malformedLZ4, .contentTooLarge].contains(error.code), "\(error) is no error of LZ4")
            try require(allowance.taken == 0, "\(allowance.taken) bytes stay taken for a payload that was refused")
            try require(stored == nil, "a stored frame is refused: \(error)")
            try requireSound(error)
        }
    }

    private func encode(_ content: [UInt8]) throws {
        let frame = try encoder.encode(content)
        let scan = try frame.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try FrameScanner.scan(bytes) }
        }.get()
        try require(scan == .frame(payload: 4..<frame.count), "what was encoded is not one frame")
        try decode(Array(frame.dropFirst(FrameScanner.prefixCount)))
        guard content.count <= Self.limits.maximumContentCount else { return }
        try require(
            try decoder.decode(Array(frame.dropFirst(FrameScanner.prefixCount)), nil) == .content(content),
            "what was encoded comes back as something else")
    }
}

private enum Decoded: Equatable {
    case content([UInt8])
    case fault(WireError)
}

/// Holds the decoder, of which there is no copy.
private final class Decoder {
    private var decoder: FrameDecoder

    init(limits: FrameLimits) { decoder = FrameDecoder(limits: limits) }

    func decode(_ payload: [UInt8], _ allowance: CountingAllowance?) throws -> Decoded {
        do throws(FrameRefusal) {
            let text = try payload.withUnsafeBytes { bytes in
                Result { () throws(FrameRefusal) in try decoder.decode(bytes, allowance: allowance) }
            }.get()
            return .content(Array(text.bytes))
        } catch {
            switch error {
            case .fault(let fault): return .fault(fault)
            case .noRoom: throw FuzzFinding(description: "an allowance without a limit was refused")
            }
        }
    }
}
