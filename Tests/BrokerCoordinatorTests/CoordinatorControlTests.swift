import BrokerJournal
import BrokerModel
import BrokerStore
import Synchronization
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Cancelled jobs, and a paused writer.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorControlTests {
    private let otherUser = JobOwner(user: 54_321)

    @Test func `a fetch waits for the jobs of its own source that are held back, and for no others`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", from: 1)
        let answers = Monitor<[Int: String]>([:])
        for source in [1, 2] {
            let request = try test.coordinator.plan.fetchRequest(FetchDescription(entity: "Row"))
            test.coordinator.fetch(request, from: source) { end in
                answers.update {
                    if case .found(let objects) = end { $0[source] = String(decoding: objects.bytes, as: UTF8.self) }
                }
            }
        }
        #expect(answers.patiently("the other source's fetch") { $0[2] } == "[]")
        #expect(answers.withLock { $0[1] } == nil)
        test.coordinator.resume()
        #expect(answers.patiently("the source's own fetch") { $0[1] }.hasPrefix(#"[{"id":1,"#))
    }

    @Test func `a job that is being staged is cancelled, too`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        let rows = (1...20_000).map { "{\"id\": \($0)}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", accepted: 1)
        #expect(test.cancel("large") == "cancelled")
        test.submit(row(7), id: "small")
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", nil])
        #expect(try test.rows("SELECT id FROM Row") == ["7"])
    }

    @Test func `a cancelled id can be used again, and an ended job is too late to cancel`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", accepted: 1)
        #expect(test.cancel("a") == "cancelled")
        test.submit(row(1, 5), id: "a", accepted: 2)
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", nil])
        #expect(try test.rows("SELECT value FROM Row") == ["5"])
        #expect(test.cancel("a") == "tooLate")
        #expect(test.cancel("nobody's") == "unknown")
        #expect(test.await("a").ending?.code == nil)
    }

    @Test func `a cancellation that comes too late says whether the job is committed, has failed, or is merged now`()
        throws
    {
        let test = try TestCoordinator()
        test.submit(row(1), id: "good", ends: 1)
        test.submit(#"{"Row": {"id": "x"}}"#, id: "bad", ends: 2)
        func reason(_ id: String) -> (message: String, committedAs: Int64?)? {
            guard case .tooLate(let end) = answer({ test.coordinator.cancel(id, $0) }) else { return nil }
            return Cancellation.explanation(end, of: id)
        }
        let (good, bad) = (try #require(reason("good")), try #require(reason("bad")))
        #expect(good.committedAs == 1 && good.message.contains("committed already, with the sequence 1"))
        #expect(bad.committedAs == nil && bad.message.contains("failed already"))
        let merging = Cancellation.explanation(nil, of: "x")
        #expect(merging.committedAs == nil && merging.message.contains("cannot be stopped"))
        #expect(reason("nobody's") == nil)
    }

    @Test func `a user with as many bytes in flight as it may have waits, and others do not`() throws {
        let test = try TestCoordinator()
        var limit = UserLimit()
        limit.others = 50
        test.coordinator.limitBytesInFlight(limit)
        _ = test.coordinator.pause()
        let user = otherUser.user
        #expect(test.coordinator.hasRoom(for: 1, of: user))
        test.submit(row(1), id: "a", from: 1, as: otherUser, accepted: 1)
        #expect(!test.coordinator.hasRoom(for: 1, of: user) && !test.coordinator.hasRoom(for: 2, of: user))
        #expect(test.coordinator.hasRoom(for: 1, of: user + 1) && test.coordinator.hasRoom(for: 1))
        let called = Monitor(0)
        for source in 1...2 { test.coordinator.whenRoom(for: source, of: user) { called.update { $0 += 1 } } }
        #expect(called.withLock { $0 } == 0)
        test.coordinator.resume()
        _ = test.events.ends(1)
        called.patiently("room") { $0 == 2 ? () : nil }
        #expect(test.coordinator.hasRoom(for: 1, of: user))
    }

    @Test func `a user that waits for its bytes in flight goes on when it may have more`() throws {
        let test = try TestCoordinator()
        var limit = UserLimit()
        limit.own = [otherUser.user: 1]
        test.coordinator.limitBytesInFlight(limit)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", from: 1, as: otherUser, accepted: 1)
        let isCalled = Monitor(false)
        test.coordinator.whenRoom(for: 1, of: otherUser.user) { isCalled.update { $0 = true } }
        #expect(!isCalled.withLock { $0 })
        limit.own = [otherUser.user: 1 << 20]
        test.coordinator.limitBytesInFlight(limit)
        #expect(isCalled.withLock { $0 })
    }

    @Test func `the last jobs that ended are known with their contents, and older ones as the ledger has them`() throws
    {
        let test = try TestCoordinator()
        func ended(_ id: String, as asker: JobOwner = .server) throws -> [EndedJob] {
            try answer { test.coordinator.endedJobs(of: id, as: asker, $0) }.get()
        }
        test.submit(row(1), id: "a", as: otherUser, ends: 1) { $0.client = "loader" }
        let known = try #require(ended("a").first)
        let details = try #require(known.details)
        #expect(known.sequence == 1 && known.owner == otherUser && !known.isFailed)
        #expect(details.client == "loader" && details.records == 1 && details.times.total > 0)
        #expect(details.operations == ["process"] && details.entities == ["Row"])
        #expect(try ended("a", as: JobOwner(user: 7)).isEmpty && ended("b").isEmpty)
        for number in 0..<EndedJobs.maximumCount { test.submit(row(number), id: "other \(number)") }
        _ = test.events.ends(EndedJobs.maximumCount + 1)
        let stored = try #require(ended("a").first)
        #expect(stored.details == nil && stored.sequence == 1 && stored.owner == otherUser)
        #expect(try ended("other 0").first?.details != nil)
    }

    @Test func `jobs that were sent twice are cancelled together`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        for _ in 0..<2 { test.submit(row(1), id: "a", wantsAcceptance: true) }
        test.events.waitUntil("accepted a 2")
        #expect(test.cancel("a") == "cancelled")
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", "cancelled"])
        #expect(try test.rows("SELECT count(*) FROM Row") == ["0"])
    }

    @Test func `a caller that awaits a job gets its cancellation at once`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", accepted: 1)
        let awaited = test.startAwaiting("a")
        #expect(test.cancel("a") == "cancelled")
        #expect(awaited.answer.ending?.code == "cancelled")
    }

    @Test func `an await after a cancel is answered at once, while merging is paused`() throws {
        let test = try TestCoordinator()
        test.submit(row(1), id: "done", ends: 1)
        _ = test.coordinator.pause()
        for id in ["a", "a", "done", "b"] { test.submit(row(2), id: id, wantsAcceptance: true) }
        test.events.waitUntil("accepted b 5")
        for id in ["a", "done", "b"] { #expect(test.cancel(id) == "cancelled") }
        let end = test.await("a").ending
        #expect(end?.code == "cancelled")
        #expect(end?.sequence == 3)
        #expect(test.admitAwaiting("b").answer.ending?.code == "cancelled")
        // The client gets the committed outcome of the id.
        #expect(test.await("done").ending?.sequence == 1)
        // A job that was sent again may still be committed.
        test.submit(row(3), id: "a", accepted: 6)
        let awaited = test.startAwaiting("a")
        test.coordinator.resume()
        #expect(awaited.answer.ending?.sequence == 6)
        #expect(test.await("b").ending?.code == "cancelled")
    }

    @Test func `no client can cancel, await or repeat another user's job`() throws {
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", as: JobOwner(user: 12_345), accepted: 1)
        #expect(test.cancel("a", as: otherUser) == "unknown")
        test.submit(row(1), id: "a", as: otherUser)
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == [nil, "idConflict"])
        let asked = Monitor<Awaited?>(nil)
        test.coordinator.await("a", as: otherUser) { asked.notify($0) }
        #expect(asked.answer == .unknown)
        #expect(test.cancel("a", as: otherUser) == "unknown")
        // The server's own user sees it all.
        #expect(test.await("a").ending?.sequence == 1)
        test.submit(row(1), id: "a")
        #expect(test.events.ends(3)[2].isDuplicate)
    }
}

