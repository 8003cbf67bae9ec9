import Testing

@testable import BrokerClient

@Suite struct PendingJobsTests {
    private func window(count: Int = 2, bytes: Int = 100) -> PendingJobs<String> {
        PendingJobs(maximumCount: count, maximumBytes: bytes)
    }

    private func add(_ id: String, bytes: Int = 1, to jobs: inout PendingJobs<String>) -> Bool {
        jobs.add(id: id, frame: [UInt8](repeating: 0, count: bytes), waiter: "waiter of \(id)")
    }

    private func admitted(_ jobs: inout PendingJobs<String>) -> [String] {
        var ids: [String] = []
        while let job = jobs.admit() { ids.append(job.id) }
        return ids
    }

    @Test func `jobs enter the window in order, as many as it has room for`() {
        var jobs = window()
        for id in ["c", "a", "b"] { #expect(add(id, to: &jobs)) }
        #expect(admitted(&jobs) == ["c", "a"])
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove("a") == "waiter of a")
        #expect(admitted(&jobs) == ["b"])
    }

    @Test func `the window is bounded by bytes too, but takes one job of any size`() {
        var jobs = window(count: 10)
        for (id, bytes) in [("a", 60), ("b", 41), ("e", 59), ("c", 500), ("d", 1)] {
            #expect(add(id, bytes: bytes, to: &jobs))
        }
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove("a") != nil)
        #expect(admitted(&jobs) == ["b", "e"])
        #expect(jobs.remove("b") != nil)
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove("e") != nil)
        #expect(admitted(&jobs) == ["c"])
        #expect(jobs.remove("c") != nil)
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `what is in flight is told in the order in which it was added`() {
        var jobs = window(count: 3)
        for id in ["z", "y", "x", "w"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.remove("y") != nil)
        _ = admitted(&jobs)
        #expect(jobs.allInFlight.map(\.id) == ["z", "x", "w"])
    }

    @Test func `an id is unanswered at most once`() {
        var jobs = window()
        #expect(add("a", to: &jobs))
        #expect(!add("a", to: &jobs))
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove("a") != nil)
        #expect(add("a", to: &jobs))
    }

    @Test func `an answer to what is not in flight is nobody's`() {
        var jobs = window(count: 1)
        for id in ["a", "b"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.remove("b") == nil)
        #expect(jobs.remove("x") == nil)
        #expect(jobs.inFlight("b") == nil)
        #expect(jobs.inFlight("a")?.waiter == "waiter of a")
    }

    @Test func `emptied, it gives every waiter back in order and has room again`() {
        var jobs = window()
        for id in ["a", "b", "c"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.removeAll() == ["waiter of a", "waiter of b", "waiter of c"])
        #expect(jobs.isEmpty)
        for id in ["d", "e"] { #expect(add(id, to: &jobs)) }
        #expect(admitted(&jobs) == ["d", "e"])
    }
}
