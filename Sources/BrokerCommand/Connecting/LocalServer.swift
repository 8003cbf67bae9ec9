import BrokerClient
import BrokerCommandLine
import BrokerCoordinator
import BrokerJSON
import BrokerModel
import BrokerSchema
import BrokerServer
import BrokerStaging
import BrokerStore
import BrokerWire
import Dispatch
import Foundation
import Glibc
import Logging
import Synchronization

/// The coordinator in this process, for a command that has no server to talk to: the same code over a pair of sockets, so
/// the same order, bounds and answers.
final class LocalServer: Sendable {
    private let owned: OwnedStore
    private let server: BrokerServer
    private let path: String
    private let isStopping = Atomic(false)

    private init(_ owned: OwnedStore, _ server: BrokerServer, _ path: String) {
        self.owned = owned
        self.server = server
        self.path = path
    }

    /// Takes the store, or says which process has it. After it, also where it throws, ``TrialStore/remove()`` is to be called.
    ///
    /// - Parameters:
    ///   - makesStore: false refuses a store that is not there.
    ///   - isReading: only fetches are sent. A store that another process has is read beside it, by the model in it.
    ///   - syncsAtEnd: ``stop()`` waits for the disk, and no COMMIT does.
    ///   - isDryRun: nothing but the trial of a job is done with the store: see ``TrialStore``.
    static func start(
        store path: String, model: LocalModel, makesStore: Bool, isReading: Bool, isDryRun: Bool,
        syncsAtEnd: Bool, removal: RemovalPolicy, wait: TimeSpan?
    ) async throws -> LocalServer {
        let plan = try model.plan()
        guard makesStore || path.isEmpty || access(path, F_OK) == 0 || errno != ENOENT else {
            throw CommandFailure("There is no store \(path). Check the path, or make it with `broker submit`.")
        }
        let trial = isDryRun ? try TrialStore(of: path, plan: plan) : nil
        // The command reports what becomes of its jobs, once; the log would repeat it for each of them.
        let logger = Logger.standardError(label: "broker", level: LogLevel(.critical))
        var options = CoordinatorOptions(storePath: trial?.path ?? path, limits: CoordinatorLimits())
        options.limits.jobMemory = jobMemory
        options.store.removal = removal
        if syncsAtEnd { options.store.synchronous = .normal }
        if case .inferred(let inference) = model, !isDryRun { try inference.writeExtended(for: path, removal) }
        let owned: OwnedStore
        do {
            owned = try await own(plan, options, isReading ? nil : wait, logger)
        } catch let error as StoreError where error.isInUse && isReading {
            // An empty store of the same model, beside which the one that another process has is read.
            options.storePath = try TrialStore().path
            options.fetched = try OpenedFiles(reading: path)
            let plan = try Store.planInForce(path: path) ?? plan
            owned = try OwnedStore(plan: plan, options: options, logger: logger)
        }
        for line in owned.coordinator.migration.lines { Program.report("broker: \(line)") }
        if case .inferred(let inference) = model { isDryRun ? inference.report() : inference.write() }
        do {
            var options = ServerOptions(socketPath: nil)
            (options.frameLimits, options.answerLimits) = (.inProcess, .inProcess)
            let server = try await BrokerServer.start(owned.coordinator, options: options, logger: logger)
            owned.coordinator.onFailure { _ in
                // The coordinator has logged the cause; unsent answers cannot be sent any more.
                server.abandonSocket { _exit(ExitStatus.failed.rawValue) }
            }
            return LocalServer(owned, server, path)
        } catch {
            owned.abandon()
            throw error
        }
    }

    /// Takes the store, when another process gives it up in time.
    private static func own(
        _ plan: StagingPlan, _ options: CoordinatorOptions, _ wait: TimeSpan?, _ logger: Logger
    ) async throws -> OwnedStore {
        let deadline = ContinuousClock.now + (wait?.duration ?? .zero)
        while true {
            do {
                return try OwnedStore(plan: plan, options: options, logger: logger)
            } catch {
                guard error.isInUse, ContinuousClock.now < deadline else { throw error }
                try await Task.sleep(for: pause)
            }
        }
    }

    /// One record may be 256 MiB of JSON, and no other client waits.
    private static let jobMemory = 2 << 30

    /// Between two attempts to take the store.
    private static let pause = Duration.milliseconds(50)

    func connect(_ options: RemoteBroker.Configuration) async throws -> RemoteBroker {
        var options = options
        options.frameLimits = .inProcess
        // What is not compressed waits in the input: jobs that are staged while others are merged.
        options.maximumBytesInFlight = 8 << 20
        return try await RemoteBroker.connect(to: path, configuration: options) { [server] in
            try server.makeConnection()
        }
    }

