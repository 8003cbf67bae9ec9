import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import BrokerServer
import BrokerStore
import BrokerWire
import Glibc

/// The limits on the server's load, and the retention of outcomes and of the feed's keys.
struct LimitOptions: ParsableArguments {
    @Option(help: "Threads that decode and stage large jobs; there is one more for small ones.")
    var workers = CoordinatorLimits.defaultWorkers

    @Option(help: .value("size", "The maximum bytes of a frame."))
    var maxFrameBytes = ByteSize(FrameLimits.largestPayloadCount)

    @Option(help: .value("size", "The maximum bytes of a frame's decoded content."))
    var maxContentBytes = ByteSize(FrameLimits.defaultMaximumContentCount)

    @Option(help: .value("size", "Bytes of jobs in flight before clients have to wait."))
    var maxBytesInFlight = ByteSize(CoordinatorLimits.defaultBytes)

    @Option(help: .value("size", "Bytes of memory for jobs in flight, beside the one whose turn it is. Others wait."))
    var maxMemory = ByteSize(CoordinatorLimits.defaultMemory)

    @Option(help: .value("size", "Bytes of memory that one job may take. One that needs more fails."))
    var maxJobMemory = ByteSize(CoordinatorLimits.defaultJobMemory)

    @Option(help: .value("count", "Jobs in flight before clients have to wait."))
    var maxJobsInFlight = CoordinatorLimits.defaultJobs

    @Option(help: .value("count", "Jobs of one connection in flight before it has to wait."))
    var jobsPerConnection = ServerOptions.defaultJobsPerConnection

    @Option(help: .value("count", "The maximum number of open connections."))
    var connections = ServerOptions.defaultConnections

    @Option(help: .value("time", "How long clients may take their answers when the server stops."))
    var drainTimeout = TimeSpan.seconds(ServerOptions.defaultDrainSeconds)

    @Option(help: .value("count", "The maximum number of outcomes that are remembered."))
    var keepOutcomes = LedgerRetention.defaultCount

    @Option(help: .value("time", "How long the outcome of a job is remembered."))
    var keepOutcomesSeconds = TimeSpan.seconds(LedgerRetention.defaultSeconds)

    @Option(
        help: .value(
            "size", "Bytes of the keys that are stored for followers of the feed, oldest deleted first; 0 stores none.")
    )
    var feedBytes = ByteSize(StoreOptions.defaultFeedBytes)

    @Option(
        help: .value(
            "size", "Bytes of rejected records that are kept (broker rejects), oldest deleted first; 0 keeps none.")
    )
    var keepRejects = ByteSize(StoreOptions.defaultRejectBytes)

    /// A tebibyte: more than any machine's memory.
    static let mostBytesInFlight = ByteSize(1 << 40)
    /// Each takes an entry in a table, and a client's window is some thousands.
    static let mostAtOnce = 1_000_000
    /// At some 300 bytes each, a store of 300 GB.
    private static let mostOutcomes = 1_000_000_000
    /// A hundred years.
    private static let longest = TimeSpan.seconds(100 * 365 * 24 * 3_600)

    mutating func validate() throws {
        try checkRange("--workers", workers, in: 1...CoordinatorLimits.mostWorkers)
        try checkRange("--max-frame-bytes", maxFrameBytes, in: 1...ByteSize(FrameLimits.largestPayloadCount))
        try checkRange("--max-content-bytes", maxContentBytes, in: 1...ByteSize(FrameLimits.largestContentCount))
        try checkRange("--max-bytes-in-flight", maxBytesInFlight, in: 1...Self.mostBytesInFlight)
        try checkRange("--max-memory", maxMemory, in: 1...Self.mostBytesInFlight)
        try checkRange("--max-job-memory", maxJobMemory, in: 1...Self.mostBytesInFlight)
        try checkRange("--max-jobs-in-flight", maxJobsInFlight, in: 1...Self.mostAtOnce)
        try checkRange("--jobs-per-connection", jobsPerConnection, in: 1...Self.mostAtOnce)
        try checkRange("--connections", connections, in: 1...Self.mostAtOnce)
        try checkRange("--keep-outcomes", keepOutcomes, in: 1...Self.mostOutcomes)
        try checkRange("--keep-outcomes-seconds", keepOutcomesSeconds, in: .seconds(1)...Self.longest)
        try checkRange("--feed-bytes", feedBytes, in: 0...Self.mostBytesInFlight)
        try checkRange("--keep-rejects", keepRejects, in: 0...Self.mostBytesInFlight)
        try checkRange("--drain-timeout", drainTimeout, in: .seconds(0)...Self.longest)
    }

    var coordinator: CoordinatorLimits {
        var limits = CoordinatorLimits(workers: workers)
        limits.bytes = maxBytesInFlight.bytes
        limits.memory = maxMemory.bytes
        limits.jobMemory = maxJobMemory.bytes
        limits.jobs = maxJobsInFlight
        return limits
    }

    var frames: FrameLimits {
        FrameLimits(maximumPayloadCount: maxFrameBytes.bytes, maximumContentCount: maxContentBytes.bytes)
    }
}

