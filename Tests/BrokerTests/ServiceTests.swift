import Broker
import Foundation
import Synchronization
import Testing

/// A double that a program's tests would have: it keeps the jobs, and has none of the other calls.
private final class Recorder: BrokerService {
    let jobs = Mutex<[Job]>([])

    func process(_ job: Job) async throws -> Completion {
        jobs.withLock { $0.append(job) }
        return Completion(id: job.id ?? "none", sequence: 1)
    }

    func close() {}
}

@Suite(.timeLimit(.minutes(5))) struct ServiceTests {
    private struct Record: Codable {
        var id: Int
    }

    /// Counts how many of them are encoded, and may end the task in the first.
    private struct Counted: Encodable {
        let count: Counter
        let isLate: @Sendable () -> Void

        func encode(to encoder: any Encoder) throws {
            if count.next() == 1 { isLate() }
            var container = encoder.singleValueContainer()
            try container.encode(["id": 1])
        }
    }

    private final class Counter: Sendable {
        private let count = Atomic(0)

        var value: Int { count.load(ordering: .relaxed) }

        func next() -> Int { count.add(1, ordering: .relaxed).newValue }
    }

    @Test func `a double implements the calls that it needs, and the others say that they are not there`() async throws
    {
        let broker = Recorder()
        let number = 7
        let completion = try await broker.process([Record(id: 1)], as: "Employee", id: "load-\(number)")
        #expect(completion.id == "load-7")
        #expect(broker.jobs.withLock { $0.map(\.id) } == ["load-7"])
        let calls: [(Recorder) async throws -> Void] = [
            { _ = try await $0.fetchCount(of: "Employee") },
            { _ = try await $0.submit(Job(.delete("E", where: .all))) },
            { _ = try await $0.completion(of: "a") }, { try await $0.cancel("a") }, { _ = try await $0.statistics() },
            { _ = try await $0.objects(Record.self, from: "E").collect() }, { for try await _ in $0.commits() {} },
            { _ = try await $0.bookmark(named: "a") }, { _ = try await $0.model() },
            { try await $0.administer(.pause) }, { _ = try await $0.backUp(to: "/a") },
        ]
        for call in calls {
            let error = await #expect(throws: BrokerError.self) { try await call(broker) }
            #expect(error?.code == .unsupported && error?.message.contains("Recorder") == true)
        }
        broker.close()
    }

    @Test func `a link is ended by nil, and a predicate compares with it`() async throws {
        let broker = Recorder()
        try await broker.set("boss", of: "Employee", key: 3, to: nil)
        let ended = try Job.Operation.set("boss", of: "Employee", key: 3, json: "null")
        #expect(broker.jobs.withLock { $0[0].operations } == [ended])
        let predicate: BrokerPredicate = "boss == \(nil)"
        #expect(predicate.arguments == [RawJSON("null")])
    }

    @Test func `encoding ends when the time of the call is over`() async {
        let (broker, count) = (Recorder(), Counter())
        // The first record takes all of the time.
        let record = Counted(count: count) {
            let begin = ContinuousClock.now
            while ContinuousClock.now - begin < .milliseconds(2) {}
        }
        let error = await #expect(throws: BrokerError.self) {
            try await broker.process(Array(repeating: record, count: 10_000), as: "E", timeout: .milliseconds(1))
        }
        #expect(error?.code == .timedOut && count.value < 100 && broker.jobs.withLock { $0.isEmpty })
    }

    @Test func `encoding ends when the task is cancelled`() async {
        let (broker, count) = (Recorder(), Counter())
        let records = Array(
            repeating: Counted(count: count) { withUnsafeCurrentTask { $0?.cancel() } }, count: 10_000)
        let dictionary = Dictionary(uniqueKeysWithValues: records.enumerated().map { ("\($0.offset)", $0.element) })
        await #expect(throws: CancellationError.self) {
            try await Task { try await broker.process(records, as: "E") }.value
        }
        #expect((1..<100).contains(count.value))
        await #expect(throws: CancellationError.self) {
            try await Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await broker.process(dictionary, as: "E")
            }.value
        }
        #expect((1..<200).contains(count.value) && broker.jobs.withLock { $0.isEmpty })
    }

    @Test func `a completion is printed as the table of the command`() {
        let completion = Completion(
            id: "load-1", sequence: 7, changes: ["Employee": .init(inserted: 2), "Pet": .init(deleted: 1)],
            rejections: [.init(code: .missingValue, message: "No id.", path: "/json/3")],
            warnings: [.init(code: .unknownKey, entity: "Pet", key: "x", count: 4)])
        #expect(
            "\(completion)" == """
                entity     inserted    updated  unchanged    deleted   rejected
                Employee          2          0          0          0          0
                Pet               0          0          0          1          0
                rejected: missingValue at /json/3: No id.
                warning: unknownKey Pet.x (4)
                load-1: committed as job 7
                """)
    }

    @Test func `an error has its message where Foundation asks for a text`() {
        let error: any Error = BrokerError(.closed, "The client was closed.")
        #expect(error.localizedDescription == "The client was closed.")
    }
}
