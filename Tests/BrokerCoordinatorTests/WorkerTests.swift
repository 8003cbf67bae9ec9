import BrokerJournal
import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStore
import Dispatch
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The order of turns.
@Suite(.timeLimit(.minutes(5))) struct WorkQueuesTests {
    @Test func `sources take turns, each in its own order`() {
        var queue = TurnQueue<String>()
        for number in 0..<4 { queue.append("a\(number)", from: 1) }
        for number in 0..<2 { queue.append("b\(number)", from: 2) }
        queue.append("c0", from: 3)
        #expect(queue.count == 7)
        var taken: [String] = []
        while let task = queue.popFirst() { taken.append(task) }
        #expect(taken == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"])
        #expect(queue.count == 0)
    }

    @Test func `brief and long tasks take turns`() {
        var queues = WorkQueues<String>(longLimit: 9)
        for number in 0..<3 {
            _ = queues.append("brief \(number)", .brief, from: 1)
            _ = queues.append("long \(number)", .long, from: 1)
        }
        var taken: [String] = []
        while let next = queues.next() { taken.append(next.task) }
        #expect(taken == ["brief 0", "long 0", "brief 1", "long 1", "brief 2", "long 2"])
        #expect(queues.isEmpty)
    }

    @Test func `no more long tasks run at a time than may, so that one worker is left for brief ones`() {
        var queues = WorkQueues<String>(longLimit: 1)
        for number in 0..<3 { _ = queues.append("long \(number)", .long, from: number) }
        #expect(queues.next()?.task == "long 0")
        #expect(queues.next()?.task == nil)
        _ = queues.append("brief", .brief, from: 1)
        #expect(queues.next()?.task == "brief")
        #expect(queues.next()?.task == nil)
        #expect(queues.ended(.long) == true)
        #expect(queues.next()?.task == "long 1")
    }

    @Test func `while the writer is busy, long tasks leave it a processor, and brief ones go on`() {
        var queues = WorkQueues<String>(longLimit: 2, processors: 2)
        for number in 0..<4 { _ = queues.append("long \(number)", .long, from: 1) }
        #expect(queues.writer(isBusy: true) == false)
        #expect(queues.next()?.task == "long 0")
        #expect(queues.next()?.task == nil)
        for number in 0..<2 { _ = queues.append("brief \(number)", .brief, from: 1) }
        #expect(queues.next()?.task == "brief 0")
        #expect(queues.next()?.task == "brief 1")
        #expect(queues.writer(isBusy: false) == true)
        #expect(queues.next()?.task == "long 1")
        #expect(queues.next()?.task == nil)
        // Running tasks continue; one more is begun when no other runs.
        #expect(queues.writer(isBusy: true) == false)
        #expect(queues.ended(.long) == true)
        #expect(queues.next()?.task == nil)
        #expect(queues.ended(.long) == true)
        #expect(queues.next()?.task == "long 2")
        #expect(queues.next()?.task == nil)
        #expect(queues.ended(.long) == true)
        #expect(queues.next()?.task == "long 3")
        #expect(queues.writer(isBusy: false) == false)
    }

    @Test func `a worker is woken for every long task, and for others when one ends`() {
        var queues = WorkQueues<String>(longLimit: 1)
        _ = queues.append("short", .short, from: 1)
        _ = queues.next()
        #expect(queues.append("long 0", .long, from: 1) == true)
        #expect(queues.append("long 1", .long, from: 1) == true)
        #expect(queues.next()?.task == "long 0")
        #expect(queues.next()?.task == nil)
        #expect(queues.ended(.long) == true)
        #expect(queues.next()?.task == "long 1")
        #expect(queues.ended(.long) == false)
    }
}

