import BrokerModel
import BrokerStore
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
                    $0.latencies.record(StageTimes(total: 1_000))
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

    @Test func `slow jobs are remembered up to a number, the newest ones`() {
        var slow = SlowJobs(from: 1)
        for number in 0..<100 {
            slow.add(
                SlowJob(
                    id: "\(number)", sequence: nil, owner: .server, isFailed: false, acceptedAt: 0,
                    times: StageTimes(queued: 1, staged: 2, merged: 3, committed: 4, total: 15)))
        }
        #expect(slow.jobs.count == SlowJobs.maximumCount && slow.jobs.first?.id == "36" && slow.jobs.last?.id == "99")
        #expect(slow.jobs.last?.times.waited == 5)
    }

    @Test func `users see their own jobs in the lists, and the server's user all`() throws {
        let test = try TestCoordinator(#"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        let (one, other) = (JobOwner(user: 70_001), JobOwner(user: 70_002))
        test.submit(#"{"A": [{"id": "x"}]}"#, id: "failed", as: one)
        test.waitUntil(#""failed":1,"duplicate":0,"inFlight":0"#)
        #expect(test.coordinator.pause())
        test.submit(#"{"A": [{"id": 1}]}"#, id: "running", as: one)
        test.waitUntil(#""inFlight":1"#)
        for (asker, count) in [(one, 1), (other, 0), (JobOwner.server, 1)] {
            #expect(test.coordinator.runningJobs(10, as: asker).map(\.id) == Array(["running"].prefix(count)))
            let failed = Monitor<[String]?>(nil)
            test.coordinator.failedJobs(10, as: asker) { result in
                failed.broadcast {
                    $0 = (try? result.get())?.map(\.id)
                    return true
                }
            }
            #expect(failed.patiently("the failed jobs") { $0 } == Array(["failed"].prefix(count)))
        }
        #expect(test.coordinator.runningJobs(0, as: one).isEmpty)
        test.coordinator.resume()
        test.waitUntil(#""completed":1,"failed":1,"duplicate":0,"inFlight":0"#)
        #expect(test.coordinator.runningJobs(10, as: one).isEmpty)
        #expect(test.statistics.contains(#""oldestMilliseconds":0"#))
    }
}
