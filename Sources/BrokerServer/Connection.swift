internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerWire
internal import NIOCore
internal import Synchronization

/// One client, as the threads that answer it see it: a place to put frames.
///
/// Frames leave in the order of ``send(_:finishing:)``. Any thread may call; the event loop writes what has gathered in
/// one go.
final class Connection: Sendable {
    private struct Outbox {
        var frames: [[UInt8]] = []
        var finished = 0
        var isFlushScheduled = false
    }

    private let eventLoop: any EventLoop
    private let outbox = Mutex(Outbox())
    private let codecs: FrameCodecs
    /// Writes frames to the channel and takes note that so many messages are answered. Called on the event loop.
    private let deliver: @Sendable (_ frames: [[UInt8]], _ finished: Int) -> Void

    init(
        on eventLoop: any EventLoop, codecs: FrameCodecs,
        deliver: @escaping @Sendable (_ frames: [[UInt8]], _ finished: Int) -> Void
    ) {
        self.eventLoop = eventLoop
        self.codecs = codecs
        self.deliver = deliver
    }

    /// Sends a message.
    ///
    /// - Parameter finishing: this is the last answer to a message that arrived.
    func send(_ content: [UInt8], finishing: Bool) {
        put(codecs.encode(content), finishing: finishing)
    }

    /// A message that arrived needs no further answer.
    func finish() { put(nil, finishing: true) }

    private func put(_ frame: [UInt8]?, finishing: Bool) {
        let mustSchedule = outbox.withLock { outbox in
            if let frame { outbox.frames.append(frame) }
            if finishing { outbox.finished += 1 }
            defer { outbox.isFlushScheduled = true }
            return !outbox.isFlushScheduled
        }
        if mustSchedule { eventLoop.execute { self.flush() } }
    }

    private func flush() {
        let (frames, finished) = outbox.withLock { outbox in
            defer { outbox = Outbox() }
            return (outbox.frames, outbox.finished)
        }
        deliver(frames, finished)
    }
}

/// Frame encoders and decoders for threads that need one now and then: their buffers are made once.
final class FrameCodecs: Sendable {
    private final class PooledDecoder: Sendable {
        let decoder: Mutex<FrameDecoder>
        init(_ limits: FrameLimits) { decoder = Mutex(FrameDecoder(limits: limits)) }
    }

    private let encoder: Mutex<FrameEncoder>
    private let decoders = Mutex<[PooledDecoder]>([])
    private let limits: FrameLimits

    init(limits: FrameLimits) {
        self.limits = limits
        // Answers are held to the protocol's own limits, not to those that this server sets for what it takes.
        encoder = Mutex(FrameEncoder())
    }

    /// A frame of the content, or of an `error` when no frame can hold it.
    func encode(_ content: [UInt8]) -> [UInt8] {
        encoder.withLock { encoder in
            do throws(WireError) {
                return try encoder.encode(content)
            } catch {
                let apology = WireError(
                    .internal,
                    "The answer is too large for a frame: \(error.message) What the message asked for was done.")
                return Self.encode(apology, &encoder)
            }
        }
    }

    private static func encode(_ error: WireError, _ encoder: inout FrameEncoder) -> [UInt8] {
        do throws(WireError) {
            return try encoder.encode(error.encoded())
        } catch {
            preconditionFailure("an error message of some hundred bytes fits every frame")
        }
    }

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

    /// Bytes of a frame whose decoder is used again.
    private static let pooledPayloadBytes = 64 << 10
}
