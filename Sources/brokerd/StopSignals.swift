import Glibc
import Logging
import Synchronization
import UnixSignals

/// The signals that stop the server, caught as long as this object exists: the first one requests a graceful stop, the
/// second ends the server at once.
final class StopSignals: Sendable {
    private struct Calls {
        var endAtOnce: @Sendable () -> Void = {}
    }

    private let wanted: AsyncStream<Void>
    private let request: AsyncStream<Void>.Continuation
    /// A signal during a reload asks for another after it, once: that one reads what was written before the signal.
    private let hangups: AsyncStream<Void>
    private let calls = Mutex(Calls())

    init() async {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let (wanted, request) = AsyncStream.makeStream(of: Void.self)
        let (hangups, hangup) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        (self.wanted, self.request, self.hangups) = (wanted, request, hangups)
        Task { [self] in
            var isStopping = false
            for await signal in signals {
                if signal == .sighup {
                    hangup.yield()
                } else if isStopping {
                    calls.withLock { $0.endAtOnce }()
                } else {
                    isStopping = true
                    request.finish()
                }
            }
        }
    }

    /// Calls `body` after each SIGHUP, one call after the other. Called once.
    func onHangup(_ body: @escaping @Sendable () async -> Void) {
        Task { for await _ in hangups { await body() } }
    }

    /// Has the effect of the first signal. May be called from any thread, any number of times.
    func stop() { request.finish() }

    /// Waits for the first stop signal. Must be called once.
    func first(endAtOnce: @escaping @Sendable () -> Void) async {
        calls.withLock { $0.endAtOnce = endAtOnce }
        for await _ in wanted {}
    }
}

/// Descriptors besides those of the connections: those of the store, its WAL, the ledger's reader, the event loop, the
/// standard streams, and connections that are being refused.
private let ownDescriptors = 128

/// Raises the limit of descriptors to the hard limit; the usual soft limit is for programs that use select(2).
///
/// - Returns: a message for the operator when there are still too few.
func raiseDescriptorLimit(for connections: Int) -> String? {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(resource, &limit) == 0 else { return nil }
    limit.rlim_cur = limit.rlim_max
    guard setrlimit(resource, &limit) == 0, limit.rlim_cur < rlim_t(connections + ownDescriptors) else { return nil }
    return """
        The system gives \(limit.rlim_cur) descriptors, too few for \(connections) connections; clients beyond that have \
        to wait. Raise the hard limit (`ulimit -Hn`), or lower --connections.
        """
}
