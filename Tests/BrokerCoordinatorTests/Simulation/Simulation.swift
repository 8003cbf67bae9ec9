import BrokerJournal
import BrokerStore
import TestSupport

@testable import BrokerCoordinator

/// Clients, one server after the other, its store and its log, in one thread and without a clock: a seed decides what
/// happens next of all that could, and so the whole run.
///
/// Rules are checked at every step, and when nothing can happen any more: see `Simulation+Checks.swift`.
struct Simulation {
    /// Steps after which it is clear that a run does not end; ordinary ones take some hundred.
    static let mostSteps = 20_000

    enum Kind: Int, CaseIterable {
        // Steps of clients and connections.
        case connect, send, arrive, receive
        // Steps of the server's threads.
        case replay, open, stage, search, complete, take, commit, settle, alone, keep, gather, sync, notifyLog, trim
        // Disturbances; each happens a few times at most.
        case ask, drop, pause, crash
        case resume
    }

    struct Event {
        let kind: Kind
        var client = 0
    }

    /// How often what comes between may still happen.
    struct Chances {
        var asks: Int
        var doubles: Int
        var drops: Int
        var pauses: Int
        var crashes: Int
        var storeFaults: Int
        var logFaults: Int
    }

    let bug: PlantedBug?
    var generator: SeededGenerator
    var chances: Chances
    let weights: [Int]
    let betweenOneIn: Int
    var messages: [SimulatedMessage] = []
    var deliveries: [SimulatedDelivery] = []
    var clients: [SimulatedClient] = []
    var store: SimulatedStore
    /// Nil without a log.
    var disk: SimulatedDisk?
    var server: SimulatedServer
    let limits: CoordinatorLimits
    var nextConnection = 1
    var steps = 0
    var answers = SimulationAnswers()
    var violation: String?
    /// Nil unless the run is traced.
    let trace: Trace?

    /// The events, one line each.
    final class Trace {
        var lines: [String] = []
    }

    init(seed: UInt64, hasLog: Bool, bug: PlantedBug? = nil, isTraced: Bool = false) {
        var generator = SeededGenerator(seed: seed)
        let generated = { (range: ClosedRange<Int>) in Int.random(in: range, using: &generator) }
        self.bug = bug
        chances = Chances(
            asks: generated(0...8), doubles: generated(0...3), drops: generated(0...3), pauses: generated(0...2),
            crashes: generated(0...2), storeFaults: max(0, generated(-3...3)), logFaults: max(0, generated(-2...2)))
        weights = Kind.allCases.map { _ in [1, 2, 4, 16][generated(0...3)] }
        betweenOneIn = generated(4...40)
        var limits = CoordinatorLimits(workers: 1)
        limits.jobs = generated(1...6)
        limits.sequenceBlock = Int64(generated(1...6))
        self.limits = limits
        let clientCount = generated(1...3)
        clients = (0..<clientCount).map { number in
            SimulatedClient(
                owner: generated(0...2) > 0 ? .server : JobOwner(user: UInt32(70_000 + number)),
                window: generated(1...4))
        }
        store = SimulatedStore(bug)
        disk = hasLog ? SimulatedDisk() : nil
        server = SimulatedServer(run: 0, limits, bug, store: &store, disk: disk)
        self.generator = generator
        trace = isTraced ? Trace() : nil
        for client in clients.indices { addJobs(client) }
    }

    private mutating func addJobs(_ client: Int) {
        for number in 0..<random(1...6) {
            var job = SimulatedMessage(kind: .job, client: client, owner: clients[client].owner)
            job.content = messages.count
            job.isFaulty = random(0...7) == 0
            job.isSearch = random(0...5) == 0
            job.wantsAcceptance = random(0...1) == 0
            if random(0...5) > 0 { job.id = "c\(client)-\(number)" }
            // Another client's id, perhaps with the same content.
            let others = messages.filter { $0.client != client && $0.id != nil }
            if random(0...7) == 0, !others.isEmpty {
                let other = others[random(0...others.count - 1)]
                job.id = other.id
                if random(0...2) > 0 { (job.content, job.isFaulty) = (other.content, other.isFaulty) }
            }
            job.isLarge = job.content % 3 == 0
            clients[client].waiting.append(messages.count)
            messages.append(job)
        }
    }

