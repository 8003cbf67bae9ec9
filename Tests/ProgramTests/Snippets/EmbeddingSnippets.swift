import Broker
import BrokerEmbedded
import Testing

/// The code of the article *Embedding*, run. (Its program is `Tests/Embedding`.)
@Suite(.timeLimit(.minutes(5))) struct EmbeddingSnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    struct Unnamed: Error {}

    private let model = Programs.model

    @Test func `a store is opened with another configuration`() async throws {
        let programs = try Programs()
        let path = programs.path("staff.sqlite")
        var configuration = EmbeddedBrokerConfiguration()
        configuration.removedParts = .keep
        configuration.durability = .normal  // the last jobs may be lost with the machine's power
        let broker = try await EmbeddedBroker.open(
            store: .file(path), model: .json(model), configuration: configuration)
        try await broker.process([Employee(id: 1, name: "Ada")], as: "Employee")
        await broker.stop()
    }

    @Test func `a handler refuses a record`() async throws {
        var handlers = EmbeddedBroker.Handlers()
        handlers.validate("Employee") { employee in
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
