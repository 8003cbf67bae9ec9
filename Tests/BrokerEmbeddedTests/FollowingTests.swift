import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

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
        await broker.stop()
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
        await broker.stop()
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
        await broker.stop()
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
        await broker.stop()
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
        await broker.stop()
    }
}
