import Broker
import BrokerClient
import BrokerEmbedded
import Foundation
import InMemoryLogging
import Logging
import ServiceLifecycle
import Synchronization
import Testing

/// The Swift code of the README, run.
@Suite(.timeLimit(.minutes(5))) struct ReadmeSnippets {
    struct Employee: Codable, BrokerRecord {
        static let entity = "Employee"

        var id: Int, name: String
    }

    private let programs: Programs
    private let model = Programs.model

    init() throws { programs = try Programs() }

    @Test func `a client stores, reads and deletes`() async throws {
        _ = try programs.startServer()
        let path = programs.path("broker.sock")
        let broker = RemoteBroker(.unixSocket(path))
        let employees = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        try await broker.process(employees, id: "load-1")  // sent again, it takes effect once
        for try await employee in broker.objects(Employee.self, where: "name BEGINSWITH \("A")", sort: "-id") {
            print(employee.name)
        }
        try await broker.delete(Employee.self, keys: [1, 2])
        #expect(try await broker.objects(Employee.self).collect().isEmpty)
    }

    @Test func `an embedded broker does the same`() async throws {
        let file = programs.path("staff.sqlite")
        let staff = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        let broker = try await EmbeddedBroker.open(store: .file(file), model: .json(model))
        let completion = try await broker.process(staff, id: "load-1")
        let found = try await broker.objects(Employee.self, where: "name BEGINSWITH \("G")").collect()
        await broker.close()
        #expect(completion.changes(of: Employee.self).inserted == 2 && found.map(\.name) == ["Grace"])
    }
}

/// The code of the article *Getting started*, run.
@Suite(.timeLimit(.minutes(5))) struct GettingStartedSnippets {
    struct Employee: Codable, BrokerRecord {
        static let entity = "Employee"

        var id: Int
        var name: String?
        var hiredAt: Date?
        var department: Int?

        enum CodingKeys: String, CodingKey {
            case id, name, department
            case hiredAt = "hired_at"
        }
    }

    private let programs: Programs
    private let path: String

    init() throws {
        programs = try Programs()
        path = programs.path("broker.sock")
        let page = "Sources/BrokerClient/BrokerClient.docc/GettingStarted.md"
        let model = try #require(try Repository.codeBlocks(of: page).first { $0.language == "json" })
        try programs.write(model.text, to: "model.json")
        _ = try programs.startServer()
    }

    private func count(_ table: String) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM \(table)")
    }

    @Test func `records are stored, changed and read`() async throws {
        let broker = RemoteBroker(.unixSocket(path), configuration: .init(name: "payroll"))
        try await broker.check(Employee.self)

        let hired = Date(timeIntervalSince1970: 1_324_512_000)
        let employees = [Employee(id: 1, name: "Ada", hiredAt: hired), Employee(id: 2, name: "Grace", department: 7)]
        let completion = try await broker.process(employees, id: "load-7")
        print(completion.changes(of: Employee.self).inserted)

        // JSON from elsewhere. Before it is sent, it is checked to be one JSON value.
        try await broker.process(json: #"{"id": 7, "name": "R&D"}"#, as: "Department")
        #expect(completion.changes["Employee"]?.inserted == 2)

        try await broker.set("department", of: Employee.self, key: 1, to: 7)
        // The employees of the department are these, and no others.
        try await broker.sync(employees, where: "department.name == \("R&D")")
        try await broker.delete(Employee.self, keys: [2])
        #expect(try count("Employee") == ["1"])

        let ada = try await broker.fetchObject(Employee.self, key: 1)
        let members = broker.objects(Employee.self, where: "department == \(7)", sort: "name")
        let team = try await members.collect()
        for try await employee in broker.objects(Employee.self) {  // all of one moment
            print(employee)
        }
        #expect(ada?.hiredAt != nil && team.map(\.id) == [1])
    }

    @Test func `the client runs in a service group`() async throws {
        let worker = Worker(path: path)
        let logger = Logger(label: "payroll")
        let broker = RemoteBroker(.unixSocket(path), configuration: .init(name: "payroll"), logger: logger)
        let services = ServiceGroup(
            services: [broker, worker], gracefulShutdownSignals: [.sigterm], logger: logger)
        try await services.run()
        await #expect(throws: BrokerError.self) { try await broker.ping() }
    }

    /// Ends the group as a service manager does.
    private struct Worker: Service {
        let path: String

        func run() async throws {
            kill(getpid(), SIGTERM)
            try await gracefulShutdown()
        }
    }

    @Test func `a script is short`() async throws {
        let employees = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        try await withRemoteBroker(.unixSocket(path)) { broker in
            try await broker.process(employees)
        }
        #expect(try count("Employee") == ["2"])
    }
}

