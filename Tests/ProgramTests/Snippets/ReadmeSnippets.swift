import Broker
import BrokerClient
import BrokerEmbedded
import Testing

/// The Swift code of the README, run.
@Suite(.timeLimit(.minutes(5))) struct ReadmeSnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    private let programs: Programs
    private let model = Programs.model

    init() throws { programs = try Programs() }

    @Test func `a client stores, reads and deletes`() async throws {
        _ = try programs.startServer()
        let path = programs.path("broker.sock")
        let broker = BrokerClient(.unixSocket(path))
        let employees = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        try await broker.process(employees, as: "Employee", id: "load-1")  // sent again, it takes effect once
        for try await employee in broker.fetch(Employee.self, from: "Employee", where: "name BEGINSWITH \("A")") {
            print(employee.name)
        }
        try await broker.delete("Employee", keys: [1, 2])
        #expect(try await broker.fetch(Employee.self, from: "Employee").collect().isEmpty)
    }

    @Test func `an embedded broker does the same`() async throws {
        let file = programs.path("staff.sqlite")
        let staff = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        let broker = try await EmbeddedBroker.open(store: .file(file), model: .json(model))
        let completion = try await broker.process(staff, as: "Employee", id: "load-1")
        let found = try await broker.fetch(Employee.self, from: "Employee", where: "name BEGINSWITH \("G")").collect()
        await broker.stop()
        #expect(completion.changes["Employee"]?.inserted == 2 && found.map(\.name) == ["Grace"])
    }
}
