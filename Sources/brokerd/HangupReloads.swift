import Synchronization

/// The reloads that SIGHUP asks for, one after the other. A signal during one asks for another after it, once: that one
/// reads what was written before the signal.
final class HangupReloads: Sendable {
    private enum State { case idle, running, runningAndAsked }

    private let state = Mutex(State.idle)
    private let reload: @Sendable (_ ended: @escaping @Sendable () -> Void) -> Void

    /// - Parameter reload: begins a reload; calls `ended` once, on any thread.
    init(_ reload: @escaping @Sendable (_ ended: @escaping @Sendable () -> Void) -> Void) { self.reload = reload }

    /// A signal has arrived.
    func ask() {
        let begins = state.withLock { state in
            defer { state = state == .idle ? .running : .runningAndAsked }
            return state == .idle
        }
        if begins { run() }
    }

    private func run() {
        reload { [self] in
            let isAsked = state.withLock { state in
                let isAsked = state == .runningAndAsked
                state = isAsked ? .running : .idle
                return isAsked
            }
            if isAsked { run() }
        }
    }
}
