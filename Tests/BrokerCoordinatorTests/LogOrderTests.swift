import Testing
import TestSupport

@testable import BrokerCoordinator

/// The machines of the log's two sides, and the log in memory, as pure values, without threads.
@Suite(.timeLimit(.minutes(5))) struct LogOrderTests {
    private func tickets(_ settled: [Admission<String>.Settled]) -> [String] {
        settled.map { settled in
            switch settled.content {
            case .nothing: "\(settled.ticket):-"
            case .job(let job): "\(settled.ticket):\(job)"
            case .logged: "\(settled.ticket):logged"
            }
        }
    }

    private func place(_ position: Int64?, _ time: Int64 = 0) -> LogPlace { LogPlace(position: position, time: time) }

    // MARK: - Admission

    @Test func `jobs go to the log in the order of arrival, whatever is opened first`() {
        var admission = Admission<String>()
        for _ in 0..<3 { _ = admission.reserve() }
        #expect(tickets(admission.opened(2, .job("c"))) == [])
        #expect(tickets(admission.opened(0, .job("a"))) == ["0:a"])
        #expect(admission.isSettled(0) && !admission.isSettled(1) && !admission.isSettled(2))
        #expect(tickets(admission.opened(1, .logged)) == ["1:logged", "2:c"])
        #expect(admission.isEmpty)
    }

    @Test func `a ticket that holds no job is settled in its turn, and stalls nothing`() {
        var admission = Admission<String>()
        for _ in 0..<4 { _ = admission.reserve() }
        #expect(tickets(admission.opened(1, .nothing)) == [])
        #expect(tickets(admission.opened(0, .nothing)) == ["0:-", "1:-"])
        #expect(tickets(admission.opened(2, .job("x"))) == ["2:x"])
        #expect(!admission.isEmpty)
        #expect(tickets(admission.opened(3, .nothing)) == ["3:-"])
        #expect(admission.isEmpty && admission.nextTicket == 4)
    }

    // MARK: - Application

    @Test func `work leaves in the order of positions, whatever is finished first`() throws {
        var application = Application<String>(after: 40)
        for ticket in 0..<3 {
            application.began(ticket)
            try application.deliver(own: ticket, at: place(41 + Int64(ticket)))
        }
        application.finish(2, "c")
        application.finish(1, "b")
        #expect(application.next == nil && application.takeNext() == nil)
        application.finish(0, "a")
        #expect((0..<4).map { _ in application.takeNext()?.work } == ["a", "b", "c", nil])
        #expect(application.isEmpty && application.position == 43)
    }

    @Test func `work that the log has not delivered is not merged, however long it is finished`() throws {
        var application = Application<String>(after: 0)
        application.began(7)
        application.finish(7, "a")
        #expect(application.next == nil && application.isReady(7) && application.place(of: 7) == nil)
        try application.deliver(own: 7, at: place(1, 5))
        #expect(application.next?.work == "a" && application.next?.place == place(1, 5))
    }

    @Test func `jobs of others are merged in between, in the order of positions`() throws {
        var application = Application<String>(after: 0)
        application.began(0)
        application.began(1)
        try application.deliver(other: 2, at: place(1))
        try application.deliver(own: 0, at: place(2))
        try application.deliver(other: 3, at: place(3))
        try application.deliver(own: 1, at: place(5))
        for (ticket, work) in [(3, "C"), (1, "d"), (0, "b"), (2, "A")] { application.finish(ticket, work) }
        #expect((0..<4).map { _ in application.takeNext()?.work } == ["A", "b", "C", "d"])
    }

    @Test func `a job that the log refused fails in its turn, and later ones go on`() throws {
        var application = Application<String>(after: 9)
        for ticket in 0..<3 { application.began(ticket) }
        try application.deliver(own: 0, at: place(10))
        try application.deliver(own: 1, at: place(nil))
        try application.deliver(own: 2, at: place(11))
        for ticket in 0..<3 { application.finish(ticket, "\(ticket)") }
        #expect(application.takeNext()?.place == place(10))
        #expect(application.takeNext()?.place == place(nil))
        #expect(application.takeNext()?.place == place(11))
    }

    @Test func `a log that delivers out of order is found out`() throws {
        var application = Application<String>(after: 10)
        application.began(0)
        application.began(1)
        #expect(throws: LogViolation.unexpectedJob) { try application.deliver(own: 1, at: place(11)) }
        #expect(throws: LogViolation.fallingPosition) { try application.deliver(own: 0, at: place(10)) }
        #expect(throws: LogViolation.fallingPosition) { try application.deliver(other: 5, at: place(9)) }
        try application.deliver(own: 0, at: place(11))
        #expect(throws: LogViolation.unexpectedJob) { try application.deliver(own: 0, at: place(12)) }
        #expect(throws: LogViolation.fallingPosition) { try application.advance(to: place(11)) }
        try application.advance(to: place(12))
        try application.deliver(own: 1, at: place(13))
    }

    // MARK: - The log in memory

    @Test func `the last reserved position is given, and no later one`() {
        var log = MemoryLog(after: 10, reservedThrough: 12)
        for ticket in 0..<3 { log.append(ticket, at: 5) }
        #expect(log.read()?.place == place(11, 5) && log.read()?.place == place(12, 5))
        #expect(log.read() == nil && log.isStarved && log.newest == 12)
        log.extend(through: 20)
        let last = log.read()
        #expect(last?.ticket == 2 && last?.place == place(13, 5) && !log.isStarved)
    }

    @Test func `the time of a position never falls, though the clock is set back`() {
        var log = MemoryLog(after: 0, reservedThrough: 10)
        for (ticket, time) in [100, 40, 101].enumerated() { log.append(ticket, at: Int64(time)) }
        #expect((0..<3).map { _ in log.read()?.place.time } == [100, 100, 101])
    }

    @Test func `jobs for which nothing can be reserved are refused, in order`() {
        var log = MemoryLog(after: 0, reservedThrough: 0)
        for ticket in 3..<6 { log.append(ticket, at: 0) }
        #expect(log.refuse() == [3, 4, 5])
        #expect(!log.isStarved)
        log.extend(through: 5)
        log.append(6, at: 0)
        #expect(log.read()?.place == place(1))
    }

    @Test func `a block is due when half of one or less is left`() {
        let left = { (left: Int64) in MemoryLog(after: 100, reservedThrough: 100 + left) }
        #expect(left(6).reservationDue(block: 10) == nil)
        #expect(left(5).reservationDue(block: 10) == 110)
        #expect(left(0).reservationDue(block: 10) == 110)
        #expect(left(10).reservationDue(block: 10) == nil)
    }

    // MARK: - All of it

    /// The three together.
    private struct Machines {
        var admission = Admission<Int>()
        var application = Application<Int>(after: 100)
        var log = MemoryLog(after: 100, reservedThrough: 100_000)

        /// The places that this settled.
        mutating func open(_ ticket: Int, isJob: Bool) throws -> [(ticket: Int, position: Int64?)] {
            if isJob { application.began(ticket) }
            var settled: [(ticket: Int, position: Int64?)] = []
            for known in admission.opened(ticket, isJob ? .job(ticket) : .nothing) {
                if case .job(let job) = known.content { log.append(job, at: 0) }
                let delivered = log.read()
                if let delivered { try application.deliver(own: delivered.ticket, at: delivered.place) }
                settled.append((known.ticket, delivered?.place.position))
            }
            return settled
        }
    }

    @Test(arguments: 0..<20)
    func `any interleaving gives dense positions in the order of tickets, each work once`(round: Int) throws {
        var generator = SeededGenerator(for: "log order \(round)")
        var machines = Machines()
        var model = OrderModel(nextSequence: 101)
        for _ in 0..<2_000 {
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: #expect(machines.admission.reserve() == model.reserve())
            case 1, 2:
                guard let ticket = model.random(.opening, &generator) else { continue }
                let isJob = Int.random(in: 0..<3, using: &generator) > 0
                let settled = try machines.open(ticket, isJob: isJob)
                #expect(settled.map(\.ticket) == model.open(ticket, isJob: isJob))
                #expect(settled.map(\.position) == settled.map { model.sequences[$0.ticket] })
            case 3:
                guard let ticket = model.random(.staging, &generator) else { continue }
                machines.application.finish(ticket, ticket)
                model.finish(ticket)
            default: take(&machines, &model)
            }
            try machines.application.checkInvariants()
            #expect((machines.application.next != nil) == (model.nextReady != nil))
        }
        for ticket in model.all(.opening) {
            _ = try machines.open(ticket, isJob: true)
            _ = model.open(ticket, isJob: true)
        }
        for ticket in model.all(.staging) {
            machines.application.finish(ticket, ticket)
            model.finish(ticket)
        }
        // A work that does not leave when it should must not be waited for.
        for _ in 0..<model.states.count where model.nextReady != nil { take(&machines, &model) }
        #expect(model.nextReady == nil)
        #expect(machines.application.isEmpty && machines.admission.isEmpty)
        #expect(model.taken == (101..<101 + Int64(model.taken.count)).map { $0 })
    }

    private func take(_ machines: inout Machines, _ model: inout OrderModel) {
        let taken = machines.application.takeNext()
        #expect(taken?.work == model.nextReady)
        guard let taken else { return }
        #expect(taken.place.position == model.sequences[taken.work])
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
        // A place after one that is not opened is not settled, and does not leave either.
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

extension Admission {
    /// The tickets that a frame settles.
    fileprivate mutating func opened(_ ticket: Ticket, _ content: Content) -> [Settled] {
        open(ticket, content)
        var settled: [Settled] = []
        while let next = takeSettled() { settled.append(next) }
        return settled
    }
}
