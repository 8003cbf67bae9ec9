import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Which tasks are begun, and by which threads.
@Suite(.timeLimit(.minutes(5))) struct WorkerPoolTests {
    /// Which threads have done tasks, by the numbers of those.
    private final class Record: Sendable {
        private let threads = Monitor<[Int: UInt]>([:])

        func note(_ task: Int) {
            let thread = UInt(pthread_self())
            threads.broadcast {
                $0[task] = thread
                return true
            }
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
        isReleased.broadcast {
            $0 = true
            return true
        }
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
            isReleased.broadcast {
                $0 = true
                return true
            }
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
        isReleased.broadcast {
            $0 = true
            return true
        }
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
