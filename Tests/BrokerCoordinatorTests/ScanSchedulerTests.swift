import TestSupport
import Testing

@testable import BrokerCoordinator

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

    @Test(arguments: 0..<20) func `every source's frames go on as sent, whatever is opened when`(number: Int) {
        let seed = 7_000 + UInt64(number)
        var random = SeededGenerator(seed: seed)
        let order = Order()
        var unopened: [(arrival: Int, content: Content)] = []
        var sent: [Int: [Int]] = [:]
        // How far from its turn a frame may be opened; with none, no two searches meet.
        let disorder = number % 4
        var most = 0
        for step in 0..<3_000 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where step < 2_000, 1 where step < 2_000:
                let source = Int.random(in: 0..<5, using: &random)
                let content = [Content.nothing, .job, .job, .search, .question].randomElement(using: &random)!
                let arrival = order.admit(from: source)
                if content != .nothing { sent[source, default: []].append(arrival) }
                unopened.append((arrival, content))
            case 2:
                if let search = order.searching.first { order.end(search) }
            default:
                guard !unopened.isEmpty else { continue }
                let position = Int.random(in: 0...min(disorder, unopened.count - 1), using: &random)
                let next = unopened.remove(at: position)
                order.open(next.arrival, next.content)
                most = max(most, order.searching.count)
            }
        }
        for next in unopened { order.open(next.arrival, next.content) }
        while let search = order.searching.first { order.end(search) }
        let gone = Dictionary(grouping: order.inOrder) { order.sources[$0]! }
        #expect(gone == sent, "seed \(seed)")
        #expect(disorder > 0 || most == 1, "seed \(seed)")
        for source in 0..<5 { #expect(!order.turns.isWaiting(source)) }
    }
}
