import Testing
import TestSupport

@testable import BrokerCoordinator

/// The order of merging as a pure value, without threads.
@Suite(.timeLimit(.minutes(5))) struct MergeOrderTests {
    private func sequences(_ settled: [MergeOrder<String>.Settled]) -> [String] {
        settled.map { "\($0.ticket):\($0.sequence.map(String.init) ?? "-")" }
    }

    @Test func `sequences follow tickets, whatever is opened first`() {
        var order = MergeOrder<String>(after: 41, reservedThrough: 100)
        let tickets = (0..<3).map { _ in order.reserve() }
        #expect(sequences(order.open(tickets[2], isJob: true)) == [])
        #expect(sequences(order.open(tickets[0], isJob: true)) == ["0:42"])
        #expect(sequences(order.open(tickets[1], isJob: true)) == ["1:43", "2:44"])
    }

    @Test func `work leaves in the order of tickets, whatever is finished first`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 100)
        for ticket in (0..<3).map({ _ in order.reserve() }) { _ = order.open(ticket, isJob: true) }
        order.finish(2, "c")
        order.finish(1, "b")
        #expect(!order.hasReady)
        #expect(order.takeReady() == nil)
        order.finish(0, "a")
        #expect(order.hasReady)
        #expect((0..<4).map { _ in order.takeReady()?.work } == ["a", "b", "c", nil])
        #expect(order.isEmpty)
    }

    @Test func `a ticket that holds no job takes no sequence and stalls nothing`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 100)
        for _ in 0..<4 { _ = order.reserve() }
        #expect(sequences(order.open(1, isJob: false)) == [])
        #expect(sequences(order.open(0, isJob: false)) == ["0:-", "1:-"])
        #expect(order.count == 2)
        #expect(sequences(order.open(2, isJob: true)) == ["2:1"])
        #expect(sequences(order.open(3, isJob: false)) == ["3:-"])
        order.finish(2, "x")
        #expect(order.takeReady()?.sequence == 1)
        #expect(order.isEmpty)
    }

    @Test func `tickets that hold no job are gone when they are settled, whatever waits before them`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 100)
        _ = order.open(order.reserve(), isJob: true)
        for ticket in 1...10_000 {
            #expect(order.reserve() == ticket)
            #expect(sequences(order.open(ticket, isJob: false)) == ["\(ticket):-"])
            #expect(order.count == 1)
        }
        let (opening, void, job) = (order.reserve(), order.reserve(), order.reserve())
        #expect(sequences(order.open(void, isJob: false)) == [])
        #expect(sequences(order.open(job, isJob: true)) == [])
        order.finish(job, "late")
        #expect(order.count == 4)
        #expect(sequences(order.open(opening, isJob: false)) == ["\(opening):-", "\(void):-", "\(job):2"])
        #expect(order.count == 2)
        order.finish(0, "early")
        #expect((0..<3).map { _ in order.takeReady()?.work } == ["early", "late", nil])
    }

    @Test func `a ticket that is not opened yet delays all later ones`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 100)
        for _ in 0..<3 { _ = order.reserve() }
        _ = order.open(1, isJob: true)
        order.finish(1, "b")
        #expect(!order.hasReady)
        _ = order.open(0, isJob: false)
        #expect(order.takeReady()?.work == "b")
        #expect(!order.isEmpty)
    }

    // MARK: - Reserved sequences

    @Test func `the last reserved sequence is given, and no later one`() {
        var order = MergeOrder<String>(after: 10, reservedThrough: 12)
        for _ in 0..<4 { _ = order.reserve() }
        #expect(sequences(order.open(0, isJob: true)) == ["0:11"])
        #expect(sequences(order.open(1, isJob: true)) == ["1:12"])
        #expect(sequences(order.open(2, isJob: true)) == [])
        #expect(sequences(order.open(3, isJob: false)) == [])
        #expect(order.newestSequence == 12)
        #expect(sequences(order.extend(through: 20)) == ["2:13", "3:-"])
    }

    @Test func `work without a sequence is not ready, but starved once it is its turn`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 1)
        for ticket in (0..<3).map({ _ in order.reserve() }) { _ = order.open(ticket, isJob: true) }
        order.finish(1, "b")
        #expect(!order.isStarved)
        order.finish(0, "a")
        #expect(order.hasReady)
        #expect(!order.isStarved)
        #expect(order.takeReady()?.sequence == 1)
        #expect(order.isStarved)
        #expect(!order.hasReady)
        #expect(order.takeReady() == nil)
        _ = order.extend(through: 3)
        #expect(!order.isStarved)
        #expect(order.takeReady()?.sequence == 2)
        #expect(!order.isStarved)
    }

    @Test func `work without a sequence leaves, and later work continues`() {
        var order = MergeOrder<String>(after: 0, reservedThrough: 0)
        for _ in 0..<4 { _ = order.reserve() }
        _ = order.open(0, isJob: true)
        _ = order.open(1, isJob: false)
        _ = order.open(2, isJob: true)
        let early = order.takeStarved()
        #expect(early == nil)
        order.finish(0, "a")
        let starved = order.takeStarved()
        #expect(starved?.work == "a")
        #expect(starved.map { sequences($0.settled) } == ["0:-", "1:-"])
        let late = order.takeStarved()
        #expect(late == nil)
        order.finish(2, "c")
        #expect(order.isStarved)
        #expect(sequences(order.extend(through: 9)) == ["2:1"])
        #expect(sequences(order.open(3, isJob: true)) == ["3:2"])
        #expect(order.takeReady()?.work == "c")
    }

    @Test func `a block is due when half of one or less is left`() {
        let left = { (left: Int64) in MergeOrder<String>(after: 100, reservedThrough: 100 + left) }
        #expect(left(6).reservationDue(block: 10) == nil)
        #expect(left(5).reservationDue(block: 10) == 110)
        #expect(left(0).reservationDue(block: 10) == 110)
        #expect(left(10).reservationDue(block: 10) == nil)
    }

    // MARK: - All of it

    @Test(arguments: 0..<20)
    func `any interleaving gives dense sequences in the order of tickets, each work once`(round: Int) {
        var generator = SeededGenerator(for: "merge order \(round)")
        var order = MergeOrder<Int>(after: 100, reservedThrough: 100_000)
        var model = OrderModel(nextSequence: 101)
        for _ in 0..<2_000 {
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: #expect(order.reserve() == model.reserve())
            case 1, 2:
                guard let ticket = model.random(.opening, &generator) else { continue }
                let isJob = Int.random(in: 0..<3, using: &generator) > 0
                let settled = order.open(ticket, isJob: isJob)
                #expect(settled.map(\.ticket) == model.open(ticket, isJob: isJob))
                #expect(settled.map(\.sequence) == settled.map { model.sequences[$0.ticket] })
            case 3:
                guard let ticket = model.random(.staging, &generator) else { continue }
                order.finish(ticket, ticket)
                model.finish(ticket)
            default: take(&order, &model)
            }
            #expect(order.hasReady == (model.nextReady != nil))
        }
        for ticket in model.all(.opening) {
            _ = order.open(ticket, isJob: true)
            _ = model.open(ticket, isJob: true)
        }
        for ticket in model.all(.staging) {
            order.finish(ticket, ticket)
            model.finish(ticket)
        }
        // A work that does not leave when it should must not be waited for.
        for _ in 0..<model.states.count where model.nextReady != nil { take(&order, &model) }
        #expect(model.nextReady == nil)
        #expect(order.isEmpty)
        #expect(model.taken == (101..<101 + Int64(model.taken.count)).map { $0 })
    }

    private func take(_ order: inout MergeOrder<Int>, _ model: inout OrderModel) {
        let taken = order.takeReady()
        #expect(taken?.work == model.nextReady)
        guard let taken else { return }
        #expect(taken.sequence == model.sequences[taken.work])
        model.take(taken.work)
    }
}

