import BrokerCommandLine
import BrokerCoordinator
import BrokerJSON
import BrokerServer
import BrokerStore
import Dispatch
import Glibc
import Logging
import Synchronization

/// Which notifications the service manager gets, and when. A pure value without a clock; times are in microseconds of
/// the monotonic clock.
///
/// ```
/// starting ─READY─▶ serving ─RELOADING─▶ reloading ─READY─▶ serving ─STOPPING─▶ stopping
/// ```
///
/// Invariants:
///  1. `WATCHDOG=1` is sent only if the writer was healthy since the last one (``WriterActivity``).
///  2. `EXTEND_TIMEOUT_USEC` is sent only while the service starts, reloads or stops, and only if the writer was healthy
///     since the last one.
struct ServiceNotices: Sendable {
    /// A start, reload or stop without progress for so long may be ended by the manager's own timeout.
    static let extensionMicroseconds: Int64 = 60_000_000
    private static let extensionPause: Int64 = 5_000_000
    /// Numbers in the status are sent no more often.
    static let statusPause: Int64 = 10_000_000

    private enum Phase { case starting, serving, stopping }

    private let watchdogMicroseconds: Int64?
    private var phase = Phase.starting
    private var reloads = 0
    private var sample: WriterActivity.Sample?
    private var wasHealthySinceFeed = false
    private var wasHealthySinceExtension = false
    private var fedAt: Int64?
    private var extendedAt: Int64?
    private var status: ServiceStatus?
    private var statusAt: Int64 = 0

    init(watchdogMicroseconds: Int64?) { self.watchdogMicroseconds = watchdogMicroseconds }

    /// The time between two calls of ``tick(_:_:at:)``: a change of the status is seen within a second, and a watchdog is
    /// fed in time.
    var tickMicroseconds: Int64 {
        min(1_000_000, max(10_000, (watchdogMicroseconds ?? .max) / 8))
    }

    /// To be called regularly.
    mutating func tick(_ sample: WriterActivity.Sample, _ status: ServiceStatus, at now: Int64) -> [String] {
        let isHealthy = self.sample.map { sample.isHealthy(after: $0) } ?? true
        self.sample = sample
        if isHealthy { (wasHealthySinceFeed, wasHealthySinceExtension) = (true, true) }
        var notices = report(status, at: now)
        if phase != .serving || reloads > 0, wasHealthySinceExtension,
            now - (extendedAt ?? .min / 2) >= Self.extensionPause
        {
            (extendedAt, wasHealthySinceExtension) = (now, false)
            notices.append("EXTEND_TIMEOUT_USEC=\(Self.extensionMicroseconds)")
        }
        if let limit = watchdogMicroseconds, wasHealthySinceFeed, now - (fedAt ?? .min / 2) >= limit / 2 {
            (fedAt, wasHealthySinceFeed) = (now, false)
            notices.append("WATCHDOG=1")
        }
        return notices
    }

    private mutating func report(_ status: ServiceStatus, at now: Int64) -> [String] {
        guard status != self.status else { return [] }
        guard status.kind != self.status?.kind || now - statusAt >= Self.statusPause else { return [] }
        return [say(status, at: now)]
    }

    private mutating func say(_ status: ServiceStatus, at now: Int64) -> String {
        (self.status, statusAt) = (status, now)
        return "STATUS=\(status.text)"
    }

    mutating func ready(_ status: ServiceStatus, at now: Int64) -> [String] {
        phase = .serving
        return ["READY=1", say(status, at: now)]
    }

    /// A reload begins. A manager that asked for it waits for this notification, with a time after its signal, also
    /// while another reload goes on (systemd.service(5), `Type=notify-reload`).
    mutating func reloadBegan(at now: Int64) -> [String] {
        reloads += 1
        guard phase == .serving else { return [] }
        extendedAt = nil
        return ["RELOADING=1", "MONOTONIC_USEC=\(now)", say(.reloading, at: now)]
    }

    mutating func reloadEnded(_ status: ServiceStatus, at now: Int64) -> [String] {
        reloads -= 1
        return reloads == 0 && phase == .serving ? ready(status, at: now) : []
    }

