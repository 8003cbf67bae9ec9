import BrokerModel
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The objects of jobs on their way from the writer to their clients.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorObjectsTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#

    @Test func `jobs with long answers do not share one transaction, and their memory is released`() throws {
        let test = try TestCoordinator(model)
        let text = String(repeating: "t", count: 1 << 20)
        test.submit(#"{"Row": {"id": 1, "text": "\#(text)"}}"#)
        _ = test.events.ends(1)
        // While it is locked, all of them become ready.
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": {"id": 2}}"#)
        test.log.waitUntil("warning: Another program has locked the store")
        let count = 16
        for _ in 0..<count { test.submit(#"{"Row": {"id": 1}}"#, wantsObjects: true) }
        while !test.statistics.contains(#""opening":0"#) { sched_yield() }
        try locker.unlock()
        let ends = test.events.ends(2 + count).suffix(count)
        #expect(ends.allSatisfy { $0.objects?.count == 1 && $0.objects?.json?.count ?? 0 > text.count })
        #expect(test.commits >= 1 + count / 4)
        while test.coordinator.memoryTotal != 0 { sched_yield() }
    }

    @Test func `a caller that awaits a job does not get its objects`() throws {
        let test = try TestCoordinator(model)
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsObjects: true)
        test.log.waitUntil("warning: Another program has locked the store")
        let awaited = test.startAwaiting("a")
        try locker.unlock()
        let objects = test.events.ends(1)[0].objects?.json
        #expect(objects.map { String(decoding: $0, as: UTF8.self) } == #"[[{"id":1,"text":null}]]"#)
        #expect(awaited.answer.ending?.sequence == 1)
        #expect(awaited.answer.ending?.objects == nil)
    }

    @Test func `the writer waits while many objects are unsent, and continues when they are sent`() {
        let replyBudget = ReplyBudget()
        replyBudget.waitForRoom()
        replyBudget.add(ReplyBudget.maximumBytes)
        let isThrough = Monitor(false)
        let writer = Thread(named: "waiting") {
            replyBudget.waitForRoom()
            isThrough.broadcast {
                $0 = true
                return true
            }
        }
        #expect(!isThrough.withLock { $0 })
        replyBudget.remove(1)
        writer.join()
        #expect(isThrough.withLock { $0 })
    }
}
