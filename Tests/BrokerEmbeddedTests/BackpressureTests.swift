import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

/// More is run than there is room for, is cancelled, or comes while the broker stops.
@Suite(.timeLimit(.minutes(5))) struct BackpressureTests {
    private let store = TestStore()

    private func waitUntil(_ broker: EmbeddedBroker, waiting: Int, inFlight: Int) async {
        while broker.waitingCount != waiting || broker.inFlightCount != inFlight { await Task.yield() }
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
        await broker.stop()
    }

    @Test func `a job that is cancelled has no effect, or its call ends with its outcome`() async throws {
        let broker = try await store.open { $0.limits.jobs = 1 }
        let locker = try Locker(store.path)
        let begun = run(broker, 1)
        await waitUntil(broker, waiting: 0, inFlight: 1)
        let waiting = run(broker, 2)
        await waitUntil(broker, waiting: 1, inFlight: 1)
        let behind = run(broker, 3)
        await waitUntil(broker, waiting: 2, inFlight: 1)
        waiting.cancel()
        begun.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(broker.waitingCount == 1)
        try locker.unlock()
        // The writer may have begun with it or not.
        var applied = ["3"]
        do {
            #expect(try await begun.value.changes["Employee"]?.inserted == 1)
            applied = ["1", "3"]
        } catch is CancellationError {}
        _ = try await behind.value
        #expect(try store.rows("SELECT id FROM Employee") == applied)
        await broker.stop()
    }

    @Test func `a job with an id that is cancelled before its merge has no effect`() async throws {
        let broker = try await store.open()
        // While the store is locked instead, the writer may have begun with both jobs.
        #expect(broker.pauseMerging())
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
        broker.resumeMerging()
        _ = try await first.value
        #expect(try store.rows("SELECT id FROM Employee") == ["1"])
        await broker.stop()
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
        await broker.stop()
    }

    @Test func `a stop finishes what was begun, and refuses what waited and what comes later`() async throws {
        let broker = try await store.open { $0.limits.jobs = 1 }
        let locker = try Locker(store.path)
        let begun = run(broker, 1)
        await waitUntil(broker, waiting: 0, inFlight: 1)
        let waiting = run(broker, 2)
        await waitUntil(broker, waiting: 1, inFlight: 1)
        async let stopped: Void = broker.stop()
        let refusal = await #expect(throws: BrokerError.self) { try await waiting.value }
        #expect(refusal?.code == .draining)
        try locker.unlock()
        #expect(try await begun.value.changes["Employee"]?.inserted == 1)
        await stopped
        await broker.stop()
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
        await broker.stop()
    }
}
