import BrokerJSON
import BrokerJournal
import BrokerModel
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
        guard !ordinary.isEmpty else { return server.jobTable.service.isPaused ? Event(kind: .resume) : nil }
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
        add(.replay, if: !server.pending.isEmpty && server.jobTable.load.hasRoomForOthers)
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
        add(.resume, if: server.jobTable.service.isPaused)
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

extension Simulation {
    mutating func happen(_ event: Event) {
        server.time += Int64(random(1...50_000))
        switch event.kind {
        case .connect: connect(event.client)
        case .send: send(event.client)
        case .arrive: arrive(event.client)
        case .receive: receive(event.client)
        case .ask: ask(event.client)
        case .drop:
            chances.drops -= 1
            clients[event.client].connection = nil
        case .pause:
            chances.pauses -= 1
            server.jobTable.service.isPaused = true
        case .resume:
            server.jobTable.service.isPaused = false
            server.perform(Effects(notifies: server.jobTable.hasWork))
        case .crash: crash()
        default: happenInServer(event.kind)
        }
    }

    private mutating func happenInServer(_ kind: Kind) {
        switch kind {
        case .replay: replay()
        case .open:
            let position = random(0...server.opening.count - 1)
            let frame = server.opening.remove(at: position)
            let message = messages[deliveries[server.deliveries[frame.arrival]!].message]
            server.open(frame, message)
        case .stage:
            let position = random(0...server.staging.count - 1)
            server.stage(position)
        case .search:
            let position = random(0...server.searches.count - 1)
            server.search(position, in: store)
        case .complete:
            let notify = server.completions.removeFirst()
            notify()
        case .take:
            var jobs: [(AcceptedJob, Int64, SimulatedStore)] = []
            server.takeBatch(&store) { jobs.append(($0, $1, $2)) }
            for (job, sequence, store) in jobs { checkMerge(job, sequence, store) }
        case .alone:
            var jobs: [(AcceptedJob, Int64, SimulatedStore)] = []
            let fails = takeChance(\.storeFaults)
            server.applyAlone(&store, fails: fails) { jobs.append(($0, $1, $2)) }
            for (job, sequence, store) in jobs { checkMerge(job, sequence, store) }
            server.notifyLog(store)
        case .commit:
            let fails = takeChance(\.storeFaults)
            server.commit(&store, fails: fails)
            checkEffects()
        case .settle:
            let microseconds: Int64 = random(0...3) == 0 ? 200_000 : 100
            server.settleTransaction(took: microseconds)
            server.notifyLog(store)
        case .keep: server.recordFailures(&store)
        case .gather: server.gather()
        case .sync:
            if takeChance(\.logFaults) { return reportSynced(isFull: true) }
            disk?.sync(server.stored)
            server.areSynced = true
        case .notifyLog: reportSynced(isFull: false)
        case .trim: disk?.trim(through: server.log?.appliedThrough ?? 0)
        default: break
        }
        if server.isReplaying, server.pending.isEmpty, server.jobTable.load.count == 0 { server.isReplaying = false }
    }

    private mutating func reportSynced(isFull: Bool) {
        do throws(StoreError) {
            try server.reportSynced(isFull: isFull)
        } catch {
            violate("the log delivers what cannot be next: \(error)")
        }
    }

    /// Something goes wrong, if it may still.
    private mutating func takeChance(_ chance: WritableKeyPath<Chances, Int>) -> Bool {
        guard chances[keyPath: chance] > 0, random(0...3) == 0 else { return false }
        chances[keyPath: chance] -= 1
        note("fails")
        return true
    }

    // MARK: - Clients

    private mutating func connect(_ number: Int) {
        clients[number].connection = SimulatedConnection(number: nextConnection, client: number)
        nextConnection += 1
        // Whether a job without an id was accepted is unknown: it is not sent again.
        clients[number].inFlight.removeAll { messages[$0].id == nil }
        clients[number].again = clients[number].inFlight
    }

    private mutating func send(_ number: Int) {
        let message: Int
        if clients[number].again.isEmpty {
            message = clients[number].waiting.removeFirst()
            clients[number].inFlight.append(message)
        } else {
            message = clients[number].again.removeFirst()
        }
        note("message \(message) \(messages[message].id ?? "without id")")
        clients[number].connection?.toServer.append(message)
        if messages[message].id != nil, takeChance(\.doubles) {
            clients[number].connection?.toServer.append(message)
        }
    }

