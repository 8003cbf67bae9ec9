import Logging
import Synchronization
import UnixSignals

/// The signals that end the server, caught from the beginning of this object's life: the first one asks it to stop, the
/// second ends it at once.
final class StopSignals: Sendable {
    private let wanted: AsyncStream<Void>
    private let wish: AsyncStream<Void>.Continuation
    private let hangup = Mutex<@Sendable () -> Void>({})
    private let endAtOnce = Mutex<@Sendable () -> Void>({})

    init() async {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let (wanted, continuation) = AsyncStream.makeStream(of: Void.self)
        self.wanted = wanted
        wish = continuation
        Task { [self] in
            var isStopping = false
            for await signal in signals {
                if signal == .sighup {
                    hangup.withLock { $0 }()
                } else if isStopping {
                    endAtOnce.withLock { $0 }()
                } else {
                    isStopping = true
                    continuation.finish()
                }
            }
        }
    }

    /// - Parameter body: called for every SIGHUP from now on.
    func onHangup(_ body: @escaping @Sendable () -> Void) { hangup.withLock { $0 = body } }

    /// As the first signal does. Any thread may call, any number of times.
    func stop() { wish.finish() }

    /// Waits for the first signal to stop. Called once.
    ///
    /// - Parameter endAtOnce: called for every later one.
    func first(endAtOnce: @escaping @Sendable () -> Void) async {
        self.endAtOnce.withLock { $0 = endAtOnce }
        for await _ in wanted {}
    }
}
