import BrokerCoordinator
import BrokerServer
import BrokerStore
import Dispatch
import Glibc
import Logging
import Synchronization

/// Notifies the service manager of the server's state; does nothing without one.
///
/// It has a thread of its own, so that it works while the main thread opens the store.
final class ServiceNotifier: Sendable {
    /// The server, once it is ready.
    struct Observed: Sendable {
        let coordinator: Coordinator
        let server: BrokerServer
    }

    fileprivate struct State {
        var notices: ServiceNotices
        var observed: Observed?
        /// Why the last reload was refused.
        var refusal: String?
        /// Changes of the state that the manager has not taken.
        var unsent: [String] = []
    }

    /// The writer's, for the store that is opened.
    let activity = WriterActivity()
    private let socket: NotifySocket?
    private let state: Mutex<State>
    // Created in init, and not changed.
    nonisolated(unsafe) private let timer: (any DispatchSourceTimer)?

    init(_ environment: ServiceEnvironment, _ logger: Logger) {
        var socket: NotifySocket?
        do throws(NotifySocket.Failure) {
            socket = try environment.notifySocket.map { address throws(NotifySocket.Failure) in
                try NotifySocket(address)
            }
        } catch {
            logger.warning(
                "The service manager cannot be notified.",
                metadata: ["socket": "\(environment.notifySocket ?? "")", "cause": "\(error.reason)"])
        }
        let notices = ServiceNotices(watchdogMicroseconds: environment.watchdogMicroseconds)
        self.socket = socket
        state = Mutex(State(notices: notices))
        timer = socket.map { _ in DispatchSource.makeTimerSource(queue: DispatchQueue(label: "service")) }
        timer?.schedule(deadline: .now(), repeating: .microseconds(Int(notices.tickMicroseconds)))
        timer?.setEventHandler { [weak self] in self?.tick() }
        timer?.resume()
    }

    deinit { timer?.cancel() }

    private func tick() {
        let sample = activity.sample
        notify { $0.notices.tick(sample, $0.status, at: $1) }
    }

    /// Clients are served from now on.
    func ready(_ coordinator: Coordinator, _ server: BrokerServer) {
        notify { state, now in
            state.observed = Observed(coordinator: coordinator, server: server)
            return state.notices.ready(state.status, at: now)
        }
    }

    func reloadBegan() { notify { $0.notices.reloadBegan(at: $1) } }

    /// - Parameter refusal: why the old model stays; nil when the new one is in force.
    func reloadEnded(_ refusal: String?) {
        notify { state, now in
            state.refusal = refusal
            return state.notices.reloadEnded(state.serverStatus, at: now)
        }
    }

    func stopping() { notify { $0.notices.stopping($0.status, at: $1) } }

    /// The server ends because its disk has failed.
    func failed(_ cause: String) { notify { $0.notices.stopping(.failed(cause), at: $1) } }

    private func notify(_ body: (inout State, Int64) -> [String]) {
        guard let socket else { return }
        // Sent under the lock, so that the notifications arrive in their order.
        state.withLock { state in
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            let new = body(&state, Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
            let notices = state.unsent + new
            // Later ones replace the others.
            state.unsent = socket.send(notices) ? [] : notices.filter(ServiceNotices.isChangeOfState).suffix(8)
        }
    }
}

extension ServiceNotifier.State {
    fileprivate var status: ServiceStatus {
        notices.isReloading ? .reloading : serverStatus
    }

    /// The same, apart from reloads.
    fileprivate var serverStatus: ServiceStatus {
        guard let observed else { return .starting }
        return ServiceStatus(
            observed.coordinator.condition, connections: observed.server.connectionCount, refusal: refusal)
    }
}