    private mutating func ask(_ number: Int) {
        chances.asks -= 1
        let kinds: [SimulatedMessage.Kind] = [.cancel, .cancel, .cancel, .await, .barrier, .nothing]
        let kind = kinds[random(0...kinds.count - 1)]
        var message = SimulatedMessage(kind: kind, client: number, owner: clients[number].owner)
        message.id = messages.compactMap(\.id).randomElement(using: &generator) ?? "unknown"
        note("message \(messages.count) \(kind) \(message.id!)")
        clients[number].connection?.toServer.append(messages.count)
        messages.append(message)
    }

    private mutating func receive(_ number: Int) {
        guard let answered = clients[number].connection?.toClient.removeFirst() else { return }
        clients[number].inFlight.removeAll { $0 == answered }
        clients[number].again.removeAll { $0 == answered }
    }

    // MARK: - The server

    private mutating func arrive(_ number: Int) {
        guard let connection = clients[number].connection else { return }
        guard server.hasRoom(for: connection.number) else {
            clients[number].connection?.waitsForRoom = true
            return
        }
        let message = connection.toServer[0]
        clients[number].connection?.toServer.removeFirst()
        deliveries.append(SimulatedDelivery(message: message, run: server.run, connection: connection.number))
        let ticket = admit(message, from: connection.number)
        note("message \(message) is delivery \(deliveries.count - 1) at ticket \(ticket)")
    }

    /// Admits the newest delivery. Returns its ticket.
    private mutating func admit(
        _ message: Int, from source: Int, _ job: LogEntry? = nil, isCancelled: Bool = false
    ) -> Int {
        do throws(StoreError) {
            let ticket = try server.admit(
                deliveries.count - 1, message, from: source, job, isCancelled: isCancelled)
            deliveries[deliveries.count - 1].ticket = ticket
            return ticket
        } catch {
            violate("the log delivers what cannot be next: \(error)")
            return -1
        }
    }

    private mutating func replay() {
        let (job, isCancelled, message) = server.pending.removeFirst()
        deliveries.append(SimulatedDelivery(message: message, run: server.run, connection: nil))
        _ = admit(message, from: 0, job, isCancelled: isCancelled)
        note("message \(message) of sequence \(job.position) is delivery \(deliveries.count - 1)")
    }

    /// Unsynced data is lost; the beginning of the bytes that were being written may be there.
    private mutating func crash() {
        chances.crashes -= 1
        answers.failed = [:]
        if disk != nil, !server.syncing.isEmpty, !server.areSynced {
            let durable = random(0...server.syncing.count)
            disk?.sync(server.stored.prefix(durable))
            note("of \(server.syncing.count) entries \(durable) are on the disk")
        }
        for number in clients.indices { clients[number].connection = nil }
        server = SimulatedServer(run: server.run + 1, limits, bug, store: &store, disk: disk)
        note("applied \(store.durable.applied), to be replayed: \(server.pending.map(\.job.position))")
    }
}

/// The answers to clients, over all runs of the server.
struct SimulationAnswers {
    /// By sequence: the delivery to which it was sent.
    var sequences: [Int64: Int] = [:]
    /// Sequences of accepted jobs while there is a journal.
    var accepted: Set<Int64> = []
    /// Sequences of jobs that were reported as cancelled.
    var cancelled: Set<Int64> = []
    /// The jobs that failed in this run of the server, by sequence, with their ids. Their lines follow, unless the server
    /// crashes before, a later job of the id replaces the line, or a job of the id is committed.
    var failed: [Int64: String] = [:]
    var completed: [SimulatedStore.Effect] = []
    /// Effects that were looked at already.
    var checkedEffects = 0
    var ids: Set<String> = []
}

extension Simulation {
    private static let cancelledError: [UInt8] = {
        var writer = JSONWriter()
        Fault.cancelled.write(to: &writer)
        return writer.bytes
    }()

