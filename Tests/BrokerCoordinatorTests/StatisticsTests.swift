import BrokerModel
import BrokerStore
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

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

    private func slowJob(_ id: String, work: Int64, waited: Int64 = 0, acceptedAt: Int64 = 0) -> SlowJob {
        SlowJob(
            id: id, sequence: nil, owner: .server, operations: [], entities: [], isFailed: false,
            acceptedAt: acceptedAt,
            times: StageTimes(waited: waited, merged: work, work: work))
    }

    @Test func `a slow job is remembered, and is first, however many jobs waited for it`() {
        var slow = SlowJobs(from: 1)
        for number in 0..<10 { slow.add(slowJob("before-\(number)", work: 5, waited: 5_000_000)) }
        slow.add(slowJob("culprit", work: 4_900_000))
        for number in 0..<200 { slow.add(slowJob("\(number)", work: Int64(number % 7), waited: 4_000_000)) }
        #expect(slow.jobs.count == SlowJobs.maximumCount && slow.byWork.first?.id == "culprit")
        #expect(zip(slow.byWork, slow.byWork.dropFirst()).allSatisfy { $0.times.work >= $1.times.work })
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
            first.id == "large" && first.owner == other && first.operations == ["process"] && first.entities == ["A"])
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
