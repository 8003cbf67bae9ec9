internal import BrokerCoordinator
internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStore
internal import BrokerWire
internal import Synchronization

/// Frame encoders and decoders for threads that need one now and then: their buffers are made once.
final class FrameCodecs: Sendable {
    private final class PooledDecoder: Sendable {
        let decoder: Mutex<FrameDecoder>
        init(_ limits: FrameLimits) { decoder = Mutex(FrameDecoder(limits: limits)) }
    }

    private let encoder: Mutex<FrameEncoder>
    /// For the answers to small jobs.
    private let small = Mutex(JSONWriter(capacity: 1_024))
    private let decoders = Mutex<[PooledDecoder]>([])
    private let limits: FrameLimits
    private let answers: FrameLimits

    /// - Parameter answers: the limits of answers: the protocol's own, not those that a server sets for what it reads.
    init(limits: FrameLimits, answers: FrameLimits = FrameLimits()) {
        self.limits = limits
        self.answers = answers
        encoder = Mutex(FrameEncoder(limits: answers))
    }

    /// Bytes of content that the shared encoder compresses. A longer answer must not make all short ones wait.
    private static let sharedContentBytes = 64 << 10

    /// A frame of the content, or of an `error` when no frame can hold it.
    ///
    /// - Parameter frame: the frame that is answered.
    func encode(_ content: [UInt8], about frame: FrameReference) -> [UInt8] {
        (try? encode(content)) ?? tooLarge(about: frame)
    }

    private func encode(_ content: consuming [UInt8]) throws -> [UInt8] {
        if StoredFrame.enclose(&content, limits: answers) { return content }
        guard content.count <= Self.sharedContentBytes else {
            var encoder = FrameEncoder(limits: answers)
            return try encoder.encode(content)
        }
        return try encoder.withLock { try $0.encode(content) }
    }

    /// The error for an answer that fits no frame.
    func tooLarge(about frame: FrameReference) -> [UInt8] {
        let error = WireError(.internal, "The answer is too large for a frame. Ask for less of it.")
        return encode(small: error.about(frame).encoded())
    }

    /// A frame of the answer to a job or to an `await`: of the whole of it, or shortened so that it fits.
    func encode(_ outcome: JobCompletion, tag: [UInt8]?, isBrief: Bool) -> [UInt8] {
        if let objects = outcome.objects { return encode(outcome, objects, tag: tag) }
        return (try? encode(outcome.message(tag: tag, isBrief: isBrief)))
            ?? encode(small: outcome.shortened().message(tag: tag, isBrief: isBrief))
    }

    /// Calls `body` with the frame of a short answer to a completed job, in memory that is used again.
    ///
    /// - Returns: false for any other answer; `body` is not called then.
    func withFrame(
        ofShort outcome: JobCompletion, tag: [UInt8]?, isBrief: Bool, _ body: (UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        guard case .completed(let members, _) = outcome.result, outcome.objects == nil,
            members.count <= Self.shortMembersCount
        else { return false }
        var writer = small.withLock { kept in
            defer { kept = JSONWriter(capacity: 0) }
            return kept
        }
        writer.removeAll()
        outcome.writeCompleted(tag: tag, isBrief: isBrief, to: &writer)
        let isFrame = writer.withBytes { bytes in
            guard StoredFrame.enclose(&bytes, limits: answers) else { return false }
            bytes.withUnsafeBytes(body)
            return true
        }
        small.withLock { [writer] in $0 = writer }
        return isFrame
    }

    /// Bytes of the members of most answers that ``StoredFrame`` may have.
    private static let shortMembersCount = 512

    /// A frame of the answer to a job that asked for its objects: with them, if it can hold them.
    private func encode(_ outcome: JobCompletion, _ objects: ReplyObjects, tag: [UInt8]?) -> [UInt8] {
        if objects.json != nil, let frame = try? encode(outcome.message(tag: tag, isBrief: false)) { return frame }
        return encode(outcome.withoutObjects(), tag: tag, isBrief: false)
    }

    /// A frame of a fetch's answer: of all of it, or of as much as a frame can hold; nil when that is not one object.
    func encode(_ objects: FetchedObjects) -> [UInt8]? {
        (try? encode(objects.bytes)) ?? objects.shortened.flatMap { encode($0) }
    }

    private func encode(small content: [UInt8]) -> [UInt8] {
        guard let frame = try? encode(content) else {
            preconditionFailure("a message of some kilobytes fits every frame")
        }
        return frame
    }

    /// Bytes of a frame whose decoder is used again.
    private static let pooledPayloadBytes = 64 << 10

    /// The parts of a frame that its answer repeats, found in little memory. Blocking work, by the size of the content.
    func scan(_ payload: [UInt8]) throws(WireError) -> EnvelopeScan {
        var decoder = FrameDecoder(limits: limits)
        var scan = EnvelopeScan()
        try payload.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try decoder.forEachPiece(bytes) { scan.scan($0) } }
        }.get()
        return scan
    }

    /// Blocking work, by the size of the content.
    func decode(_ payload: UnsafeRawBufferPointer, _ memory: JobMemory) throws -> JSONText {
        let pooled = decoders.withLock { $0.popLast() } ?? PooledDecoder(limits)
        // A decoder retains buffers of the largest block that it met, megabytes perhaps.
        defer { if payload.count <= Self.pooledPayloadBytes { decoders.withLock { $0.append(pooled) } } }
        return try pooled.decoder.withLock { try $0.decode(payload, allowance: memory) }
    }
}

