internal import Glibc
internal import NIOCore

/// Stops accepting for a while when the system has no more descriptors, so that the server does not spin: clients wait
/// in the socket's queue. Part of the listener's pipeline.
final class AcceptGate: ChannelInboundHandler {
    typealias InboundIn = any Channel

    /// The errors of accept(2) after which a later attempt may succeed.
    private static let passing = [EMFILE, ENFILE, ENOBUFS, ENOMEM]
    /// The pause before the next attempt, which also comes when a connection ends.
    private static let pause = TimeAmount.seconds(1)

    private let log: ServerLog
    private var timer: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    /// Whether the pause has been logged, until a client is accepted again.
    private var isShort = false

    init(_ log: ServerLog) { self.log = log }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isShort {
            isShort = false
            log.logger.notice("Clients are accepted again.")
        }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError, Self.passing.contains(error.errnoCode) else {
            // A client that left before it was accepted; the listener itself closes when it must.
            return log.logger.debug("A client could not be accepted.", metadata: ["cause": "\(error)"])
        }
        guard timer == nil else { return }
        if !isShort {
            isShort = true
            log.logger.warning(
                """
                No more clients can be accepted, for lack of descriptors or memory; they wait. Raise the limit \
                (`ulimit -n`), or lower --connections.
                """, metadata: ["cause": "\(error)"])
        }
        setAccepting(false)
        let gate = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: Self.pause) { gate.value.resume() }
    }

    /// A connection has ended: there may be descriptors again.
    func resume() {
        guard let timer else { return }
        timer.cancel()
        self.timer = nil
        setAccepting(true)
    }

    /// Only its option stops the listener: an error of accept(2) leaves it registered for reading.
    private func setAccepting(_ isAccepting: Bool) {
        guard let context else { return }
        do {
            try context.channel.syncOptions?.setOption(.autoRead, value: isAccepting)
        } catch {
            // Only a closed listener has no options.
            log.logger.debug("The listener is closed.", metadata: ["cause": "\(error)"])
        }
    }
}