struct ObservingOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The form of the log on standard error: text, json (an object in each line), or journald (the priority as \
            sd-daemon(3) has it, and no time). Default: journald when standard error is the journal, else text.
            """, valueName: "format"))
    var logFormat: LogFormat?

    @Option(
        help: .value(
            "time", "Log each job that takes that long from its frame to the COMMIT, with its stages; 0 logs none."))
    var slowJob = TimeSpan.seconds(0)

    @Option(
        help: ArgumentHelp(
            """
            Write the measurements there every 15 seconds, in Prometheus' text format, for node_exporter's textfile \
            collector: FOLDER/broker.prom
            """, valueName: "file"), completion: .file())
    var metricsFile: String?

    @Option(help: .value("name", "The server's name in these measurements. Default: that of the socket's file."))
    var instance: String?

    func instance(of socket: String?) -> String { instance ?? PrometheusText.instance(ofSocket: socket ?? "") }

    var format: LogFormat { logFormat ?? .detected }

    /// Nil when slow jobs are not logged.
    var slowJobMicroseconds: Int64? {
        slowJob > .seconds(0) ? Int64(slowJob.duration / .microseconds(1)) : nil
    }
}

/// The users of the server, and the permissions of its files.
///
/// All names are looked up while the arguments are parsed, so that an invalid one is a usage error and no file is
/// changed.
struct AccessOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The permissions of the socket's file, in octal. They limit which processes can connect; --allow-user and \
            --allow-group limit which users are served.
            """, valueName: "mode"))
    var socketMode = "0660"

    @Option(
        help: .value(
            "group", "The group of the socket's file, by name or number. The server must be root or in that group."))
    var socketGroup: String?

    @Option(
        name: .customLong("allow-user"),
        help: ArgumentHelp(
            """
            A user who may connect, by name or number, beside the server's own and root; with a role as for \
            --allow-group. May be repeated.
            """, valueName: "user[:role]"))
    var allowedUsers: [String] = []

    @Option(
        name: .customLong("allow-group"),
        help: ArgumentHelp(
            """
            A group whose members may connect, by name or number: those processes that had it, as their own or as a \
            supplementary group, when they connected. A role limits what they may send: read (fetches and the feed, no \
            jobs), insert (also jobs that delete nothing) or write (everything, the default). Of several roles the highest \
            counts. May be repeated.
            """, valueName: "group[:role]"))
    var allowedGroups: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            The permissions, in octal, of the store, its WAL and its lock file. Without it, a new store has 0640, less \
            the umask of the process, and an existing one keeps its permissions.
            """, valueName: "mode"))
    var storeMode: String?

    mutating func validate() throws {
        var users = UserRules()
        try apply(to: &users)
        _ = (try socketAccess(), try storeFileMode())
    }

    func apply(to users: inout UserRules) throws {
        for text in allowedUsers {
            let (name, role) = try Self.role(text, of: "--allow-user")
            let number = try Self.user(name, of: "--allow-user")
            users.allowedUsers.merge([number: role], uniquingKeysWith: max)
        }
        for text in allowedGroups {
            let (name, role) = try Self.role(text, of: "--allow-group")
            users.allowedGroups.merge([try Self.group(name, of: "--allow-group"): role], uniquingKeysWith: max)
        }
    }

    func socketAccess() throws -> SocketAccess {
        var access = SocketAccess(mode: try Self.mode(socketMode, of: "--socket-mode"))
        access.group = try socketGroup.map { try Self.group($0, of: "--socket-group") }
        return access
    }

    /// Nil when the option is not given.
    func storeFileMode() throws -> UInt32? { try storeMode.map { try Self.mode($0, of: "--store-mode") } }

    /// No name of a user or a group has a colon. Without a role it is the highest one.
    private static func role(_ text: String, of option: String) throws -> (name: String, ClientRole) {
        guard let colon = text.lastIndex(of: ":") else { return (text, .write) }
        let word = text[text.index(after: colon)...]
        guard let role = ClientRole(rawValue: String(word)) else {
            let words = ClientRole.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("\(option): there is no role \"\(word)\"; the roles are \(words).")
        }
        return (String(text[..<colon]), role)
    }

    /// Permissions of a file, as chmod(1) reads them.
    private static func mode(_ text: String, of option: String) throws -> UInt32 {
        guard (1...4).contains(text.utf8.count), let bits = UInt32(text, radix: 8), !text.hasPrefix("+"), bits <= 0o777
        else {
            throw ValidationError("\(option) must be permissions in octal, 0600 to 0777, but is \(text).")
        }
        guard bits & 0o600 == 0o600 else {
            throw ValidationError(
                "\(option) \(text) denies the file to the server's own user. Give that user 6: 0660, for one.")
        }
        return bits
    }

    static func user(_ text: String, of option: String) throws -> UInt32 {
        try number(of: "user", text, option) { getpwnam($0)?.pointee.pw_uid }
    }

    private static func group(_ text: String, of option: String) throws -> UInt32 {
        try number(of: "group", text, option) { getgrnam($0)?.pointee.gr_gid }
    }

    /// A user or group of this system: digits are a number, anything else is a name. Names are looked up by the only thread that
    /// asks the C library for such.
    private static func number(
        of kind: String, _ text: String, _ option: String, _ search: (String) -> UInt32?
    ) throws -> UInt32 {
        if !text.isEmpty, text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) {
            // chown(2) and similar calls treat the highest number as "no change".
            guard let number = UInt32(text), number != .max else {
                throw ValidationError("\(option): \(text) is the number of no \(kind).")
            }
            return number
        }
        errno = 0
        if let number = search(text) { return number }
        let cause = errno
        // The manual's results for names that do not exist (getpwnam(3)).
        guard [0, ENOENT, ESRCH, EBADF, EPERM].contains(cause) else {
            throw ValidationError(
                "\(option): the \(kind) \"\(text)\" cannot be looked up (\(String(cString: strerror(cause)))). Give the "
                    + "number.")
        }
        throw ValidationError("\(option): there is no \(kind) \"\(text)\" here. Give a name or a number that there is.")
    }
}

/// The limits of users.
struct UserLimitOptions: ParsableArguments {
    @Option(
        name: .customLong("user-connections"),
        help: .value(
            "[user:]count",
            "The maximum number of open connections of that user, by name or number, or of each other one. May be repeated."
        ))
    var connections: [String] = []

    @Option(
        name: .customLong("user-bytes-in-flight"),
        help: .value(
            "[user:]size",
            "Bytes of a user's jobs in flight before its clients have to wait, likewise. May be repeated."))
    var bytesInFlight: [String] = []

    @Option(
        name: .customLong("user-jobs-per-second"),
        help: .value(
            "[user:]count",
            "Jobs that a user may send in a second before its clients have to wait, likewise. Root and the server's own "
                + "user have none of these limits. May be repeated."))
    var jobsPerSecond: [String] = []

    mutating func validate() throws {
        var users = UserRules()
        try apply(to: &users)
    }

    func apply(to users: inout UserRules) throws {
        users.connections = try Self.limit(connections, "--user-connections", 1...LimitOptions.mostAtOnce)
        users.jobsPerSecond = try Self.limit(jobsPerSecond, "--user-jobs-per-second", 1...LimitOptions.mostAtOnce)
        users.bytesInFlight = try Self.limit(
            bytesInFlight, "--user-bytes-in-flight", 1...LimitOptions.mostBytesInFlight.bytes
        ) { ByteSize(argument: $0)?.bytes }
    }

    private static func limit(
        _ texts: [String], _ option: String, _ range: ClosedRange<Int>, read: (String) -> Int? = { Int($0) }
    ) throws -> UserLimit {
        var limit = UserLimit()
        for text in texts {
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard let number = read(parts[parts.count - 1]), range.contains(number) else {
                throw ValidationError(
                    "\(option) must be \(range.lowerBound) to \(range.upperBound), or USER: and such a number, but is \(text)."
                )
            }
            guard parts.count == 2 else {
                guard limit.others == nil else {
                    throw ValidationError("\(option): all other users have two limits, also \(text). Give one.")
                }
                limit.others = number
                continue
            }
            let user = try AccessOptions.user(parts[0], of: option)
            guard !JobOwner(user: user).isPrivileged else {
                throw ValidationError(
                    "\(option): \(parts[0]) is root or the server's own user, which have no limits. Name another user.")
            }
            guard limit.own.updateValue(number, forKey: user) == nil else {
                throw ValidationError("\(option): the user \(parts[0]) has two limits, also \(text). Give one.")
            }
        }
        return limit
    }
}

/// The options of a server that shares its log with others.
struct ReplicaOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Take part in a log that several servers share, instead of a journal: nats://HOST,HOST,HOST/NAME (`broker log create` makes \
            it). Each server has all of it in a store of its own.
            """, valueName: "address"))
    var log: String?

    @OptionGroup
    var access: SharedLogOptions

    @Option(help: "The name of this server in the log, which no other one has. The host's name by default.")
    var replica: String?

    /// At most that of a host.
    private static let longestName = 64

    mutating func validate() throws {
        guard let replica else { return }
        guard !replica.isEmpty, replica.utf8.count <= Self.longestName else {
            throw ValidationError("--replica has 1 to \(Self.longestName) bytes, but has \(replica.utf8.count).")
        }
    }

    /// Nil without the option.
    func source() throws -> SharedLogSource? {
        guard let log else { return nil }
        #if Replication
        let address = try SharedLogAddress(log, access)
        return .nats(address.log, address.files, replica: replica ?? Self.hostName, system: address.system)
        #else
        throw CommandFailure(
            "This brokerd cannot share the log \(log): it was built without the trait Replication. Build it with "
                + "--traits Replication.")
        #endif
    }

    private static var hostName: String {
        var name = [CChar](repeating: 0, count: longestName + 1)
        gethostname(&name, longestName)
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
