import Broker
import Foundation
import TestSupport
import Testing

@testable import BrokerEmbedded

@Suite(.timeLimit(.minutes(5))) struct EmbeddedBrokerTests {
    private let store = TestStore()

    // MARK: - Outcomes

    @Test func `an outcome is typed: changes, keys, warnings, sequence, and whether it was applied before`()
        async throws
    {
        let broker = try await store.open()
        let job = Job(
            [
                .process(
                    json: Array(#"[{"id": 1, "name": "Ada", "x": 1, "department": 7}, {"id": 2}]"#.utf8), as: "Employee"
                )
            ],
            id: "load", reply: .keys)
        let first = try await broker.process(job)
        #expect(first.id == "load" && first.sequence == 1 && !first.isDuplicate)
        #expect(first.changes["Employee"] == .init(inserted: 2))
        #expect(first.changes["Department"] == .init(inserted: 1))
        #expect(first.warnings == [.init(code: .unknownKey, entity: "Employee", key: "x", count: 1)])
        #expect(try first.keys(of: "Employee", as: Int.self).inserted == [1, 2])
        #expect(first.timing != nil)
        let again = try await broker.process(job)
        #expect(again.isDuplicate && again.sequence == 1)
        #expect(again.changes == first.changes && again.keys == first.keys)
        let brief = try await broker.run(.process([Employee(id: 3)], as: "Employee"), reply: .none)
        #expect(brief.sequence > 1 && brief.changes.isEmpty)
        await broker.stop()
    }

    @Test func `every operation is one of a job's, and a job is atomic`() async throws {
        let broker = try await store.open()
        _ = try await broker.run(
            .process([Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace"), Employee(id: 3)], as: "Employee"),
            .relate("Employee", 1, "department", json: #"{"id": 7, "name": "R&D"}"#),
            .relate("Employee", 2, "department", to: 7),
            .process(json: #"{"id": 10}"#, as: "Employee", object: 1),
            .delete("Employee", keys: [3]))
        #expect(try store.rows("SELECT id, name, department FROM Employee") == ["2|Grace|7", "10|Ada|7"])
        let synced = try await broker.run(
            .sync([Employee(id: 2, name: "Grace")], as: "Employee", where: "department.name == \("R&D")"))
        #expect(synced.changes["Employee"]?.deleted == 1)
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(
                .delete("Employee", where: .all), .process(json: #"[{"id": 4}, {"id": "x"}]"#, as: "Employee"))
        }
        #expect(error?.code == .invalidValue)
        #expect(error?.fault?.path == "/operations/1/json/1/id")
        #expect(try store.rows("SELECT id FROM Employee") == ["2"])
        await broker.stop()
    }

    @Test func `rejected records are listed with their positions`() async throws {
        let broker = try await store.open()
        let outcome = try await broker.run(
            .process(json: #"[{"id": 1}, {"id": 2, "hired_at": "never"}]"#, as: "Employee"), onInvalid: .skip)
        #expect(outcome.changes["Employee"] == .init(inserted: 1, rejected: 1))
        #expect(outcome.rejections.map(\.path) == ["/json/1/hired_at"])
        #expect(outcome.rejections.map(\.code) == [.invalidValue])
        await broker.stop()
    }

    @Test(arguments: [
        (#"{"id": 1"#, "invalidJSON", Int?(1)), (#""#, "invalidJSON", 1),
        (#"[{"id": 1},]"#, "invalidJSON", 1),
    ])
    func `invalid JSON is refused with its position, and trailing commas are accepted on request`(
        json: String, code: String, line: Int?
    ) async throws {
        let broker = try await store.open()
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: json, as: "Employee"))
        }
        #expect(error?.code.rawValue == code)
        #expect(error?.fault?.line == line)
        var lenient = Job([.process(json: #"[{"id": 1},]"#, as: "Employee")])
        lenient.isLenient = true
        #expect(try await broker.process(lenient).changes["Employee"]?.inserted == 1)
        await broker.stop()
    }

    @Test func `a job that could never fit fails, and the next one does not`() async throws {
        let broker = try await store.open { $0.limits.jobMemory = 1 << 20 }
        let large = "[" + (1...20_000).map { "{\"id\": \($0)}" }.joined(separator: ",") + "]"
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: large, as: "Employee"))
        }
        #expect(error?.code == .tooLarge && error?.retryAfter == nil)
        #expect(try await broker.run(.process(json: #"{"id": 1}"#, as: "Employee")).changes["Employee"]?.inserted == 1)
        await broker.stop()
    }

    @Test func `a job that asks for its objects gets them as values`() async throws {
        let broker = try await store.open()
        let outcome = try await broker.run(
            .process([Employee(id: 2, name: "Grace"), Employee(id: 1, name: "Ada")], as: "Employee"),
            .process(json: #"{"id": 1, "name": "Ada King"}"#, as: "Employee"), reply: .objects)
        #expect(
            try outcome.objects(ofOperation: 0, as: Employee.self)
                == [Employee(id: 2, name: "Grace"), Employee(id: 1, name: "Ada King")])
        #expect(outcome.warnings.isEmpty)
        await broker.stop()
    }

    // MARK: - Fetching

    @Test func `a fetch sees what was run before, and makes values of it`() async throws {
        struct Hired: Codable, Equatable {
            var id: Int
            var hired_at: Date?
        }
        let broker = try await store.open()
        let staff = (1...50).map { Hired(id: $0, hired_at: Date(timeIntervalSince1970: Double($0))) }
        for person in staff { _ = try await broker.run(.process(person, as: "Employee")) }
        var fetch = Query("Employee", where: "id > \(10)")
        fetch.sort = ["-id"]
        fetch.limit = 30
        let found = try await broker.fetch(fetch)
        #expect(found.hasMore)
        #expect(try found.decode([Hired].self) == Array(staff.reversed().prefix(30)))
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.fetch(.init("Employee", where: "idd == 1"))
        }
        #expect(error?.code == .invalidPredicate)
        #expect(error?.fault?.path == "/where")
        await broker.stop()
    }

    // MARK: - Opening

    @Test func `a store has one owner in a process, too, and the next one finds it closed`() async throws {
        let first = try await store.open()
        let error = await #expect(throws: BrokerError.self) { try await store.open() }
        #expect(error?.code == .cannotOpen)
        #expect(error?.message.contains("belongs to another broker, process \(getpid())") == true)
        _ = try await first.run(.process(json: #"{"id": 1}"#, as: "Employee"), id: "once")
        await first.stop()
        let names = try FileManager.default.contentsOfDirectory(atPath: store.folder.path("")).sorted()
        #expect(names == ["store.sqlite", "store.sqlite.lock"])
        let second = try await store.open()
        #expect(try await second.run(.process(json: #"{"id": 1}"#, as: "Employee"), id: "once").isDuplicate)
        await second.stop()
    }

    @Test func `an invalid model is reported with all its faults, and no file is made`() async throws {
        let error = await #expect(throws: BrokerError.self) {
            try await EmbeddedBroker.open(
                store: .file(store.path),
                model: .json(#"{"entities": {"A": {"attributes": {"x": "int", "y": "text"}}}}"#))
        }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.split(separator: "\n").count == 2, "\(error?.message ?? "")")
        #expect(try FileManager.default.contentsOfDirectory(atPath: store.folder.path("")).isEmpty)
    }

    @Test func `a broker that is dropped gives its store back once all is written, and opening it waits for that`()
        async throws
    {
        do {
            let dropped = try await store.open()
            _ = try await dropped.run(.process(json: #"{"id": 1}"#, as: "Employee"))
        }
        let next = try await store.open()
        #expect(try await next.run(.process(json: #"{"id": 1}"#, as: "Employee")).changes["Employee"]?.unchanged == 1)
        await next.stop()
    }

    @Test func `opening waits for a dropped broker's jobs whatever the path is called`() async throws {
        do {
            let dropped = try await store.open()
            let records = (1...20_000).map { Employee(id: $0, name: "a") }
            _ = try await dropped.submit(.process(records, as: "Employee"))
        }
        let path = store.path.replacing("/store.sqlite", with: "/./store.sqlite")
        let next = try await EmbeddedBroker.open(store: .file(path), model: .json(TestStore.model))
        #expect(try await next.fetchObject(Employee.self, from: "Employee", key: 20_000)?.name == "a")
        await next.stop()
    }

    @Test func `the folder of a temporary broker that is dropped is deleted`() async throws {
        var path = ""
        do {
            let dropped = try await EmbeddedBroker.open(store: .temporary, model: .json(TestStore.model))
            try await dropped.process(Employee(id: 1), as: "Employee")
            path = dropped.path
        }
        while FileManager.default.fileExists(atPath: path) {
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}