/// Which tasks are begun, and by which threads.
@Suite(.timeLimit(.minutes(5))) struct WorkerPoolTests {
    /// Which threads have done tasks, by the numbers of those.
    private final class Record: Sendable {
        private let threads = Monitor<[Int: UInt]>([:])

        func note(_ task: Int) {
            let thread = UInt(pthread_self())
            threads.update { $0[task] = thread }
        }

        func thread(of task: Int) -> UInt { threads.wait { $0[task] } }
        var count: Int { threads.withLock { $0.count } }
    }

    @Test func `a waiting task is run though the one before it does not end, as soon as more wait`() {
        let pool = WorkerPool(longTasks: 2)
        let (record, isReleased) = (Record(), Monitor(false))
        pool.run(.opening, .short, from: 1) {
            record.note(0)
            isReleased.wait { $0 ? () : nil }
        }
        _ = record.thread(of: 0)
        for task in 1...2 { pool.run(.opening, .short, from: 2) { record.note(task) } }
        #expect(record.thread(of: 1) != record.thread(of: 0))
        #expect(record.thread(of: 2) != record.thread(of: 0))
        isReleased.update { $0 = true }
        pool.stop()
    }

    @Test func `a task that does not end soon keeps no other from a thread`() {
        let pool = WorkerPool(longTasks: 1)
        let record = Record()
        for length in [WorkerPool.Length.brief, .long] {
            let isReleased = Monitor(false)
            let first = record.count
            pool.run(.opening, length, from: 1) {
                record.note(first)
                isReleased.wait { $0 ? () : nil }
            }
            _ = record.thread(of: first)
            pool.run(.opening, .short, from: 2) { record.note(first + 1) }
            #expect(record.thread(of: first + 1) != record.thread(of: first))
            isReleased.update { $0 = true }
        }
        pool.stop()
    }

    @Test func `a task that a busy writer delayed is begun when the writer waits again`() {
        let pool = WorkerPool(longTasks: 2, processors: 2)
        let (record, isReleased) = (Record(), Monitor(false))
        pool.writer(isBusy: true)
        for task in 0...1 {
            pool.run(.staging, .long, from: 1) {
                record.note(task)
                isReleased.wait { $0 ? () : nil }
            }
        }
        _ = record.thread(of: 0)
        pool.run(.staging, .brief, from: 1) { record.note(2) }
        _ = record.thread(of: 2)
        #expect(record.count == 2)
        pool.writer(isBusy: false)
        #expect(record.thread(of: 1) != record.thread(of: 0))
        isReleased.update { $0 = true }
        pool.stop()
    }

    @Test(arguments: [1, 2, 5]) func `every task is done, however many threads hand them over`(longTasks: Int) {
        let pool = WorkerPool(longTasks: longTasks)
        let (record, perThread) = (Record(), 2_000)
        let threads = (0..<4).map { source in
            Thread(named: "source") {
                var generator = SeededGenerator(for: "tasks of source \(source) with \(longTasks)")
                for number in 0..<perThread {
                    let length: [WorkerPool.Length] = [.long, .brief, .brief, .short, .short, .short]
                    pool.run(.staging, length.randomElement(using: &generator)!, from: source) {
                        record.note(source * perThread + number)
                    }
                    // Wait now and then, so that threads fall asleep between tasks.
                    guard Int.random(in: 0..<20, using: &generator) == 0 else { continue }
                    _ = record.thread(of: source * perThread + number)
                }
            }
        }
        for thread in threads { thread.join() }
        for task in 0..<4 * perThread { _ = record.thread(of: task) }
        #expect(record.count == 4 * perThread)
        pool.stop()
    }
}

