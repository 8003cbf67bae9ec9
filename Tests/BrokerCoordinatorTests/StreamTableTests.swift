import TestSupport
import Testing

@testable import BrokerCoordinator

/// Which stream makes its next part, which waits, and which ends.
@Suite(.timeLimit(.minutes(5))) struct StreamTableTests {
    private func table(open: Int = 4, wait: Int64 = 5, frameWait: Int64 = 30) -> StreamTable {
        var limits = StreamLimits()
        limits.open = open
        limits.wait = wait
        limits.frameWait = frameWait
        return StreamTable(limits)
    }

    @Test func `open streams make their parts in turn`() {
        var table = table()
        for (number, process) in [(1, 10), (2, 20)] { table.ask(number, of: Int32(process), at: 0) }
        #expect(table.next(at: 0) == .make(1))
        #expect(table.next(at: 0) == .make(2))
        #expect(table.next(at: 0) == nil)
        table.made(1, at: 1)
        table.made(2, at: 1)
        for now in 2..<20 {
            table.ask(2, of: 20, at: Int64(now))
            table.ask(1, of: 10, at: Int64(now))
            table.ask(1, of: 10, at: Int64(now))
            #expect(table.next(at: Int64(now)) == .make(2))
            #expect(table.next(at: Int64(now)) == .make(1))
            #expect(table.next(at: Int64(now)) == nil)
            table.made(1, at: Int64(now))
            table.made(2, at: Int64(now))
        }
        table.ended(1)
        table.ended(2)
        #expect(table.openCount == 0)
        #expect(!table.isTimed)
    }

    @Test func `a process holds no more places than are free, and the one with the fewest comes first`() throws {
        var table = table(open: 8)
        for number in 1...20 { table.ask(number, of: 1, at: 0) }
        var open: [Int] = []
        while case .make(let number)? = table.next(at: 0) { open.append(number) }
        #expect(open == [1, 2, 3, 4, 5], "the fifth was opened while four were free")
        table.ask(30, of: 2, at: 0)
        table.ask(31, of: 2, at: 0)
        table.ask(40, of: 3, at: 0)
        #expect(table.next(at: 0) == .make(30))
        #expect(table.next(at: 0) == .make(40), "the third process has none yet")
        #expect(table.next(at: 0) == .make(31))
        #expect(table.openCount == 8)
        table.ended(1)
        #expect(table.next(at: 0) == nil, "the free place is not for a process that holds four")
        try table.checkInvariants()
    }

    @Test func `processes take turns, however many streams each asks for`() {
        var table = table(open: 2)
        for number in 1...50 { table.ask(number, of: Int32(number % 5), at: 0) }
        table.ask(100, of: 100, at: 0)
        var opened: [Int] = []
        for _ in 0..<8 {
            guard case .make(let number)? = table.next(at: 0) else { break }
            opened.append(number)
            table.ended(number)
        }
        #expect(opened == [1, 2, 3, 4, 5, 100, 6, 7])
    }

    @Test func `a slow client's stream ends when the writer or another stream waits`() throws {
        for isWriter in [true, false] {
            var table = table(open: 1)
            table.ask(1, of: 1, at: 0)
            #expect(table.next(at: 0) == .make(1))
            table.made(1, at: 0)
            #expect(table.next(at: 20) == nil, "nothing else waits")
            // Three in all.
            table.ask(1, of: 1, at: 3)
            #expect(table.next(at: 3) == .make(1))
            table.made(1, at: 100)
            if isWriter { table.writer(waits: true) } else { table.ask(2, of: 2, at: 100) }
            #expect(table.isTimed)
            #expect(table.next(at: 101) == nil, "the time in which it made a part does not count")
            #expect(table.next(at: 102) == .expire(1))
            table.ended(1)
            #expect(table.next(at: 102) == (isWriter ? nil : .make(2)))
            table.writer(waits: false)
            try table.checkInvariants()
        }
    }

    @Test func `a stream whose client takes no frame ends in any case`() {
        var table = table()
        table.ask(1, of: 1, at: 0)
        #expect(table.next(at: 0) == .make(1))
        table.made(1, at: 10)
        #expect(table.next(at: 39) == nil)
        #expect(table.next(at: 40) == .expire(1))
        #expect(table.openCount == 0)
    }

    @Test func `no stream is opened while the writer waits, and the one that was too late comes first`() {
        var table = table()
        table.ask(1, of: 1, at: 0)
        table.ask(2, of: 1, at: 0)
        #expect(table.next(at: 0) == .make(1))
        table.postpone(1)
        table.writer(waits: true)
        #expect(table.next(at: 0) == nil)
        table.writer(waits: false)
        #expect(table.next(at: 0) == .make(1))
        #expect(table.next(at: 0) == .make(2))
    }

    @Test func `a cancelled stream ends, but not in the middle of a part`() throws {
        var table = table(open: 2)
        for number in 1...3 { table.ask(number, of: Int32(number), at: 0) }
        #expect(table.next(at: 0) == .make(1))
        #expect(table.next(at: 0) == .make(2))
        table.made(2, at: 0)
        for number in 1...3 { table.cancel(number) }
        #expect(table.next(at: 0) == .close(2))
        #expect(table.next(at: 0) == nil)
        table.made(1, at: 0)
        #expect(table.next(at: 0) == .close(1))
        #expect(table.next(at: 0) == nil, "the third was not open")
        try table.checkInvariants()
    }

    @Test(arguments: [1, 2, 3, 4]) func `after any events every stream ends, and no place is lost`(seed: UInt64) throws
    {
        print("seed \(seed)")
        var random = RandomStreams(table(open: 3), seed: seed)
        let count = Cases.count(4_000, of: 20_000)
        for _ in 0..<count { try random.act() }
        #expect(random.ended > count / 40)
        random.endAll()
        #expect(random.table.openCount == 0)
        #expect(!random.table.isTimed)
    }
}

