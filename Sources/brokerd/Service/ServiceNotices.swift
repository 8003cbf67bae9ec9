import BrokerCoordinator
import BrokerJSON
import BrokerStore

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
        (self.status, statusAt) = (status, now)
        return ["STATUS=\(status.text)"]
    }

    mutating func ready(_ status: ServiceStatus, at now: Int64) -> [String] {
        phase = .serving
        (self.status, statusAt) = (status, now)
        return ["READY=1", "STATUS=\(status.text)"]
    }

    /// A reload begins. A manager that asked for it waits for this notification, with a time after its signal, also
    /// while another reload goes on (systemd.service(5), `Type=notify-reload`).
    mutating func reloadBegan(at now: Int64) -> [String] {
        reloads += 1
        guard phase == .serving else { return [] }
        extendedAt = nil
        (status, statusAt) = (.reloading, now)
        return ["RELOADING=1", "MONOTONIC_USEC=\(now)", "STATUS=\(ServiceStatus.reloading.text)"]
    }

    /// - Parameter status: after it.
    mutating func reloadEnded(_ status: ServiceStatus, at now: Int64) -> [String] {
        reloads -= 1
        return reloads == 0 && phase == .serving ? ready(status, at: now) : []
    }

    mutating func stopping(_ status: ServiceStatus, at now: Int64) -> [String] {
        phase = .stopping
        extendedAt = nil
        (self.status, statusAt) = (status, now)
        return ["STOPPING=1", "STATUS=\(status.text)"]
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

    private static let maximumCauseCharacters = 300

    static let starting = ServiceStatus(
        kind: .starting, text: "Starting: opens the store and applies the accepted jobs of the journal or the log.")
    static let reloading = ServiceStatus(kind: .reloading, text: "Reloading the model.")

    static func failed(_ cause: String) -> ServiceStatus {
        ServiceStatus(kind: .failed, text: "Failed: \(shortened(cause))")
    }

    private init(kind: Kind, text: String) {
        self.kind = kind
        self.text = text
    }

    /// - Parameter refusal: why the last reload was refused, if it was.
    init(_ condition: CoordinatorCondition, connections: Int, refusal: String?) {
        let jobs = Self.count(condition.jobs, "job")
        let load = "\(Self.count(connections, "connection")), \(jobs) in flight"
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

    private static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

    /// One line without control characters.
    private static func shortened(_ cause: String) -> String {
        let line = cause.printable
        return line.count > maximumCauseCharacters ? line.prefix(maximumCauseCharacters) + "…" : line
    }
}
