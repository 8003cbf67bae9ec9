import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

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
        rest.after = first.last
        rest.limit = 1
        let last = try #require(try first.last?.decode(Int.self))
        #expect(try await broker.fetch(rest).decode([Employee].self).map(\.id) == [last + 1])
        await broker.stop()
    }

    @Test func `a reader of a broker that was stopped meanwhile gets an error`() async throws {
        let broker = try await store.open()
        try await fill(broker)
        var answers = broker.results(of: Query("Employee")).makeAsyncIterator()
        #expect(try await answers.next()?.hasMore == true)
        await broker.stop()
        var error: (any Error)?
        do { while try await answers.next() != nil {} } catch let end { error = end }
        #expect((error as? BrokerError)?.code == .draining)
    }
}
