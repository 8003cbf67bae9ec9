import Glibc

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

    /// - Parameters:
    ///   - variables: by name.
    ///   - process: of this server: what is addressed to another one is ignored.
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
            guard let value = getenv(name) else { continue }
            variables[name] = String(cString: value)
            unsetenv(name)
        }
        return ServiceEnvironment(variables, process: getpid())
    }
}