/// The promises of the order in the simplest form: a list of all tickets that ever existed.
private struct OrderModel {
    enum State {
        case opening, void, staging, ready, taken
    }

    var states: [State] = []
    var sequences: [Int: Int64] = [:]
    var nextSequence: Int64
    var taken: [Int64] = []
    private var settled = 0

    init(nextSequence: Int64) { self.nextSequence = nextSequence }

    mutating func reserve() -> Int {
        states.append(.opening)
        return states.count - 1
    }

    /// The places that this settled.
    mutating func open(_ ticket: Int, isJob: Bool) -> [Int] {
        states[ticket] = isJob ? .staging : .void
        let first = settled
        while settled < states.count, states[settled] != .opening {
            if states[settled] != .void {
                sequences[settled] = nextSequence
                nextSequence += 1
            }
            settled += 1
        }
        return Array(first..<settled)
    }

    mutating func finish(_ ticket: Int) { states[ticket] = .ready }

    /// The place whose work leaves next; nil while it is not ready.
    var nextReady: Int? {
        guard let first = states.firstIndex(where: { $0 != .taken && $0 != .void }) else { return nil }
        return states[first] == .ready ? first : nil
    }

    mutating func take(_ ticket: Int) {
        states[ticket] = .taken
        taken.append(sequences[ticket]!)
    }

    func all(_ state: State) -> [Int] { states.indices.filter { states[$0] == state } }

    func random(_ state: State, _ generator: inout SeededGenerator) -> Int? {
        all(state).randomElement(using: &generator)
    }
}