    mutating func stopping(_ status: ServiceStatus, at now: Int64) -> [String] {
        phase = .stopping
        extendedAt = nil
        return ["STOPPING=1", say(status, at: now)]
    }

    /// Whether the manager must get it, however late.
    static func isChangeOfState(_ notice: String) -> Bool {
        ["READY=", "RELOADING=", "MONOTONIC_USEC=", "STOPPING="].contains { notice.hasPrefix($0) }
    }

    var isReloading: Bool { reloads > 0 && phase == .serving }
}

/// The one line that `systemctl status` shows.
struct ServiceStatus: Sendable, Equatable {
    /// A change of it is reported at once; numbers in the line may be late.
    enum Kind: Sendable, Equatable { case starting, serving, waiting, paused, reloading, draining, halted, failed }

    let kind: Kind
    let text: String

    static let starting = ServiceStatus(
        kind: .starting, text: "Starting: opens the store and applies the accepted jobs of the journal or the log.")
    static let reloading = ServiceStatus(kind: .reloading, text: "Reloading the model.")

    static func failed(_ cause: String) -> ServiceStatus {
        ServiceStatus(kind: .failed, text: "Failed: \(shortened(cause))")
    }

    private init(kind: Kind, text: String) { (self.kind, self.text) = (kind, text) }

    init(_ condition: CoordinatorCondition, connections: Int, refusal: String?) {
        let jobs = Program.counted(condition.jobs, "job")
        let load = "\(Program.counted(connections, "connection")), \(jobs) in flight"
        if condition.isDraining {
            (kind, text) = (.draining, "Draining: \(load).")
        } else if let cause = condition.haltCause {
            (kind, text) = (.halted, "Halted, serves reads: \(load). \(Self.shortened(cause))")
        } else if let cause = condition.waitingCause {
            (kind, text) = (.waiting, "Waiting for the store: \(load). \(Self.shortened(cause))")
        } else if condition.isPaused {
            (kind, text) = (.paused, "Paused by an administrator: \(load).")
        } else {
            let note = refusal.map { " The last reload was refused: \(Self.shortened($0))" } ?? ""
            (kind, text) = (.serving, "Serving: \(load).\(note)")
        }
    }

    /// One line without control characters.
    private static func shortened(_ cause: String) -> String {
        let line = cause.printable
        return line.count > 300 ? line.prefix(300) + "…" : line
    }
}

/// Notifies the service manager of the server's state; does nothing without one.
///
/// It has a thread of its own, so that it works while the main thread opens the store.
final class ServiceNotifier: Sendable {
    private struct State {
        var notices: ServiceNotices
        /// Once they are ready.
        var observed: (coordinator: Coordinator, server: BrokerServer)?
        /// Why the last reload was refused.
        var refusal: String?
        /// Changes of the state that the manager has not taken.
        var unsent: [String] = []

        var status: ServiceStatus { notices.isReloading ? .reloading : serverStatus }

        /// The same, apart from reloads.
        var serverStatus: ServiceStatus {
            guard let observed else { return .starting }
            return ServiceStatus(
                observed.coordinator.condition, connections: observed.server.connectionCount, refusal: refusal)
        }
    }

    /// The writer's, for the store that is opened.
    let activity = WriterActivity()
    private let socket: NotifySocket?
    private let state: Mutex<State>
    // Created in init, and not changed.
    nonisolated(unsafe) private let timer: (any DispatchSourceTimer)?

