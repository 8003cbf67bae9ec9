public import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import BrokerModel
import BrokerSchema
import BrokerServer
import BrokerStaging
public import BrokerStore
import BrokerWire
import Glibc
public import Logging
import UnixSignals

@main
struct Brokerd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brokerd",
        abstract: "Takes JSON jobs over a Unix socket and merges them into a SQLite database, in order, exactly once.",
        discussion: """
            Prints one line when it is ready. SIGTERM and SIGINT finish the jobs that were read, let clients take \
            their answers, and end it with status 0; a second one ends it at once, with status 1, and so does a disk \
            that fails. Any start-up error is one line and status 1 (2 for wrong arguments), and touches no file.
            \(OptionUnits.explanation)
            """,
        version: BrokerVersion.text)

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            The model: JSON or Core Data (.xcdatamodeld, .xcdatamodel). May be repeated: each one changes those before \
            it.
            """, valueName: "file"), completion: .file())
    var model: [String]

    @Option(help: .value("file", "The SQLite database, made when it is new."), completion: .file())
    var store: String

    @Option(
        help: .value(
            "path", "The Unix socket to listen on. Not used when a service manager passes a socket (LISTEN_FDS)."),
        completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            """
            A configuration file: a JSON object with the names of options as keys. An option of the environment \
            (BROKERD_MAX_MEMORY for --max-memory), or of the command line, replaces that of the file.
            """, valueName: "file"), completion: .file())
    var config: String?

    @Flag(help: "Report what a start would do, and change nothing. The status is 1 when it would fail.")
    var check = false

    @Flag(
        inversion: .prefixedNo,
        help: """
            Write each job to the disk, in STORE.journal, before it is accepted: accepted jobs are applied after any \
            crash, and wait while the store is full.
            """)
    var journal = false

    @OptionGroup(title: "Sharing a log")
    var sharing: ReplicaOptions

    @OptionGroup(title: "Limits")
    var limits: LimitOptions

    @Option(
        help: """
            When SQLite waits for the disk: full (at every commit; the default without these), normal (at checkpoints; the \
            default with --journal or --log, which has them first) or off.
            """)
    var synchronous: Synchronous?

    @Option(
        name: .customLong("migrate"),
        help: """
            What happens to tables and columns that the model no longer has: refuse (the store is not opened), keep \
            (they stay in the file, unused) or drop. It decides at every start and reload, also about later models. \
            `broker migrate` decides once, asks, and shows what is lost.
            """)
    var removal: RemovalPolicy.Choice = .refuse

    @OptionGroup(title: "Access")
    var access: AccessOptions

    @Option(help: "The least severe messages to log: trace, debug, info, notice, warning, error or critical.")
    var logLevel: Logger.Level = .notice

    @OptionGroup(title: "Limits of users")
    var userLimits: UserLimitOptions

    @OptionGroup(title: "Observing")
    var observing: ObservingOptions

    /// Taken before there are other threads.
    static let environment = ServiceEnvironment.take()

    static func main() async {
        _ = environment
        Allocator.releaseFreeMemory()
        await Program.run(Brokerd.self) { given in try ServerConfiguration.resolve(given) { options } }
    }

    static var options: [ConfigurationOption] { ConfigurationOption.all(in: _dumpHelp()) }

    mutating func validate() throws {
        guard socket != nil || check || Self.environment.descriptorCount > 0 else {
            throw ValidationError("Missing expected argument '--socket <path>'")
        }
        guard !journal || sharing.log == nil else {
            throw ValidationError("--log replaces --journal. Use one of them.")
        }
        guard !hasLog || synchronous != .off else {
            throw ValidationError(
                "\(journal ? "--journal" : "--log") needs a store that makes jobs durable, which --synchronous off does not. Use full or normal."
            )
        }
    }

    func run() async throws {
        if check { return try checkStart() }
        // The loss of the terminal does not end the server; SIGHUP is logged from the start on.
        signal(SIGHUP, SIG_IGN)
        let shortage = raiseDescriptorLimit(for: limits.connections)
        let passed = try ListeningSocket.take(Self.environment.descriptorCount)
        let live = try LiveOptions(self)
        let logger = Logger.standardError(label: "brokerd", level: live.logLevel, format: observing.format)
        let service = ServiceNotifier(Self.environment, logger)
        let plan = try ModelFile(model).plan()
        var options = try serverOptions(passed)
        let metrics = try observing.metricsFile.map {
            try MetricsFile($0, besideStore: store, instance: observing.instance(of: options.socketPath), logger)
        }
        defer { metrics?.end() }
        if passed == nil, let path = options.socketPath {
            try SocketFile(path: path, access: options.socketAccess).claim()
        }
        let owned = try OwnedStore(
            plan: plan, options: try coordinatorOptions(activity: service.activity), logger: logger)
        // Must outlive all users of the store.
        defer { withExtendedLifetime(owned) {} }
        // Caught before the first client is served, so that no client sees the server killed.
        let signals = await StopSignals()
        options.drain = { signals.stop() }
        let model = ServedModel(files: model.map(Program.absolutePath), store: Program.absolutePath(store), logger)
        (options.modelFiles, options.storeFile) = (model.files, model.store)
        let reload = reloading(model, live, owned.coordinator, service, logger: logger)
        (options.reload, options.migrate) = (reload, migrating(model, owned.coordinator, service, logger: logger))
        signals.onHangup { await withCheckedContinuation { hangup in reload { _ in hangup.resume() } } }
        let server = try await Self.startServer(owned, options, live, logger)
        owned.coordinator.onHalt { _ in
            server.endConnections("the server has halted, and does not know the ends of jobs on their way to the log")
        }
        owned.coordinator.onFailure { failure in
            service.failed(failure.message)
            // The coordinator has logged it. Clients without an answer ask a later server, which knows the outcome.
            server.abandonSocket { _exit(ExitStatus.failed.rawValue) }
        }
        do {
            try Program.say(
                "brokerd: ready on \(options.socketPath ?? "") (store \(store), \(Self.entities(of: plan)), "
                    + "\(limits.workers) workers, process \(getpid()))")
        } catch {
            try await server.stop()
            throw error
        }
        metrics?.begin { server.statistics }
        service.ready(owned.coordinator, server)
        if let shortage { logger.warning("\(shortage)") }
        await signals.first {
            logger.warning(
                "Stopped at once by a second signal: jobs in flight are rolled back, answered jobs are stored.")
            server.abandonSocket()
            // As safe as any end: committed jobs are in the WAL beside the store, and the others are rolled back.
            _exit(ExitStatus.failed.rawValue)
        }
        service.stopping()
        try await server.stop()
    }

    /// Jobs are in a log before the store has them.
    private var hasLog: Bool { journal || sharing.log != nil }

    static func entities(of plan: StagingPlan) -> String {
        Program.counted(plan.model.entities.count, "entity", "entities")
    }

    private func coordinatorOptions(activity: WriterActivity) throws -> CoordinatorOptions {
        var options = CoordinatorOptions(storePath: store, limits: limits.coordinator)
        options.keepsJournal = journal
        options.sharedLog = try sharing.source()
        if Allocator.countsAllocations { options.allocations = { Allocator.allocations } }
        options.slowJobMicroseconds = observing.slowJobMicroseconds
        options.store.synchronous = synchronous ?? (hasLog ? .normal : .full)
        options.store.removal = RemovalPolicy(removal)
        options.store.fileMode = try access.storeFileMode()
        options.store.retention = LedgerRetention(
            count: limits.keepOutcomes, seconds: limits.keepOutcomesSeconds.seconds)
        options.store.feedBytes = limits.feedBytes.bytes
        options.store.rejectBytes = limits.keepRejects.bytes
        options.store.activity = activity
        return options
    }

    private static func startServer(
        _ owned: OwnedStore, _ options: ServerOptions, _ live: LiveOptions, _ logger: Logger
    ) async throws -> BrokerServer {
        do {
            let server = try await BrokerServer.start(owned.coordinator, options: options, logger: logger)
            live.serve(server)
            return server
        } catch {
            owned.abandon()
            throw error
        }
    }

    private func serverOptions(_ passed: ListeningSocket?) throws -> ServerOptions {
        var options = ServerOptions(socketPath: passed?.path ?? socket)
        options.listeningDescriptor = passed?.descriptor
        options.frameLimits = limits.frames
        options.connections = limits.connections
        options.jobsPerConnection = limits.jobsPerConnection
        options.drainSeconds = limits.drainTimeout.seconds
        options.logsSlowJobs = observing.slowJobMicroseconds != nil
        options.socketAccess = try access.socketAccess()
        options.users = try users()
        return options
    }

    func users() throws -> UserRules {
        var users = UserRules()
        try access.apply(to: &users)
        try userLimits.apply(to: &users)
        return users
    }
}

extension Synchronous: ExpressibleByArgument {}
extension RemovalPolicy.Choice: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}

extension ServerError: ExplainedError {}
extension StoreError: ExplainedError {}

extension Brokerd {
    /// The action of SIGHUP and `admin reload`: the options and the model's files are read again, and applied completely or not at
    /// all. Every change, or the reason why all stays, is logged.
    func reloading(
        _ model: ServedModel, _ live: LiveOptions, _ coordinator: Coordinator, _ service: ServiceNotifier,
        logger: Logger
    ) -> @Sendable (_ notify: @escaping @Sendable (Result<[String], Fault>) -> Void) -> Void {
        { notify in
            Self.reload(
                model, LiveOptions.Reload(live), in: coordinator, reporting: service, logger: logger
            ) { notify($0.map(\.lines)) }
        }
    }

    /// The admin action `migrate`: as a reload, with what becomes of parts that the model no longer has; or what it would do.
    func migrating(
        _ model: ServedModel, _ coordinator: Coordinator, _ service: ServiceNotifier, logger: Logger
    ) -> @Sendable (MigrateMessage, _ notify: @escaping @Sendable (Result<[StoreChange], Fault>) -> Void) -> Void {
        { message, notify in
            let removal =
                message.kept.isEmpty && message.dropped.isEmpty
                ? RemovalPolicy(.init(rawValue: message.removedParts.rawValue) ?? .refuse)
                : RemovalPolicy(keeping: message.kept, dropping: message.dropped)
            guard !message.isDryRun else {
                return coordinator.compare(removal: removal, reading: { model.read(isDryRun: true) }, notify: notify)
            }
            Self.reload(model, removal: removal, in: coordinator, reporting: service, logger: logger) {
                notify($0.map(\.migration.changes))
            }
        }
    }

    /// - Parameters:
    ///   - options: nil for a change of the model alone.
    ///   - removal: nil for the option of the start.
    private static func reload(
        _ model: ServedModel, _ options: LiveOptions.Reload? = nil, removal: RemovalPolicy? = nil,
        in coordinator: Coordinator, reporting service: ServiceNotifier, logger: Logger,
        _ notify: @escaping @Sendable (Result<(migration: StoreMigration, lines: [String]), Fault>) -> Void
    ) {
        // Another reload may go on.
        let model = ServedModel(files: model.files, store: model.store, logger)
        service.reloadBegan()
        coordinator.reload(removal: removal) {
            options?.fault().map { .failure($0) } ?? model.read()
        } notify: { result in
            switch result {
            case .success(let migration):
                model.ended(isApplied: true)
                let lines = migration.lines + (options?.use() ?? [])
                for line in lines { logger.notice("\(line)") }
                logger.notice("The model was reloaded, and is in effect.")
                notify(.success((migration, lines)))
                service.reloadEnded(nil)
            case .failure(let fault):
                model.ended(isApplied: false)
                logger.error("The reload was refused, and all stays as it was: \(fault.message)")
                notify(.failure(fault))
                service.reloadEnded(fault.message)
            }
        }
    }
}

/// `--check`: reports what a start would do, or why it would fail. Changes nothing, and waits for no lock.
extension Brokerd {
    func checkStart() throws {
        for (name, hint) in ServerConfiguration.unknownVariables(Self.options) {
            Program.report("brokerd: \(name) is the variable of no option\(hint.isEmpty ? "." : hint)", .warning)
        }
        let plan = try ModelFile(model).planOrComplain()
        try Program.say("The model is valid: \(Self.entities(of: plan)).")
        var areUsable = [try sharing.log == nil ? checkStore(plan) : checkReplica(plan)]
        if areUsable[0], sharing.log == nil { areUsable.append(try checkJournal()) }
        areUsable += [try checkSocket(), checkMetricsFile()]
        guard !areUsable.contains(false) else { throw CommandFailure("A start would fail.") }
        try Program.say("A start would succeed.")
    }

    /// Nil for a fault, which is reported, so that the others are found, too.
    private func reported<Value>(_ body: () throws -> Value) -> Value? {
        do {
            return try body()
        } catch {
            Program.report("brokerd: \((error as? any ExplainedError)?.message ?? "\(error)")", .error)
            return nil
        }
    }

    private func checkStore(_ plan: StagingPlan) throws -> Bool {
        let found = reported { try Store.changesOfOpening(path: store, plan: plan, removal: RemovalPolicy(removal)) }
        guard let found else { return false }
        guard let changes = found else {
            try Program.say("The store \(store) would be made.")
            return true
        }
        let isRefused = changes.contains { $0.verdict == .refused }
        let end = isRefused ? "would not be opened" : changes.isEmpty ? "fits the model" : "would be migrated"
        try Program.say("The store \(store) \(end)\(changes.isEmpty ? "." : ":")")
        for change in changes { try Program.say("  \(change.verdict.rawValue): \(change.line)") }
        return !isRefused
    }

    /// The log itself is not asked.
    private func checkReplica(_ plan: StagingPlan) throws -> Bool {
        _ = try sharing.source()
        let found = reported {
            (try ReplicaFinding(store: store), try Store.fingerprintDigits(path: store, plan: plan))
        }
        guard let (finding, fingerprint) = found else { return false }
        let state =
            finding == .new
            ? "would be made, and begin as the log does" : "is a replica, and keeps the model of its log"
        try Program.say("The store \(store) \(state).")
        try Program.say("The fingerprint is \(fingerprint).")
        return true
    }

    private func checkJournal() throws -> Bool {
        guard let journal = reported({ try JournalFinding(store: store, isKept: self.journal) }) else { return false }
        switch (journal.state, self.journal) {
        case (.unused, _): break
        case (.new, _): try Program.say("The journal \(journal.path) would be made.")
        case (.present, true): try Program.say("The journal \(journal.path) is that of the store.")
        case (.present, false):
            try Program.say("The journal \(journal.path) would be deleted if the store has applied all its jobs.")
        case (.missing, let isKept):
            Program.report(
                "brokerd: The journal \(journal.path) of the store is missing: jobs in it that the store has not applied "
                    + "would be lost. \(isKept ? "A new one would be begun." : "The store would go on without one.")",
                .warning)
        }
        return true
    }

    private func checkMetricsFile() -> Bool {
        guard let path = observing.metricsFile, let cause = MetricsFile.obstacle(at: path, besideStore: store) else {
            return true
        }
        Program.report("brokerd: \(MetricsFile.failure(path, cause))", .error)
        return false
    }

    private func checkSocket() throws -> Bool {
        guard let socket else {
            try Program.say("There is no --socket: a service manager must pass one.")
            return true
        }
        let file = SocketFile(path: socket, access: try access.socketAccess())
        guard let condition = reported({ try file.inspect() }) else { return false }
        switch condition {
        case .free: try Program.say("The socket \(socket) would be made.")
        case .stale: try Program.say("The socket \(socket) would be made again: no process listens on it.")
        case .served(let process):
            try Program.say("Process \(process) listens on \(socket) now: stop it first, or let it reload the model.")
        }
        return true
    }
}
