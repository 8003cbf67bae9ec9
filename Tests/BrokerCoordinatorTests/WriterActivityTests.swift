import BrokerStore
import Dispatch
import Testing
import TestSupport

@testable import BrokerCoordinator

/// The writer, as a watchdog sees it.
@Suite(.timeLimit(.minutes(5))) struct WriterActivityTests {
    private let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    private func coordinator(_ activity: WriterActivity) throws -> TestCoordinator {
        try TestCoordinator(model) { $0.store.activity = activity }
    }

    /// Returns when the writer is seen as that.
    private func waitUntil(_ activity: WriterActivity, _ isSeen: (WriterActivity.Sample, WriterActivity.Sample) -> Bool)
    {
        let first = activity.sample
        while !isSeen(activity.sample, first) {}
    }

    @Test func `a writer that waits for jobs is healthy, and one that is stuck in one step is not`() throws {
        let activity = WriterActivity()
        let test = try coordinator(activity)
        test.submit(#"{"Row": {"id": 1}}"#)
        #expect(test.events.ends(1).map(\.code) == [nil])
        waitUntil(activity) { now, _ in now.isWaiting }
        #expect(activity.sample.isHealthy(after: activity.sample))
        let (begun, released) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        test.coordinator.jobTable.update { jobTable in
            jobTable.writerTasks.append { _ in
                begun.signal()
                released.wait()
            }
        }
        begun.wait()
        let stuck = activity.sample
        #expect(!activity.sample.isHealthy(after: stuck))
        released.signal()
        waitUntil(activity) { now, _ in now.isWaiting }
        #expect(activity.sample.isHealthy(after: stuck))
    }

    @Test func `a writer that waits for a store that another program has locked is healthy`() throws {
        let activity = WriterActivity()
        let test = try coordinator(activity)
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": {"id": 1}}"#)
        test.log.waitUntil("warning: Another program has locked the store")
        waitUntil(activity) { now, first in !now.isWaiting && now.steps > first.steps + 1 }
        try locker.unlock()
        #expect(test.events.ends(1).map(\.code) == [nil])
    }
}