    init(_ environment: ServiceEnvironment, _ logger: Logger) {
        var socket: NotifySocket?
        if let address = environment.notifySocket {
            do throws(CommandFailure) {
                socket = try NotifySocket(address)
            } catch {
                logger.warning(
                    "The service manager cannot be notified.",
                    metadata: ["socket": "\(address)", "cause": "\(error)"])
            }
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
            state.observed = (coordinator, server)
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

/// The variables by which a service manager starts a service (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)).
///
/// They are read once and removed, so that no process that this one starts mistakes them for its own.
struct ServiceEnvironment: Sendable, Equatable {
    /// The address of the datagram socket that takes notifications; nil without a service manager.
    var notifySocket: String?
    /// The manager ends the service that has not notified it for so long; nil for never.
    var watchdogMicroseconds: Int64?
    /// Sockets that the manager has opened: the descriptors from 3 on.
    var descriptorCount = 0

    static let names = [
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
    ]

    /// - Parameter process: of this server: what is addressed to another one is ignored.
    init(_ variables: [String: String], process: Int32) {
        let own = String(process)
        if let address = variables["NOTIFY_SOCKET"], !address.isEmpty { notifySocket = address }
        if variables["WATCHDOG_PID"] ?? own == own,
            let time = variables["WATCHDOG_USEC"].flatMap({ Int64($0) }), time > 0
        {
            watchdogMicroseconds = time
        }
        if variables["LISTEN_PID"] == own, let count = variables["LISTEN_FDS"].flatMap({ Int($0) }), count > 0 {
            descriptorCount = count
        }
    }

    /// Takes the variables from the environment. To be called once, before there are other threads.
    static func take() -> ServiceEnvironment {
        var variables: [String: String] = [:]
        for name in names {
            variables[name] = getenv(name).map { String(cString: $0) }
            unsetenv(name)
        }
        return ServiceEnvironment(variables, process: getpid())
    }
}

/// A socket that the service manager has opened, and on which clients may wait already (sd_listen_fds(3)).
///
/// Its file is the manager's: the server neither makes nor removes it, and leaves its permissions.
struct ListeningSocket: Sendable, Equatable {
    let descriptor: Int32
    /// As the kernel names it; `@` for the abstract namespace.
    let path: String

    private static let first: Int32 = 3

    /// - Throws: one line, unless it is one Unix stream socket that listens.
    static func take(_ count: Int) throws -> ListeningSocket? {
        guard count > 0 else { return nil }
        guard count == 1, fcntl(first, F_SETFD, FD_CLOEXEC) == 0, option(SO_DOMAIN) == AF_UNIX,
            option(SO_TYPE) == Int32(SOCK_STREAM.rawValue), option(SO_ACCEPTCONN) == 1
        else {
            throw CommandFailure(
                "The service manager has passed something else than one Unix stream socket that listens. Write one "
                    + "ListenStream= with the socket's path, and Accept=no, in the socket unit.")
        }
        return ListeningSocket(descriptor: first, path: name())
    }

    /// Nil for what is no socket.
    private static func option(_ name: Int32) -> Int32? {
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(first, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }

    private static func name() -> String {
        var address = sockaddr_un()
        var size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(first, $0, &size) }
        }
        let count = Int(size) - MemoryLayout<sa_family_t>.size
        guard result == 0, count > 0 else { return "an unnamed socket" }
        let bytes = withUnsafeBytes(of: &address.sun_path) { Array($0.prefix(count)) }
        guard bytes[0] == 0 else { return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
        return "@" + String(decoding: bytes.dropFirst(), as: UTF8.self)
    }
}

/// The datagram socket of the service manager (sd_notify(3)).
final class NotifySocket: Sendable {
    private let descriptor: Int32

    /// - Parameter address: of a socket in the file system, or with `@` in the abstract namespace (unix(7)).
    init(_ address: String) throws(CommandFailure) {
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(address.utf8)
        // The closing zero is part of a path only.
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@"),
            bytes.count < MemoryLayout.size(ofValue: name.sun_path)
        else { throw CommandFailure("the address is neither an absolute path nor abstract, or it is too long") }
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw CommandFailure(String(cString: strerror(errno))) }
        let isConnected = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) == 0 }
        }
        guard isConnected else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw CommandFailure(reason)
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Sends assignments (`READY=1`), a line each, in one datagram.
    ///
    /// - Returns: false when the manager does not take it now; this never blocks.
    func send(_ assignments: [String]) -> Bool {
        guard !assignments.isEmpty else { return true }
        let bytes = Array(assignments.joined(separator: "\n").utf8)
        return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0
    }
}