/// How many searches go on at a time, by how long they took.
@Suite(.timeLimit(.minutes(5))) struct ScanConcurrencyTests {
    private let second: Int64 = 1_000_000

    @Test func `of unknown scans one runs at a time`() {
        var pace = ScanConcurrency()
        #expect(pace.width(atMost: 4) == 1)
        pace.note(10, at: 5 * second)
        #expect(pace.width(atMost: 4) == 1, "one alone says little")
    }

    @Test func `when the first scans were cheap, several run at a time`() {
        var pace = ScanConcurrency()
        for _ in 1..<ScanConcurrency.firstScans {
            pace.note(1_000, at: 0)
            #expect(pace.width(atMost: 4) == 1)
        }
        pace.note(100, at: 0)
        #expect(pace.width(atMost: 4) == 4 && pace.width(atMost: 32) == 20)
        pace.note(400_000, at: 0)
        for _ in 0..<100 { pace.note(10, at: 0) }
        #expect(pace.width(atMost: 32) == 1)
    }

    @Test func `the slowest recent scan counts, and is forgotten gradually`() {
        var pace = ScanConcurrency()
        for time in 0...60 { pace.note(1_000, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 4)
        pace.note(6_000, at: 61 * second)
        #expect(pace.width(atMost: 4) == 3)
        pace.note(400_000, at: 62 * second)
        for time in 63..<72 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 1)
        for time in 72..<110 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 1, "a sixteenth of it is still much")
        for time in 110..<140 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 4)
    }

    @Test func `a flood of cheap searches does not make an expensive one forgotten sooner`() {
        var pace = ScanConcurrency()
        pace.note(400_000, at: 0)
        for number in 1...100_000 { pace.note(10, at: Int64(number) * 100) }
        #expect(pace.width(atMost: 4) == 1)
    }

    @Test(arguments: [Int64.max, 0, 1]) func `any measured time gives a permitted concurrency`(microseconds: Int64) {
        var pace = ScanConcurrency()
        pace.note(microseconds, at: 0)
        pace.note(0, at: Int64.max / 2)
        #expect((1...4).contains(pace.width(atMost: 4)))
    }
}