/// Clients, a writer and a clock that act at random on a table of streams, as the thread of the streams would.
private struct RandomStreams {
    private(set) var table: StreamTable
    private(set) var ended = 0
    private var generator: SeededGenerator
    private var now: Int64 = 0
    private var last = 0
    /// Parts that are left of each stream.
    private var left: [Int: Int] = [:]
    private var making: Set<Int> = []
    /// Streams that wait for their clients.
    private var waiting: Set<Int> = []

    init(_ table: StreamTable, seed: UInt64) {
        self.table = table
        generator = SeededGenerator(seed: seed)
    }

    mutating func act() throws {
        switch Int.random(in: 0..<16, using: &generator) {
        case 0..<4: if let number = pick(waiting) { ask(number) }
        case 4..<7: if let number = pick(making) { make(number) }
        case 7..<11: step()
        case 11, 12: now += Int64.random(in: 0...3, using: &generator)
        case 13: table.writer(waits: Bool.random(using: &generator))
        case 14:
            // Now and then a client leaves.
            guard Int.random(in: 0..<10, using: &generator) == 0, let number = pick(Set(left.keys)) else { break }
            table.cancel(number)
            waiting.remove(number)
            if !making.contains(number) { left[number] = nil }
        default:
            last += 1
            left[last] = Int.random(in: 1...5, using: &generator)
            ask(last)
        }
        try table.checkInvariants()
    }

    /// Lets the parts that are being made end, and time pass.
    mutating func endAll() {
        table.writer(waits: false)
        for number in making.sorted() { table.ended(number) }
        for _ in 0..<100_000 {
            now += 1_000
            guard let step = table.next(at: now) else { return }
            if case .make(let number) = step { table.ended(number) }
        }
    }

    private mutating func pick(_ numbers: Set<Int>) -> Int? { numbers.sorted().randomElement(using: &generator) }

    private mutating func ask(_ number: Int) {
        waiting.remove(number)
        table.ask(number, of: Int32(number % 5), at: now)
    }

    private mutating func make(_ number: Int) {
        making.remove(number)
        left[number]? -= 1
        if left[number] == 0 {
            table.ended(number)
            end(number)
        } else {
            table.made(number, at: now)
            waiting.insert(number)
        }
    }

    private mutating func step() {
        switch table.next(at: now) {
        case .make(let number): #expect(making.insert(number).inserted)
        case .expire(let number), .close(let number):
            #expect(!making.contains(number))
            end(number)
        case nil: break
        }
    }

    private mutating func end(_ number: Int) {
        waiting.remove(number)
        left[number] = nil
        ended += 1
    }
}
