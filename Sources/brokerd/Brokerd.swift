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
            Prints one line when it is ready. SIGTERM and SIGINT finish the jobs that were read, let clients take their \
            answers, and end it with status 0; a second one ends it at once, with status 1. Any start-up error is one line and status 1 (2 for wrong arguments), and touches no file.
            """)

    @Option(help: ArgumentHelp("The model: what the entities are.", valueName: "file"), completion: .file())
    var model: String

    @Option(help: ArgumentHelp("The SQLite database, made when it is new.", valueName: "file"), completion: .file())
    var store: String

    @Option(help: ArgumentHelp("The Unix socket to listen on.", valueName: "path"), completion: .file())
    var socket: String

    @OptionGroup(title: "Limits")
    var limits: LimitOptions

    @Option(help: "When SQLite waits for the disk: full (at every commit), normal (at checkpoints) or off.")
    var synchronous: Synchronous = .full

    @Option(
        name: .customLong("allow-user"),
        help: ArgumentHelp(
            "A user id that may connect, beside the server's own and root. May be repeated.", valueName: "uid"))
    var allowedUsers: [UInt32] = []

    @Option(help: "The least severe messages to log: trace, debug, info, notice, warning, error or critical.")
    var logLevel: Logger.Level = .notice

    static func main() async {
        Allocator.giveBackWhatIsFree()
        await Program.run(Brokerd.self)
    }

    mutating func validate() throws {
        // chown(2) and its kin take the highest number for "no user".
        guard !allowedUsers.contains(.max) else { throw ValidationError("--allow-user \(UInt32.max) is no user.") }
    }

    func run() async throws {
        // A lost terminal is no reason to end; from the start on, it is logged.
        signal(SIGHUP, SIG_IGN)
        let shortage = raiseDescriptorLimit(for: limits.connections)
        let plan = try ModelFile(path: model).plan()
        let lock = try claim(plan.model)
        // Longer than everything that has the store open.
        defer { withExtendedLifetime(lock) {} }
        let logger = Logger(label: "brokerd", level: logLevel)
        let server: BrokerServer
        // Caught before the first client is served, so that none sees the server killed.
        let signals: StopSignals
        do throws(CommandFailure) {
            let coordinator = try startCoordinator(plan, logger)
            signals = await StopSignals(logger)
            server = try await startServer(coordinator, logger)
        } catch {
            lock.abandon()
            throw error
        }
        do {
            try Program.say(
                "brokerd: ready on \(socket) (store \(store), \(plan.model.entities.count) entities, "
                    + "\(limits.workers) workers, process \(getpid()))")
        } catch {
            try await server.stop()
            throw error
        }
        if let shortage { logger.warning("\(shortage)") }
        await signals.first {
            logger.warning("Stopped at once by a second signal: jobs in flight are undone, what was answered is kept.")
            server.abandonSocket()
            // As safe as any end: what is committed is in the log beside the store, and the rest is undone there.
            _exit(ExitStatus.failed.rawValue)
        }
        try await server.stop()
    }

    /// Makes sure that store and socket can be had, before anything is touched, and takes the store.
    private func claim(_ model: Model) throws(CommandFailure) -> StoreLock {
        do throws(ServerError) {
            try BrokerServer.claimSocket(socket)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        do throws(StoreError) {
            try Store.check(path: store, model: model)
            return try StoreLock(storePath: store)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }

    private func startCoordinator(_ plan: StagingPlan, _ logger: Logger) throws(CommandFailure) -> Coordinator {
        var options = CoordinatorOptions(storePath: store, limits: limits.coordinator)
        options.store.synchronous = synchronous
        options.store.retention = LedgerRetention(count: limits.keepOutcomes, seconds: limits.keepOutcomesSeconds)
        do throws(StoreError) {
            return try Coordinator(plan: plan, options: options, logger: logger)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }

    private func startServer(
        _ coordinator: Coordinator, _ logger: Logger
    ) async throws(CommandFailure) -> BrokerServer {
        var options = ServerOptions(socketPath: socket)
        options.frameLimits = limits.frames
        options.connections = limits.connections
        options.jobsPerConnection = limits.jobsPerConnection
        options.drainSeconds = limits.drainTimeout
        options.allowedUsers.formUnion(allowedUsers)
        do throws(ServerError) {
            return try await BrokerServer.start(coordinator, options: options, logger: logger)
        } catch {
            coordinator.stop()
            throw CommandFailure(.failed, error.message)
        }
    }
}

extension Synchronous: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}

extension Logger {
    fileprivate init(label: String, level: Level) {
        self.init(label: label) { StreamLogHandler.standardError(label: $0) }
        logLevel = level
    }
}
