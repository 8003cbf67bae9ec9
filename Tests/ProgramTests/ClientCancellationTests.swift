import Broker
import BrokerClient
import Foundation
import Testing

/// A client that cancels jobs, with a real brokerd.
@Suite(.timeLimit(.minutes(5))) struct ClientCancellationTests {
    private func ids(_ programs: Programs) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows("SELECT id FROM Employee ORDER BY id")
    }

    private func job(_ number: Int) -> Job {
        let record = Array(#"{"id": \#(number)}"#.utf8)
        return Job(.process(json: record, as: "Employee"), id: JobID("job \(number)"))
    }

    /// Returns when the server knows of that many jobs that have not ended.
    private func wait(_ client: BrokerClient, forJobsInFlight count: Int) async throws {
        while !(try await client.statistics().jobs.inFlight == count) {}
    }

    @Test func `a cancelled task cancels its job, and a job handle cancels its own`() async throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let client = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        try await client.administer(.pause)
        let waiting = Task { try await client.process(job(1)) }
        try await wait(client, forJobsInFlight: 1)
        let ticket = try await client.submit(job(2))
        let remaining = try await client.submit(job(3))
        waiting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        try await client.cancel(ticket.id)
        let end = await #expect(throws: BrokerError.self) { _ = try await ticket.completion }
        #expect(end?.code == .cancelled)
        try await client.administer(.resume)
        #expect(try await remaining.completion.sequence == 3)
        let late = await #expect(throws: BrokerError.self) { try await client.cancel(remaining.id) }
        #expect(late?.code == .tooLate)
        let unknown = await #expect(throws: BrokerError.self) { try await client.cancel("nobody") }
        #expect(unknown?.code == .unknownJob)
        // It does not hold its id.
        #expect(try await client.process(job(1)).isDuplicate == false)
        #expect(try ids(programs) == ["1", "3"])
        client.close()
    }

    @Test func `a job that is cancelled at any time has an effect exactly if its task gets a completion`() async throws
    {
        let programs = try Programs()
        _ = try programs.startServer()
        let client = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        var committed: [Int] = []
        var cancelledCount = 0
        for number in 1...300 {
            let waiting = Task { try await client.process(job(number)) }
            for _ in 0..<number % 30 { await Task.yield() }
            waiting.cancel()
            do {
                _ = try await waiting.value
                committed.append(number)
            } catch is CancellationError {
                cancelledCount += 1
            }
        }
        print("\(committed.count) jobs were committed, \(cancelledCount) cancelled")
        // No further event is on its way.
        try await client.ping()
        #expect(try ids(programs) == committed.map(String.init))
        client.close()
    }

    @Test func `a server that dies while a job is being cancelled leaves the job's outcome unknown`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let client = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        try await client.administer(.pause)
        let waiting = Task { try await client.process(job(1)) }
        try await wait(client, forJobsInFlight: 1)
        kill(server.processIdentifier, SIGSTOP)
        waiting.cancel()
        kill(server.processIdentifier, SIGKILL)
        let error = await #expect(throws: BrokerError.self) { _ = try await waiting.value }
        #expect(error?.isOutcomeUnknown == true, "\(String(describing: error))")
        #expect(error?.description.contains("The outcome of the job \"job 1\" is not known: `await`") == true)
        server.waitUntilExit()
        // It is not sent to the next one.
        _ = try programs.startServer()
        #expect(try await client.process(job(2)).changes["Employee"]?.inserted == 1)
        #expect(try ids(programs) == ["2"])
        client.close()
    }
}
