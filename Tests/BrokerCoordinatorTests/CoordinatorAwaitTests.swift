import BrokerStore
import Testing
import TestSupport

@testable import BrokerCoordinator

/// The end that a caller gets who awaits an id of several jobs.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorAwaitTests {
    private let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
    private let good = #"{"Row": {"id": 1}}"#
    private let other = #"{"Row": {"id": 2}}"#
    private let bad = #"{"Row": {"id": "x"}}"#

    /// A coordinator whose jobs are accepted and none of them merged, until the store is unlocked.
    private func held() throws -> (test: TestCoordinator, lock: Locker) {
        let test = try TestCoordinator(model)
        return (test, try Locker(test.storePath))
    }

    /// Asks, and waits until the question has been asked.
    private func ask(_ test: TestCoordinator, _ id: String) -> Monitor<Awaited?> {
        let awaited = test.admitAwaiting(id)
        #expect(test.admitAwaiting("never").answer == .unknown)
        return awaited
    }

    @Test func `the committed outcome is returned, not the conflict of a later job of the same id`() throws {
        let (test, lock) = try held()
        test.submit(good, id: "job")
        test.submit(other, id: "job")
        let awaited = ask(test, "job")
        try lock.unlock()
        #expect(awaited.answer.ending?.sequence == 1)
        #expect(awaited.answer.ending?.code == nil)
        #expect(test.events.ends(2).map(\.code) == [nil, "idConflict"])
        #expect(test.await("job").ending?.sequence == 1)
    }

    @Test func `the committed outcome is returned at once, though a conflict and a duplicate are in flight`() throws {
        let test = try TestCoordinator(model)
        test.submit(good, id: "job")
        _ = test.events.ends(1)
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit(good, id: "job")
        test.submit(other, id: "job")
        test.waitUntil(#""accepted":3,"#)
        #expect(test.await("job").ending?.sequence == 1)
        #expect(test.await("job").ending?.isDuplicate == false)
        gate.open()
        #expect(test.events.ends(4).map(\.code) == [nil, nil, nil, "idConflict"])
    }

    @Test func `a conflict that ends while a caller awaits it returns the committed outcome, not its own`() throws {
        let test = try TestCoordinator(model)
        test.submit(good, id: "job")
        _ = test.events.ends(1)
        let lock = try Locker(test.storePath)
        test.submit(other, id: "job")
        // The ledger's thread is held, so that only the writer can answer.
        let gate = Gate()
        test.coordinator.await("never") { _ in gate.pass() }
        let awaited = test.admitAwaiting("job")
        test.submit("{}", id: "after the question", wantsAcceptance: true)
        test.events.waitUntil("accepted after the question 3")
        try lock.unlock()
        #expect(awaited.answer.ending?.sequence == 1)
        #expect(awaited.answer.ending?.code == nil)
        gate.open()
        #expect(test.events.ends(3).map(\.code) == [nil, "idConflict", nil])
    }

    @Test func `after a corrected job is sent again, the end of the newer one is returned`() throws {
        let (test, lock) = try held()
        for job in [bad, bad, good] { test.submit(job, id: "job") }
        let awaited = ask(test, "job")
        try lock.unlock()
        #expect(awaited.answer.ending?.sequence == 3)
        #expect(awaited.answer.ending?.code == nil)
    }

    @Test func `a failure is returned to a caller that asked before the job was sent again`() throws {
        let (test, lock) = try held()
        test.submit(bad, id: "job")
        let first = ask(test, "job")
        test.submit(bad, id: "job")
        let second = ask(test, "job")
        try lock.unlock()
        #expect(first.answer.ending?.sequence == 1)
        #expect(second.answer.ending?.sequence == 2)
        #expect(second.answer.ending?.code == "invalidValue")
    }

    @Test func `a job that is sent after the question is not waited for`() throws {
        let test = try TestCoordinator(model)
        let gate = Gate()
        let awaited = test.admitAwaiting("job")
        #expect(awaited.answer == .unknown)
        test.submit("{}", behind: gate)
        test.submit(good, id: "other")
        #expect(test.await("job") == .unknown)
        gate.open()
    }

    @Test func `ids that differ in Unicode form only are two jobs`() throws {
        let test = try TestCoordinator(model)
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit(good, id: "e\u{301}")
        test.waitUntil(#""accepted":1,"#)
        #expect(test.await("\u{e9}") == .unknown)
        let awaited = test.startAwaiting("e\u{301}")
        test.submit(other, id: "\u{e9}")
        gate.open()
        #expect(awaited.answer.ending?.sequence == 2)
        #expect(test.events.ends(3).map(\.code) == [nil, nil, nil])
        #expect(test.await("\u{e9}").ending?.sequence == 3)
        #expect(test.await("e\u{301}").ending?.sequence == 2)
    }

    @Test func `a failure that the store could not record is returned, and recorded later`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(
                #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#,
                in: folder
            ) { $0.store.maximumPages = 60 }
            let text = String(repeating: "x", count: 600_000)
            test.submit("{\"Row\": {\"id\": 2, \"text\": \"\(text)\"}}", id: "large")
            #expect(test.events.ends(1).map(\.code) == ["storeFull"])
            #expect(test.await("large").ending?.code == "storeFull")
            #expect(test.await("large").ending?.sequence == 1)
            test.submit(#"{"Row": {"id": 3}}"#, id: "small")
            _ = test.events.ends(2)
        }
        let outcomes = try SQLRows.of(
            "SELECT sequence, id, failed FROM _broker_jobs ORDER BY sequence", in: folder.path("store.sqlite"))
        #expect(outcomes == ["1|large|1", "2|small|0"])
    }
}

