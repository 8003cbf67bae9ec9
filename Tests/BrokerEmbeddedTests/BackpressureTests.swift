import Broker
import InMemoryTracing
import Logging
import TestSupport
import Testing

@testable import BrokerEmbedded

/// More is run than there is room for, is cancelled, or comes while the broker stops.
@Suite(.timeLimit(.minutes(5))) struct BackpressureTests {
    private let store = TestStore()

    private func waitUntil(_ broker: EmbeddedBroker, waiting: Int, inFlight: Int) async {
        while broker.requests.waitingCount != waiting || broker.owned.coordinator.admittedCount != inFlight {
            await Task.yield()
        }
    }

    private func run(_ broker: EmbeddedBroker, _ id: Int) -> Task<Completion, any Error> {
        Task { try await broker.run(.process(json: #"{"id": \#(id)}"#, as: "Employee")) }
    }

    @Test func `calls beyond the available room wait, in order, and none is refused`() async throws {
        let broker = try await store.open { $0.limits.jobs = 2 }
        let locker = try Locker(store.path)
        var tasks: [Task<Completion, any Error>] = []
        for id in 1...40 {
            tasks.append(run(broker, id))
            await waitUntil(broker, waiting: max(0, id - 2), inFlight: min(id, 2))
        }
        try locker.unlock()
        var sequences: [Int64] = []
        for task in tasks { sequences.append(try await task.value.sequence) }
        #expect(sequences == sequences.sorted())
        #expect(try store.rows("SELECT count(*) FROM Employee") == ["40"])
        await broker.close()
    }

    @Test func `a job with an id that is cancelled before its merge has no effect`() async throws {
        let broker = try await store.open()
        // While the store is locked instead, the writer may have begun with both jobs.
        #expect(broker.owned.coordinator.pause())
        let first = run(broker, 1)
        await waitUntil(broker, waiting: 0, inFlight: 1)
        // Some are cancelled while no worker has opened them.
        for number in 0..<100 {
            let named = Task {
                try await broker.run(.process(json: #"{"id": 2}"#, as: "Employee"), id: JobID("\(number)"))
            }
            await waitUntil(broker, waiting: 0, inFlight: number + 2)
            named.cancel()
            await #expect(throws: CancellationError.self) { try await named.value }
        }
        broker.owned.coordinator.resume()
        _ = try await first.value
        #expect(try store.rows("SELECT id FROM Employee") == ["1"])
        await broker.close()
    }

    @Test func `a fetch that is cancelled ends at once`() async throws {
        let broker = try await store.open()
        let locker = try Locker(store.path)
        let job = run(broker, 1)
        await waitUntil(broker, waiting: 0, inFlight: 1)
        // It waits for the job.
        let fetch = Task { try await broker.fetch(.init("Employee")) }
        fetch.cancel()
        await #expect(throws: CancellationError.self) { try await fetch.value }
        try locker.unlock()
        _ = try await job.value
        await broker.close()
    }

    @Test func `a stop finishes what was begun, and refuses what waited and what comes later`() async throws {
        let broker = try await store.open { $0.limits.jobs = 1 }
        let locker = try Locker(store.path)
        let begun = run(broker, 1)
        await waitUntil(broker, waiting: 0, inFlight: 1)
        let waiting = run(broker, 2)
        await waitUntil(broker, waiting: 1, inFlight: 1)
        async let stopped: Void = broker.close()
        let refusal = await #expect(throws: BrokerError.self) { try await waiting.value }
        #expect(refusal?.code == .draining)
        try locker.unlock()
        #expect(try await begun.value.changes["Employee"]?.inserted == 1)
        await stopped
        await broker.close()
        let late = await #expect(throws: BrokerError.self) { try await run(broker, 3).value }
        #expect(late?.code == .draining)
        let fetch = await #expect(throws: BrokerError.self) { try await broker.fetch(.init("Employee")) }
        #expect(fetch?.code == .draining)
        #expect(try store.rows("SELECT id FROM Employee") == ["1"])
    }

    @Test func `many tasks at once lose nothing and repeat nothing`() async throws {
        let broker = try await store.open {
            $0.limits.jobs = 8
            $0.limits.bytes = 4_096
        }
        let inserted = try await withThrowingTaskGroup { group in
            for task in 0..<16 {
                group.addTask {
                    var inserted = 0
                    for number in 0..<50 {
                        let record = #"{"id": \#(task * 25 + number), "name": "\#(task)"}"#
                        let outcome = try await broker.run(.process(json: record, as: "Employee"))
                        inserted += outcome.changes["Employee"]?.inserted ?? 0
                    }
                    return inserted
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(inserted == 425)
        #expect(try store.rows("SELECT count(*) FROM Employee") == ["425"])
        await broker.close()
    }
}

/// The disk fails under a store that is embedded.
@Suite(.timeLimit(.minutes(5))) struct DiskFailureTests {
    private let store = TestStore()

    private func job(_ id: Int) -> Job {
        Job(.process(json: "{\"id\": \(id)}", as: "Employee"), id: JobID("\(id)"))
    }

    @Test func `calls end with an outcome that is not known, later ones are refused, and stopping does not hang`()
        async throws
    {
        try await FaultyDisk.with { disk in
            let broker = try await store.open {
                $0.store.vfs = disk.name
                $0.store.synchronous = .full
            }
            _ = try await broker.process(job(1))
            disk.fail(.sync, number: 1, with: .ioError)
            let failures = await withTaskGroup(of: (any Error)?.self) { group in
                for id in 2...9 {
                    group.addTask {
                        do {
                            _ = try await broker.process(job(id))
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                var failures: [BrokerError] = []
                for await failure in group { failures.append(failure as? BrokerError ?? .closed) }
                return failures
            }
            #expect(failures.count == 8)
            for failure in failures {
                // Those that came when it was known are refused.
                #expect(failure.isOutcomeUnknown && failure != .closed || failure.code == .storeUnavailable)
            }
            #expect(failures.contains { $0.description.contains("the store has failed") })
            let refused = await #expect(throws: BrokerError.self) { _ = try await broker.process(job(10)) }
            #expect(refused?.code == .storeUnavailable)
            await #expect(throws: BrokerError.self) {
                _ = try await broker.fetch(.init("Employee"))
            }
            await broker.close()
        }
        let broker = try await store.open()
        for id in 1...10 { _ = try await broker.process(job(id)) }
        #expect(try store.rows("SELECT count(*) FROM Employee") == ["10"])
        #expect(try await broker.process(job(1)).isDuplicate)
        await broker.close()
    }

    @Test func `a feed that waits ends with an error`() async throws {
        try await FaultyDisk.with { disk in
            let broker = try await store.open {
                $0.store.vfs = disk.name
                $0.store.synchronous = .full
            }
            let (began, begin) = AsyncStream<Void>.makeStream()
            let reading = Task { for try await _ in broker.commits() { begin.yield() } }
            for await _ in began { break }
            disk.fail(.sync, number: 1, with: .ioError)
            await #expect(throws: BrokerError.self) { try await broker.process(job(1)) }
            let error = await #expect(throws: BrokerError.self) { try await reading.value }
            #expect(error?.code == .storeUnavailable)
            await broker.close()
        }
    }
}

/// Iterations over the commits of a store in this process.
@Suite(.timeLimit(.minutes(5))) struct FollowingTests {
    private let store = TestStore()

    private func collect(_ count: Int, of commits: Commits) async throws -> [Commit] {
        var all: [Commit] = []
        for try await commit in commits {
            all.append(commit)
            if all.count == count { break }
        }
        return all
    }

    /// Three jobs that change employees, with others between them.
    private func fill(_ broker: EmbeddedBroker) async throws {
        try await broker.process([Employee(id: 1), Employee(id: 2)], as: "Employee", id: "a")
        try await broker.process(["id": 7], as: "Department", id: "b")
        try await broker.process([Employee(id: 2, name: "n"), Employee(id: 3)], as: "Employee", id: "c")
        try await broker.process([Employee(id: 3)], as: "Employee", id: "d")
        try await broker.delete("Employee", keys: [1], id: "e")
    }

    @Test func `the commits that change an entity come in order, with their keys, after every position`() async throws {
        let broker = try await store.open()
        try await fill(broker)
        let commits = try await collect(3, of: broker.commits(of: ["Employee"], after: 0))
        #expect(commits.map(\.sequence) == [1, 3, 5])
        #expect(commits.map(\.id) == ["a", "c", "e"])
        #expect(commits[1].changes == ["Employee": .init(inserted: 1, updated: 1)])
        let keys = try commits.map { try $0.keys(of: "Employee", as: Int.self) }
        #expect(keys[0].inserted == [1, 2])
        #expect(keys[1].inserted == [3] && keys[1].updated == [2])
        #expect(keys[2].deleted == [1])
        for after in Int64(0)...4 {
            let rest = commits.filter { $0.sequence > after }
            #expect(try await collect(rest.count, of: broker.commits(of: ["Employee"], after: after)) == rest)
        }
        let all = try await collect(4, of: broker.commits(after: 0, reply: .summary))
        #expect(all.map(\.sequence) == [1, 2, 3, 5])
        #expect(throws: BrokerError.self) { try all[0].keys(of: "Employee", as: Int.self) }
        await broker.close()
    }

    @Test func `a feed without a position says where it begins, and has the commits from then on`() async throws {
        let broker = try await store.open()
        try await fill(broker)
        var commits = broker.commits(of: ["Employee"]).makeAsyncIterator()
        #expect(try await commits.next() == Commit(sequence: 5))
        try await broker.process(Employee(id: 9), as: "Employee")
        #expect(try await commits.next()?.sequence == 6)
        // One that waits while the job is applied.
        let waiting = Task { try await collect(1, of: broker.commits(after: 6)) }
        try await broker.process(Employee(id: 10), as: "Employee")
        #expect(try await waiting.value.map(\.sequence) == [7])
        await broker.close()
    }

    @Test func `a feed ends when the broker is stopped, and none begins after that`() async throws {
        let broker = try await store.open()
        let (began, begin) = AsyncStream<Void>.makeStream()
        let reading = Task {
            var count = 0
            for try await _ in broker.commits() {
                count += 1
                begin.yield()
            }
            return count
        }
        for await _ in began { break }
        await broker.close()
        #expect(try await reading.value == 1)
        let error = await #expect(throws: BrokerError.self) { for try await _ in broker.commits() {} }
        #expect(error?.code == .draining)
    }

    @Test func `a feed that is cancelled while it waits ends`() async throws {
        let broker = try await store.open()
        let (began, begin) = AsyncStream<Void>.makeStream()
        let reading = Task { for try await _ in broker.commits() { begin.yield() } }
        for await _ in began { break }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        await broker.close()
    }

    @Test func `an unknown entity and a position that is gone are errors, and the latter has the oldest`() async throws
    {
        let broker = try await store.open { $0.outcomesKept = 2 }
        try await fill(broker)
        var error = await #expect(throws: BrokerError.self) { for try await _ in broker.commits(of: ["Employe"]) {} }
        #expect(error?.code == .unknownEntity)
        error = await #expect(throws: BrokerError.self) { for try await _ in broker.commits(after: 99) {} }
        #expect(error?.code == .gone)
        for number in 0..<20 { try await broker.process(Employee(id: number), as: "Employee") }
        error = await #expect(throws: BrokerError.self) { for try await _ in broker.commits(after: 0) {} }
        #expect(error?.code == .gone)
        let oldest = try #require(error?.fault?.oldest)
        #expect(oldest > 0)
        let rest = try await collect(1, of: broker.commits(after: oldest))
        #expect(rest.map(\.sequence) == [oldest + 1])
        await broker.close()
    }
}

/// JSON text that would add members to a job's message.
@Suite(.timeLimit(.minutes(5))) struct InjectionTests {
    private let store = TestStore()

    @Test(arguments: [
        #"[],"op":"delete","where":"TRUEPREDICATE""#, #"[],"type":"admin","action":"drain""#,
        #"[],"type":"admin","action":"backup","file":"/tmp/copy""#, #"[],"id":"other""#, #"[],"type":"ping""#,
        #"[],"type":"fetch""#, "[] []", "[]}", "",
    ])
    func `a text that is not exactly one value runs nothing`(text: String) async throws {
        let broker = try await store.open()
        _ = try await broker.run(.process([Employee(id: 1, name: "Ada")], as: "Employee"))
        let bytes = Array(text.utf8)
        let operations: [Job.Operation] = [
            .process(json: text, as: "Employee"), .process(json: bytes, as: "Employee"), .processPayload(json: text),
            .sync(json: text, as: "Employee"), try .set("department", of: "Employee", key: 1, to: RawJSON(text)),
            try .update("Employee", key: RawJSON(text), json: "{}"),
            .delete("Employee", where: .init("id == %@", arguments: [.init(text)])),
        ]
        for operation in operations {
            let error = await #expect(throws: BrokerError.self) { _ = try await broker.run(operation) }
            #expect(error?.code == .invalidJSON)
        }
        var fetch = Query("Employee")
        fetch.key = .init(text)
        let error = await #expect(throws: BrokerError.self) { _ = try await broker.fetch(fetch) }
        #expect(error?.code == .invalidJSON)
        #expect(broker.requests.waitingCount == 0 && broker.owned.coordinator.admittedCount == 0)
        #expect(try store.rows("SELECT id, name FROM Employee") == ["1|Ada"])
        await broker.close()
    }
}

@Suite(.timeLimit(.minutes(5))) struct ObservationTests {
    private let store = TestStore()

    /// A broker whose jobs are traced.
    private func open(_ tracer: InMemoryTracer) async throws -> EmbeddedBroker {
        try await EmbeddedBroker.open(
            .file(store.path), .json(TestStore.model), [], .init(), .init(),
            Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() },
            observation: CallObservation(.embedded, tracer: tracer))
    }

    @Test func `the span of a submitted job lasts until the job ends`() async throws {
        let tracer = InMemoryTracer()
        let broker = try await open(tracer)
        try await broker.administer(.pause)
        let job = try await broker.submit(Job(.process(json: #"{"id": 1}"#, as: "Employee"), id: "a"))
        #expect(tracer.finishedSpans.isEmpty && tracer.activeSpans.count == 1)
        try await broker.administer(.resume)
        _ = try await job.completion
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.operationName == "broker job" && span.kind == .internal)
        #expect(span.attributes.get("broker.job.id") == .string("a"))
        #expect(span.attributes.get("broker.job.sequence") == .int64(1))
        await broker.close()
    }

    @Test func `a fetch, an iteration over objects and a commit of a feed are spans`() async throws {
        let tracer = InMemoryTracer()
        let broker = try await open(tracer)
        try await broker.process(json: #"{"id": 1}"#, as: "Employee")
        #expect(try await broker.fetchCount(of: "Employee") == 1)
        #expect(try await broker.objects(RawJSON.self, from: "Employee").collect().count == 1)
        for try await commit in broker.commits(of: ["Employee"], after: 0) where commit.sequence == 1 { break }
        let names = ["broker job", "broker fetch", "broker fetch", "broker commit"]
        #expect(tracer.finishedSpans.map(\.operationName) == names && tracer.activeSpans.isEmpty)
        await #expect(throws: BrokerError.self) { _ = try await broker.fetchCount(of: "Nothing") }
        #expect(tracer.finishedSpans.last?.errors.count == 1)
        await broker.close()
    }

    @Test func `a job that fails, and one that is refused, end their spans with the error`() async throws {
        let tracer = InMemoryTracer()
        let broker = try await open(tracer)
        let failed = try await broker.submit(Job(.process(json: #"{"id": "x"}"#, as: "Employee")))
        await #expect(throws: BrokerError.self) { _ = try await failed.completion }
        await #expect(throws: BrokerError.self) { try await broker.process(json: "{}", as: "Nothing") }
        await #expect(throws: BrokerError.self) {
            _ = try await broker.submit(Job(.process(json: "{", as: "Employee")))
        }
        #expect(tracer.finishedSpans.map(\.errors.count) == [1, 1, 1] && tracer.activeSpans.isEmpty)
        await broker.close()
    }
}