@Suite(.timeLimit(.minutes(5))) struct JobProgressTests {
    @Test func `progress is sent at once, then ten times a second at most, and nothing is counted twice`() {
        let events = Monitor<[String]>([])
        let completions = SerialThread(named: "test")
        let progress = JobProgress(JobID("a"), waitsForAcceptance: false, completions) { event in
            if case .progress(let id, let staged, let merged) = event {
                events.withLock { $0.append("\(id) \(staged) \(merged)") }
            }
        }
        let start = monotonicMicroseconds()
        progress.note(staged: 10)
        var count = 1
        while events.withLock({ $0.count }) < 3 {
            progress.note(merged: 1)
            count += 1
        }
        let tenths = Int(monotonicMicroseconds() - start) / 100_000
        completions.stop()
        let lines = events.withLock { $0 }
        #expect(lines.first == "a 10 0")
        #expect(
            count > lines.count && lines.count <= tenths + 1, "\(lines) of \(count) in \(tenths) tenths of a second")
    }

    @Test func `no event precedes the acceptance, and it is sent at once`() {
        let events = Monitor<[String]>([])
        let completions = SerialThread(named: "test")
        let progress = JobProgress(JobID("a"), waitsForAcceptance: true, completions) { event in
            if case .progress(_, let staged, let merged) = event {
                events.withLock { $0.append("\(staged) \(merged)") }
            }
        }
        progress.note(staged: 10)
        progress.note(merged: 1)
        completions.run { events.withLock { $0.append("accepted") } }
        completions.run { progress.accepted() }
        completions.run { events.withLock { $0.append("ended") } }
        completions.stop()
        #expect(events.withLock { $0 } == ["accepted", "10 1", "ended"])
    }
}