/// Which jobs share a transaction, and what they do to each other there.
@Suite(.timeLimit(.minutes(5))) struct TransactionTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "code": {"type": "string", "unique": true}}}}}"#

    /// A flight in which jobs of these weights are ready, in that order.
    private func jobTable(_ weights: [Int]) throws -> JobTable {
        let document = try JSONDocument(parsing: JSONText(copying: Array("{}".utf8)))
        var jobTable = JobTable(after: 0, reservedThrough: 10_000, CoordinatorLimits(workers: 1))
        let budget = MemoryBudget(shared: 1 << 20, one: 1 << 20)
        for weight in weights {
            let ticket = jobTable.admission.reserve()
            jobTable.admission.open(ticket, .nothing)
            _ = jobTable.admission.takeSettled()
            // The weight of the frame without its content.
            let payloadBytes = weight - document.elementCount * CoordinatorLimits.bytesPerElement
            let frame = AdmittedFrame.test(ticket, bytes: payloadBytes, budget.admit(ticket, payloadBytes: 0))
            let job = Job(
                id: nil, document: document, operations: [], content: document.text, observer: { _ in })
            let accepted = AcceptedJob(
                job, id: JobID("job \(ticket)"), frame, openedAt: 0, progress: nil)
            #expect(accepted.weight == weight)
            frame.began(accepted, under: 0)
            jobTable.application.began(ticket, accepted)
            try jobTable.application.deliver(own: ticket, at: LogPlace(position: Int64(ticket) + 1, time: 0))
            _ = jobTable.finish(frame, .refused(Fault(.busy, "")))
        }
        return jobTable
    }

    /// How many jobs each transaction takes.
    private func transactions(_ weights: [Int]) throws -> [Int] {
        var jobTable = try jobTable(weights)
        var counts: [Int] = []
        while true {
            var batch: [AcceptedJob] = []
            while let next = jobTable.takeNext(after: batch) { batch.append(next) }
            if batch.isEmpty { return counts }
            counts.append(batch.count)
        }
    }

    private static let small = 300
    private static let large = CoordinatorLimits.largeBytes + 1

    @Test func `a large job does not join small ones, and small ones join large ones`() throws {
        let (small, large) = (Self.small, Self.large)
        #expect(try transactions([small, small, large]) == [2, 1])
        #expect(try transactions([large, large, small, small]) == [4])
        #expect(try transactions([small, large, small, large]) == [1, 2, 1])
        #expect(try transactions([CoordinatorLimits.largeBytes, CoordinatorLimits.largeBytes, small]) == [3])
    }

    @Test func `a transaction takes so many large jobs and so many jobs`() throws {
        let full = CoordinatorLimits.transactionBytes / Self.large + 1
        #expect(try transactions(Array(repeating: Self.large, count: 2 * full + 1)) == [full, full, 1])
        let most = CoordinatorLimits.jobsPerCommit
        #expect(try transactions(Array(repeating: Self.small, count: most + 1)) == [most, 1])
        #expect(try transactions([CoordinatorLimits.transactionBytes * 4, Self.large]) == [1, 1])
    }

    /// Else a transaction takes all that is in flight, and clients and workers then wait for its end.
    @Test func `jobs that become ready during a transaction go into the next one`() throws {
        let test = try TestCoordinator(Self.model) { $0.limits.transactionMicroseconds = 3_600_000_000 }
        test.submit(#"{"Row": [{"id": 1, "code": "a"}]}"#, ends: 1)
        let before = test.commits
        let code = String(repeating: "c", count: Self.large)
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": [{"id": 2, "code": "2\#(code)"}]}"#)
        test.log.waitUntil("warning: Another program has locked the store")
        for id in 3...4 { test.submit(#"{"Row": [{"id": \#(id), "code": "\#(id)\#(code)"}]}"#) }
        test.waitUntil("the next job is ready") { test.coordinator.jobTable.withLock { $0.hasWork } }
        try locker.unlock()
        #expect(test.events.ends(4).map(\.code) == [nil, nil, nil, nil])
        #expect(test.commits >= before + 2)
    }

    /// The store has failed, and no client gets an answer for these jobs.
    @Test func `who waits for the end of jobs is called when they are dropped`() throws {
        var jobTable = try jobTable([Self.small, Self.small])
        var batch: [AcceptedJob] = []
        while let next = jobTable.takeNext(after: batch) { batch.append(next) }
        for job in batch { jobTable.ends.began(job.ticket, from: job.source) }
        let called = Monitor(0)
        let last = try #require(batch.last?.ticket)
        let waits = jobTable.ends.wait(before: last + 1) { called.withLock { $0 += 1 } }
        #expect(waits)
        for (count, job) in batch.enumerated() {
            #expect(called.withLock { $0 } == 0)
            for completion in jobTable.drop([job], at: 0).completions { completion() }
            #expect(called.withLock { $0 } == count)
        }
    }

    /// Eight large jobs fill a transaction of bulk loads, which take a few milliseconds each: a shorter time would cost
    /// them a COMMIT each, and after a longer one a client waits for others much longer than for its own job.
    @Test func `by default a transaction lasts 100 ms at most, and the job that it has begun`() {
        #expect(CoordinatorLimits().transactionMicroseconds == 100_000)
    }

    @Test func `a job at fault among others ends them no other way than alone`() throws {
        let test = try TestCoordinator(Self.model)
        test.submit(#"{"Row": [{"id": 1, "code": "a"}]}"#, id: "first", ends: 1)
        // All are ready when the first of them is.
        let gate = Gate()
        test.submit(#"{"Row": [{"id": 2, "code": "b"}]}"#, id: "gated", behind: gate)
        for number in 3..<40 {
            let code = number % 7 == 0 ? "a" : "c\(number)"
            test.submit(#"{"Row": [{"id": \#(number), "code": "\#(code)"}]}"#, id: "job \(number)")
        }
        test.submit(#"{"Row": [{"id": 2, "code": "b"}]}"#, id: "gated again")
        gate.open()
        let ends = test.events.ends(40)
        #expect(ends.map(\.sequence) == (1...40).map { Int64($0) })
        for end in ends where end.id.hasPrefix("job ") {
            let number = try #require(Int(end.id.dropFirst(4)))
            #expect(end.code == (number % 7 == 0 ? "constraintViolation" : nil), "\(end.id)")
        }
        #expect(ends.last?.body.contains(#""unchanged":1"#) == true)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["\(2 + 37 - 5)"])
        #expect(try test.rows("SELECT count(*) FROM _broker_jobs WHERE failed") == ["5"])
    }

    /// Small jobs may do much work, and many in one transaction would hold up every other client.
    ///
    /// - Parameter isTried: all jobs are merged at once, which a unique value prevents.
    @Test(arguments: [false, true])
    func `a transaction whose time is over begins no other job`(isTried: Bool) throws {
        let test = try TestCoordinator(Self.model) { $0.limits.transactionMicroseconds = 0 }
        _ = test.coordinator.pause()
        for number in 1...6 {
            // Jobs that ask for keys are merged one by one.
            test.submit(
                #"{"Row": [{"id": \#(number), "code": "a"}]}"#, id: "job \(number)", wantsKeys: !isTried,
                wantsAcceptance: true)
        }
        test.events.waitUntil("accepted job 6 6")
        test.coordinator.resume()
        let ends = test.events.ends(6)
        #expect(ends.map(\.code) == [nil] + Array(repeating: "constraintViolation", count: 5))
        #expect(test.statistics.contains(#""commits":6,"#))
    }

    @Test func `after a fault some transactions are made one by one, more each time, and then it is tried again`() {
        var batchBackoff = BatchBackoff()
        func skipped() -> Int {
            var count = 0
            while !batchBackoff.allows() { count += 1 }
            return count
        }
        #expect(skipped() == 0)
        var lengths: [Int] = []
        for _ in 0..<8 {
            batchBackoff.note(isTogether: false)
            lengths.append(skipped())
        }
        #expect(lengths == [1, 2, 4, 8, 16, 32, 32, 32])
        batchBackoff.note(isTogether: true)
        #expect(skipped() == 0)
        batchBackoff.note(isTogether: false)
        #expect(skipped() == 1)
    }

    @Test func `tasks are done one at a time and in order, on whichever thread`() {
        var generator = SeededGenerator(for: "serial thread")
        let serial = SerialThread(named: "serial")
        let done = Monitor<[[Int]]>(Array(repeating: [], count: 4))
        let inside = Monitor(0)
        let overlaps = Monitor(0)
        let plans = (0..<4).map { _ in (0..<2_000).map { _ in Bool.random(using: &generator) } }
        let threads = plans.enumerated().map { number, plan in
            BrokerCoordinator.Thread(named: "handing \(number)") {
                for (task, isHere) in plan.enumerated() {
                    let work: @Sendable () -> Void = {
                        if inside.withLock({
                            $0 += 1; return $0
                        }) > 1 {
                            overlaps.withLock { $0 += 1 }
                        }
                        done.withLock { $0[number].append(task) }
                        inside.withLock { $0 -= 1 }
                    }
                    if isHere { serial.runHereIfIdle([work]) } else { serial.run(work) }
                }
            }
        }
        for thread in threads { thread.join() }
        serial.stop()
        #expect(overlaps.withLock { $0 } == 0)
        #expect(done.withLock { $0 } == Array(repeating: Array(0..<2_000), count: 4))
    }

    @Test func `a task that arrives while another one runs waits for its end`() {
        let serial = SerialThread(named: "serial")
        let done = Monitor<[String]>([])
        serial.runHereIfIdle([
            {
                serial.run { done.withLock { $0.append("second") } }
                // The thread has every opportunity to be too early.
                for _ in 0..<50_000 { sched_yield() }
                done.withLock { $0.append("first") }
            }
        ])
        serial.stop()
        #expect(done.withLock { $0 } == ["first", "second"])
    }
}

/// The writer, as a watchdog sees it.
@Suite(.timeLimit(.minutes(5))) struct WriterActivityTests {

    private func coordinator(_ activity: WriterActivity) throws -> TestCoordinator {
        try TestCoordinator { $0.store.activity = activity }
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
            jobTable.requests.tasks.append { _ in
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
