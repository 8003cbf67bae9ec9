import Broker
import BrokerClient
import Foundation
import Logging
import ServiceLifecycle
import Testing

/// The code of the article *Getting started*, run.
@Suite(.timeLimit(.minutes(5))) struct GettingStartedSnippets {
    struct Employee: Codable {
        var id: Int
        var name: String
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
        let model = try #require(try Repository.codeBlocks(of: "README.md").first { $0.language == "json" })
        try programs.write(model.text, to: "model.json")
        _ = try programs.startServer()
    }

    private func count(_ table: String) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM \(table)")
    }

    @Test func `records are stored, changed and read`() async throws {
        let broker = BrokerClient(.unixSocket(path), configuration: .init(name: "payroll"))

        let employees = [Employee(id: 1, name: "Ada", hiredAt: .now), Employee(id: 2, name: "Grace", department: 7)]
        let completion = try await broker.process(employees, as: "Employee", id: "load-7")
        print(completion.changes["Employee"]?.inserted ?? 0)

        // JSON as it came from somewhere else. It is proven to be one JSON value before it is sent.
        try await broker.process(json: #"{"id": 7, "name": "R&D"}"#, as: "Department")
        #expect(completion.changes["Employee"]?.inserted == 2)

        try await broker.relate("Employee", 1, "department", to: 7)
        // The employees of the department are these, and no others.
        try await broker.sync(employees, as: "Employee", where: "department.name == \("R&D")")
        try await broker.delete("Employee", keys: [2])
        #expect(try count("Employee") == ["1"])

        let ada = try await broker.fetchObject(Employee.self, from: "Employee", key: 1)
        let team = try await broker.fetch(Employee.self, from: "Employee", where: "department == \(7)", sort: ["name"])
            .collect()
        for try await employee in broker.fetch(Employee.self, from: "Employee") {  // all of one moment
            print(employee.name)
        }
        #expect(ada?.hiredAt != nil && team.map(\.id) == [1])
    }

    @Test func `the client runs in a service group`() async throws {
        let worker = Worker(path: path)
        let logger = Logger(label: "payroll")
        let broker = BrokerClient(.unixSocket(path), configuration: .init(name: "payroll"), logger: logger)
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
        try await withBrokerClient(.unixSocket(path)) { broker in
            try await broker.process(employees, as: "Employee")
        }
        #expect(try count("Employee") == ["2"])
    }
}