/// The waiters of the job table, as pure values.
@Suite(.timeLimit(.minutes(5))) struct RunningJobsTests {
    private let id = JobID("job")
    private let ending = JobCompletion(id: "job", owner: nil, sequence: 1, result: .failed(error: []))

    private func ask(_ running: inout RunningJobs) -> RunningJobs.Wait? { running.await(id, before: nil, waiter()) }

    private func waiter(
        as asker: JobOwner = .server, _ notify: @escaping @Sendable (JobCompletion) -> Void = { _ in }
    ) -> RunningJobs.Waiter { RunningJobs.Waiter(asker: asker, notify: notify) }

    private func begin(_ running: inout RunningJobs, _ ticket: Int, of owner: JobOwner = .server) {
        running.began(id, ticket, of: owner) { _ in }
    }

    @Test func `jobs of one id end in the order of their tickets, however they were opened`() {
        let notified = Monitor<[Int]>([])
        var running = RunningJobs()
        for ticket in [5, 3, 9, 7] { begin(&running, ticket) }
        for ticket in [4, 6, 8, 10] {
            let ticket = running.await(id, before: ticket, waiter { _ in notified.withLock { $0.append(ticket) } })
            #expect(ticket != nil)
        }
        let early = running.await(id, before: 3, waiter())
        #expect(early == nil)
        for _ in 0..<4 { for one in running.ended(id, isCommitted: false, owner: .server) { one.notify(ending) } }
        #expect(notified.withLock { $0 } == [4, 6, 8, 10])
        #expect(running.isEmpty)
    }

    @Test func `a committed job's end is returned to all callers that await the id`() {
        var running = RunningJobs()
        for ticket in 0..<3 { begin(&running, ticket) }
        for ticket in 1...3 { _ = running.await(id, before: ticket, waiter()) }
        let notified = [true, true, false].map { running.ended(id, isCommitted: $0, owner: .server).count }
        #expect(notified == [3, 0, 0])
        #expect(running.isEmpty)
    }

    @Test func `a forgotten waiter is not called, and can be forgotten only once`() {
        var running = RunningJobs()
        begin(&running, 0)
        guard let ticket = ask(&running) else { return }
        let forgotten = (0..<2).map { _ in running.forget(ticket) }
        #expect(forgotten == [true, false])
        guard let other = ask(&running) else { return }
        let notified = running.ended(id, isCommitted: false, owner: .server)
        #expect(notified.count == 1)
        let isForgotten = running.forget(other)
        #expect(!isForgotten)
    }

    @Test func `another user's job cannot be awaited, and its commit is not reported`() {
        let (one, other) = (JobOwner(user: 12_345), JobOwner(user: 54_321))
        var running = RunningJobs()
        begin(&running, 0, of: one)
        begin(&running, 1, of: other)
        #expect(running.await(id, before: 1, waiter(as: other)) == nil)
        #expect(running.await(id, before: nil, waiter(as: other)) != nil)
        #expect(running.find(id, before: nil, as: other).map(\.ticket) == [1])
        #expect(running.find(id, before: nil, as: .server).map(\.ticket) == [0, 1])
        let notified = (0..<2).map { _ in running.ended(id, isCommitted: true, owner: one).count }
        #expect(notified == [0, 1])
    }
}
