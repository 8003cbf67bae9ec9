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

    @Test func `a bookmark is stored with its job, and stays when the store is opened again`() async throws {
        func job(_ bookmark: String) -> Job {
            var job = Job(.process(json: #"{"id": 1}"#, as: "Employee"))
            job.bookmark = Job.Bookmark(bookmark, "7")
            return job
        }
        let first = try await store.open()
        let sequence = try await first.process(job("feed")).sequence
        await first.stop()
        let broker = try await store.open()
        #expect(
            try await broker.bookmark(named: "feed") == StoredBookmark(name: "feed", value: "7", sequence: sequence))
        #expect(try await broker.bookmark(named: "food") == nil)
        let unnamed = await #expect(throws: BrokerError.self) { try await broker.bookmark(named: "") }
        #expect(unnamed?.code == .unsupportedMessage)
        let long = job(String(repeating: "x", count: 1_025))
        let refused = await #expect(throws: BrokerError.self) { try await broker.process(long) }
        #expect(refused?.code == .unsupportedMessage)
        await broker.stop()
    }

    private func waitUntil(_ broker: EmbeddedBroker, waiting: Int, inFlight: Int) async {
        while broker.waitingCount != waiting || broker.inFlightCount != inFlight { await Task.yield() }
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
        #expect(broker.waitingCount == 0)
        try await broker.administer(.resume)
        _ = try await first.completion
        await broker.stop()
        #expect(try store.rows("SELECT id FROM Employee") == ["1"])
    }

    @Test func `a submission that is cancelled throws and has no effect, or returns the job and its end`() async throws
    {
        let broker = try await store.open()
        try await broker.administer(.pause)
        var accepted: [SubmittedJob] = []
        for number in 1...100 {
            let job = Task {
                try await broker.submit(
                    Job(.process(json: #"{"id": \#(number)}"#, as: "Employee"), id: JobID("\(number)")))
            }
            if number.isMultiple(of: 2) { await Task.yield() }
            job.cancel()
            do {
                accepted.append(try await job.value)
            } catch is CancellationError {}
        }
        try await broker.administer(.resume)
        var applied: [String] = []
        for job in accepted {
            do {
                applied.append(try await job.completion.id.text)
            } catch let error as BrokerError {
                #expect(error.code == .cancelled)
            }
        }
        await broker.stop()
        #expect(try store.rows("SELECT id FROM Employee") == applied)
    }

    @Test func `a job without an id that is cancelled before its merge has no effect`() async throws {
        let broker = try await store.open()
        try await broker.administer(.pause)
        let job = Task { try await broker.process(json: #"{"id": 1}"#, as: "Employee") }
        await waitUntil(broker, waiting: 0, inFlight: 1)
        job.cancel()
        await #expect(throws: CancellationError.self) { try await job.value }
        try await broker.administer(.resume)
        await broker.stop()
        #expect(try store.rows("SELECT id FROM Employee") == [])
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
