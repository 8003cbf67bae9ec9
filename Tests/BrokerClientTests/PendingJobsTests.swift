import Testing

import Broker
@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct PendingJobsTests {
    private func window(count: Int = 2, bytes: Int = 100) -> PendingJobs<String> {
        PendingJobs(maximumCount: count, maximumBytes: bytes)
    }

    private func add(_ id: String, bytes: Int = 1, to jobs: inout PendingJobs<String>) -> Bool {
        place(id, bytes: bytes, in: &jobs) != nil
    }

    private func place(
        _ id: String, bytes: Int = 1, in jobs: inout PendingJobs<String>
    ) -> PendingJobs<String>.Place? {
        jobs.add(id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: "waiter of \(id)")
    }

    private func admitted(_ jobs: inout PendingJobs<String>) -> [String] {
        var ids: [String] = []
        while let job = jobs.admit(isSent: false) { ids.append(job.id.text) }
        return ids
    }

    @Test func `jobs enter the window in order, as many as it has room for`() {
        var jobs = window()
        for id in ["c", "a", "b"] { #expect(add(id, to: &jobs)) }
        #expect(admitted(&jobs) == ["c", "a"])
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove(JobID("a")) == "waiter of a")
        #expect(admitted(&jobs) == ["b"])
    }

    @Test func `the window is bounded by bytes too, but takes one job of any size`() {
        var jobs = window(count: 10)
        for (id, bytes) in [("a", 60), ("b", 41), ("e", 59), ("c", 500), ("d", 1)] {
            #expect(add(id, bytes: bytes, to: &jobs))
        }
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(admitted(&jobs) == ["b", "e"])
        #expect(jobs.remove(JobID("b")) != nil)
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove(JobID("e")) != nil)
        #expect(admitted(&jobs) == ["c"])
        #expect(jobs.remove(JobID("c")) != nil)
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `jobs in flight are listed in the order of addition`() {
        var jobs = window(count: 3)
        for id in ["z", "y", "x", "w"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.remove(JobID("y")) != nil)
        _ = admitted(&jobs)
        #expect(jobs.allInFlight.map(\.id.text) == ["z", "x", "w"])
    }

    @Test func `a job enters the window at once when there is room, and never before one that waits`() {
        var jobs = window(count: 2, bytes: 100)
        func enters(_ id: String, bytes: Int) -> Bool? {
            jobs.add(
                id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: id, entersAtOnce: true, isSent: true)?
                .hasEntered
        }
        #expect(enters("a", bytes: 60) == true)
        #expect(enters("a", bytes: 1) == nil)
        #expect(enters("b", bytes: 41) == false)
        #expect(enters("c", bytes: 1) == false)
        #expect(jobs.allInFlight.map(\.id.text) == ["a"])
        #expect(jobs.remove(JobID("a")) == "a")
        #expect(enters("d", bytes: 1) == false)
        #expect(admitted(&jobs) == ["b", "c"])
        #expect(jobs.remove(JobID("b")) == "b")
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `an id is unanswered at most once`() {
        var jobs = window()
        #expect(add("a", to: &jobs))
        #expect(!add("a", to: &jobs))
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(add("a", to: &jobs))
    }

    @Test func `an answer to a job that is not in flight belongs to none`() {
        var jobs = window(count: 1)
        for id in ["a", "b"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.remove(JobID("b")) == nil)
        #expect(jobs.remove(JobID("x")) == nil)
        #expect(jobs.inFlight(JobID("b")) == nil)
        #expect(jobs.inFlight(JobID("a"))?.waiter == "waiter of a")
    }

    @Test func `emptied, it gives every waiter back in order and has room again`() {
        var jobs = window()
        for id in ["a", "b", "c"] { #expect(add(id, to: &jobs)) }
        _ = admitted(&jobs)
        #expect(jobs.removeAll().map(\.waiter) == ["waiter of a", "waiter of b", "waiter of c"])
        #expect(jobs.isEmpty)
        for id in ["d", "e"] { #expect(add(id, to: &jobs)) }
        #expect(admitted(&jobs) == ["d", "e"])
    }

    @Test func `a job that waits for room can be withdrawn, and one in flight cannot`() throws {
        var jobs = window(count: 1)
        let inFlight = try #require(place("a", in: &jobs))
        let waiting = try #require(place("b", in: &jobs))
        #expect(add("c", to: &jobs))
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.withdraw(inFlight) == nil)
        #expect(jobs.withdraw(waiting) == "waiter of b")
        #expect(jobs.withdraw(waiting) == nil)
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(admitted(&jobs) == ["c"])
    }

    @Test func `a job in the window can be withdrawn until it is sent, and leaves its room`() throws {
        var jobs = window(count: 2)
        let places = try ["a", "b", "c"].map { try #require(place($0, in: &jobs)) }
        #expect(admitted(&jobs) == ["a", "b"])
        #expect(jobs.withdraw(places[0], fromWindow: true) == "waiter of a")
        #expect(jobs.admit(isSent: true)?.place == places[2])
        #expect(jobs.withdraw(places[2], fromWindow: true) == nil)
        #expect(jobs.sendAll().count == 2)
        #expect(jobs.withdraw(places[1], fromWindow: true) == nil)
    }

    @Test func `only the jobs that the server was asked to cancel are removed, in order`() throws {
        var jobs = window(count: 4)
        let places = try ["d", "b", "c", "a"].map { try #require(place($0, in: &jobs)) }
        _ = admitted(&jobs)
        _ = jobs.sendAll()
        for place in [places[3], places[0]] { jobs.noteCancelled(place) }
        #expect(jobs.removeCancelled().map(\.id.text) == ["d", "a"])
        #expect(jobs.allInFlight.map(\.id.text) == ["b", "c"])
        #expect(jobs[places[0]] == nil)
    }

    @Test func `a place in the window belongs to one job, not to the next job of its id`() throws {
        var jobs = window(count: 1)
        #expect(add("a", to: &jobs))
        let first = try #require(place("b", in: &jobs))
        #expect(jobs.withdraw(first) != nil)
        #expect(add("b", to: &jobs))
        #expect(jobs.withdraw(first) == nil)
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(admitted(&jobs) == ["b"])
    }

    @Test func `a cancelled job leaves no state`() throws {
        var jobs = window(count: 1)
        #expect(add("a", to: &jobs))
        #expect(admitted(&jobs) == ["a"])
        for number in 0..<10_000 {
            let place = try #require(place("\(number)", in: &jobs))
            #expect(jobs.withdraw(place) != nil)
        }
        #expect(jobs.retainedPlaces < 100)
    }

    @Test func `ids that differ in Unicode form only are two`() {
        var jobs = window()
        #expect(add("caf\u{E9}", to: &jobs))
        #expect(add("cafe\u{301}", to: &jobs))
        _ = admitted(&jobs)
        #expect(jobs.remove(JobID("cafe\u{301}")) == "waiter of cafe\u{301}")
        #expect(jobs.inFlight(JobID("caf\u{E9}")) != nil)
    }
}
