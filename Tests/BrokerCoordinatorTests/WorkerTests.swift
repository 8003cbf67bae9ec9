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

    @Test(arguments: [(1, 1, 1), (1, 8, 1), (2, 1, 1), (2, 2, 1), (3, 8, 3), (8, 8, 7), (16, 4, 3)])
    func `beside a busy writer so many long tasks run`(longLimit: Int, processors: Int, expected: Int) {
        var queues = WorkQueues<Int>(longLimit: longLimit, processors: processors)
        for number in 0..<20 { _ = queues.append(number, .long, from: 1) }
        _ = queues.writer(isBusy: true)
        var running = 0
        while queues.next() != nil { running += 1 }
        #expect(running == expected)
    }

    @Test func `a short task takes the next brief one with it, and a worker is woken for any more`() {
        var queues = WorkQueues<String>(longLimit: 1)
        #expect(queues.append("short 0", .short, from: 1) == true)
        #expect(queues.next()?.task == "short 0")
        #expect(queues.append("brief 0", .brief, from: 1) == false)
        #expect(queues.append("short 1", .short, from: 2) == true)
        #expect(queues.next()?.task == "brief 0")
        #expect(queues.next()?.task == "short 1")
        // Two that end soon, two that wait.
        #expect(queues.append("brief 1", .brief, from: 1) == false)
        #expect(queues.append("brief 2", .brief, from: 1) == false)
        #expect(queues.append("brief 3", .brief, from: 1) == true)
        #expect(queues.ended(.short) == false)
        #expect(queues.ended(.short) == false)
        let taken = (0..<3).map { _ in queues.next()?.task }
        #expect(taken == ["brief 1", "brief 2", "brief 3"])
        // No task ends soon any more.
        #expect(queues.ended(.brief) == false)
        #expect(queues.append("brief 4", .brief, from: 1) == true)
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

/// Which scans run, and which frames give up their tickets.
@Suite(.timeLimit(.minutes(5))) struct ScanSchedulerTests {
    private typealias Content = ScanScheduler<Int>.Content

    /// The machine with places as a merge order gives them, and what went on where. A frame is its arrival.
    private final class Order {
        var turns = ScanScheduler<Int>()
        private var nextTicket = 0
        /// By arrival.
        private(set) var sources: [Int: Int] = [:]
        private var contents: [Int: Content] = [:]
        /// The frames that continued, by ticket.
        private var gone: [Int: Int] = [:]
        private(set) var searching: [Int] = []

        /// By source.
        private var users: [Int: UInt32] = [:]

        func admit(from source: Int, of user: UInt32 = 0) -> Int {
            defer { nextTicket += 1 }
            turns.admit(nextTicket, from: source)
            sources[nextTicket] = source
            users[source] = user
            return nextTicket
        }

        @discardableResult func open(_ arrival: Int, _ content: Content) -> Bool {
            contents[arrival] = content
            let source = sources[arrival]!
            let goesOn = turns.opened(arrival, from: source, of: users[source]!, content) { arrival }
            if goesOn, content != .nothing { go(arrival, at: arrival) }
            take(turns.call(source, from: nextTicket))
            callNext()
            return goesOn
        }

        func end(_ arrival: Int, took microseconds: Int64? = nil) {
            if let microseconds { turns.note(arrival, took: microseconds, at: 0) }
            searching.removeAll { $0 == arrival }
            turns.ended(arrival)
            callNext()
        }

        private func callNext() {
            while let source = turns.next() { take(turns.call(source, from: nextTicket, isItsTurn: true)) }
        }

        private func take(_ called: [Int]) {
            for arrival in called {
                go(arrival, at: nextTicket)
                nextTicket += 1
            }
        }

        private func go(_ arrival: Int, at ticket: Int) {
            gone[ticket] = arrival
            if contents[arrival]?.widest != nil { searching.append(arrival) }
        }

        /// Arrivals in the order of their places.
        var inOrder: [Int] { gone.sorted { $0.key < $1.key }.map(\.value) }
    }

    @Test func `a flood of searches has one in the order, and another source's job passes the others`() {
        let order = Order()
        let flood = (0..<10).map { _ in order.admit(from: 1) }
        let good = order.admit(from: 2)
        for search in flood { order.open(search, .search) }
        #expect(order.open(good, .job))
        #expect(order.inOrder == [flood[0], good])
        #expect(order.turns.isWaiting(1))
        #expect(!order.turns.isWaiting(2))
        for search in flood {
            #expect(order.searching == [search])
            order.end(search)
        }
        #expect(order.inOrder == [flood[0], good] + flood.dropFirst())
        #expect(!order.turns.isWaiting(1))
    }

    @Test func `cheap searches go on together, few at a time, until one takes long`() {
        let order = Order()
        let first = order.admit(from: 1)
        order.open(first, .search)
        let flood = (0..<20).map { order.admit(from: $0 % 3) }
        order.turns.note(first, took: 100, at: 60_000_000)
        order.turns.note(first, took: 100, at: 120_000_000)
        for search in flood { order.open(search, .search) }
        #expect(order.searching.count == 2)
        order.end(first)
        #expect(order.searching.count == 2)
        order.turns.note(flood[0], took: 300_000, at: 120_100_000)
        order.end(flood[0])
        #expect(order.searching.count == 1)
    }

    @Test func `a frame that takes long to open goes on alone, and keeps its place when its content is known`() {
        let order = Order()
        let flood = (0..<3).map { order.admit(from: $0) }
        for frame in flood { order.open(frame, .large) }
        #expect(order.searching == [flood[0]])
        #expect(order.open(flood[0], .job))
        let good = order.admit(from: 9)
        #expect(order.open(good, .job))
        #expect(order.inOrder == [flood[0], good])
        order.end(flood[0])
        #expect(order.inOrder == [flood[0], good, flood[1]])
    }

    @Test func `sources take turns to search`() {
        let order = Order()
        let first = (0..<3).map { _ in order.admit(from: 1) }
        let second = (0..<2).map { _ in order.admit(from: 2) }
        let third = order.admit(from: 3)
        for search in first + second + [third] { order.open(search, .search) }
        for _ in 0..<6 { order.end(order.searching[0]) }
        #expect(order.inOrder == [first[0], first[1], second[0], third, first[2], second[1]])
    }

    @Test func `users take turns by the time that their scans took, however many sources they have`() {
        let order = Order()
        let flood = (0..<12).map { order.admit(from: $0, of: 1) }
        let good = (0..<3).map { _ in order.admit(from: 20, of: 2) }
        for search in flood + good { order.open(search, .search) }
        for _ in 0..<5 {
            let search = order.searching[0]
            order.end(search, took: good.contains(search) ? 300_000 : 900_000)
        }
        #expect(order.inOrder == [flood[0], good[0], good[1], good[2], flood[1], flood[2]])
    }

    @Test func `cheap scans that end links have more in the order, and do not hold back another user's search`() {
        let order = Order()
        for _ in 0..<ScanConcurrency.firstScans {
            let first = order.admit(from: 1)
            order.open(first, .linking)
            order.end(first, took: 10)
        }
        let flood = (0..<100).map { _ in order.admit(from: 1) }
        for job in flood { order.open(job, .linking) }
        #expect(order.searching.count == 32)
        let search = order.admit(from: 2, of: 2)
        #expect(!order.open(search, .search))
        while !order.searching.contains(search) { order.end(order.searching[0]) }
        let position = order.inOrder.firstIndex(of: search) ?? .max
        #expect(position <= ScanConcurrency.firstScans + 33, "only those in the order are before it")
    }

    @Test func `frames that a source sends after a waiting scan wait with it`() {
        let order = Order()
        let other = order.admit(from: 1)
        let search = order.admit(from: 2)
        let job = order.admit(from: 2)
        let question = order.admit(from: 2)
        order.open(other, .search)
        #expect(!order.open(search, .search))
        #expect(!order.open(job, .job))
        #expect(!order.open(question, .question))
        order.end(other)
        #expect(
            order.inOrder == [other, search, job, question], "a scan calls all tickets after it up to the next scan")
    }

    @Test func `a frame that continued never gives up its ticket, and an earlier frame retains its own`() {
        let order = Order()
        let search = order.admit(from: 2)
        let job = order.admit(from: 2)
        #expect(order.open(job, .job))
        let other = order.admit(from: 1)
        order.open(other, .search)
        #expect(order.open(search, .search))
        #expect(order.inOrder == [search, job, other])
        order.end(other)
        order.end(search)
        #expect(!order.turns.isWaiting(2))
    }

    @Test func `a search that fails before its turn ends lets the next one go on`() {
        let order = Order()
        let searches = (1...2).map { order.admit(from: $0) }
        for search in searches { order.open(search, .search) }
        order.end(searches[0])
        order.end(searches[1])
        let later = order.admit(from: 3)
        #expect(order.open(later, .search))
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
