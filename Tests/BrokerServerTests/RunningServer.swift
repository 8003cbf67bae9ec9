import BrokerCoordinator
import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import BrokerWire
import Foundation
import Logging
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import BrokerServer

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

/// A client of a server whose model has every kind of relationship and delete rule, and looks into its store.
struct OperationSession {
    static let model = """
        {"entities": {
          "Department": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {
              "staff": {"entity": "Employee", "toMany": true, "inverse": "department"},
              "rooms": {"entity": "Room", "toMany": true, "inverse": "department", "deleteRule": "cascade"},
              "safe": {"entity": "Safe", "inverse": "owner", "deleteRule": "noAction"}}},
          "Safe": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"owner": {"entity": "Department", "inverse": "safe"}}},
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string", "age": "integer16"},
            "relationships": {
              "department": {"entity": "Department", "inverse": "staff"},
              "boss": {"entity": "Employee"},
              "tags": {"entity": "Tag", "toMany": true, "inverse": "bearers"},
              "papers": {"entity": "Paper", "toMany": true, "deleteRule": "cascade"}}},
          "Paper": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"follows": {"entity": "Paper", "deleteRule": "cascade"}}},
          "Tag": {
            "identity": "word", "attributes": {"word": "string"},
            "relationships": {"bearers": {"entity": "Employee", "toMany": true, "inverse": "tags"}}},
          "Room": {
            "identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"},
            "relationships": {
              "department": {"entity": "Department", "inverse": "rooms"},
              "desks": {"entity": "Desk", "toMany": true, "inverse": "room", "deleteRule": "deny"}}},
          "Desk": {
            "identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"room": {"entity": "Room", "inverse": "desks"}}},
          "Seal": {
            "identity": "id", "attributes": {"id": "integer64", "sign": {"type": "string", "optional": false}}},
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "text": "string"}}
        }}
        """

    /// That of the trait ``Trait/session``.
    @TaskLocal static var ofTest: OperationSession?
    static var current: OperationSession { ofTest! }

    let client: RawClient
    let storePath: String

    /// `Employee +1 ~2 =3 -4 !5`, by entity; or the code and the path of what went wrong.
    ///
    /// - Parameter reply: with `keys` the server remembers each object, without it often counts alone.
    func job(_ operations: String, _ more: String = "", reply: String = "keys") throws -> String {
        try counts(#"{"operations": [\#(operations)], "reply": "\#(reply)"\#(more)}"#)
    }

    /// The same of a whole message.
    func counts(_ job: String) throws -> String {
        let answer = try client.ask(job)
        guard answer.type == "completed" else { return "\(answer.code) \(answer["error.path"] ?? "")" }
        return answer.keys("changes").sorted().compactMap { entity in
            let counts = ["inserted", "updated", "unchanged", "deleted", "rejected"].map {
                answer["changes.\(entity).\($0)"] ?? "0"
            }
            guard counts.contains(where: { $0 != "0" }) else { return nil }
            return "\(entity) " + zip("+~=-!", counts).filter { $1 != "0" }.map { "\($0)\($1)" }.joined(separator: " ")
        }.joined(separator: ", ")
    }

    func answer(_ operations: String, _ more: String = "") throws -> Message {
        try client.ask(#"{"operations": [\#(operations)], "reply": "keys"\#(more)}"#)
    }

    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: storePath) }

    func process(_ entity: String, _ json: String) throws {
        #expect(try client.ask(#"{"entity": "\#(entity)", "json": \#(json)}"#).type == "completed")
    }
}

/// A log that a test can read.
final class RecordedLog: LogHandler, Sendable {
    private let recorded = Mutex<[String]>([])

    /// Every line so far: the level, the message, and the metadata.
    var lines: [String] { recorded.withLock { $0 } }

    /// The first line with that level and these words.
    func line(_ level: Logger.Level, _ words: String) -> String? {
        lines.first { $0.hasPrefix("\(level) ") && $0.contains(words) }
    }

    func log(event: LogEvent) {
        let metadata = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
        recorded.withLock { $0.append("\(event.level) \(event.message) \(metadata)") }
    }

    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }
}

extension BrokerServer {
    /// Bytes of answers that clients have not taken.
    var unreadBytes: Int {
        get async throws { try await group.next().submit { [connections] in connections.value.answers.held }.get() }
    }
}
