import Broker
import BrokerClient
import Testing

/// Fields of jobs that an earlier server would ignore.
@Suite(.timeLimit(.minutes(1))) struct FeatureTests {
    @Test func `a dry run, or a limit, is not sent to a server that does not know it`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        for change in [{ $0.isDryRun = true }, { $0.maximumDeletions = .objects(1) }] as [(inout Job) -> Void] {
            var job = Job(Job.Operation(entity: "Row", .delete(RawJSON("[1]"))))
            change(&job)
            await #expect { try await client.process(job) } throws: { ($0 as? BrokerError)?.code == .unsupported }
        }
        client.close()
        try await server.stop()
    }
}