extension JobCompletion {
    /// The `completed` or `failed` message.
    ///
    /// - Parameter isBrief: for `reply: none`.
    fileprivate func message(tag: [UInt8]?, isBrief: Bool) -> [UInt8] {
        if case .failed(let error) = result {
            return MessageWriter.message("failed", capacity: error.count, tag: tag) { writer in
                if !id.isEmpty { writer.member("id", id) }
                if let sequence { writer.member("sequence", sequence) }
                writer.member("error", raw: error)
            }
        }
        var writer = JSONWriter(capacity: 0)
        writeCompleted(tag: tag, isBrief: isBrief, to: &writer)
        return writer.bytes
    }

    /// Writes the `completed` message to an empty writer; writes nothing for a job that failed.
    fileprivate func writeCompleted(tag: [UInt8]?, isBrief: Bool, to writer: inout JSONWriter) {
        guard case .completed(let members, let isDuplicate) = result else { return }
        MessageWriter.writeCompleted(
            id: id, sequence: sequence ?? 0, isDuplicate: isDuplicate, isDryRun: isDryRun,
            members: isBrief ? [] : members, objects: objects?.json, tag: tag, to: &writer
        ) { writer in
            guard let timing else { return }
            writer.key("timing")
            timing.write(to: &writer)
        }
    }
}

extension JobCompletion {
    /// Bytes of it that grow with the job.
    var byteCount: Int {
        switch result {
        case .completed(let members, _): members.count + (objects?.json?.count ?? 0)
        case .failed(let error): error.count
        }
    }

    /// The same outcome without the objects that were asked for, and a warning that they are missing.
    func withoutObjects() -> JobCompletion {
        guard let objects, case .completed(let members, let isDuplicate) = result else { return self }
        var outcome = self
        outcome.objects = nil
        let shortened = ShortenedOutcome(.objects, isDryRun: isDryRun)
            .members(of: members, lacking: [("objects", max(1, objects.count))])
        outcome.result = .completed(members: shortened, isDuplicate: isDuplicate)
        return outcome
    }

    /// How much of an answer is left.
    enum Shortening {
        /// All but the objects that were asked for.
        case objects
        /// Less than two megabytes: it fits every frame.
        case frame
        /// Some kilobytes, for a client that does not take its answers.
        case brief
    }

    /// The same outcome, shorter: what happened is there, and what is missing is named.
    func shortened(_ shortening: Shortening = .frame) -> JobCompletion {
        var outcome = self
        outcome.objects = nil
        switch result {
        case .completed(let members, let isDuplicate):
            outcome.result = .completed(
                members: ShortenedOutcome(shortening, isDryRun: isDryRun).members(of: members), isDuplicate: isDuplicate
            )
        case .failed(let error):
            outcome.result = .failed(error: ShortenedOutcome.error(error))
        }
        return outcome
    }

    /// The outcome of a job of which only the COMMIT is known.
    static func committed(_ id: String, sequence: Int64?, isDuplicate: Bool) -> JobCompletion {
        JobCompletion(
            id: id, owner: nil, sequence: sequence,
            result: .completed(
                members: ShortenedOutcome(.frame, isDryRun: false).members(of: []), isDuplicate: isDuplicate))
    }
}

/// Shortens answers that fit no frame. What is missing is named in warnings.
private struct ShortenedOutcome {
    /// Bytes of the beginning of each list that are retained.
    private let listBytes: Int
    /// Bytes of any other member that are retained.
    private let valueBytes: Int
    private let isDryRun: Bool

