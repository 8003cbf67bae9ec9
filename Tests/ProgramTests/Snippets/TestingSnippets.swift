import Broker
import BrokerEmbedded
import Testing

/// The code of the article *Testing*, run.
@Suite(.timeLimit(.minutes(5))) struct TestingSnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    private let model = Programs.model

    func importStaff(_ employees: [Employee], from file: String, by broker: some BrokerProtocol) async throws -> Int {
        let completion = try await broker.process(employees, as: "Employee", id: JobID(file))
        return completion.changes["Employee"]?.inserted ?? 0
    }

    @Test func `staff is imported once`() async throws {
        try await withTemporaryBroker(model: .json(model)) { broker in
            let employees = [Employee(id: 1, name: "Ada")]
            let first = try await importStaff(employees, from: "staff.json", by: broker)
            let second = try await broker.process(employees, as: "Employee", id: "staff.json")
            #expect(first == 1 && second.isDuplicate)
            let stored = try await broker.fetch(Employee.self, from: "Employee").collect()
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
