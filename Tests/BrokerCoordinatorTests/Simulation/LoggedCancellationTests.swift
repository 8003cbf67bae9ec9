import BrokerStore
import Testing

@testable import BrokerCoordinator

/// A request to take a job back, while the log has no room for the job.
@Suite(.timeLimit(.minutes(5))) struct LoggedCancellationTests {
    @Test(arguments: [false, true])
    func `a job that the journal has no room for ends once, and its cancellation comes too late`(hasEnded: Bool) throws
    {
        var store = SimulatedStore(nil)
        var server = SimulatedServer(run: 0, CoordinatorLimits(workers: 1), nil, store: &store, disk: SimulatedDisk())
        let ticket = try server.admit(0, 0, from: 1)
        let frame = server.opening.removeFirst()
        server.open(frame, SimulatedMessage(kind: .job, client: 0, owner: .server, id: "a"))
        // The journal is writing the job when it is cancelled, and has room again for the cancellation.
        server.gather()
        server.cancel("a", before: ticket + 1, as: .server, 1)
        try server.reportSynced(isFull: true)
        server.stage(0)
        if hasEnded { end(&server, &store) }
        server.gather()
        try server.reportSynced(isFull: false)
        if !hasEnded { end(&server, &store) }
        for notify in server.completions { notify() }

        var ends = 0
        var answers: [String] = []
        for notice in server.notices.withLock({ $0 }) {
            switch notice {
            case .event(_, .ended): ends += 1
            case .cancellation(_, let answer): answers.append("\(answer)")
            default: break
            }
        }
        #expect(ends == 1)
        #expect(answers == ["tooLate"])
        #expect(server.jobTable.count == 0 && server.jobTable.cancelled.isEmpty)
    }

    private func end(_ server: inout SimulatedServer, _ store: inout SimulatedStore) {
        server.takeBatch(&store) { _, _, _ in }
        server.commit(&store, fails: false)
        server.settleTransaction(took: 0)
    }

    @Test func `a job that the journal had no room for is too late to be cancelled`() throws {
        var store = SimulatedStore(nil)
        var server = SimulatedServer(run: 0, CoordinatorLimits(workers: 1), nil, store: &store, disk: SimulatedDisk())
        let ticket = try server.admit(0, 0, from: 1)
        let frame = server.opening.removeFirst()
        server.open(frame, SimulatedMessage(kind: .job, client: 0, owner: .server, id: "a"))
        server.gather()
        try server.reportSynced(isFull: true)
        server.cancel("a", before: ticket + 1, as: .server, 1)
        #expect(server.log?.hasWaiting == false)
    }
}