    /// Finishes what was sent, and closes the store. A second call waits for ever: the first one ends the process.
    func stop() async throws {
        guard !isStopping.exchange(true, ordering: .relaxed) else {
            return await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
        try await server.stop()
    }

    /// The same, from a thread that may wait.
    func stopAndWait() {
        let isStopped = DispatchSemaphore(value: 0)
        Task {
            do {
                try await stop()
            } catch {
                Program.report("broker: the store was not closed as it should: \(error)")
            }
            isStopped.signal()
        }
        isStopped.wait()
    }
}

/// The model of a store that a command opens itself: what `--model` names, else the file beside the store, else the model
/// in force, which the store holds.
enum LocalModel {
    /// Each changes what those before it say.
    case files([String])
    case inForce(StagingPlan)
    /// Written beside the store once that is open.
    case inferred(Inference)

    /// The model of a store without `--model`; nil when there is none.
    init?(ofStore store: String) throws {
        let file = Self.file(besideStore: store)
        let hasFile = access(file, F_OK) == 0
        // To open a store with the file's model says the same as a fault here.
        let found = hasFile ? (try? Store.planInForce(path: store)) ?? nil : try Store.planInForce(path: store)
        if let found, !hasFile {
            self = .inForce(found)
        } else {
            guard hasFile else { return nil }
            self = .files([file])
        }
    }

    /// `app.model.json` of `app.sqlite`.
    static func file(besideStore store: String) -> String {
        for ending in [".sqlite3", ".sqlite", ".db"] where store.hasSuffix(ending) {
            return store.dropLast(ending.count) + ".model.json"
        }
        return store + ".model.json"
    }

    /// The model as a tree, to be changed.
    func documentAndPlan() throws -> (ModelDocument, StagingPlan) {
        switch self {
        case .files(let files): return try ModelFile(files).readOrComplain()
        case .inForce(let plan):
            var writer = JSONWriter()
            plan.model.write(to: &writer)
            return (try ModelDocument(parsing: JSONText(copying: writer.bytes)), plan)
        case .inferred(let model): return (model.document, model.plan)
        }
    }

    /// Says which model is used.
    func report() {
        switch self {
        case .files(let files):
            Program.report("broker: the model is \(files[0]), beside the store; --model selects another.")
        case .inForce: Program.report("broker: the model is the one in the store; --model selects another.")
        case .inferred: break
        }
    }

    /// - Parameter isSilent: false writes the faults of a model that has some to standard error.
    func plan(isSilent: Bool = false) throws(CommandFailure) -> StagingPlan {
        switch self {
        case .files(let files): try isSilent ? ModelFile(files).plan() : ModelFile(files).planOrComplain()
        case .inForce(let plan): plan
        case .inferred(let model): model.plan
        }
    }
}

/// The store of a dry run without a server: the store itself where it would be opened unchanged, else a new one or a copy in
/// a temporary folder, so that no store, model or lock is made and nothing is migrated.
struct TrialStore: Sendable {
    let path: String

    init(of store: String, plan: StagingPlan) throws {
        let exists = access(store, F_OK) == 0
        if exists, try Store.planInForce(path: store) != nil, try Store.planInForce(path: store, unlike: plan) == nil {
            path = store
            return
        }
        let folder = try Self.makeFolder()
        path = folder + "/store.sqlite"
        guard exists else { return }
        try Store.copy(store, to: path)
        Program.report(
            "broker: the model differs from the store's, so the dry run uses a copy of the store (in \(folder)):")
    }

    /// An empty store, beside which another one is read.
    init() throws(CommandFailure) {
        path = try Self.makeFolder() + "/store.sqlite"
    }

    private static func makeFolder() throws(CommandFailure) -> String {
        var template = Array((FileManager.default.temporaryDirectory.path + "/broker-dry-run-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CommandFailure(
                "The dry run cannot make a temporary folder: \(String(cString: strerror(errno))). Set TMPDIR.")
        }
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        made.withLock { $0 = folder }
        return folder
    }

    /// The folder of the dry run; a command does one.
    private static let made = Mutex<String?>(nil)

    /// Removes what the dry run made, also while it is being made.
    static func remove() {
        guard let folder = made.withLock({ $0 }) else { return }
        // Another thread may be making files in it.
        for _ in 0..<100 where access(folder, F_OK) == 0 { try? FileManager.default.removeItem(atPath: folder) }
    }
}
