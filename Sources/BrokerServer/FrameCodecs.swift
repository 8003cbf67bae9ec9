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
    private let decoders = Mutex<[PooledDecoder]>([])
    private let limits: FrameLimits
    private let answers: FrameLimits

    /// - Parameter answers: what an answer is held to: the protocol's own limits, not those that a server sets for what
    ///   it takes.
    init(limits: FrameLimits, answers: FrameLimits = FrameLimits()) {
        self.limits = limits
        self.answers = answers
        encoder = Mutex(FrameEncoder(limits: answers))
    }

    /// A frame of the content, or of an `error` when no frame can hold it.
    ///
    /// - Parameter tag: of the message that is answered.
    func encode(_ content: [UInt8], tag: [UInt8]? = nil) -> [UInt8] {
        encoder.withLock { encoder in
            do throws(WireError) {
                return try encoder.encode(content)
            } catch {
                return Self.apology(tag: tag, &encoder)
            }
        }
    }

    private static func apology(tag: [UInt8]?, _ encoder: inout FrameEncoder) -> [UInt8] {
        var apology = WireError(.internal, "The answer is too large for a frame. Ask for less of it.")
        apology.tag = tag
        return encode(small: apology.encoded(), &encoder)
    }

    /// A frame of the answer to a job or to an `await`: of the whole of it, or shortened so that it fits.
    func encode(_ outcome: ToldOutcome, tag: [UInt8]?, isBrief: Bool) -> [UInt8] {
        if let objects = outcome.objects { return encode(outcome, objects, tag: tag) }
        return encoder.withLock { encoder in
            do throws(WireError) {
                return try encoder.encode(outcome.message(tag: tag, isBrief: isBrief))
            } catch {
                let shortened = outcome.shortened().message(tag: tag, isBrief: isBrief)
                return Self.encode(small: shortened, &encoder)
            }
        }
    }

    /// A frame of the answer to a job that asked for its objects: with them, if it can hold them.
    private func encode(_ outcome: ToldOutcome, _ objects: ToldObjects, tag: [UInt8]?) -> [UInt8] {
        guard objects.json != nil else { return encode(outcome.withoutObjects(), tag: tag, isBrief: false) }
        // Not the shared one, as below.
        var encoder = FrameEncoder(limits: answers)
        do throws(WireError) {
            return try encoder.encode(outcome.message(tag: tag, isBrief: false))
        } catch {
            return encode(outcome.withoutObjects(), tag: tag, isBrief: false)
        }
    }

    /// A frame of what a fetch found: of all of it, or of as much as a frame can hold.
    func encode(_ objects: FetchedObjects, tag: [UInt8]?) -> [UInt8] {
        // Not the shared one: a long answer must not hold up everybody's short ones.
        var encoder = FrameEncoder(limits: answers)
        do throws(WireError) {
            return try encoder.encode(objects.bytes)
        } catch {
            guard let shortened = objects.shortened else { return Self.apology(tag: tag, &encoder) }
            return encode(shortened, tag: tag)
        }
    }

    private static func encode(small content: [UInt8], _ encoder: inout FrameEncoder) -> [UInt8] {
        do throws(WireError) {
            return try encoder.encode(content)
        } catch {
            preconditionFailure("a message of some kilobytes fits every frame")
        }
    }

    /// Bytes of a frame whose decoder is used again.
    private static let pooledPayloadBytes = 64 << 10

    /// Blocking work, by the size of the content.
    func decode(_ payload: UnsafeRawBufferPointer, _ memory: JobMemory) throws(FrameRefusal) -> JSONText {
        let pooled = decoders.withLock { $0.popLast() } ?? PooledDecoder(limits)
        // A decoder keeps buffers of the largest block that it met, megabytes perhaps.
        defer { if payload.count <= Self.pooledPayloadBytes { decoders.withLock { $0.append(pooled) } } }
        let result = pooled.decoder.withLock { decoder in
            Result { () throws(FrameRefusal) in try decoder.decode(payload, allowance: memory) }
        }
        return try result.get()
    }
}
