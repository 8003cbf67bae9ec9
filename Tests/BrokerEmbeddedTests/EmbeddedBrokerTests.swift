import Broker
import BrokerStore
import Foundation
import TestSupport
import Testing

@testable import BrokerEmbedded

@Suite(.timeLimit(.minutes(5))) struct EmbeddedBrokerTests {
    private let store = TestStore()

    @Test func `a broker that runs is closed when its task is cancelled`() async throws {
        let broker = try await store.open()
        let running = Task { await broker.run() }
        try await broker.process([Employee(id: 1)], as: "Employee")
        running.cancel()
        await running.value
        let error = await #expect(throws: BrokerError.self) { try await broker.process(json: "{}", as: "Employee") }
        #expect(error?.code == .draining)
        await (try await store.open()).close()
    }

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
        await broker.close()
    }

    @Test func `every operation is one of a job's, and a job is atomic`() async throws {
        let broker = try await store.open()
        _ = try await broker.run(
            .process([Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace"), Employee(id: 3)], as: "Employee"),
            .set("department", of: "Employee", key: 1, json: #"{"id": 7, "name": "R&D"}"#),
            .set("department", of: "Employee", key: 2, to: 7),
            .update("Employee", key: 1, json: #"{"id": 10}"#),
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
        await broker.close()
    }

    @Test func `rejected records are listed with their positions`() async throws {
        let broker = try await store.open()
        let outcome = try await broker.run(
            .process(json: #"[{"id": 1}, {"id": 2, "hired_at": "never"}]"#, as: "Employee"), onInvalid: .skip)
        #expect(outcome.changes["Employee"] == .init(inserted: 1, rejected: 1))
        #expect(outcome.rejections.map(\.path) == ["/json/1/hired_at"])
        #expect(outcome.rejections.map(\.code) == [.invalidValue])
        await broker.close()
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
        lenient.allowsTrailingCommas = true
        #expect(try await broker.process(lenient).changes["Employee"]?.inserted == 1)
        await broker.close()
    }

    @Test func `a job that could never fit fails, and the next one does not`() async throws {
        let broker = try await store.open { $0.limits.jobMemory = 1 << 20 }
        let large = "[" + (1...20_000).map { "{\"id\": \($0)}" }.joined(separator: ",") + "]"
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: large, as: "Employee"))
        }
        #expect(error?.code == .tooLarge && error?.retryAfter == nil)
        #expect(try await broker.run(.process(json: #"{"id": 1}"#, as: "Employee")).changes["Employee"]?.inserted == 1)
        await broker.close()
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
        await broker.close()
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
        fetch.sortKeys = ["-id"]
        fetch.limit = 30
        let found = try await broker.fetch(fetch)
        #expect(found.hasMore)
        #expect(try found.decode([Hired].self) == Array(staff.reversed().prefix(30)))
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.fetch(.init("Employee", where: "idd == 1"))
        }
        #expect(error?.code == .invalidPredicate)
        #expect(error?.fault?.path == "/where")
        await broker.close()
    }

    // MARK: - Opening

    @Test func `a store has one owner in a process, too, and the next one finds it closed`() async throws {
        let first = try await store.open()
        let error = await #expect(throws: BrokerError.self) { try await store.open() }
        #expect(error?.code == .cannotOpen)
        #expect(error?.message.contains("belongs to another broker, process \(getpid())") == true)
        _ = try await first.run(.process(json: #"{"id": 1}"#, as: "Employee"), id: "once")
        await first.close()
        let names = try FileManager.default.contentsOfDirectory(atPath: store.folder.path("")).sorted()
        #expect(names == ["store.sqlite", "store.sqlite.lock"])
        let second = try await store.open()
        #expect(try await second.run(.process(json: #"{"id": 1}"#, as: "Employee"), id: "once").isDuplicate)
        await second.close()
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
        await next.close()
    }

    @Test func `opening waits for a dropped broker's jobs whatever the path is called`() async throws {
        do {
            let dropped = try await store.open()
            let records = (1...20_000).map { Employee(id: $0, name: "a") }
            _ = try await dropped.submit(Job(.process(records, as: "Employee")))
        }
        let path = store.path.replacing("/store.sqlite", with: "/./store.sqlite")
        let next = try await EmbeddedBroker.open(store: .file(path), model: .json(TestStore.model))
        #expect(try await next.fetchObject(Employee.self, from: "Employee", key: 20_000)?.name == "a")
        await next.close()
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

/// Everything of `BrokerService` beside jobs that are awaited at once.
@Suite(.timeLimit(.minutes(5))) struct EmbeddedControlTests {
    private let store = TestStore()

    @Test func `a submitted job has its sequence before its end, and its end is awaited by its id`() async throws {
        let broker = try await store.open()
        try await broker.administer(.pause)
        let job = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        #expect(job.id == "one" && job.sequence == 1)
        #expect(try await broker.statistics().isPaused)
        try await broker.administer(.resume)
        #expect(try await job.completion.changes["Employee"]?.inserted == 1)
        #expect(try await broker.completion(of: "one").sequence == 1)
        let again = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        #expect(try await again.completion.isDuplicate)
        let unknown = await #expect(throws: BrokerError.self) { try await broker.completion(of: "nobody") }
        #expect(unknown?.code == .unknownJob)
        await broker.close()
    }

    @Test func `while merging is paused a job waits, and is not merged`() async throws {
        let broker = try await store.open()
        try await broker.administer(.pause)
        let job = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "one"))
        let begun = ContinuousClock.now
        while begun.duration(to: .now) < .milliseconds(200) { _ = try await broker.statistics() }
        let paused = begun.duration(to: .now)
        try await broker.administer(.resume)
        let timing = try #require(try await job.completion.timing)
        #expect(timing.queued + timing.staged + timing.waited >= paused, "\(timing)")
        await broker.close()
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
        await broker.close()
    }

    @Test func `a bookmark is stored with its job, and stays when the store is opened again`() async throws {
        func job(_ bookmark: String) -> Job {
            var job = Job(.process(json: #"{"id": 1}"#, as: "Employee"))
            job.bookmark = Job.Bookmark(bookmark, "7")
            return job
        }
        let first = try await store.open()
        let sequence = try await first.process(job("feed")).sequence
        await first.close()
        let broker = try await store.open()
        #expect(
            try await broker.bookmark(named: "feed") == StoredBookmark(name: "feed", value: "7", sequence: sequence))
        #expect(try await broker.bookmark(named: "food") == nil)
        let unnamed = await #expect(throws: BrokerError.self) { try await broker.bookmark(named: "") }
        #expect(unnamed?.code == .unsupportedMessage)
        let long = job(String(repeating: "x", count: 1_025))
        let refused = await #expect(throws: BrokerError.self) { try await broker.process(long) }
        #expect(refused?.code == .unsupportedMessage)
        await broker.close()
    }

    @Test func `a dry run, a limit of deletions, the actions of a sync and an offset have their effect`() async throws {
        let broker = try await store.open()
        var job = Job(.process(json: #"[{"id": 1}, {"id": 2}, {"id": 3}]"#, as: "Employee"))
        job.isDryRun = true
        #expect(try await broker.process(job).isDryRun)
        #expect(try await broker.fetchCount(of: "Employee") == 0)
        job.isDryRun = false
        #expect(try await broker.process(job).changes["Employee"]?.inserted == 3)
        var query = Query("Employee")
        query.offset = 2
        let rest = try await broker.fetch(query)
        #expect(try rest.decode([RawJSON].self).count == 1)
        var deletion = Job(.delete("Employee", where: "TRUEPREDICATE"))
        deletion.maximumDeletions = .percent(50)
        let limited = deletion
        let refused = await #expect(throws: BrokerError.self) { try await broker.process(limited) }
        #expect(refused?.code == .tooManyDeletions)
        let sync = Job(.sync(json: #"[{"id": 3}, {"id": 9}]"#, as: "Employee", actions: [.delete]))
        let changes = try await broker.process(sync).changes["Employee"]
        #expect(changes?.inserted == 0 && changes?.deleted == 2)
        await broker.close()
    }

    private func waitUntil(_ broker: EmbeddedBroker, waiting: Int, inFlight: Int) async {
        while broker.requests.waitingCount != waiting || broker.owned.coordinator.admittedCount != inFlight {
            await Task.yield()
        }
    }

    @Test(arguments: ["one", nil] as [JobID?])
    func `a submission that is cancelled while it waits for room has no effect`(_ id: JobID?) async throws {
        let broker = try await store.open { $0.limits.jobs = 1 }
        try await broker.administer(.pause)
        let first = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee")))
        let second = Task { try await broker.submit(Job(.process(json: #"{"id": 2}"#, as: "Employee"), id: id)) }
        await waitUntil(broker, waiting: 1, inFlight: 1)
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        #expect(broker.requests.waitingCount == 0)
        try await broker.administer(.resume)
        _ = try await first.completion
        await broker.close()
        #expect(try store.rows("SELECT id FROM Employee") == ["1"])
    }

    @Test func `an action whose task is cancelled may have been done, and its error says so`() async throws {
        let broker = try await store.open()
        let locker = try Locker(store.path)
        let job = Task { try await broker.process(json: #"{"id": 1}"#, as: "Employee") }
        await waitUntil(broker, waiting: 0, inFlight: 1)
        var error: (any Error)?
        // One that is cancelled before it begins has no effect.
        for attempt in 0..<16 where error == nil || error is CancellationError {
            let checkpoint = Task { try await broker.administer(.checkpoint) }
            for _ in 0..<(1 << attempt) { await Task.yield() }
            checkpoint.cancel()
            // It is done when the writer does not wait for the lock yet.
            do { _ = try await checkpoint.value } catch let failure { error = failure }
        }
        #expect((error as? BrokerError)?.isOutcomeUnknown == true)
        try locker.unlock()
        _ = try await job.value
        await broker.close()
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
        await broker.close()
    }

    @Test func `values are read as they are iterated over, however many there are`() async throws {
        let broker = try await store.open()
        try await broker.process((1...25_000).map { Employee(id: $0) }, as: "Employee")
        var sum = 0
        let found = broker.objects(Employee.self, from: "Employee", where: "id > \(5_000)")
        for try await employee in found { sum += employee.id }
        #expect(sum == (5_001...25_000).reduce(0, +))
        #expect(try await broker.objects(Employee.self, from: "Employee", limit: 3).collect().map(\.id) == [1, 2, 3])
        #expect(try await broker.fetchObject(Employee.self, from: "Employee", key: 7)?.id == 7)
        #expect(try await broker.fetchFirst(Employee.self, from: "Employee", sort: ["-id"])?.id == 25_000)
        await broker.close()
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

/// A folder with a store that brokers are opened on, one after the other.
final class TestStore: Sendable {
    static let model = RawJSON(
        """
        {"entities": {
          "Employee": {
            "identity": "id",
            "attributes": {"id": "integer64", "name": "string", "hiredAt": {"type": "date", "key": "hired_at"}},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}
        }}
        """)

    let folder = TemporaryFolder()

    var path: String { folder.path("store.sqlite") }

    func open(_ configure: (inout EmbeddedBroker.Configuration) -> Void = { _ in }) async throws -> EmbeddedBroker {
        var options = EmbeddedBroker.Configuration()
        options.limits.workers = 2
        // Power failures are not tested here, and syncing costs the most.
        options.store.synchronous = .off
        configure(&options)
        return try await EmbeddedBroker.open(store: .file(path), model: .json(Self.model), configuration: options)
    }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }
}

extension EmbeddedBroker {
    /// Applies operations as one job.
    func run(
        _ operations: Job.Operation..., id: JobID? = nil, onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(Job(operations, id: id, onInvalid: onInvalid, reply: reply))
    }
}

struct Employee: Codable, Equatable {
    var id: Int
    var name: String?
}

/// A model with others that change it.
@Suite(.timeLimit(.minutes(5))) struct OverrideTests {
    private let store = TestStore()

    @Test func `overrides change the model, each what those before it say`() async throws {
        let broker = try await EmbeddedBroker.open(
            store: .file(store.path), model: .json(TestStore.model),
            overrides: [
                .json(#"{"entities": {"Employee": {"attributes": {"name": {"key": "first"}, "hiredAt": null}}}}"#),
                .json(#"{"entities": {"Employee": {"attributes": {"name": {"key": "last"}}}}}"#),
            ])
        _ = try await broker.run(.process(json: #"{"id": 1, "first": "Ada", "last": "Lovelace"}"#, as: "Employee"))
        await broker.close()
        #expect(try store.rows("SELECT * FROM Employee") == ["1|Lovelace|NULL"])
    }

    @Test func `a fault names its override`() async throws {
        let error = await #expect(throws: BrokerError.self) {
            _ = try await EmbeddedBroker.open(
                store: .file(store.path), model: .json(TestStore.model),
                overrides: [.json(#"{"entities": {"Emploee": null}}"#)])
        }
        #expect(
            error?.message
                == "override 1: line 1, column 16 (/entities/Emploee): there is no entity \"Emploee\" to remove; "
                + "did you mean \"Employee\"?")
    }
}

/// Streamed fetches whose reader does not come back in time.
@Suite(.timeLimit(.minutes(5))) struct SlowReaderTests {
    private let store = TestStore()

    /// More than one answer of a stream.
    private func fill(_ broker: EmbeddedBroker) async throws {
        let name = String(repeating: "n", count: 200)
        try await broker.process((1...20_000).map { Employee(id: $0, name: name) }, as: "Employee")
    }

    @Test func `a reader that is too slow gets snapshotExpired, and can go on after the last key`() async throws {
        let broker = try await store.open { $0.limits.streams.frameWait = 1_000 }
        try await fill(broker)
        var answers = broker.results(of: Query("Employee")).makeAsyncIterator()
        let first = try #require(try await answers.next())
        #expect(first.hasMore)
        // Pages that the stream's transaction needs cannot be copied; they can when it has ended.
        repeat {
            try await broker.process(Employee(id: 1, name: "a"), as: "Employee")
        } while try await broker.administer(.checkpoint).wal?.uncheckpointedPages != 0
        var error: (any Error)?
        do { while try await answers.next() != nil {} } catch let end { error = end }
        #expect((error as? BrokerError)?.code == .snapshotExpired)
        var rest = Query("Employee")
        rest.afterKey = first.last
        rest.limit = 1
        let last = try #require(try first.last?.decode(Int.self))
        #expect(try await broker.fetch(rest).decode([Employee].self).map(\.id) == [last + 1])
        await broker.close()
    }

    @Test func `a reader of a broker that was stopped meanwhile gets an error`() async throws {
        let broker = try await store.open()
        try await fill(broker)
        var answers = broker.results(of: Query("Employee")).makeAsyncIterator()
        #expect(try await answers.next()?.hasMore == true)
        await broker.close()
        var error: (any Error)?
        do { while try await answers.next() != nil {} } catch let end { error = end }
        #expect((error as? BrokerError)?.code == .draining)
    }
}

/// Attributes that are nil.
@Suite(.timeLimit(.minutes(5))) struct NullableTests {
    private struct Cleared: Codable, Equatable {
        var id: Int
        @Nullable var name: String?
    }

    private struct Chosen: Encodable {
        var id: Int
        var name: Nullable<String>?
    }

    @Test func `nil of a Nullable clears the column, and nil of an optional leaves it`() async throws {
        let store = TestStore()
        let broker = try await store.open()
        func name() throws -> [String] { try store.rows("SELECT coalesce(name, 'NULL') FROM Employee") }
        _ = try await broker.run(.process([Employee(id: 1, name: "Ada")], as: "Employee"))
        _ = try await broker.run(.process(Employee(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["Ada"])
        _ = try await broker.run(.process(Cleared(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["NULL"])
        _ = try await broker.run(.process(Cleared(id: 1, name: "Grace"), as: "Employee"))
        #expect(try name() == ["Grace"])
        _ = try await broker.run(.process(Chosen(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["Grace"])
        _ = try await broker.run(.process(Chosen(id: 1, name: Nullable(nil)), as: "Employee"))
        #expect(try name() == ["NULL"])
        await broker.close()
    }

    @Test func `a member that is missing or null is read as nil`() throws {
        for text in [#"{"id":1}"#, #"{"id":1,"name":null}"#] {
            #expect(try RawJSON(text).decode(Cleared.self) == Cleared(id: 1, name: nil))
        }
        #expect(try RawJSON(#"{"id":1,"name":"a"}"#).decode(Cleared.self) == Cleared(id: 1, name: "a"))
    }
}

/// Calls that are wrong, whatever the store has: their messages are read as a server reads them.
@Suite(.timeLimit(.minutes(5))) struct ValidationTests {
    typealias Call = @Sendable (any BrokerService) async throws -> Void

    private static func query(_ change: (inout Query) -> Void) -> Query {
        var query = Query("E")
        change(&query)
        return query
    }

    private static let jobs: [(BrokerError.Code, Call)] = [
        (.unknownEntity, { try await $0.process(json: "{}", as: "") }),
        (.unknownEntity, { _ = try await $0.submit(Job(.sync(json: "[]", as: ""))).completion }),
        (.unknownEntity, { try await $0.delete("", keys: [1]) }),
        (.unknownEntity, { try await $0.set("r", of: "", key: 1, to: 2) }),
        (.unknownRelationship, { try await $0.set("", of: "E", key: 1, to: 2) }),
        (.unknownMapping, { try await $0.processPayload(json: "{}", by: .mapping("")) }),
        (
            .unsupportedMessage,
            { try await $0.processPayload(json: "{}", by: .path(String(repeating: "a", count: 8_193))) }
        ),
        (.invalidValue, { try await $0.process(7, as: "E") }),
        (.invalidValue, { try await $0.process(json: "null", as: "E") }),
        (.unsupportedMessage, { try await $0.sync(json: "{}", as: "E") }),
        (.unsupportedMessage, { try await $0.process(Job([Job.Operation]())) }),
        (
            .unsupportedMessage,
            { try await $0.process(Job(.sync(json: "[]", as: "E", part: .init(id: "", isLast: true)))) }
        ),
        (.unsupportedMessage, { try await $0.sync(json: "[]", as: "E", actions: [.init(rawValue: "merge")]) }),
        (.unsupportedMessage, { try await $0.process(json: "{}", as: "E", onInvalid: .init(rawValue: "ignore")) }),
        (.invalidPredicate, { try await $0.delete("E", where: "") }),
        (.invalidPredicate, { try await $0.sync(json: "[]", as: "E", where: "a == %@") }),
        (.invalidPredicate, { try await $0.delete("E", where: "a == 'x") }),
        (.notEncodable, { try await $0.delete("E", where: "a == \(Double.nan)") }),
        (.invalidID, { try await $0.process(json: "{}", as: "E", id: "") }),
        (.invalidID, { try await $0.process(json: "{}", as: "E", id: JobID(String(repeating: "a", count: 129))) }),
        (.unsupportedMessage, { try await $0.process(json: "{}", as: "E", id: "broker-1") }),
        (
            .unsupportedMessage,
            {
                var job = Job(.process(json: "{}", as: "E"))
                job.trace = String(repeating: "a", count: 257)
                try await $0.process(job)
            }
        ),
        (.invalidJSON, { try await $0.process(json: "{", as: "E") }),
        (.notEncodable, { try await $0.process("{}", as: "E") }),
        (.invalidID, { _ = try await $0.completion(of: "") }),
        (.invalidID, { try await $0.cancel("") }),
    ]

    private static let questions: [(BrokerError.Code, Call)] = [
        (.unknownEntity, { _ = try await $0.fetch(Query("")) }),
        (.unknownEntity, { _ = try await $0.objects(Int.self, from: "").collect() }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.limit = -1 }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.limit = 100_001 }) }),
        (.unsupportedMessage, { _ = try await $0.objects(Int.self, from: "E", limit: -1).collect() }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.offset = -1 }) }),
        (
            .invalidValue,
            {
                _ = try await $0.fetch(
                    query {
                        $0.afterKey = RawJSON("1")
                        $0.sortKeys = ["id"]
                    })
            }
        ),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.sortKeys = Array(repeating: "a", count: 65) }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.names = .init(rawValue: "both") }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.dates = .init(rawValue: "rfc822") }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.resultForm = .init(rawValue: "set") }) }),
        (.unsupportedMessage, { for try await _ in $0.results(of: query { $0.resultForm = .object }) {} }),
        (.invalidPredicate, { _ = try await $0.fetch(query { $0.predicate = "a == %@" }) }),
        (.invalidPredicate, { _ = try await $0.fetchFirst(Int.self, from: "E", where: "50%") }),
        (.invalidJSON, { _ = try await $0.fetch(query { $0.key = RawJSON("1,2") }) }),
        (.unsupportedMessage, { try await $0.administer(.init(rawValue: "restart")) }),
        (.unsupportedMessage, { _ = try await $0.backUp(to: "copy.sqlite") }),
        (.unsupportedMessage, { _ = try await $0.backUp(to: "") }),
    ]

    @Test(arguments: (jobs + questions).indices)
    func `a call that no server would take fails with the server's code, and changes nothing`(index: Int) async throws {
        let (code, call) = (Self.jobs + Self.questions)[index]
        let model = RawJSON(#"{"entities": {"E": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        let broker = try await EmbeddedBroker.open(store: .temporary, model: .json(model))
        let error = await #expect(throws: BrokerError.self) { try await call(broker) }
        #expect(error?.code == code, "\(index): \(String(describing: error))")
        #expect(try await broker.fetch(Query("E")).objects == RawJSON("[]"))
        await broker.close()
    }
}
