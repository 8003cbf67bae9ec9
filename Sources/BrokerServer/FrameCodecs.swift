internal import BrokerCoordinator
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
        (try? encode(content)) ?? apology(about: frame)
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
    func apology(about frame: FrameReference) -> [UInt8] {
        let apology = WireError(.internal, "The answer is too large for a frame. Ask for less of it.")
        return encode(small: apology.about(frame).encoded())
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
    func scan(_ payload: UnsafeRawBufferPointer) throws(WireError) -> EnvelopeScan {
        var decoder = FrameDecoder(limits: limits)
        var scan = EnvelopeScan()
        try decoder.forEachPiece(payload) { scan.scan($0) }
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