/// The end that a caller gets who awaits an id of several jobs.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorAwaitTests {
    private let good = #"{"Row": {"id": 1}}"#
    private let other = #"{"Row": {"id": 2}}"#
    private let bad = #"{"Row": {"id": "x"}}"#

    /// A coordinator whose jobs are accepted and none of them merged, until the store is unlocked.
    private func held() throws -> (test: TestCoordinator, lock: Locker) {
        let test = try TestCoordinator()
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
        let test = try TestCoordinator()
        test.submit(good, id: "job", ends: 1)
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
        let test = try TestCoordinator()
        test.submit(good, id: "job", ends: 1)
        let lock = try Locker(test.storePath)
        test.submit(other, id: "job")
        // The ledger's thread is held, so that only the writer can answer.
        let gate = Gate()
        test.coordinator.await("never") { _ in gate.pass() }
        let awaited = test.admitAwaiting("job")
        test.submit("{}", id: "after the question", accepted: 3)
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
        let test = try TestCoordinator()
        let gate = Gate()
        let awaited = test.admitAwaiting("job")
        #expect(awaited.answer == .unknown)
        test.submit("{}", behind: gate)
        test.submit(good, id: "other")
        #expect(test.await("job") == .unknown)
        gate.open()
    }

    @Test func `ids that differ in Unicode form only are two jobs`() throws {
        let test = try TestCoordinator()
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
            let test = try TestCoordinator(in: folder) { $0.store.maximumPages = 60 }
            let text = String(repeating: "x", count: 600_000)
            test.submit("{\"Row\": {\"id\": 2, \"text\": \"\(text)\"}}", id: "large")
            #expect(test.events.ends(1).map(\.code) == ["storeFull"])
            #expect(test.await("large").ending?.code == "storeFull")
            #expect(test.await("large").ending?.sequence == 1)
            #expect(test.failedJobs(FailureFilter(code: "storeFull")) == ["large"])
            #expect(test.failedJobs(FailureFilter(code: "busy")) == [])
            test.submit(#"{"Row": {"id": 3}}"#, id: "small", ends: 2)
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
        running.began(.test(id.text, at: ticket, of: owner))
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
        for count in 1...4 {
            for one in running.ended(id, isCommitted: false, owner: .server) { one.notify(ending) }
            #expect(notified.withLock { $0 } == Array([4, 6, 8, 10].prefix(count)))
        }
        #expect(running.jobs.isEmpty)
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
}

/// Jobs that may look at all objects, and those of others beside them.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorSearchTests {
    private let test: TestCoordinator
    /// Delays the order: nothing after it ends before it is opened. It leaves one thread to open frames in order.
    private let gate = Gate()

    init() throws {
        test = try TestCoordinator { $0.limits.workers = 1 }
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]}"#, id: "gate", behind: gate, from: 9)
    }

    private func search(_ id: Int, from source: Int) {
        test.submit(#"{"Row": null}"#, id: "search \(id)", deletingWhere: "id == \(id)", from: source)
    }

    /// The ids of so many jobs in the order of their ends, which is that of their sequences.
    private func ends(_ count: Int) -> [String] {
        let ends = test.events.ends(count)
        #expect(ends.map(\.sequence) == (1...count).map { Int64($0) })
        #expect(ends.allSatisfy { $0.code == nil })
        return ends.map(\.id)
    }

    @Test func `a flood of searches lets another source's job pass, and takes effect as sent`() throws {
        for number in 1...3 { search(number, from: 1) }
        test.submit(#"{"Row": {"id": 3}}"#, id: "same source", from: 1)
        test.submit(#"{"Row": {"id": 5}}"#, id: "good", from: 2)
        // The first search, and the good one; and the others have been looked at before the first has ended.
        test.waitUntil(unopened: 1)
        test.waitUntil(#""accepted":2,"#)
        gate.open()
        #expect(ends(6) == ["gate", "search 1", "good", "search 2", "search 3", "same source"])
        #expect(try test.rows("SELECT id FROM Row ORDER BY id") == ["3", "4", "5"])
        test.waitUntil(#""staging":0,"bytes":0,"#)
    }

    @Test func `a flood of jobs that end all links of an object lets another user's job pass`() throws {
        self.gate.open()
        let model = """
            {"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"parts": {"entity": "Part", "toMany": true, "owned": true}}},
                "Part": {"identity": "id", "attributes": {"id": "integer64"}}}}
            """
        let gate = Gate()
        let test = try TestCoordinator(model) { $0.limits.workers = 1 }
        test.submit(#"{"Row": {"id": 1}}"#, id: "gate", behind: gate, from: 9)
        for number in 1...20 {
            let source = number % 2
            test.submit(#"{"Row": {"id": 1, "parts": null}}"#, id: "flood \(number)", from: source) {
                $0.terms.isDryRun = true
            }
        }
        test.submit(#"{"Row": {"id": 2}}"#, id: "good", from: 2, as: JobOwner(user: 7))
        test.waitUntil(unopened: 1)
        gate.open()
        let ends = test.events.ends(22)
        #expect(ends.prefix(3).map(\.id) == ["gate", "flood 1", "good"])
        #expect(ends.allSatisfy { $0.code == nil })
    }

    @Test func `sources whose scans wait have no room, and are called when they have`() {
        for number in 1...2 { search(number, from: 1) }
        test.submit("{}", id: "good", from: 2)
        test.waitUntil(unopened: 1)
        #expect(!test.coordinator.hasRoom(for: 1))
        #expect(test.coordinator.hasRoom(for: 2))
        let hasRoom = Monitor(false)
        test.coordinator.whenRoom(for: 1) { hasRoom.update { $0 = true } }
        #expect(!hasRoom.withLock { $0 })
        gate.open()
        hasRoom.patiently("room") { $0 ? () : nil }
        #expect(ends(4).last == "search 2")
        #expect(test.coordinator.hasRoom(for: 1))
    }

    @Test func `a question after a waiting scan is asked when the scan has its ticket`() {
        search(1, from: 1)
        search(2, from: 2)
        let awaited = Monitor<Awaited?>(nil)
        test.coordinator.admit(from: 2, payloadBytes: 1) { [coordinator = test.coordinator] _ in
            .question { ticket in coordinator.await("search 2", before: ticket) { awaited.notify($0) } }
        } refuse: { _ in
        }
        test.waitUntil(unopened: 1)
        gate.open()
        #expect(awaited.answer.ending?.sequence == 3)
    }

    @Test func `searches that wait when the coordinator drains take effect`() throws {
        for number in 1...4 { search(number, from: number % 2) }
        test.coordinator.refuseNewJobs()
        search(5, from: 1)
        gate.open()
        test.coordinator.finishAdmitted()
        let ends = test.events.ends(6)
        #expect(ends.count { $0.code == nil } == 5)
        #expect(ends.first { $0.id == "search 5" }?.code == "draining")
        #expect(try test.rows("SELECT count(*) FROM Row") == ["0"])
    }

    @Test func `jobs before a scan are committed without waiting for it`() {
        test.submit(#"{"Row": {"id": 5}}"#, id: "before", from: 2)
        test.waitUntil(#""accepted":1,"#)
        search(1, from: 1)
        test.waitUntil(#""accepted":2,"#)
        gate.open()
        #expect(ends(3) == ["gate", "before", "search 1"])
        // Whatever the writer found ready first, the search began a transaction.
        #expect(!test.statistics.contains(#""commits":1,"#))
    }
}

@Suite(.timeLimit(.minutes(5)))
struct CallbackTests {
    @Test func `a function is reached as directly after many calls as at first`() {
        let places = Mutex<Set<Int>>([])
        let callback = Callback<Void>()
        callback.set {
            var mark = 0
            withUnsafePointer(to: &mark) { place in places.withLock { _ = $0.insert(Int(bitPattern: place)) } }
        }
        for _ in 0..<1_000 { callback() }
        // Each thunk around the function would be a frame on the stack.
        #expect(places.withLock { $0.count } == 1)
    }
}
