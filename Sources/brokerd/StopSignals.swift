import Logging
import Synchronization
import UnixSignals

/// The signals that stop the server, caught as long as this object exists: the first one requests a graceful stop, the
/// second ends the server at once.
final class StopSignals: Sendable {
    private let wanted: AsyncStream<Void>
    private let request: AsyncStream<Void>.Continuation
    private struct Calls {
        var hangup: @Sendable () -> Void = {}
        var endAtOnce: @Sendable () -> Void = {}
    }

    private let calls = Mutex(Calls())

    init() async {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let (wanted, continuation) = AsyncStream.makeStream(of: Void.self)
        self.wanted = wanted
        request = continuation
        Task { [self] in
            var isStopping = false
            for await signal in signals {
                if signal == .sighup {
                    calls.withLock { $0.hangup }()
                } else if isStopping {
                    calls.withLock { $0.endAtOnce }()
                } else {
                    isStopping = true
                    continuation.finish()
                }
            }
        }
    }

    /// - Parameter body: called for every further SIGHUP.
    func onHangup(_ body: @escaping @Sendable () -> Void) { calls.withLock { $0.hangup = body } }

    /// Has the effect of the first signal. May be called from any thread, any number of times.
    func stop() { request.finish() }

    /// Waits for the first stop signal. Must be called once.
    ///
    /// - Parameter endAtOnce: called for every later one.
    func first(endAtOnce: @escaping @Sendable () -> Void) async {
        calls.withLock { $0.endAtOnce = endAtOnce }
        for await _ in wanted {}
    }
}
