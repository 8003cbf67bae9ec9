import BrokerCoordinator
import BrokerJSON
import BrokerJournal
import BrokerMessages
import BrokerModel
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
        do {
            let text = try payload.withUnsafeBytes { try decoder.decode($0, allowance: allowance) }
            return .content(Array(text.bytes))
        } catch let fault as WireError {
            return .fault(fault)
        } catch JSONRefusal.noRoom {
            throw FuzzFinding(description: "an allowance without a limit was refused")
        }
    }
}

/// The content of a frame, read as a server reads it and as a client does: a message within the protocol's limits, or an
/// error that has a code and does not end the connection.
final class MessageTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        let text = JSONText(copying: input)
        try readAsServer(text)
        try readAsClient(text)
    }

    private func readAsServer(_ text: JSONText) throws {
        do {
            try check(try ClientEnvelope.decode(parsing: text, allowance: CountingAllowance()), text)
        } catch JSONRefusal.noRoom {
            throw FuzzFinding(description: "an allowance without a limit was refused")
        } catch let error as WireError {
            try require(!error.endsConnection, "\(error) ends the connection")
            let codes = ["malformedJSON", "unsupportedMessage", "unsupportedVersion"]
            try require(codes.contains(error.code.rawValue), "\(error) is no error of a message")
            try requireSound(error)
        }
    }

    private func check(_ envelope: ClientEnvelope, _ content: JSONText) throws {
        defer { withExtendedLifetime(envelope) {} }
        if let tag = envelope.tag {
            try require(tag.count <= ClientEnvelope.maximumTagCount, "a tag has \(tag.count) bytes")
            try require(
                tag.withUnsafeBytes { JSONGrammar.accepts($0, maximumDepth: JSONDocument.defaultMaximumDepth) },
                "a tag is no JSON")
        }
        switch envelope.message {
        case .job:
            let job = try Job.read(envelope, content: content) { _ in { _ in } }
            if let id = job.id { try require((1...128).contains(id.utf8.count), "an id of \(id.utf8.count)") }
            try require(!job.operations.isEmpty, "a job has no operation")
            if let bookmark = job.terms.bookmark {
                try requireBookmark(bookmark.name)
                try require(bookmark.value?.utf8.count ?? 0 <= 8_192, "a bookmark of \(bookmark)")
            }
        case .bookmark(let name): try requireBookmark(name)
        case .await(let id, _), .cancel(let id):
            try require((1...128).contains(id.utf8.count), "an id of \(id.utf8.count)")
        case .fetch: _ = try FetchDescription(envelope.document.root)
        case .backup(let file, _, _): try require(file.utf8.first == UInt8(ascii: "/"), "a copy without a folder")
        case .subscribe(let subscription):
            let count = subscription.entities?.count ?? 1
            try require((1...5_000).contains(count), "\(count) entities are followed")
            try require(subscription.after ?? 0 >= 0, "the feed begins before 0")
        case .kick(let message):
            try require((message.connection == nil) != (message.user == nil), "it is not known whom to kick")
        case .hello, .admin, .migrate, .ping, .stats, .jobs, .rejects, .model: break
        }
    }

    private func requireBookmark(_ name: String) throws {
        try require((1...1_024).contains(name.utf8.count), "a bookmark of \(name.utf8.count)")
    }

    private func readAsClient(_ text: JSONText) throws {
        do throws(WireError) {
            _ = try ServerEnvelope.decode(parsing: text)
        } catch {
            try require(
                [.malformedJSON, .unsupportedMessage].contains(error.code), "\(error) is no error of a message")
            try requireSound(error)
        }
    }
}

