import Broker
import BrokerClient
import Testing

/// Fields of jobs that an earlier server would ignore.
@Suite(.timeLimit(.minutes(5))) struct FeatureTests {
    @Test func `a dry run, a limit, or a bookmark is not sent to a server that does not know it`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let changes: [(inout Job) -> Void] = [
            { $0.isDryRun = true }, { $0.maximumDeletions = .objects(1) }, { $0.bookmark = Job.Bookmark("a", "b") },
        ]
        for change in changes {
            var job = Job(Job.Operation(entity: "Row", .delete(RawJSON("[1]"))))
            change(&job)
            await #expect { try await client.process(job) } throws: { ($0 as? BrokerError)?.code == .unsupported }
        }
        await #expect { try await client.bookmark(named: "a") } throws: { ($0 as? BrokerError)?.code == .unsupported }
        client.close()
        try await server.stop()
    }
}
