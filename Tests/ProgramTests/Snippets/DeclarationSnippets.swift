import Broker
import BrokerClient
import BrokerEmbedded
import Foundation
import Testing

/// The code of the comments of the libraries' declarations, run.
@Suite(.timeLimit(.minutes(5))) struct DeclarationSnippets {
    private struct Employee: Codable {
        var id: Int
        var name: String?
        var age: Int?
    }

    private struct Department: Codable {
        var id: Int
        var name: String
    }

    private let programs: Programs
    private let employees = [Employee(id: 3, name: "Ada", age: 41), Employee(id: 4, age: 20)]
    private let model = """
        {"entities": {
          "Employee": {
            "identity": "id",
            "attributes": {"id": "integer64", "name": "string", "age": "integer16", "hiredAt": "date", "phone": "string"},
            "relationships": {"department": {"entity": "Department"}, "tags": {"entity": "Tag", "toMany": true}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Tag": {"identity": "name", "attributes": {"name": "string"}}},
         "mappings": {"employee": {"entity": "Employee"}},
         "routes": [{"path": "/articles/:number", "mapping": "employee"}]}
        """

    init() throws { programs = try Programs() }

    func importStaff(_ broker: some BrokerService) async throws {
        try await broker.process(employees, as: "Employee", id: "load-7")
        for try await employee in broker.objects(Employee.self, from: "Employee", where: "age > \(40)") {
            print(employee)
        }
    }

    @Test func imports() async throws {
        try await withTemporaryBroker(model: .json(model)) { try await importStaff($0) }
    }

    @Test func `objects are changed, fetched and deleted`() async throws {
        let (name, staff, payload) = ("R&D", [Employee(id: 3)], #"{"id": 5}"#)
        try await withTemporaryBroker(model: .json(model)) { broker in
            try await importStaff(broker)
            try await broker.set("department", of: "Employee", key: 3, to: Department(id: 7, name: "R&D"))
            try await broker.set("tags", of: "Employee", key: 3, to: ["swift", "sql"])  // keys
            try await broker.set("department", of: "Employee", key: 3, to: nil)
            try await broker.update("Employee", key: 3, with: Employee(id: 3, name: "Ada King"))
            for try await employee in broker.objects(Employee.self, from: "Employee", where: "age > \(40)") {
                print(employee)
            }
            let all = try await broker.objects(Employee.self, from: "Employee").collect()
            #expect(all.map(\.id) == [3, 4])

            let predicate: BrokerPredicate = "department.name == \(name) AND age IN \([30, 40])"
            #expect(try await broker.objects(Employee.self, from: "Employee", where: predicate).collect().isEmpty)
            try await broker.sync(staff, as: "Employee", where: "department.name == \(name)")
            try await broker.processPayload(json: payload, by: .path("/articles/5"))
            try await broker.delete("Employee", where: "hiredAt < \(Date(timeIntervalSince1970: 0))")
            #expect(try await broker.objects(Employee.self, from: "Employee").collect().map(\.id) == [3, 4, 5])
        }
    }

    @Test func `a client and an embedded broker are opened`() async throws {
        try programs.write(model, to: "model.json")
        try await useClient(path: try programs.startServer().isRunning ? programs.path("broker.sock") : "")
        try await embed(path: programs.path("app.sqlite"))
    }

    private func useClient(path: String) async throws {
        let broker = RemoteBroker(.unixSocket(path))
        try await broker.process(employees, as: "Employee")
        try await withRemoteBroker(.unixSocket(path)) { broker in
            try await broker.process(employees, as: "Employee")
        }
        #expect(try await broker.statistics().objects.unchanged == 2)
    }

    private func embed(path: String) async throws {
        let broker = try await EmbeddedBroker.open(store: .file(path), model: .json(model))
        let done = try await broker.process(employees, as: "Employee")
        print(done.changes["Employee"]?.inserted ?? 0)
        await broker.close()
        #expect(done.changes["Employee"]?.inserted == 2)
    }

    @Test func `nil and null are two things`() throws {
        struct Employee: Codable {
            var id: Int
            var nickname: String?  // nil leaves the column as it is
            @Nullable var phone: String?  // nil sets the column to NULL
        }
        #expect(try RawJSON(encoding: Employee(id: 1)).description == #"{"id":1,"phone":null}"#)
    }

    @Test func `a relationship is a key or an object`() throws {
        struct Project: Codable {}
        struct Employee: Codable {
            var id: Int
            var department: Link<Int, Department>?  // to-one
            var projects: [Link<String, Project>]?  // to-many
        }
        let ada = Employee(id: 1, department: .key(7))
        let grace = Employee(id: 2, department: .object(Department(id: 8, name: "R&D")))
        #expect(
            try RawJSON(encoding: [ada, grace]).description
                == #"[{"department":7,"id":1},{"department":{"id":8,"name":"R&D"},"id":2}]"#)
    }
}
