import BrokerCoordinator
import BrokerJSON
import BrokerModel
@testable import BrokerServer
import BrokerStaging
import BrokerStore
import BrokerWire
import Foundation
import Logging
import TestSupport
import Testing

/// A server in this process, on a socket in a folder of its own; both go with ``stop()``.
struct RunningServer {
    static let model = """
        {"entities": {
          "Department": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}},
          "Employee": {
            "identity": "id",
            "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}, "age": "integer16"},
            "relationships": {"department": {"entity": "Department", "inverse": "employees"}}}
        }}
        """

    /// That of the trait ``Trait/server``.
    @TaskLocal fileprivate static var ofTest: RunningServer?
    static var current: RunningServer { ofTest! }

    let folder: String
    let server: BrokerServer
    let log: RecordedLog

    var socketPath: String { folder + "/broker.sock" }
    var storePath: String { folder + "/store.sqlite" }

    init(
        model: String = Self.model, limits: CoordinatorLimits = CoordinatorLimits(workers: 2), walPages: Int? = nil,
        outcomesKept: Int = LedgerRetention.defaultCount, jobWork: Int? = nil,
        slowJobMicroseconds: Int64? = nil, copying store: String? = nil,
        _ adjust: (inout ServerOptions) -> Void = { _ in }
    ) async throws {
        folder = NSTemporaryDirectory() + "broker-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if let store { try FileManager.default.copyItem(atPath: store, toPath: folder + "/store.sqlite") }
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
        let log = RecordedLog()
        self.log = log
        let logger = Logger(label: "test") { _ in log }
        var coordinatorOptions = CoordinatorOptions(storePath: folder + "/store.sqlite", limits: limits)
        coordinatorOptions.store.retention.count = outcomesKept
        if let walPages { coordinatorOptions.store.walPages = walPages }
        if let jobWork { coordinatorOptions.store.jobWork = jobWork }
        coordinatorOptions.slowJobMicroseconds = slowJobMicroseconds
        let coordinator = try Coordinator(plan: plan, options: coordinatorOptions, logger: logger)
        var options = ServerOptions(socketPath: folder + "/broker.sock")
        adjust(&options)
        server = try await BrokerServer.start(coordinator, options: options, logger: logger)
    }

    func stop() async throws {
        try await server.stop()
        try FileManager.default.removeItem(atPath: folder)
    }

    func connect() throws -> RawClient { try RawClient(socketPath) }

    /// Starts a server, runs the body, stops the server whatever happens.
    static func run(
        model: String = Self.model, limits: CoordinatorLimits = CoordinatorLimits(workers: 2), walPages: Int? = nil,
        outcomesKept: Int = LedgerRetention.defaultCount, jobWork: Int? = nil,
        slowJobMicroseconds: Int64? = nil, copying store: String? = nil,
        _ adjust: (inout ServerOptions) -> Void = { _ in },
        _ body: (RunningServer) async throws -> Void
    ) async throws {
        let running = try await RunningServer(
            model: model, limits: limits, walPages: walPages, outcomesKept: outcomesKept, jobWork: jobWork,
            slowJobMicroseconds: slowJobMicroseconds, copying: store, adjust)
        do {
            try await body(running)
        } catch {
            try await running.stop()
            throw error
        }
        try await running.stop()
    }
}

/// Runs what waits for the server on a thread of its own, where a test needs the pool for the server's stop.
func offThePool<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Swift.Result { try body() }) }.start()
    }
}

/// A server of its own for each test, or for each case of it. A test's own trait replaces that of its suite.
final class ServerTrait: SuiteTrait, TestTrait, TestScoping {
    typealias Body = @Sendable () async throws -> Void

    let isRecursive = true
    private let serve: @Sendable (_ body: Body) async throws -> Void

    init(_ serve: @escaping @Sendable (_ body: Body) async throws -> Void) { self.serve = serve }

    func provideScope(for test: Test, testCase: Test.Case?, performing function: Body) async throws {
        if test.traits.last(where: { $0 is ServerTrait }) as? ServerTrait === self {
            try await serve(function)
        } else {
            try await function()
        }
    }
}

extension Trait where Self == ServerTrait {
    /// The test's server is ``RunningServer/current``.
    static func server(
        model: String = RunningServer.model, limits: CoordinatorLimits = CoordinatorLimits(workers: 2),
        walPages: Int? = nil, outcomesKept: Int = LedgerRetention.defaultCount, slowJobMicroseconds: Int64? = nil,
        _ adjust: @escaping @Sendable (inout ServerOptions) -> Void = { _ in }
    ) -> Self {
        ServerTrait { body in
            try await RunningServer.run(
                model: model, limits: limits, walPages: walPages, outcomesKept: outcomesKept,
                slowJobMicroseconds: slowJobMicroseconds, adjust
            ) { running in try await RunningServer.$ofTest.withValue(running, operation: body) }
        }
    }

    static var server: Self { server() }

    /// The test's client is ``OperationSession/current``.
    static func session(_ model: String = OperationSession.model, jobWork: Int? = nil) -> Self {
        ServerTrait { body in
            try await RunningServer.run(model: model, jobWork: jobWork) { running in
                let session = try OperationSession(client: running.connect(), storePath: running.storePath)
                try await OperationSession.$ofTest.withValue(session, operation: body)
            }
        }
    }

    static var session: Self { session() }
}
