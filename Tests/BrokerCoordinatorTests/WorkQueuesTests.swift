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

    @Test func `a flood of one source does not delay sources that come later`() {
        var queue = TurnQueue<String>()
        for number in 0..<1_000 { queue.append("flood \(number)", from: 1) }
        _ = queue.popFirst()
        queue.append("other", from: 2)
        let next = [queue.popFirst(), queue.popFirst()]
        #expect(next.contains("other"))
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