/// The code of the article *Observing*, run.
@Suite(.timeLimit(.minutes(5))) struct ObservingSnippets {
    private struct Request {
        let id: Int
    }

    private struct Employee: Encodable {
        let id: Int
    }

    @Test func `the state of the connection and of the server can be seen`() async throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let path = programs.path("broker.sock")
        let logger = Logger(label: "payroll")
        let broker = RemoteBroker(.unixSocket(path), configuration: .init(name: "payroll"), logger: logger)

        let statistics = try await broker.statistics()
        print("\(statistics.jobs.inFlight) jobs in flight, the store is \(statistics.store.state)")
        #expect(statistics.store.state == .serving)

        let log = InMemoryLogHandler()
        var requestLogger = Logger(label: "requests") { _ in log }
        requestLogger.logLevel = .debug
        let (request, employees) = (Request(id: 7), [Employee(id: 1)])
        _ = try await withLogger(requestLogger) { _ in
            let completion = try await withLogger(mergingMetadata: ["request": "\(request.id)"]) { _ in
                try await broker.process(employees, as: "Employee")
            }
            return completion
        }
        #expect(log.entries.map(\.message) == ["A job has ended."])
        #expect(log.entries.map { $0.metadata["request"] } == ["7"])

        // The states of a client that is closed end.
        broker.close()
        let health = Mutex(BrokerConnectionState.idle)
        for await state in broker.connectionStates {
            health.withLock { $0 = state }
        }
        #expect(health.withLock { $0 } == .closed)
    }
}

/// The code of the article *Testing*, run.
@Suite(.timeLimit(.minutes(5))) struct TestingSnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    private let model = Programs.model

    func importStaff(_ employees: [Employee], from file: String, by broker: some BrokerService) async throws -> Int {
        let completion = try await broker.process(employees, as: "Employee", id: JobID(file))
        return completion.changes["Employee"]?.inserted ?? 0
    }

    @Test func `staff is imported once`() async throws {
        try await withTemporaryBroker(model: .json(model)) { broker in
            let employees = [Employee(id: 1, name: "Ada")]
            let first = try await importStaff(employees, from: "staff.json", by: broker)
            let second = try await broker.process(employees, as: "Employee", id: "staff.json")
            #expect(first == 1 && second.isDuplicate)
            let stored = try await broker.objects(Employee.self, from: "Employee").collect()
            #expect(stored.map(\.name) == ["Ada"])
        }
    }

    @Test func `a wrong record is refused`() async throws {
        try await withTemporaryBroker(model: .json(model)) { broker in
            let error = await #expect(throws: BrokerError.self) {
                try await broker.process(json: #"{"id": "three"}"#, as: "Employee")
            }
            #expect(error?.code == .invalidValue && error?.fault?.path == "/json/id")
        }
    }
}

/// The code of the article *Embedding*, run. (Its program is `Tests/Examples/Embedding`.)
@Suite(.timeLimit(.minutes(5))) struct EmbeddingSnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    struct Unnamed: Error {}

    private let model = Programs.model

    @Test func `a store is opened with another configuration`() async throws {
        let programs = try Programs()
        let path = programs.path("staff.sqlite")
        var configuration = EmbeddedBroker.Configuration()
        configuration.removedParts = .keep
        configuration.durability = .normal  // the last jobs may be lost with the machine's power
        let broker = try await EmbeddedBroker.open(
            store: .file(path), model: .json(model), configuration: configuration)
        try await broker.process([Employee(id: 1, name: "Ada")], as: "Employee")
        await broker.close()
    }

    @Test func `a handler refuses a record`() async throws {
        var handlers = EmbeddedBroker.Handlers()
        handlers.addValidator(for: "Employee") { employee in
            if try employee.decode(Employee.self).name.isEmpty { throw Unnamed() }
        }
        try await withTemporaryBroker(model: .json(model), handlers: handlers) { broker in
            let error = await #expect(throws: BrokerError.self) {
                try await broker.process([Employee(id: 1, name: "")], as: "Employee")
            }
            #expect(error?.code == .validationFailed)
        }
    }
}