    private static let busyError = Array(#"{"code":"busy""#.utf8)

    // MARK: - Of what the server does

    /// A job is about to be applied.
    mutating func checkMerge(_ job: AcceptedJob, _ sequence: Int64, _ before: SimulatedStore) {
        note("merges \(job.id) at \(sequence)")
        if let delivery = server.deliveries[job.arrival], case .steps = job.work,
            deliveries[delivery].wasCancelled || answers.cancelled.contains(sequence)
        {
            violate("\(job.id) was reported cancelled, and is merged at \(sequence)")
        }
        if let newest = before.contents.effects.last?.sequence, newest >= sequence {
            violate("\(sequence) takes effect after \(newest)")
        }
        guard let disk else { return }
        if !disk.holds(sequence) { violate("\(sequence) is merged, and is not in the log") }
        if let missed = disk.jobs(after: before.contents.applied).first?.position, missed < sequence {
            violate("\(sequence) is merged before \(missed), which is in the log and not applied")
        }
    }

    /// Each id takes effect once, and in the order of sequences.
    mutating func checkEffects() {
        let effects = store.durable.effects
        for effect in effects.dropFirst(answers.checkedEffects) {
            if !answers.ids.insert(effect.id).inserted { violate("\(effect.id) takes effect twice") }
        }
        answers.checkedEffects = effects.count
    }

    // MARK: - Checks of answers

    mutating func takeNotices() {
        while violation == nil {
            let notices = server.notices.withLock { notices in
                defer { notices = [] }
                return notices
            }
            if notices.isEmpty { return }
            for notice in notices { take(notice) }
        }
    }

    private mutating func take(_ notice: SimulatedNotice) {
        switch notice {
        case .event(let delivery, .accepted(let id, let sequence)): accepted(delivery, id, sequence)
        case .event(let delivery, .ended(let outcome)): ended(delivery, outcome)
        case .event(_, .progress): break
        case .question(let delivery, let ticket): asked(delivery, ticket)
        case .cancellation(let delivery, let answer):
            note("delivery \(delivery): \(answer)")
            answered(delivery)
        case .awaited(let delivery, let outcome):
            if let outcome, outcome.isCommitted { checkCommitted(outcome) }
            answered(delivery)
        case .passed(let delivery):
            let ticket = deliveries[delivery].ticket
            if messages[deliveries[delivery].message].kind == .barrier, server.begun.contains(where: { $0 < ticket }) {
                violate("a job before ticket \(ticket) has not ended, and its waiters are notified")
            }
            answered(delivery)
        case .reopened(let frame):
            deliveries[server.deliveries[frame.arrival]!].ticket = frame.ticket
            server.opening.append(frame)
        case .room(let connection):
            for number in clients.indices where clients[number].connection?.number == connection {
                clients[number].connection?.waitsForRoom = false
            }
        }
    }

    private mutating func asked(_ delivery: Int, _ ticket: Int) {
        let message = messages[deliveries[delivery].message]
        deliveries[delivery].ticket = ticket
        switch message.kind {
        case .cancel: server.cancel(message.id!, before: ticket, as: message.owner, delivery)
        case .await:
            let notices = server.notices
            server.await(message.id!, before: ticket, as: message.owner) { outcome in
                notices.withLock { $0.append(.awaited(delivery: delivery, outcome)) }
            }
        case .barrier: server.passJobs(before: ticket, delivery)
        case .job, .nothing: violate("delivery \(delivery) is no question")
        }
    }

    /// Gives back whether the answer leaves on a connection.
    @discardableResult private mutating func answered(_ delivery: Int) -> Int? {
        if deliveries[delivery].isAnswered { violate("delivery \(delivery) is answered twice") }
        deliveries[delivery].isAnswered = true
        guard let connection = deliveries[delivery].connection else { return nil }
        guard let client = clients.firstIndex(where: { $0.connection?.number == connection }) else { return nil }
        clients[client].connection?.toClient.append(deliveries[delivery].message)
        return client
    }

    private mutating func accepted(_ delivery: Int, _ id: String, _ sequence: Int64) {
        note("delivery \(delivery): \(id) is accepted at \(sequence)")
        if deliveries[delivery].isAnswered { violate("delivery \(delivery) is accepted after its end") }
        checkSequence(sequence, delivery)
        guard let disk else { return }
        answers.accepted.insert(sequence)
        if !disk.holds(sequence), !store.durable.ended.contains(sequence) {
            violate("\(sequence) is reported accepted, and is not on the disk")
        }
    }

    private mutating func ended(_ delivery: Int, _ outcome: JobCompletion) {
        let client = answered(delivery)
        guard case .completed(_, let isDuplicate) = outcome.result else {
            return failed(delivery, outcome)
        }
        note("delivery \(delivery): \(outcome.id) completed at \(outcome.sequence ?? 0), duplicate: \(isDuplicate)")
        checkCommitted(outcome)
        guard let sequence = outcome.sequence, !isDuplicate else { return }
        checkSequence(sequence, delivery)
        guard let client, let connection = clients[client].connection else { return }
        if connection.newestCompleted >= sequence {
            violate("\(sequence) is sent as completed after \(connection.newestCompleted)")
        }
        clients[client].connection?.newestCompleted = sequence
    }

    private mutating func failed(_ delivery: Int, _ outcome: JobCompletion) {
        guard case .failed(let error) = outcome.result else { return }
        note(
            """
            delivery \(delivery): \(outcome.id) failed at \(outcome.sequence ?? 0): \(String(decoding: error, as: UTF8.self))
            """)
        if let sequence = outcome.sequence { checkSequence(sequence, delivery) }
        if disk != nil, error.starts(with: Self.busyError), outcome.sequence != nil {
            violate("\(outcome.id) failed for want of memory, and the log has it")
        }
        guard error == Self.cancelledError else {
            if let sequence = outcome.sequence { answers.failed[sequence] = outcome.id }
            return
        }
        deliveries[delivery].wasCancelled = true
        guard let sequence = outcome.sequence else { return }
        answers.cancelled.insert(sequence)
        if store.contents.effects.contains(where: { $0.sequence == sequence }) {
            violate("\(outcome.id) is reported cancelled, and has taken effect at \(sequence)")
        }
        if let disk, !disk.cancelled.contains(sequence), !store.durable.ended.contains(sequence) {
            violate("\(sequence) is reported cancelled, and is not so on the disk")
        }
    }

    /// A sequence is sent for one job only, whatever happens.
    private mutating func checkSequence(_ sequence: Int64, _ delivery: Int) {
        if let other = answers.sequences[sequence], other != delivery {
            // A replay sends nothing, and the job is the same; one that was sent again has a sequence of its own.
            let isReplay = deliveries[delivery].connection == nil
            if !isReplay || deliveries[other].message != deliveries[delivery].message {
                violate("\(sequence) is sent for deliveries \(other) and \(delivery)")
            }
        } else {
            answers.sequences[sequence] = delivery
        }
        // With a log, the log has every job that is sent.
        if disk == nil, sequence > store.durable.reservedThrough { violate("\(sequence) is sent, and not reserved") }
    }

    private mutating func checkCommitted(_ outcome: JobCompletion) {
        let effect = SimulatedStore.Effect(sequence: outcome.sequence ?? 0, id: outcome.id)
        if !store.durable.effects.contains(effect) {
            return violate("\(effect.id) is reported completed at \(effect.sequence) before that is durable")
        }
        answers.completed.append(effect)
    }

    // MARK: - When nothing can happen any more

    mutating func checkEnd() {
        checkEffects()
        let jobTable = server.jobTable
        if jobTable.load.count != 0 || jobTable.jobCount != 0 || jobTable.load.unopened != 0
            || jobTable.load.bytes != 0
        {
            violate(
                "\(jobTable.load.count) frames are in flight at the end, \(jobTable.jobCount) jobs, \(jobTable.load.bytes) bytes"
            )
        }
        if !jobTable.admission.contents.isEmpty || !jobTable.application.isEmpty || !jobTable.running.jobs.isEmpty
            || jobTable.cancellations.areLogged || !jobTable.unrecorded.isEmpty
        {
            violate("something is left in the flight at the end")
        }
        if server.isReplaying || !server.pending.isEmpty { violate("the replay does not end") }
        for (number, client) in clients.enumerated() where !client.inFlight.isEmpty || !client.waiting.isEmpty {
            violate("client \(number) waits for \(client.inFlight) and has not sent \(client.waiting)")
        }
        for (number, delivery) in deliveries.enumerated() where delivery.run == server.run && !delivery.isAnswered {
            // The sender of a job of the journal, cancelled before the crash, got the answer then.
            let wasCancelled = delivery.connection == nil && messages[delivery.message].kind == .job
            if !wasCancelled { violate("delivery \(number) of message \(delivery.message) has no answer") }
        }
        let durable = store.durable
        for sequence in answers.accepted.sorted() where !durable.ended.contains(sequence) {
            violate("\(sequence) was reported accepted, and never applied")
        }
        for sequence in answers.cancelled.sorted() where !durable.ended.contains(sequence) && disk != nil {
            violate("\(sequence) was reported cancelled, and lost its ticket")
        }
        for (sequence, id) in answers.failed.sorted(by: { $0.key < $1.key })
        where !durable.ended.contains(sequence) {
            let line = durable.ledger[id]
            if line?.isFailure ?? true, line?.sequence ?? 0 < sequence {
                violate("\(sequence) failed, and has no line")
            }
        }
        let sequences = durable.effects.map(\.sequence)
        if sequences != sequences.sorted() { violate("effects are not in order: \(sequences)") }
        for effect in answers.completed where !durable.effects.contains(effect) {
            violate("\(effect.id) was reported completed at \(effect.sequence), and is gone")
        }
    }
}