    mutating func random(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    func note(_ line: @autoclosure () -> String) { trace?.lines.append("\(steps): \(line())") }

    /// - Returns: what was violated; nil when all held.
    mutating func run() -> String? {
        while violation == nil, let event = next() {
            steps += 1
            note("\(event.kind) \(event.client)")
            happen(event)
            takeNotices()
            do throws(InvariantViolation) {
                try server.checkInvariants()
            } catch {
                violate("an invariant does not hold: \(error.rule)")
            }
            if steps == Self.mostSteps { violate("there is no end after \(steps) steps") }
        }
        if violation == nil { checkEnd() }
        return violation
    }

    /// The first violation counts: the others may follow from it.
    mutating func violate(_ what: String) {
        violation = violation ?? what
        note("VIOLATED: \(what)")
    }

    // MARK: - What can happen

    private mutating func next() -> Event? {
        let ordinary = ordinaryEvents()
        if !ordinary.isEmpty, random(1...betweenOneIn) == 1, let event = betweenEvent() { return event }
        guard !ordinary.isEmpty else { return server.jobTable.isPaused ? Event(kind: .resume) : nil }
        var rest = random(0...ordinary.reduce(-1) { $0 + weights[$1.kind.rawValue] })
        for event in ordinary {
            rest -= weights[event.kind.rawValue]
            if rest < 0 { return event }
        }
        return nil
    }

    private func ordinaryEvents() -> [Event] {
        var events: [Event] = []
        func add(_ kind: Kind, _ client: Int = 0, if isPossible: Bool) {
            if isPossible { events.append(Event(kind: kind, client: client)) }
        }
        for (number, client) in clients.enumerated() {
            guard let connection = client.connection else {
                add(.connect, number, if: !server.isReplaying)
                continue
            }
            let hasRoom = client.inFlight.count < client.window && !client.waiting.isEmpty
            add(.send, number, if: !client.again.isEmpty || hasRoom)
            add(.arrive, number, if: !connection.toServer.isEmpty && !connection.waitsForRoom)
            add(.receive, number, if: !connection.toClient.isEmpty)
        }
        add(.replay, if: !server.pending.isEmpty && server.jobTable.hasRoomForOthers)
        add(.open, if: !server.opening.isEmpty)
        add(.stage, if: !server.staging.isEmpty)
        add(.search, if: !server.searches.isEmpty)
        add(.complete, if: !server.completions.isEmpty)
        let writer = server.writer
        add(.take, if: writer.isIdle && writer.isAwake)
        add(.commit, if: writer.transaction?.isDurable == false)
        add(.settle, if: writer.transaction?.isDurable == true)
        add(.alone, if: writer.isAlone)
        add(.keep, if: writer.isIdle && !server.jobTable.unrecorded.isEmpty)
        if let log = server.log {
            add(.gather, if: server.syncing.isEmpty && log.hasWaiting)
            add(.sync, if: !server.syncing.isEmpty && !server.areSynced)
            add(.notifyLog, if: server.areSynced)
            add(.trim, if: (disk?.entries.first?.position ?? .max) <= log.appliedThrough)
        }
        add(.resume, if: server.jobTable.isPaused)
        return events
    }

    private mutating func betweenEvent() -> Event? {
        let connected = clients.indices.filter { clients[$0].connection != nil }
        var events: [Event] = []
        if let client = connected.randomElement(using: &generator) {
            if chances.asks > 0 { events.append(Event(kind: .ask, client: client)) }
            if chances.drops > 0 { events.append(Event(kind: .drop, client: client)) }
        }
        if chances.pauses > 0 { events.append(Event(kind: .pause)) }
        if chances.crashes > 0 { events.append(Event(kind: .crash)) }
        return events.randomElement(using: &generator)
    }
}