/// A segment of a journal that is not what it was: what is read is a beginning of what was written, and never anything else.
///
/// The first byte chooses: arbitrary bytes after a good header, or entries of the input's own of which one byte is changed
/// and the end is cut; and whether the segment's mark says that all of it is durable. Then no change is taken for a torn tail.
final class JournalTarget: FuzzTarget {
    private let identity = JournalIdentity("000102030405060708090a0b0c0d0e0f")!

    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let choice = input.byte()
        guard choice % 2 == 0 else { return try spoil(&input, isMarked: choice & 2 != 0) }
        let bytes = SegmentBytes.make([], identity, before: 0) + input.rest
        guard let found = bytes.withUnsafeBytes({ SegmentBytes.read($0) }) else {
            throw FuzzFinding(description: "a good header is not read")
        }
        let again = SegmentBytes.make(found.entries, identity, before: 0)
        try require(found.entries.isEmpty || again.count <= bytes.count, "more was read than there is")
    }

    private func spoil(_ input: inout FuzzInput, isMarked: Bool) throws {
        let (place, change, cut) = (Int(input.byte()) << 8 | Int(input.byte()), input.byte(), Int(input.byte()))
        var entries: [LogEntry] = []
        for part in Array(input.rest).split(separator: 0, maxSplits: 20, omittingEmptySubsequences: false) {
            let number = Int64(entries.count + 1)
            let kind: LogEntry.Kind = number % 5 == 0 ? .cancellation : .job
            entries.append(
                LogEntry(
                    kind, position: number, id: "job-\(number)", isIDMade: number % 2 == 0, user: 7, time: number,
                    payload: Array(part)))
        }
        let whole = SegmentBytes.make(entries, identity, before: 0, isMarked: isMarked)
        let intact = whole.withUnsafeBytes { SegmentBytes.read($0) }
        try require(intact?.entries == entries && intact?.end == .whole, "what was written is not read")
        var bytes = Array(whole.dropLast(min(cut, whole.count)))
        if !bytes.isEmpty { bytes[place % bytes.count] ^= change }
        guard let found = bytes.withUnsafeBytes({ SegmentBytes.read($0) }) else { return }
        try require(
            found.entries.elementsEqual(entries.prefix(found.entries.count)), "what is read was never written")
        let isChanged = bytes != whole
        try require(!isChanged || found.entries.count < entries.count, "what was changed is read as if it were whole")
        try require(!isChanged || !isMarked || found.end == .damaged, "what was durable is taken for a torn tail")
    }
}

/// A segment's bytes without files, for tests of what is read from them.
enum SegmentBytes {
    /// Where reading ended.
    enum End: Sendable {
        case whole, torn, damaged, unknownRecord
    }

    /// A segment with these entries, each made durable by itself.
    ///
    /// - Parameter isMarked: its mark says that all of it is durable; otherwise the mark says so of the header alone.
    static func make(
        _ entries: [LogEntry], _ identity: JournalIdentity, before: Int64, isMarked: Bool = false
    ) -> [UInt8] {
        var bytes = JournalSegment.header(1, identity, before: before)
        var checksum = bytes.withUnsafeBytes { $0.number(8, UInt32.self) }
        for entry in entries {
            checksum = JournalRecord.write(
                entry, seed: identity.seed, after: checksum, durable: bytes.count, to: &bytes)
        }
        if isMarked {
            bytes.replaceSubrange(
                JournalSegment.markOffset..<JournalSegment.headerCount,
                with: SegmentMark(synced: bytes.count).bytes(seed: identity.seed))
        }
        return bytes
    }

    /// The entries that are read from the last segment of a journal; nil when it has no header.
    static func read(_ bytes: UnsafeRawBufferPointer) -> (entries: [LogEntry], end: End)? {
        guard let segment = try? JournalSegment(bytes, number: 1, path: "") else { return nil }
        var scan = SegmentScan(segment, bytes)
        var entries: [LogEntry] = []
        while let entry = scan.next() { entries.append(entry) }
        switch scan.end(isLast: true) {
        case .whole: return (entries, .whole)
        case .torn: return (entries, .torn)
        case .damaged: return (entries, .damaged)
        case .unknownRecord: return (entries, .unknownRecord)
        }
    }
}
