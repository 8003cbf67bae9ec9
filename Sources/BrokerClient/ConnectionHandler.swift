internal import Broker
internal import BrokerJSON
internal import BrokerRequests
internal import BrokerWire
internal import NIOCore

/// Converts one connection's bytes into messages for the session. Runs on the connection's event loop.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: Int
    private let driver: SessionDriver
    private var decoder = FrameDecoder()
    private var received: ByteBuffer?
    /// The time at which the incomplete frame began to arrive; nil when there is none.
    private var frameBegin: NIODeadline?
    private var frameTimer: Scheduled<Void>?
    private var lossReason: String?
    /// The received bytes cannot be read, so none of the following can.
    private var isBroken = false

    init(connection: Int, driver: SessionDriver) {
        self.connection = connection
        self.driver = driver
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isBroken else { return }
        var arrived = unwrapInboundIn(data)
        if received == nil { received = arrived } else { received?.writeBuffer(&arrived) }
        let arrivals = takeArrivals()
        if !arrivals.isEmpty {
            frameBegin = nil
            driver.received(arrivals, on: connection)
        }
        watchFrame(on: context.eventLoop)
    }

    /// Ends the connection when a frame stays incomplete for too long. One timer at a time, however many frames the
    /// socket divides.
    private func watchFrame(on eventLoop: any EventLoop) {
        guard received != nil else { return frameBegin = nil }
        let begin = frameBegin ?? eventLoop.now
        frameBegin = begin
        guard frameTimer == nil else { return }
        frameTimer = eventLoop.assumeIsolated().scheduleTask(deadline: begin + driver.frameTime) { [self] in
            frameTimer = nil
            guard let frameBegin, frameBegin + driver.frameTime <= eventLoop.now else {
                return watchFrame(on: eventLoop)
            }
            driver.lost(connection, reason: "the server sent the beginning of a frame, and not its end in time")
        }
    }

    /// Takes all whole frames off what was received.
    private func takeArrivals() -> [Arrival] {
        guard var buffer = received else { return [] }
        // Not two owners while the index moves, or the bytes would be copied.
        received = nil
        var arrivals: [Arrival] = []
        let count = buffer.withUnsafeReadableBytes { bytes in
            var rest = bytes
            do throws(WireError) {
                while case .frame(let payload) = try FrameScanner.scan(rest) {
                    arrivals.append(try arrival(UnsafeRawBufferPointer(rebasing: rest[payload])))
                    rest = UnsafeRawBufferPointer(rebasing: rest[payload.upperBound...])
                }
            } catch {
                isBroken = true
                arrivals.append(.unreadable(error))
            }
            return bytes.count - rest.count
        }
        guard !isBroken else { return arrivals }
        buffer.moveReaderIndex(forwardBy: count)
        if buffer.readableBytes > 0 { received = buffer }
        return arrivals
    }

    private func arrival(_ payload: UnsafeRawBufferPointer) throws(WireError) -> Arrival {
        if let content = StoredFrame.content(of: payload) {
            if let completion = Completion(plainly: content) { return .completion(completion) }
            return .message(try ServerEnvelope.decode(parsing: JSONText(copying: content)))
        }
        let text = try decoder.decode(payload)
        // The bytes are the text's.
        let completion = withExtendedLifetime(text) { Completion(plainly: text.bytes) }
        if let completion { return .completion(completion) }
        return .message(try ServerEnvelope.decode(parsing: text))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        lossReason = ConnectionReason.describe(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        frameTimer?.cancel()
        driver.lost(connection, reason: lossReason ?? "the server closed the connection")
        context.fireChannelInactive()
    }
}
