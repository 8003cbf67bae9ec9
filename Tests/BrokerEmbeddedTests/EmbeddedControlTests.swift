import Broker
import Foundation
import TestSupport
import Testing

@testable import BrokerEmbedded

/// Everything of `BrokerProtocol` beside jobs that are awaited at once.
@Suite(.timeLimit(.minutes(5))) struct EmbeddedControlTests {
    private let store = TestStore()

    @Test func `a submitted job has its sequence before its end, and its end is awaited by its id`() async throws {
        let broker = try await store.open()
        try await broker.administer(.pause)
        let job = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        #expect(job.id == "one" && job.sequence == 1)
        #expect(try await broker.statistics().paused)
        try await broker.administer(.resume)
        #expect(try await job.completion.changes["Employee"]?.inserted == 1)
        #expect(try await broker.await("one").sequence == 1)
        let again = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        #expect(try await again.completion.isDuplicate)
        let unknown = await #expect(throws: BrokerError.self) { try await broker.await("nobody") }
        #expect(unknown?.code == .unknownJob)
        await broker.stop()
    }

    @Test func `a job is cancelled by its id, or the call throws why not`() async throws {
        let broker = try await store.open()
        try await broker.administer(.pause)
        let job = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        try await broker.cancel("one")
        let cancelled = await #expect(throws: BrokerError.self) { try await job.completion }
        #expect(cancelled?.code == .cancelled)
        try await broker.administer(.resume)
        try await broker.process(json: #"{"id": 2}"#, as: "Employee", id: "two")
        let late = await #expect(throws: BrokerError.self) { try await broker.cancel("two") }
        #expect(late?.code == .tooLate)
        let unknown = await #expect(throws: BrokerError.self) { try await broker.cancel("nobody") }
        #expect(unknown?.code == .unknownJob)
        #expect(try store.rows("SELECT id FROM Employee") == ["2"])
        await broker.stop()
    }

    @Test func `the model, the counters and a copy are there`() async throws {
        let broker = try await store.open()
        try await broker.process(json: #"[{"id": 1}, {"id": 2}]"#, as: "Employee")
        let model = try await broker.model()
        #expect(model.entities["Employee"]?.identity == ["id"])
        #expect(model.entities["Employee"]?.attributes["hiredAt"]?.type == "date")
        #expect(model.entities["Employee"]?.relationships["department"]?.entity == "Department")
        #expect(try await broker.statistics().objects.inserted == 2)
        let copy = store.folder.path("copy.sqlite")
        let backup = try await broker.backUp(to: copy)
        #expect(backup.sequence == 1)
        #expect(try SQLRows.of("SELECT count(*) FROM Employee", in: copy) == ["2"])
        await #expect(throws: BrokerError.self) { try await broker.backUp(to: copy) }
        try await broker.administer(.checkpoint)
        let unsupported = await #expect(throws: BrokerError.self) { try await broker.administer(.reload) }
        #expect(unsupported?.code == .unsupported)
        await broker.stop()
    }

    @Test func `values are read as they are iterated over, however many there are`() async throws {
        let broker = try await store.open()
        try await broker.process((1...25_000).map { Employee(id: $0) }, as: "Employee")
        var sum = 0
        let found = broker.fetch(Employee.self, from: "Employee", where: "id > \(5_000)")
        for try await employee in found { sum += employee.id }
        #expect(sum == (5_001...25_000).reduce(0, +))
        #expect(try await broker.fetch(Employee.self, from: "Employee", limit: 3).collect().map(\.id) == [1, 2, 3])
        #expect(try await broker.fetchObject(Employee.self, from: "Employee", key: 7)?.id == 7)
        #expect(try await broker.fetchFirst(Employee.self, from: "Employee", sort: ["-id"])?.id == 25_000)
        await broker.stop()
    }

    @Test func `the folder of a temporary broker is deleted, whether its code ends or throws`() async throws {
        struct Ended: Error {}
        var made = ""
        let count = try await withTemporaryBroker(model: .json(TestStore.model)) { broker in
            made = broker.path
            return try await broker.process([Employee(id: 1)], as: "Employee").changes["Employee"]?.inserted
        }
        #expect(count == 1)
        #expect(!FileManager.default.fileExists(atPath: (made as NSString).deletingLastPathComponent))
        await #expect(throws: Ended.self) {
            try await withTemporaryBroker(model: .json(TestStore.model)) { broker in
                made = broker.path
                throw Ended()
            }
        }
        #expect(!FileManager.default.fileExists(atPath: (made as NSString).deletingLastPathComponent))
    }
}
