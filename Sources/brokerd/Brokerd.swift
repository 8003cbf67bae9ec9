import BrokerSchema
public import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import BrokerModel
import BrokerServer
import BrokerStaging
public import BrokerStore
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

    @Option(help: ArgumentHelp("The SQLite database, made when it is new.", valueName: "file"), completion: .file())
    var store: String

    @Option(
        help: ArgumentHelp(
            "The Unix socket to listen on. Not used when a service manager passes a socket (LISTEN_FDS).",
            valueName: "path"), completion: .file())
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
    var removal: RemovalPolicy = .refuse

    @OptionGroup(title: "Access")
    var access: AccessOptions

    @Option(help: "The least severe messages to log: trace, debug, info, notice, warning, error or critical.")
    var logLevel: Logger.Level = .notice

    @OptionGroup(title: "Observing")
    var observing: ObservingOptions

    /// Taken before there are other threads.
    static let environment = ServiceEnvironment.take()

    static func main() async {
        _ = environment
        Allocator.releaseFreeMemory()
        await Program.run(Brokerd.self) { given throws(CommandFailure) in
            try ServerConfiguration.resolve(given) { options }
        }
    }

    /// Those that a configuration may give.
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
        let logger = Logger.standardError(label: "brokerd", level: logLevel, format: observing.format)
        let service = ServiceNotifier(Self.environment, logger)
        let plan = try ModelFile(model).plan()
        var options = try serverOptions(passed)
        let metrics = try observing.metricsFile.map { try MetricsFile($0, besideStore: store, logger) }
        defer { metrics?.end() }
        let owned = try openStore(plan, options, activity: service.activity, logger: logger)
        // Must outlive all users of the store.
        defer { withExtendedLifetime(owned) {} }
        // Caught before the first client is served, so that no client sees the server killed.
        let signals = await StopSignals()
        options.drain = { signals.stop() }
        let reload = reloading(owned.coordinator, service, logger: logger)
        options.reload = reload
        options.migrate = migrating(owned.coordinator, service, logger: logger)
        signals.onHangup { await withCheckedContinuation { hangup in reload { _ in hangup.resume() } } }
        let server = try await startServer(owned, options, logger: logger)
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

    /// Checks that the store and the socket are available before changing anything, and locks the store.
    private func openStore(
        _ plan: StagingPlan, _ server: ServerOptions, activity: WriterActivity, logger: Logger
    ) throws -> OwnedStore {
        do throws(ServerError) {
            if server.listeningDescriptor == nil, let path = server.socketPath {
                try BrokerServer.claimSocket(path, access: server.socketAccess)
            }
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        var options = CoordinatorOptions(storePath: store, limits: limits.coordinator)
        options.keepsJournal = journal
        options.sharedLog = try sharing.source()
        if Allocator.countsAllocations { options.allocations = { Allocator.allocations } }
        options.slowJobMicroseconds = observing.slowJobMicroseconds
        options.store.synchronous = synchronous ?? (hasLog ? .normal : .full)
        options.store.removal = removal
        options.store.fileMode = try access.storeFileMode()
        options.store.retention = LedgerRetention(
            count: limits.keepOutcomes, seconds: limits.keepOutcomesSeconds.seconds)
        options.store.feedBytes = limits.feedBytes.bytes
        options.store.activity = activity
        do throws(StoreError) {
            return try OwnedStore(plan: plan, options: options, logger: logger)
        } catch {
            throw CommandFailure(.failed, error.message)
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
        try access.apply(to: &options)
        return options
    }

    private func startServer(
        _ owned: OwnedStore, _ options: ServerOptions, logger: Logger
    ) async throws(CommandFailure) -> BrokerServer {
        do throws(ServerError) {
            return try await BrokerServer.start(owned.coordinator, options: options, logger: logger)
        } catch {
            owned.abandon()
            throw CommandFailure(.failed, error.message)
        }
    }
}

extension Synchronous: ExpressibleByArgument {}
extension RemovalPolicy: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