    init(_ shortening: JobCompletion.Shortening, isDryRun: Bool) {
        switch shortening {
        case .objects: (listBytes, valueBytes) = (.max, .max)
        case .frame: (listBytes, valueBytes) = (64 << 10, 1 << 20)
        case .brief: (listBytes, valueBytes) = (1 << 10, 2 << 10)
        }
        self.isDryRun = isDryRun
    }

    private static let textBytes = 1_000

    /// Members of `completed` without the large ones, and a warning for each that is missing.
    ///
    /// - Parameter lacking: what is missing already.
    func members(of members: [UInt8], lacking: [(field: String, count: Int)] = []) -> [UInt8] {
        let document = Self.parse(members: members)
        return withExtendedLifetime(document) {
            let root = document?.root
            var leftOut = lacking
            var writer = JSONWriter()
            copy("changes", of: root, &writer, &leftOut)
            writer.array("rejected") { copyBeginning(of: root?["rejected"], "rejected", &$0, &leftOut) }
            if let keys = root?["keys"] {
                let count = keys.members.reduce(0) {
                    $0 + $1.value.members.reduce(0) { $0 + $1.value.elements.reduce(0) { count, _ in count + 1 } }
                }
                leftOut.append(("keys", max(1, count)))
            }
            if root?["examples"] != nil { copy("examples", of: root, &writer, &leftOut) }
            if root == nil { leftOut.append(("changes", 1)) }
            writer.array("warnings") { writer in
                copyBeginning(of: root?["warnings"], "warnings", &writer, &leftOut)
                for (field, count) in leftOut { warn(field, count, &writer) }
            }
            return writer.bytes
        }
    }

    /// An `error` object whose texts are cut.
    static func error(_ error: [UInt8]) -> [UInt8] {
        let document = parse(error)
        return withExtendedLifetime(document) {
            var writer = JSONWriter()
            writer.object { writer in
                guard let document else { return }
                for (key, value) in document.root.members {
                    let name = String(decoding: key.bytes, as: UTF8.self)
                    if name == "message" {
                        writer.member(name, cut(value))
                    } else if value.bytes.count <= textBytes {
                        writer.member(name, value)
                    }
                }
            }
            return writer.bytes
        }
    }

    private static func parse(members: [UInt8]) -> JSONDocument? {
        parse([UInt8(ascii: "{")] + members + [UInt8(ascii: "}")])
    }

    /// The server's own text is JSON; if it were not, only the facts known without it are sent.
    private static func parse(_ text: [UInt8]) -> JSONDocument? {
        guard let document = try? JSONDocument(fast: JSONText(copying: text)) else { return nil }
        return document.root["changes"] != nil || document.root["code"] != nil ? document : nil
    }

    /// Writes an object, or an empty one in place of one that is too large.
    private func copy(
        _ key: String, of root: JSONValue?, _ writer: inout JSONWriter, _ leftOut: inout [(field: String, count: Int)]
    ) {
        writer.key(key)
        guard let value = root?[key] else { return writer.object { _ in } }
        guard value.bytes.count <= valueBytes else {
            leftOut.append((key, max(1, value.members.reduce(0) { count, _ in count + 1 })))
            return writer.object { _ in }
        }
        writer.value(value)
    }

    private func copyBeginning(
        of list: JSONValue?, _ field: String, _ writer: inout JSONWriter,
        _ leftOut: inout [(field: String, count: Int)]
    ) {
        guard let list else { return }
        var room = listBytes
        var missing = 0
        for element in list.elements {
            room -= element.bytes.count
            if room >= 0 { writer.value(element) } else { missing += 1 }
        }
        if missing > 0 { leftOut.append((field, missing)) }
    }

    private func warn(_ field: String, _ count: Int, _ writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("code", "answerShortened")
            writer.member("entity", "")
            writer.member("key", field)
            writer.member("message", isDryRun ? Self.dryRunMessage : Self.message(field))
            writer.member("count", count)
        }
    }

    private static let dryRunMessage =
        "The answer to this dry run is not whole: it fits no frame, or so much was waiting for the client already. Split "
        + "such jobs, and read the answers as they arrive."

    private static func message(_ field: String) -> String {
        guard field == "objects" else {
            return "The job is committed, but its whole answer fits no frame. Read the objects from the database, or "
                + "split such jobs."
        }
        return "The job is committed, but its objects are not sent: they are too large for an answer, or so much was "
            + "waiting for the client already. Fetch them, or split such jobs and read the answers as they arrive."
    }

    private static func cut(_ value: JSONValue) -> String {
        guard value.bytes.count > textBytes else { return value.string ?? "" }
        return String(decoding: value.bytes.prefix(textBytes), as: UTF8.self) + "…"
    }
}
