import BrokerJournal
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
