internal import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerPages
import BrokerSchema
import BrokerServer
internal import BrokerStore
import BrokerWire
import Glibc
import Synchronization

/// Where the server is, or the store when there is none.
struct ConnectionOptions: ParsableArguments {
    @Option(
        help: .value(
            "path",
            "The server's Unix socket. Default: the environment's BROKER_SOCKET, else broker.sock in this folder."),
        completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            """
            Work without a server: open this SQLite database in this process, with the guarantees of brokerd. A \
            database that another process has open is refused, unless --wait is given; fetch and entities read it. \
            Without --model, the model beside it (app.model.json of app.sqlite) is used, else the one stored in it.
            """, valueName: "file"), completion: .file())
    var store: String?

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            With --store: the model, JSON or Core Data. May be repeated: each one changes those before it.
            """, valueName: "file"), completion: .file())
    var model: [String] = []

    @Option(
        name: .customLong("migrate"),
        help: """
            With --store: what happens to tables and columns that the model no longer has: refuse (the store is not \
            opened), keep (they stay in the file, unused) or drop. `broker migrate` asks before, and shows what is lost.
            """)
    var removal: RemovalPolicy.Choice?

    @Option(
        help: .value("time", "With --store: how long to wait while another broker has the store. Default: not at all."))
    var wait: TimeSpan?

    @Option(
        help: .value(
            "time", "How long to try to reconnect after the connection is lost, before unanswered jobs are given up."))
    var reconnectTimeout = TimeSpan.seconds(30)

    @Option(
        help: ArgumentHelp(
            """
            How long to wait for the server's next answer, connected or not, before unanswered jobs are given up and \
            the command ends with status 4. A server that is not there yet is waited for, too. Default: no limit, and a \
            server that is not there is reported at once.
            """, valueName: "time"))
    var timeout: TimeSpan?

    private static let longestWait = TimeSpan.seconds(86_400)
    /// A server that answers at once needs some of it.
    private static let shortestWait = TimeSpan.milliseconds(10)

    mutating func validate() throws {
        try checkRange("--reconnect-timeout", reconnectTimeout, in: .seconds(0)...Self.longestWait)
        try checkRange("--timeout", timeout, in: Self.shortestWait...Self.longestWait)
        if store != nil, socket != nil {
            throw ValidationError("--socket names a server, and --store works without one; give one of them.")
        }
        try checkRange("--wait", wait, in: .seconds(0)...Self.longestWait)
        let ofStores = [
            (!model.isEmpty, "--model goes with --store; a server has its own model."),
            (wait != nil, "--wait goes with --store; for a server there is --timeout."),
            (removal != nil, "--migrate goes with --store; for a server it is an option of brokerd."),
        ]
        if store == nil, let (_, fault) = ofStores.first(where: \.0) { throw ValidationError(fault) }
    }

    /// For commands that are about what another process does.
    func requireServer(_ reason: String) throws(ValidationError) {
        if isLocal { throw ValidationError("\(reason), so --store does not apply; give --socket.") }
    }

    /// There is no server: the store is opened by this process.
    var isLocal: Bool { store != nil }

    /// The store's model may be inferred of records, and extended by them.
    var mayInfer: Bool { isLocal && model.isEmpty }

    /// Connects for the duration of `body`, whose errors become failures of the command. After it, sent jobs are finished, and a store of this command is closed.
    ///
    /// - Parameters:
    ///   - defaultTimeout: the timeout of a command that is of no use when its answer is late.
    ///   - needsServer: why the command does not take `--store`; nil for one that does.
    ///   - makesStore: a store that is not there is made.
    ///   - isReading: only fetches are sent. A store that another broker has is read beside it.
    ///   - isDryRun: a store of this command stays as it is: see ``TrialStore``.
    ///   - syncsAtEnd: the disk has to have what a store of this command got when it is closed, and not before.
    ///   - inferred: says which model a store has that was given none; nil looks for it.
    ///   - onInterruption: called when a signal ends it, before a store of this command is closed; nil leaves that to the
    ///     system where there is no such store.
    func connected<Result>(
        _ name: String, jobsInFlight: Int = 64, defaultTimeout: TimeSpan? = nil, needsServer: String? = nil,
        makesStore: Bool = false, isReading: Bool = false, isDryRun: Bool = false, syncsAtEnd: Bool = false,
        inferred: InferredModel? = nil, onInterruption: (@Sendable () -> Void)? = nil,
        _ body: (RemoteBroker) async throws -> Result
    ) async throws -> Result {
        if let needsServer { try requireServer(needsServer) }
        var options = RemoteBroker.Configuration(name: name)
        options.maximumJobsInFlight = jobsInFlight
        options.reconnectDeadline = reconnectTimeout.duration
        if let limit = timeout ?? defaultTimeout {
            options.answerTimeout = limit.duration
            options.connectTimeout = timeout?.duration ?? min(options.connectTimeout, limit.duration)
        }
        options.waitsForServer = timeout != nil
        guard let store else {
            let broker = try await connect(options, needsServer: needsServer != nil)
            let interruption = onInterruption.map(Interruption.init)
            defer { withExtendedLifetime(interruption) {} }
            return try await Self.finish(broker, await Swift.Result { try await body(broker) })
        }
        // A signal before the server has started must leave no ``TrialStore``, either.
        let started = StartedServer()
        let interruption = Interruption {
            started.isInterrupted.store(true, ordering: .relaxed)
            onInterruption?()
            started.server.withLock({ $0 })?.stopAndWait()
            TrialStore.remove()
        }
        defer {
            TrialStore.remove()
            withExtendedLifetime(interruption) {}
        }
        let local: LocalServer
        do {
            local = try await LocalServer.start(
                store: store, model: try model(of: store, inferred), makesStore: makesStore, isReading: isReading,
                isDryRun: isDryRun, syncsAtEnd: syncsAtEnd, removal: RemovalPolicy(removal ?? .refuse), wait: wait)
        } catch  where started.isInterrupted.load(ordering: .relaxed) {
            // What the signal has removed is no fault; its thread ends the process.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            throw error
        }
        started.server.withLock { $0 = local }
        let result = await Swift.Result {
            let broker = try await local.connect(options)
            return try await Self.finish(broker, await Swift.Result { try await body(broker) })
        }
        try await local.stop()
        return try result.get()
    }

    /// The model that the store has without `--model`: the file beside it, or what it holds; nil when there is none.
    func storedModel() throws -> LocalModel? { try store.flatMap { try LocalModel(ofStore: $0) } }

    /// - Parameter inferred: as for
    ///   ``connected(_:jobsInFlight:defaultTimeout:needsServer:makesStore:isReading:isDryRun:syncsAtEnd:inferred:onInterruption:_:)``.
    func model(of store: String, _ inferred: InferredModel? = nil) throws -> LocalModel {
        guard model.isEmpty else { return .files(model) }
        if let inferred { return inferred.model }
        if let model = try storedModel() { return model }
        let isMissing = access(store, F_OK) != 0 && errno == ENOENT
        throw CommandFailure(
            .usage,
            (isMissing
                ? "There is no store \(store), and no model for one. Check the path, give"
                : "The store \(store) contains no model. Give")
                + " --model, or put a model at \(LocalModel.file(besideStore: store)). `broker model import` makes one "
                + "of another program's database, or of sample records.")
    }

    /// A client of the server of `--socket`, for a program that outlives servers: it connects when something is asked, and says soon
    /// that there is none.
    ///
    /// - Parameter patience: how long an answer may take without `--timeout`.
    func lazyClient(_ name: String, patience: Duration = .seconds(5)) -> RemoteBroker {
        var options = RemoteBroker.Configuration(name: name)
        options.answerTimeout = timeout?.duration ?? patience
        options.reconnectDeadline = .seconds(2)
        options.connectTimeout = .seconds(2)
        options.waitsForServer = false
        return RemoteBroker(.unixSocket(Self.path(ofSocket: socket)), configuration: options)
    }

    private func connect(_ options: RemoteBroker.Configuration, needsServer: Bool) async throws -> RemoteBroker {
        do {
            return try await RemoteBroker.connect(to: .unixSocket(Self.path(ofSocket: socket)), configuration: options)
        } catch {
            let isElsewhere = needsServer || socket != nil || (error as? BrokerError)?.code != .cannotConnect
            throw CommandFailure(
                .cannotConnect, "\(error)" + (isElsewhere ? "" : " To work without a server, give --store FILE."))
        }
    }

    static func path(ofSocket given: String?) -> String {
        given ?? getenv("BROKER_SOCKET").map { String(cString: $0) } ?? "broker.sock"
    }

    private static func finish<Result>(
        _ broker: RemoteBroker, _ result: Swift.Result<Result, any Error>
    ) async throws -> Result {
        broker.close()
        return try result.mapError { $0 as? CommandFailure ?? CommandFailure($0) }.get()
    }
}

extension Result where Failure == any Error {
    /// The result of `body`, stored until it is requested.
    init(catching body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}

extension ServerError: ExplainedError {}
extension StoreError: ExplainedError {}
extension WireError: ExplainedError {}

extension PageError: ExplainedError {
    package var message: String { description }
}

extension CommandFailure {
    /// The status that the contract gives an error of the client library.
    init(_ described: any Error) {
        if let explained = described as? any ExplainedError {
            self.init(explained.status, explained.message)
            return
        }
        let error = described as? BrokerError
        let code = error?.isOutcomeUnknown == true ? (error?.cause as? BrokerError)?.code : error?.code
        let isLost = code == .cannotConnect || code == .connectionLost
        self.init(isLost ? .cannotConnect : .failed, "\(described)")
    }
}

extension RemovalPolicy.Choice: ExpressibleByArgument {}

/// The server of this process, for the thread of a signal.
private final class StartedServer: Sendable {
    let server = Mutex<LocalServer?>(nil)
    let isInterrupted = Atomic(false)
}

/// The treatment of parts that a model no longer has.
struct RemovalOptions: ParsableArguments {
    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            This part, an Entity or Entity.attribute that the model no longer has, stays in the file, unused. May be \
            repeated; parts that are not named are refused. Without a value: all of them stay.
            """, valueName: "part"))
    var keep: [String] = []

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "The same, and it is dropped, with its values. Without a value: all of them are dropped.",
            valueName: "part"))
    var drop: [String] = []

    mutating func validate() throws {
        guard (keep + drop).contains("") else {
            if let both = keep.first(where: { drop.contains($0) }) {
                throw ValidationError("\(both) cannot be both kept and dropped.")
            }
            return
        }
        guard keep.count + drop.count == 1 else {
            throw ValidationError(
                "--keep or --drop without a value decides about all parts, and takes no other --keep or --drop beside it."
            )
        }
    }

    var isGiven: Bool { !keep.isEmpty || !drop.isEmpty }

    /// Of all parts; nil when some are named.
    var choice: RemovalPolicy.Choice? { keep == [""] ? .keep : drop == [""] ? .drop : isGiven ? nil : .refuse }

    var policy: RemovalPolicy { choice.map(RemovalPolicy.init) ?? RemovalPolicy(keeping: keep, dropping: drop) }

    /// The arguments with an empty value for `--keep` and `--drop` without one, of the commands that have these options.
    static func completed(_ arguments: [String]) -> [String] {
        guard arguments.first == "migrate" || arguments.starts(with: ["model", "diff"]) else { return arguments }
        return arguments.enumerated().flatMap { index, argument in
            let isLast = index + 1 == arguments.count || arguments[index + 1].hasPrefix("-")
            return isLast && ["--keep", "--drop"].contains(argument) ? [argument, ""] : [argument]
        }
    }
}
