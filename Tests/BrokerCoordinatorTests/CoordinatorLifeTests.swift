import BrokerJournal
import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
import Foundation
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Exactly once, awaiting, draining, and stores that refuse.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLifeTests {
    @Test func `awaiting answers when the job ends, or at once when it has`() throws {
        let test = try TestCoordinator()
        let gate = Gate()
        test.submit(#"{"Row": {"id": 1}}"#, id: "good", wantsAcceptance: true)
        test.submit(#"{"Row": {"id": "x"}}"#, id: "bad", ends: 2)
        test.submit("{}", behind: gate)
        test.submit(#"{"Row": {"id": 2}}"#, id: "late")
        // Not before the job has been opened is anything known of its id.
        test.waitUntil(#""accepted":3,"#)
        let late = [test.startAwaiting("late"), test.startAwaiting("late")]
        #expect(late.allSatisfy { $0.withLock { $0 } == nil })
        gate.open()
        #expect(late.map { $0.answer.ending?.sequence } == [4, 4])
        #expect(test.await("late").ending?.sequence == 4)
        #expect(test.await("good").ending?.code == nil)
        #expect(test.await("good").ending?.body.contains(#""inserted":1"#) == true)
        #expect(test.await("bad").ending?.code == "invalidValue")
        #expect(test.await("never") == .unknown)
    }

    @Test func `a coordinator that drains finishes what was admitted and refuses the rest`() throws {
        let test = try TestCoordinator()
        let gate = Gate()
        test.submit(#"{"Row": {"id": 1}}"#, id: "before", behind: gate)
        test.submit(#"{"Row": {"id": 2}}"#, id: "behind")
        test.coordinator.refuseNewJobs()
        test.submit(#"{"Row": {"id": 3}}"#, id: "after")
        gate.open()
        test.coordinator.finishAdmitted()
        let ends = test.events.ends(3)
        #expect(Set(ends.filter { $0.code == nil }.map(\.id)) == ["before", "behind"])
        let refused = ends.filter { $0.code == "draining" }
        #expect(refused.map(\.id) == ["after"])
        #expect(refused.map(\.sequence) == [nil])
        #expect(try test.rows("SELECT id FROM Row") == ["1", "2"])
        #expect(test.await("after") == .unknown)
    }

    @Test func `a job that does not fit into the store fails alone, and the store goes on`() throws {
        let test = try TestCoordinator { $0.store.maximumPages = 60 }
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit(#"{"Row": {"id": 1, "text": "a"}}"#, id: "before")
        test.submit("{\"Row\": {\"id\": 2, \"text\": \"\(String(repeating: "x", count: 600_000))\"}}", id: "large")
        test.submit(#"{"Row": {"id": 3, "text": "c"}}"#, id: "behind")
        gate.open()
        let ends = test.events.ends(4).dropFirst()
        #expect(ends.map(\.id) == ["before", "large", "behind"])
        #expect(ends.map(\.code) == [nil, "storeFull", nil])
        #expect(try test.rows("SELECT id FROM Row") == ["1", "3"])
    }

    // MARK: - Room

    @Test func `room is reported when a job ends`() throws {
        let test = try TestCoordinator { $0.limits.jobs = 2 }
        #expect(test.coordinator.hasRoom())
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit("{}")
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        for _ in 0..<2 { test.coordinator.whenRoom { calls.increase() } }
        #expect(calls.withLock { $0 } == 0)
        gate.open()
        calls.patiently("room") { $0 == 2 ? () : nil }
        _ = test.events.ends(2)
        test.coordinator.whenRoom { calls.increase() }
        calls.patiently("room") { $0 == 3 ? () : nil }
    }

    @Test func `few frames with unknown contents are admitted`() throws {
        let test = try TestCoordinator { $0.limits.workers = 1 }
        let gate = Gate()
        for _ in 0..<CoordinatorLimits.unopenedFrames {
            #expect(test.coordinator.hasRoom())
            test.submit("{}", behind: gate)
        }
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        test.coordinator.whenRoom { calls.increase() }
        gate.open()
        calls.patiently("room") { $0 == 1 ? () : nil }
        _ = test.events.ends(CoordinatorLimits.unopenedFrames)
        #expect(test.coordinator.hasRoom())
    }

    @Test func `room is reported when a frame turns out to be no job`() throws {
        let test = try TestCoordinator { $0.limits.bytes = 10 }
        let gate = Gate()
        test.submit("this is no JSON, and longer than all the room there is", behind: gate)
        #expect(test.coordinator.hasRoom(), "one may be staged while another is merged")
        test.submit("nor is this", behind: gate)
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        test.coordinator.whenRoom { calls.increase() }
        gate.open()
        calls.patiently("room") { $0 == 1 ? () : nil }
        #expect(test.coordinator.hasRoom())
    }

    @Test func `the numbers of a run are those of its jobs`() throws {
        let test = try TestCoordinator()
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}]}"#, id: "a")
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}]}"#, id: "a")
        test.submit(#"{"Row": [{"id": "x"}]}"#)
        #expect(test.events.ends(3).count == 3)
        #expect(test.statistics.contains(#""jobs":{"accepted":3,"completed":1,"failed":1,"duplicate":1,"inFlight":0}"#))
        let objects = #""objects":{"inserted":2,"updated":0,"unchanged":0,"deleted":0,"rejected":0}"#
        #expect(test.statistics.contains(objects))
    }
}

extension Monitor<Int> {
    fileprivate func increase() {
        update { $0 += 1 }
    }
}

/// A number belongs to one job for ever.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorSequenceTests {
    @Test func `the number that a duplicate took is not given again`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(in: folder)
            for _ in 0..<2 { test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsAcceptance: true) }
            _ = test.events.ends(2)
            #expect(test.events.all.contains("accepted a 2"))
        }
        let test = try TestCoordinator(in: folder)
        test.submit("{}")
        #expect(test.events.ends(1).map(\.sequence) == [3])
    }

    @Test func `sequences are reserved in the store before any is sent`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 20 }
        let reserved = "SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'reservedSequence'"
        #expect(try test.rows(reserved) == ["20"])
        for _ in 0..<9 { test.submit("{}") }
        _ = test.events.ends(9)
        #expect(try test.rows(reserved) == ["20"])
        test.submit("{}", ends: 10)
        #expect(try test.rows(reserved) == ["30"])
    }

    @Test func `more jobs than a block has numbers are numbered without gaps`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 4 }
        let gate = Gate()
        test.submit("{}", behind: gate)
        for _ in 0..<199 { test.submit("{}", wantsAcceptance: true) }
        test.waitUntil(#""accepted":199,"#)
        gate.open()
        #expect(test.events.ends(200).map(\.sequence) == (1...200).map { $0 })
        #expect(test.events.all.count == 399)
    }

    @Test func `jobs for which no sequence can be reserved fail without one, and delay no other`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 4 }
        try Locker(test.storePath).execute("DROP TABLE _broker_meta; COMMIT")
        for number in 1...20 { test.submit("{}", id: "\(number)", wantsAcceptance: true) }
        let ends = test.events.ends(20)
        #expect(ends.map(\.sequence) == [1, 2, 3, 4] + [Int64?](repeating: nil, count: 16))
        #expect(ends.map(\.code) == [String?](repeating: nil, count: 4) + [String?](repeating: "internal", count: 16))
        #expect(test.events.all.count { $0.hasPrefix("accepted") } == 4)
        #expect(test.await("20") == .unknown)
    }

    @Test func `a clean stop leaves no gap, and ids of the server differ after it`() throws {
        let folder = TemporaryFolder()
        var ids: [String] = []
        for run in 0..<3 {
            let test = try TestCoordinator(in: folder)
            test.submit("{}")
            let ends = test.events.ends(1)
            #expect(ends.map(\.sequence) == [Int64(run + 1)])
            ids += ends.map(\.id)
        }
        #expect(Set(ids).count == 3)
        #expect(ids.allSatisfy { $0.hasPrefix("broker-") })
    }

    @Test func `failures are counted by their codes`() throws {
        let test = try TestCoordinator()
        for _ in 0..<2 { test.submit(#"{"Row": {"id": "x"}}"#) }
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        test.submit(#"{"Row": {"id": 2}}"#, id: "a", ends: 4)
        test.coordinator.refuseNewJobs()
        test.submit("{}")
        test.waitUntil(#""failures":{"draining":1,"idConflict":1,"invalidValue":2}"#)
        #expect(test.statistics.contains(#""failed":4,"#))
    }

    @Test func `the newest sequence whose outcome may be forgotten is known from the start`() throws {
        let folder = TemporaryFolder()
        func coordinator() throws -> TestCoordinator {
            try TestCoordinator(in: folder) { $0.store.retention.count = 10 }
        }
        do {
            let test = try coordinator()
            #expect(test.coordinator.forgottenThrough == 0)
            for number in 1...13 {
                test.submit(#"{"Row": {"id": \#(number)}}"#, ends: number)
            }
            #expect(test.coordinator.forgottenThrough == 3)
        }
        #expect(try coordinator().coordinator.forgottenThrough == 3)
    }
}

/// Another model, between two jobs.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorReloadTests {
    private let old = Models.of(["Row": "id integer64, value integer64"])
    private let new = Models.of(["Row": "id integer64, value integer64, name string"])

    private func row(_ id: Int) -> String { "{\"Row\": {\"id\": \(id), \"value\": 1, \"name\": \"n\"}}" }

    @Test func `jobs before a reload are read with the old model, and later jobs with the new one`() throws {
        let test = try TestCoordinator(old)
        let gate = Gate()
        test.submit(row(1), id: "before", behind: gate)
        let changes = test.startReloading(new)
        test.waitUntilHolding()
        for number in 2...200 { test.submit(row(number), id: "\(number)") }
        #expect(test.events.all.isEmpty)
        gate.open()
        #expect(test.events.ends(200).allSatisfy { $0.code == nil })
        #expect(changes.patiently("the new model") { $0 }.count == 1)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["1"])
        #expect(try test.rows("SELECT name FROM Row WHERE id = 200") == ["n"])
        // Known outcomes stay known.
        test.submit(row(7), id: "7")
        #expect(test.events.ends(201)[200].isDuplicate)
        #expect(test.await("before").ending?.sequence == 1)
        #expect(test.await("150").ending?.sequence == 150)
    }

    @Test func `a job that is being staged ends before the model is changed`() throws {
        let test = try TestCoordinator(old)
        let rows = (1...50_000).map { "{\"id\": \($0), \"value\": 1, \"name\": \"n\"}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", accepted: 1)
        #expect(test.reload(new).count == 1)
        #expect(test.events.all.count == 2)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["50000"])
    }

    @Test func `a reload does not wait for paused jobs`() throws {
        let test = try TestCoordinator(old)
        #expect(test.coordinator.pause())
        #expect(test.reload(new)[0].hasPrefix("refused busy"))
        test.coordinator.resume()
        #expect(test.reload(new).count == 1)
    }

    @Test func `a comparison reports what a reload would do, and changes nothing, also while jobs are paused`() throws {
        let test = try TestCoordinator(new)
        test.submit(row(1), id: "a", ends: 1)
        let schema = "SELECT name, sql FROM sqlite_schema ORDER BY 1"
        let before = try test.rows(schema)
        #expect(test.coordinator.pause())
        for (removal, verdict) in [(RemovalPolicy.refuse, "refused"), (.keep, "kept"), (.drop, "dropped")] {
            let lost = verdict == "kept" ? "0" : "1"
            #expect(test.compare(old, removal) == ["\(verdict) Row.name \(lost)"])
        }
        #expect(test.compare("{}", .drop)[0].hasPrefix("refused validationFailed"))
        test.coordinator.resume()
        #expect(try test.rows(schema) == before)
        #expect(try test.rows("SELECT name FROM Row") == ["n"])
    }

    @Test func `a journal goes on with the new model, over a crash`() throws {
        let folder = TemporaryFolder()
        let journaled = { (model: String) in try TestCoordinator(model, in: folder) { $0.keepsJournal = true } }
        do {
            let test = try journaled(old)
            test.submit(row(1), id: "a", ends: 1)
            #expect(test.reload(new).count == 1)
            test.submit(row(2), id: "b")
            #expect(test.events.ends(2)[1].code == nil)
        }
        let test = try journaled(new)
        test.submit(row(3), id: "c", ends: 1)
        #expect(try test.rows("SELECT id, ifnull(name, '') FROM Row ORDER BY id") == ["1|", "2|n", "3|n"])
    }
}

extension TestCoordinator {
    /// Waits until a reload holds what comes.
    func waitUntilHolding() {
        while coordinator.jobTable.withLock({ $0.reload.ticket == nil }) { sched_yield() }
    }
}

/// The same journal makes the same store, down to the row keys, and the digest distinguishes different stores.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorHistoryTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "note": "string"}},
          "Row": {"identity": "id", "unique": [["mail"]], "attributes": {"id": "integer64", "mail": "string"}}}}
        """

    private struct Job {
        /// `sync-` and `delete-` at its beginning say what the job does.
        let id: String
        let payload: String
        var isIDMade = false
    }

    private func start(_ folder: TemporaryFolder) throws -> String { try coordinator(folder).history }

    private func coordinator(_ folder: TemporaryFolder) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) {
            $0.keepsJournal = true
            $0.store.synchronous = .full
        }
    }

    /// Appends the jobs to the journal of a server that is not running, as one that accepted them and was killed would have.
    private func append(_ jobs: [Job], after position: Int64, to folder: TemporaryFolder) throws {
        let identity = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key = 'log'", in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(identity[0]), applied: position,
            idOfApplied: nil, mode: 0o600, system: PosixSystem())
        try journal.append(
            jobs.enumerated().map { number, job in
                LogEntry(
                    .job, position: position + Int64(number) + 1, id: job.id, isIDMade: job.isIDMade, user: 1,
                    time: 1_000_000, payload: Array(job.payload.utf8))
            })
    }

    @Test func `a failed job leaves no gap in the keys, and a start and other entities' deletions none`() throws {
        let note = #"{"Note": {"text": "a"}}"#
        let failing = #"{"Note": [{"text": "b"}], "Row": [{"id": 1, "mail": "x"}, {"id": 2, "mail": "x"}]}"#
        let cards = "{\"Card\": [\(Array(repeating: "{}", count: 20).joined(separator: ","))]}"
        let folder = TemporaryFolder()
        _ = try start(folder)
        let jobs = [
            Job(id: "1", payload: note), Job(id: "sync-2", payload: failing), Job(id: "3", payload: note),
            Job(id: "4", payload: cards), Job(id: "delete-5", payload: #"{"Card": []}"#), Job(id: "6", payload: note),
        ]
        for (number, job) in jobs.enumerated() {
            try append([job], after: Int64(number), to: folder)
            _ = try start(folder)
        }
        #expect(
            try SQLRows.of("SELECT _pk FROM Note ORDER BY _pk", in: folder.path("store.sqlite")) == ["1", "2", "3"])
    }

    @Test func `another content gives another history, also of a job without an id`() throws {
        let histories = try [#"{"Note": {"text": "a"}}"#, #"{"Note": {"text":  "a"}}"#, #"{"Note": {"text": "b"}}"#].map
        {
            let folder = TemporaryFolder()
            _ = try start(folder)
            try append([Job(id: "made", payload: $0, isIDMade: true)], after: 0, to: folder)
            return try start(folder)
        }
        #expect(Set(histories).count == 3, "\(histories)")
    }

    @Test(arguments: [true, false])
    func `a start warns of waiting jobs that were accepted under another fingerprint, and applies them`(isOther: Bool)
        throws
    {
        let folder = TemporaryFolder()
        do {
            let statistics = try coordinator(folder).statistics
            #expect(statistics.contains(/"fingerprint":"[0-9a-f]{16}"/))
        }
        let store = folder.path("store.sqlite")
        if isOther {
            try Locker(store).execute(
                "UPDATE _broker_meta SET value = replace(value, 'sqlite=20', 'sqlite=19') WHERE key = 'fingerprint'; COMMIT"
            )
        }
        try append([Job(id: "a", payload: #"{"Row": {"id": 1, "mail": "x"}}"#)], after: 0, to: folder)
        let warning = "warning: Jobs wait in the journal that were accepted by a server with other versions"
        for count in [isOther ? 1 : 0, 0] {
            let test = try coordinator(folder)
            #expect(try test.rows("SELECT id FROM Row") == ["1"])
            #expect(test.log.count(warning) == count)
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct StatisticsTests {
    private static let second: Int64 = 1_000_000

    @Test func `the last minute forgets what is older, and says how long it is`() {
        var recent = RecentJobs(at: 5 * Self.second)
        func note(_ count: Int, at second: Int64) {
            for _ in 0..<count {
                recent.note(at: second * Self.second) {
                    $0.counts.completed += 1
                    $0.latencies.record(StageTimes(merged: 1_000))
                }
            }
        }
        note(3, at: 6)
        note(4, at: 12)
        #expect(recent.sum(at: 15 * Self.second).slot.counts.completed == 7)
        #expect(recent.sum(at: 15 * Self.second).microseconds == 10 * Self.second)
        // The slot of the seconds 0 to 10 is the seventh from 60 on.
        #expect(recent.sum(at: 59 * Self.second).slot.counts.completed == 7)
        #expect(recent.sum(at: 60 * Self.second).slot.counts.completed == 4)
        #expect(recent.sum(at: 60 * Self.second).microseconds == 50 * Self.second)
        #expect(recent.sum(at: 69 * Self.second).microseconds == 59 * Self.second)
        #expect(recent.sum(at: 500 * Self.second).slot.counts.completed == 0)
        note(1, at: 500)
        #expect(recent.sum(at: 500 * Self.second).slot.counts.completed == 1)
    }

    @Test func `buckets count what is at most their bound`() {
        var buckets = LatencyBuckets()
        for time: Int64 in [0, 100, 101, 60_000_000, 60_000_001] { buckets.record(time) }
        #expect(buckets.cumulative.first == 2 && buckets.cumulative[1] == 3)
        #expect(buckets.cumulative.last == 4 && buckets.count == 5)
        #expect(LatencyBuckets.bounds == LatencyBuckets.bounds.sorted())
        #expect(buckets.cumulative.count == LatencyBuckets.bounds.count)
    }

    private func slowJob(_ id: String, work: Int64, waited: Int64 = 0, acceptedAt: Int64 = 0) -> EndedJob {
        EndedJob(
            id: id, sequence: nil, owner: .server, isFailed: false,
            details: EndedJob.Details(
                client: nil, acceptedAt: acceptedAt, records: 0,
                times: StageTimes(waited: waited, merged: work, work: work), contents: JobContents([]), changed: []))
    }

    @Test func `a slow job is remembered, and is first, however many jobs waited for it`() {
        var slow = SlowJobs(from: 1)
        for number in 0..<10 { slow.add(slowJob("before-\(number)", work: 5, waited: 5_000_000)) }
        slow.add(slowJob("culprit", work: 4_900_000))
        for number in 0..<200 { slow.add(slowJob("\(number)", work: Int64(number % 7), waited: 4_000_000)) }
        #expect(slow.jobs.count == SlowJobs.maximumCount && slow.byWork.first?.id == "culprit")
        #expect(zip(slow.byWork, slow.byWork.dropFirst()).allSatisfy { $0.work >= $1.work })
    }

    @Test func `slow jobs of more than an hour ago are the first to be forgotten`() {
        var slow = SlowJobs(from: 1)
        for number in 0..<SlowJobs.maximumCount { slow.add(slowJob("old-\(number)", work: 100, acceptedAt: 1)) }
        for number in 0..<3 { slow.add(slowJob("new-\(number)", work: 1, acceptedAt: 3_700_000)) }
        #expect(
            slow.jobs.count == SlowJobs.maximumCount && slow.jobs.suffix(3).map(\.id) == ["new-0", "new-1", "new-2"])
        #expect(!slow.jobs.contains { $0.id == "old-0" || $0.id == "old-2" } && slow.jobs.first?.id == "old-3")
    }

    @Test func `the time of a job's own work names it, and not the jobs that waited for it or shared its statements`()
        throws
    {
        let model = Models.of(["A": "id integer64"])
        let test = try TestCoordinator(model) { $0.slowJobMicroseconds = 1 }
        #expect(test.coordinator.pause())
        let (one, other) = (JobOwner(user: 70_001), JobOwner(user: 70_002))
        for number in 0..<5 { test.submit("{\"A\": [{\"id\": \(number)}]}", id: "small-\(number)", as: one) }
        let records = (100..<8_000).map { "{\"id\": \($0)}" }.joined(separator: ",")
        test.submit("{\"A\": [\(records)]}", id: "large", as: other)
        for number in 5..<10 { test.submit("{\"A\": [{\"id\": \(number)}]}", id: "small-\(number)", as: one) }
        test.waitUntil(#""inFlight":11"#)
        test.waitUntil("the jobs to be staged") {
            !test.coordinator.runningJobs(20, as: .server).contains { $0.stage == .staging }
        }
        test.coordinator.resume()
        test.waitUntil(#""completed":11"#)
        let slow = test.coordinator.slowJobs(20, as: .server)
        let first = try #require(slow.first)
        #expect(
            first.id == "large" && first.owner == other && first.details?.operations == ["process"]
                && first.details?.entities == ["A"])
        let next = try #require(slow.dropFirst().first)
        #expect(next.times.work < first.times.work && slow.count == 11)
        // In the same statements each has the share of its rows.
        let together = slow.filter { $0.id != "large" && $0.times.merged == first.times.merged }
        #expect(!together.isEmpty && together.allSatisfy { $0.times.work < $0.times.merged })
        for job in slow {
            let times = job.times
            let stages = times.queued + times.staged + times.waited + times.merged + times.committed
            #expect(stages == times.total && !times.named.contains { $0.name.hasPrefix("journal") })
            // Several workers may stage the large one.
            #expect(job.id == "large" || times.work <= times.queued + times.staged + times.merged, "no wait is work")
        }
        #expect(test.coordinator.slowJobs(20, as: one).count == 10)
    }

    @Test func `the wait for a journal and its sync are stages, and the stages of a job add up to its time`() throws {
        let model = Models.of(["A": "id integer64"])
        let system = GatedSystem()
        let test = try TestCoordinator(model) {
            $0.slowJobMicroseconds = 1
            $0.keepsJournal = true
            $0.journalSystem = system
        }
        func running(_ id: String) -> RunningJob? {
            test.coordinator.runningJobs(9, as: .server).first { $0.id == id }
        }
        system.close()
        test.submit(#"{"A": [{"id": 1}]}"#, id: "written")
        system.waitForWriter()
        // Its staging is a stage of its own, also beside the journal.
        test.waitUntil("the first job to be staged") { running("written")?.stage == .staged }
        let start = monotonicMicroseconds()
        test.submit(#"{"A": [{"id": 2}]}"#, id: "waiting")
        test.waitUntil("the job to be staged") { running("waiting")?.stage == .staged }
        let age = try #require(running("waiting")).age
        test.waitUntil("time to pass") { running("waiting")?.age ?? 0 > age + 1_000 }
        let closed = monotonicMicroseconds() - start
        system.open()
        test.waitUntil(#""completed":2"#)
        let slow = test.coordinator.slowJobs(9, as: .server)
        let written = try #require(slow.first { $0.id == "written" }).times
        let second = try #require(slow.first { $0.id == "waiting" }).times
        #expect(written.journalSynced >= closed, "\(written) of \(closed)")
        #expect(second.journalWaited >= 1_000, "\(second)")
        for times in [written, second] {
            let other = times.queued + times.staged + times.waited + times.merged + times.committed
            #expect(times.journalWaited + times.journalSynced + other == times.total)
            #expect(times.work <= times.queued + times.staged + times.merged, "the wait for a disk is no work of a job")
        }
        let text = test.statistics
        for member in [#""journalWaited":{"p50""#, #""journalSynced":{"counts""#, #""waited":{"counts""#] {
            #expect(text.contains(member), "\(member)")
        }
    }

    @Test func `users see their own jobs in the lists, and the server's user all`() throws {
        let test = try TestCoordinator(Models.of(["A": "id integer64"]))
        let (one, other) = (JobOwner(user: 70_001), JobOwner(user: 70_002))
        test.submit(#"{"A": [{"id": "x"}]}"#, id: "failed", as: one)
        test.waitUntil(#""failed":1,"duplicate":0,"inFlight":0"#)
        #expect(test.coordinator.pause())
        test.submit(#"{"A": [{"id": 1}]}"#, id: "running", as: one)
        test.waitUntil(#""inFlight":1"#)
        for (asker, count) in [(one, 1), (other, 0), (JobOwner.server, 1)] {
            #expect(test.coordinator.runningJobs(10, as: asker).map(\.id) == Array(["running"].prefix(count)))
            #expect(test.failedJobs(as: asker) == Array(["failed"].prefix(count)))
        }
        #expect(test.coordinator.runningJobs(0, as: one).isEmpty)
        test.coordinator.resume()
        test.waitUntil(#""completed":1,"failed":1,"duplicate":0,"inFlight":0"#)
        #expect(test.coordinator.runningJobs(10, as: one).isEmpty)
        #expect(test.statistics.contains(#""oldestMilliseconds":0"#))
    }
}

extension EndedJob {
    fileprivate var times: StageTimes { details?.times ?? StageTimes() }
}
