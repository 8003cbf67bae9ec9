import BrokerModel
import BrokerStore
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Another program has locked the store.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLockTests {
    private let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    @Test func `jobs wait until the store is free again, and none fails`() throws {
        let test = try TestCoordinator(model)
        let locker = try Locker(test.storePath)
        for number in 1...3 { test.submit("{\"Row\": {\"id\": \(number)}}", id: "\(number)") }
        test.log.waitUntil("warning: Another program has locked the store")
        test.submit(#"{"Row": {"id": "x"}}"#, id: "4")
        #expect(test.events.all.isEmpty)
        #expect(test.await("never") == .unknown)
        #expect(test.statistics.contains(#""state":"waiting","cause":"Another program has locked the store.""#))
        try locker.unlock()
        let ends = test.events.ends(4)
        #expect(ends.map(\.code) == [nil, nil, nil, "invalidValue"])
        #expect(ends.map(\.sequence) == [1, 2, 3, 4])
        test.log.waitUntil("no longer locked; jobs continue. [\"milliseconds\"]")
        #expect(test.statistics.contains(#""store":{"state":"serving""#))
        #expect(test.log.count("locked") == 2)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["3"])
    }

    @Test func `a server that stops does not wait for ever, and what failed is remembered with its number`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(model, in: folder)
            let locker = try Locker(test.storePath)
            test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsAcceptance: true)
            test.submit(#"{"Row": {"id": 2}}"#)
            test.log.waitUntil("warning: Another program has locked the store")
            test.coordinator.refuseNewJobs(lockSeconds: 0)
            test.coordinator.finishAdmitted()
            let ends = test.events.ends(2)
            #expect(ends.map(\.code) == ["storeUnavailable", "storeUnavailable"])
            #expect(ends.map(\.sequence) == [1, 2])
            #expect(test.events.all.first == "accepted a 1")
            #expect(test.await("a").ending == ends[0])
            try locker.unlock()
        }
        let test = try TestCoordinator(model, in: folder)
        #expect(test.await("a").ending?.code == "storeUnavailable")
        #expect(test.await("a").ending?.sequence == 1)
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        #expect(test.events.ends(1).map(\.sequence) == [3])
        #expect(test.await("a").ending?.code == nil)
    }

    @Test func `a store that stays locked through the end costs no number twice`() throws {
        let folder = TemporaryFolder()
        let locker: Locker
        do {
            let test = try TestCoordinator(model, in: folder)
            locker = try Locker(test.storePath)
            test.submit(#"{"Row": {"id": 1}}"#, id: "a")
            test.log.waitUntil("warning: Another program has locked the store")
            test.coordinator.refuseNewJobs(lockSeconds: 0)
            #expect(test.events.ends(1).map(\.sequence) == [1])
        }
        try locker.unlock()
        let test = try TestCoordinator(model, in: folder)
        test.submit(#"{"Row": {"id": 1}}"#, id: "b")
        #expect(test.events.ends(1).allSatisfy { $0.sequence ?? 0 > 1 })
    }
}

/// Failures that wait for a store that takes them, as a pure value.
@Suite(.timeLimit(.minutes(5))) struct UnrecordedFailuresTests {
    private func keep(_ failures: inout UnrecordedFailures, _ id: String, _ sequence: Int64) {
        let fault = Fault(.storeFull, "full")
        failures.keep(
            StoreJob(
                id: id, contentHash: nil, sequence: sequence, policy: .fail, wantsKeys: false, work: .refused(fault),
                now: 0), .failed(fault, id: id, owner: .server, sequence: sequence))
    }

    @Test func `the oldest is forgotten when there are too many`() {
        var failures = UnrecordedFailures()
        for number in 1...UnrecordedFailures.maximumCount + 5 { keep(&failures, "\(number)", Int64(number)) }
        #expect(failures.jobs.count == UnrecordedFailures.maximumCount)
        #expect(failures.jobs.first?.sequence == 6)
        #expect(failures.outcome(of: JobID("5"), as: .server) == nil)
        #expect(failures.outcome(of: JobID("6"), as: .server)?.sequence == 6)
    }

    @Test func `a job that fails again after it was read is not forgotten when that is written`() {
        var failures = UnrecordedFailures()
        keep(&failures, "a", 1)
        keep(&failures, "b", 2)
        let read = failures.jobs
        keep(&failures, "a", 3)
        failures.remove(read)
        #expect(failures.jobs.map(\.sequence) == [3])
    }
}
