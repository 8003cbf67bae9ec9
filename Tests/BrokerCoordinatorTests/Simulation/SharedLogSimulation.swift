import BrokerJournal
import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStore
import TestSupport

@testable import BrokerCoordinator

/// Three servers with one log, in one thread and without a clock: a seed decides what happens next of all that could.
///
/// Requests to the log and its answers are late, doubled and lost; its leader changes, which loses what is under way; servers
/// crash, and read the log on from what their stores have applied.
struct SharedLogSimulation {
    private static let mostSteps = 10_000
    private static let serverCount = 3

    private enum Event {
        case submit(Int), cancel(Int), control(Int)
        case open(Int), stage(Int), complete(Int), take(Int), commit(Int), settle(Int)
        case gather(Int), timeOut(Int), read(Int)
        case request(Int), answer(Int)
        case lose, double, changeLeader, crash(Int), reconnect(Int)
    }

    private struct Node {
        var session: Int
        var server: SimulatedServer
        var store: SimulatedStore
        var appender: SessionAppender
        /// The newest position that was read.
        var position: Int
    }

    private let bug: SharedLogBug?
    private let limits: CoordinatorLimits
    private var generator: SeededGenerator
    private var log = SharedLog()
    private var nodes: [Node] = []
    private var requests: [SharedLog.Group] = []
    private var answers: [(session: Int, number: Int, answer: SharedLog.Answer)] = []
    private var messages: [SimulatedMessage] = []
    /// By delivery: its session, message and ticket.
    private var deliveries: [(session: Int, message: Int, ticket: Int)] = []
    private var nextSession = 1
    private var jobs: Int
    private var disturbances: Int
    private var violation: String?
    /// The events, one line each; nil unless the run is traced.
    private(set) var trace: [String]?
    /// Positions that a client was sent, with the message of its job.
    private var accepted: [Int64: Int] = [:]
    /// Deliveries that were reported as cancelled.
    private var cancelled: [Int] = []

    init(seed: UInt64, bug: SharedLogBug? = nil, isTraced: Bool = false) {
        var generator = SeededGenerator(seed: seed)
        trace = isTraced ? [] : nil
        self.bug = bug
        var limits = CoordinatorLimits(workers: 1)
        limits.jobs = Int.random(in: 2...8, using: &generator)
        self.limits = limits
        jobs = Int.random(in: 5...25, using: &generator)
        disturbances = Int.random(in: 0...20, using: &generator)
        self.generator = generator
        for _ in 0..<Self.serverCount {
            var store = SimulatedStore(nil)
            let server = Self.server(limits, &store)
            nodes.append(
                Node(
                    session: nextSession, server: server, store: store, appender: SessionAppender(session: nextSession),
                    position: 0))
            nextSession += 1
        }
    }

    private static func server(_ limits: CoordinatorLimits, _ store: inout SimulatedStore) -> SimulatedServer {
        var server = SimulatedServer(run: 0, limits, nil, store: &store, disk: nil)
        let log = SimulatedLog(takesCancellations: false)
        server.log = log
        server.jobTable.use(log, after: store.durable.applied)
        return server
    }

    private mutating func random(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    private mutating func violate(_ what: String) {
        violation = violation ?? what
        trace?.append("VIOLATED: \(what)")
    }

    /// - Returns: what was violated; nil when all held.
    mutating func run() -> String? {
        var steps = 0
        while violation == nil, let event = next() {
            steps += 1
            trace?.append("\(steps): \(event)")
            happen(event)
            for node in nodes.indices { takeNotices(node) }
            // In linear time, so not after each step.
            if steps % 8 == 0 { checkInvariants() }
            if steps == Self.mostSteps { violate("there is no end after \(steps) steps") }
        }
        if violation == nil { checkInvariants() }
        if violation == nil { checkEnd() }
        return violation
    }

    private mutating func checkInvariants() {
        for node in nodes {
            do throws(InvariantViolation) {
                try node.server.checkInvariants()
            } catch {
                violate("an invariant does not hold: \(error.rule)")
            }
        }
    }

    // MARK: - What can happen

    private mutating func next() -> Event? {
        var events: [Event] = []
        for (number, node) in nodes.enumerated() {
            let server = node.server
            if jobs > 0, server.jobTable.hasRoom(for: number) { events.append(.submit(number)) }
            if !server.opening.isEmpty { events += [.open(number), .open(number)] }
            if !server.staging.isEmpty { events.append(.stage(number)) }
            if !server.completions.isEmpty { events.append(.complete(number)) }
            if server.writer.isIdle, server.writer.isAwake { events.append(.take(number)) }
            if server.writer.transaction?.isDurable == false { events.append(.commit(number)) }
            if server.writer.transaction?.isDurable == true { events.append(.settle(number)) }
            if node.appender.inFlight == nil, server.log?.hasWaiting == true { events.append(.gather(number)) }
            // As long as nothing is lost, patience is long enough.
            let isSilent = requests.isEmpty && answers.isEmpty
            if node.appender.inFlight != nil, isSilent { events.append(.timeOut(number)) }
            if node.position < log.entries.count {
                let isOwn = log.entries[node.position].session == node.session
                // However many jobs of its own are in flight: they may come after those of the others.
                let hasRoom =
                    bug == .othersWaitForClients
                    ? server.jobTable.hasRoom(for: number) : server.jobTable.load.hasRoomForOthers
                if isOwn || hasRoom { events.append(.read(number)) }
            }
        }
        events += requests.indices.map { .request($0) } + answers.indices.map { .answer($0) }
        guard !events.isEmpty else { return nil }
        if disturbances > 0, random(0...9) == 0 {
            disturbances -= 1
            let node = random(0...nodes.count - 1)
            let more: [Event] = [
                .lose, .lose, .double, .changeLeader, .crash(node), .reconnect(node), .cancel(node), .cancel(node),
                .control(node), .timeOut(node), .timeOut(node),
            ]
            return more[random(0...more.count - 1)]
        }
        return events[random(0...events.count - 1)]
    }

    private mutating func happen(_ event: Event) {
        switch event {
        case .submit(let node): submit(node)
        case .cancel(let node): cancel(node)
        case .control(let node):
            messages.append(SimulatedMessage(kind: .job, client: node, owner: .server))
            log.appendControl(nodes[node].session, message: messages.count - 1)
        case .open, .stage, .complete, .take, .commit, .settle: work(event)
        case .gather(let node):
            requests.append(nodes[node].appender.send(nodes[node].server.log?.takeWaiting() ?? []))
        case .timeOut(let node):
            guard let group = nodes[node].appender.lookUp(log) else { return }
            let isFenced = bug != .sendAgainUnfenced
            requests.append(
                SharedLog.Group(
                    session: group.session, number: group.number, entries: group.entries,
                    expected: isFenced ? group.expected : nil))
        case .read(let node): read(node)
        case .request(let number):
            let group = requests.remove(at: number)
            answers.append((group.session, group.number, log.store(group)))
        case .answer(let number):
            let (session, group, answer) = answers.remove(at: number)
            for node in nodes.indices where nodes[node].session == session {
                nodes[node].appender.answered(group, answer)
            }
        default: disturb(event)
        }
    }

    private mutating func disturb(_ event: Event) {
        switch event {
        case .lose:
            if !requests.isEmpty { requests.remove(at: random(0...requests.count - 1)) }
            if !answers.isEmpty { answers.remove(at: random(0...answers.count - 1)) }
        case .double:
            if let request = requests.randomElement(using: &generator) { requests.append(request) }
            if let answer = answers.randomElement(using: &generator) { answers.append(answer) }
        case .changeLeader: (requests, answers) = ([], [])
        case .crash(let node):
            var store = nodes[node].store
            store.rollback()
            nodes[node].session = nextSession
            nodes[node].appender = SessionAppender(session: nextSession)
            nodes[node].server = Self.server(limits, &store)
            nodes[node].store = store
            nodes[node].position = Int(nodes[node].store.durable.applied)
            nextSession += 1
        case .reconnect(let node):
            if bug == .positionMovesBack, nodes[node].position > 0 { nodes[node].position -= 1 }
        default: break
        }
    }

    private mutating func work(_ event: Event) {
        switch event {
        case .open(let node):
            let place = random(0...nodes[node].server.opening.count - 1)
            let frame = nodes[node].server.opening.remove(at: place)
            let message = messages[deliveries[nodes[node].server.deliveries[frame.arrival]!].message]
            nodes[node].server.open(frame, message)
        case .stage(let node):
            let place = random(0...nodes[node].server.staging.count - 1)
            nodes[node].server.stage(place)
        case .complete(let node):
            let notify = nodes[node].server.completions.removeFirst()
            notify()
        case .take(let node):
            var store = nodes[node].store
            nodes[node].server.takeBatch(&store) { _, _, _ in }
            nodes[node].store = store
        case .commit(let node):
            var store = nodes[node].store
            nodes[node].server.commit(&store, fails: false)
            nodes[node].store = store
        case .settle(let node): nodes[node].server.settleTransaction(took: 0)
        default: break
        }
    }

    // MARK: - Clients

    private mutating func submit(_ node: Int) {
        jobs -= 1
        var message = SimulatedMessage(kind: .job, client: node, owner: .server)
        // Ids of other servers' clients, too, with the same content and with another.
        message.id = random(0...4) == 0 ? nil : "job-\(random(0...5))"
        message.content = random(0...1)
        message.isFaulty = random(0...7) == 0
        message.wantsAcceptance = true
        messages.append(message)
        admit(messages.count - 1, node, nil)
    }

    private mutating func cancel(_ node: Int) {
        let server = nodes[node].server
        let begun = server.begun.sorted().compactMap { server.deliveries[$0] }
        guard let delivery = begun.randomElement(using: &generator) else { return }
        let ticket = deliveries[delivery].ticket
        guard let id = messages[deliveries[delivery].message].id else { return }
        if bug == .cancelAfterAppend {
            // As a server alone may do it.
            guard server.jobTable.application.isReady(ticket) else { return }
            server.jobTable.ends.all.jobs.first { $0.ticket == ticket }?.job?.withdraw(.cancelled, .cancelled)
            return cancelled.append(delivery)
        }
        nodes[node].server.cancel(id, before: ticket + 1, as: .server, delivery)
    }

    private mutating func admit(_ message: Int, _ node: Int, _ logged: LogEntry?) {
        deliveries.append((nodes[node].session, message, -1))
        do throws(StoreError) {
            let source = logged == nil ? node : -1
            let ticket = try nodes[node].server.admit(deliveries.count - 1, message, from: source, logged)
            deliveries[deliveries.count - 1].ticket = ticket
        } catch {
            violate("the log delivers what cannot be next: \(error)")
        }
    }

    // MARK: - Reading

    private mutating func read(_ node: Int) {
        let entry = log.entries[nodes[node].position]
        nodes[node].position += 1
        let position = Int64(nodes[node].position)
        if bug == .controlWithoutPosition, entry.ticket == nil { return }
        guard let ticket = ownTicket(entry, node) else {
            let job = LogEntry(
                .job, position: position, id: entry.id, isIDMade: entry.isIDMade,
                isPrivileged: entry.owner.isPrivileged, user: entry.owner.user, time: entry.time)
            return admit(entry.message, node, job)
        }
        var effects = Effects()
        do throws(StoreError) {
            let place = LogPlace(position: position, time: entry.time)
            _ = try nodes[node].server.jobTable.deliver([.job(ticket: ticket, place)], &effects)
        } catch {
            violate("the log delivers what cannot be next: \(error)")
        }
        nodes[node].server.perform(effects)
    }

    /// The ticket of an entry that the server appended in its session.
    private func ownTicket(_ entry: SharedLog.Entry, _ node: Int) -> Int? {
        if bug == .matchById {
            let server = nodes[node].server
            return server.begun.sorted().first { ticket in
                server.jobTable.application.place(of: ticket) == nil && server.jobTable.application.holds(ticket)
                    && messages[deliveries[server.deliveries[ticket]!].message].id == entry.id
            } ?? (entry.session == nodes[node].session ? entry.ticket : nil)
        }
        return entry.session == nodes[node].session ? entry.ticket : nil
    }

    // MARK: - Checks

    private mutating func takeNotices(_ node: Int) {
        let notices = nodes[node].server.notices.withLock { notices in
            defer { notices = [] }
            return notices
        }
        for notice in notices {
            switch notice {
            case .event(let delivery, .accepted(_, let sequence)):
                let message = deliveries[delivery].message
                guard Int(sequence) <= log.entries.count else { return violate("\(sequence) is not in the log") }
                if log.entries[Int(sequence) - 1].message != message {
                    violate("message \(message) is accepted at \(sequence), where the log has another")
                }
                if accepted.updateValue(message, forKey: sequence) ?? message != message {
                    violate("\(sequence) is sent for two jobs")
                }
            case .cancellation(let delivery, .cancelled): cancelled.append(delivery)
            case .reopened(let frame): nodes[node].server.opening.append(frame)
            default: break
            }
        }
    }

    private mutating func checkEnd() {
        for (number, node) in nodes.enumerated() {
            let jobTable = node.server.jobTable
            if jobTable.load.count != 0 || jobTable.jobCount != 0 || !jobTable.application.isEmpty {
                violate("\(jobTable.load.count) frames of server \(number) are in flight at the end")
            }
            if node.store.durable.applied != log.entries.count {
                violate("server \(number) has applied \(node.store.durable.applied) of \(log.entries.count) entries")
            }
            if node.store.durable.effects != nodes[0].store.durable.effects {
                violate("the stores of servers 0 and \(number) differ")
            }
            if node.store.durable.ended != nodes[0].store.durable.ended {
                violate("servers 0 and \(number) have applied different entries")
            }
        }
        var seen: Set<[Int]> = []
        var newest: [Int: Int] = [:]
        for entry in log.entries {
            guard let ticket = entry.ticket else { continue }
            if !seen.insert([entry.session, ticket]).inserted { violate("a job is in the log twice") }
            if newest[entry.session] ?? -1 >= ticket { violate("jobs of one server are in another order in the log") }
            newest[entry.session] = ticket
        }
        for delivery in cancelled {
            let message = deliveries[delivery].message
            let positions = log.entries.indices.filter { log.entries[$0].message == message }.map { Int64($0 + 1) }
            let takesEffect = nodes[0].store.durable.effects.contains { positions.contains($0.sequence) }
            if takesEffect { violate("message \(message) was reported cancelled, and takes effect") }
        }
    }
}

/// A mistake in the glue between servers and a log that they share, which the simulation must find.
enum SharedLogBug: String, CaseIterable, Sendable {
    /// A server takes an entry with the id of one of its jobs for that job.
    case matchById
    /// A group whose fate is unknown is sent again without the expected position.
    case sendAgainUnfenced
    /// A job is cancelled after it was appended: the other servers do not know that.
    case cancelAfterAppend
    /// An entry that is no job does not move the position.
    case controlWithoutPosition
    /// After a reconnection, a server reads from an earlier position.
    case positionMovesBack
    /// The entries of other servers wait for the room of this one's clients, whose jobs may come after them.
    case othersWaitForClients
}

/// The log that several servers append to and read, with its one order: an entry's position is its index and one.
struct SharedLog {
    struct Entry {
        let session: Int
        /// The job's ticket in that session; nil for an entry that is no job.
        let ticket: Int?
        let id: String
        let owner: JobOwner
        let isIDMade: Bool
        let message: Int
        let time: Int64
    }

    /// Entries that become durable together, or not at all.
    struct Group {
        let session: Int
        let number: Int
        let entries: [PendingEntry]
        /// The position of the session's last entry, which must still be its last; nil for any.
        let expected: Int?
    }

    enum Answer {
        /// The position of the group's last entry.
        case stored(Int)
        /// The session's last entry is another one than expected.
        case refused
    }

    private(set) var entries: [Entry] = []

    /// The position of the session's last entry; 0 for none.
    func last(of session: Int) -> Int {
        entries.lastIndex { $0.session == session && $0.ticket != nil }.map { $0 + 1 } ?? 0
    }

    mutating func store(_ group: Group) -> Answer {
        if let expected = group.expected, expected != last(of: group.session) { return .refused }
        for pending in group.entries {
            let entry = pending.whole
            append(
                Entry(
                    session: group.session, ticket: pending.ticket, id: entry.id, owner: entry.owner,
                    isIDMade: entry.isIDMade, message: Int(String(decoding: entry.payload, as: UTF8.self))!,
                    time: max(entries.last?.time ?? 0, entry.time)))
        }
        return .stored(entries.count)
    }

    /// An entry that is no job.
    mutating func appendControl(_ session: Int, message: Int) {
        append(
            Entry(
                session: session, ticket: nil, id: "control-\(entries.count)", owner: .server, isIDMade: true,
                message: message, time: entries.last?.time ?? 0))
    }

    private mutating func append(_ entry: Entry) { entries.append(entry) }
}

/// Appends the entries of one session: one group is in flight, the next gathers. A group whose fate is unknown is looked up,
/// and sent again under the same expectation.
struct SessionAppender {
    let session: Int
    private(set) var inFlight: SharedLog.Group?
    private var last = 0
    private var number = 0

    init(session: Int) { self.session = session }

    mutating func send(_ entries: [PendingEntry]) -> SharedLog.Group {
        number += 1
        let group = SharedLog.Group(session: session, number: number, entries: entries, expected: last)
        inFlight = group
        return group
    }

    mutating func answered(_ number: Int, _ answer: SharedLog.Answer) {
        // Late and doubled answers are about groups that are settled.
        guard inFlight?.number == number, case .stored(let position) = answer else { return }
        last = position
        inFlight = nil
    }

    /// No answer has come, or a refusal: the session's last entry shows whether the group is stored.
    ///
    /// - Returns: the group to send again; nil when it is stored.
    mutating func lookUp(_ log: SharedLog) -> SharedLog.Group? {
        let found = log.last(of: session)
        guard found == last else {
            last = found
            inFlight = nil
            return nil
        }
        return inFlight
    }
}

/// A log in memory that the servers of a test share. Each server has a ``View`` of it.
final class MemorySharedLog: Sendable {
    struct Entry: Sendable {
        let session: Int
        /// Nil for an entry of no server.
        let ticket: Int?
        let content: LogEntry
    }

    private struct State {
        var entries: [Entry] = []
        var beginning: LogBeginning?
        var sessions = 0
        /// Entries are refused with this.
        var refusal: StoreError?
        var clock: Int64 = 1_000
        var trimmed: Int64 = 0
    }

    static let name = "\(SharedLogSource.prefix)0123"
    private let state = Monitor(State())

    /// A source for a server of that name.
    ///
    /// - Parameter made: called with its view.
    func source(_ replica: String, _ made: @escaping @Sendable (View) -> Void = { _ in }) -> SharedLogSource {
        SharedLogSource { [self] identity throws(StoreError) in
            guard identity == nil || identity == Self.name else { throw StoreError(.unavailable, "another stream") }
            let session = state.withLock { state in
                state.sessions += 1
                return state.sessions
            }
            let view = View(self, replica, session)
            made(view)
            return view
        }
    }

    /// From now on entries get times from that one on, in milliseconds.
    func set(clock: Int64) { state.withLock { $0.clock = clock } }

    /// From now on entries are refused; nil for no more.
    func refuse(_ error: StoreError?) { state.withLock { $0.refusal = error } }

    var count: Int64 { state.withLock { Int64($0.entries.count) } }

    var trimmed: Int64 { state.withLock { $0.trimmed } }

    /// Appends a note of no server.
    func append(_ note: ReplicaNote) { append(note.entry, nil, of: 0) }

    fileprivate func append(_ entry: LogEntry, _ ticket: Int?, of session: Int) {
        state.update { state in
            state.clock += 1
            var entry = entry
            entry.position = Int64(state.entries.count + 1)
            entry.time = state.clock
            state.entries.append(Entry(session: session, ticket: ticket, content: entry))
        }
    }

    /// One server's.
    final class View: BrokerCoordinator.SharedLog {
        private struct Own {
            /// Own entries that were refused, with the number of own entries that are before them.
            var refused: [(before: Int, entry: PendingEntry, error: StoreError)] = []
            var appended = 0
            var delivered = 0
            var isStopped = false
            var isHeld = false
            var report: (@Sendable (String?) -> Void)?
        }

        private let log: MemorySharedLog
        let replica: String
        private let session: Int
        private let own = Monitor(Own())
        private let applied = Monitor<(position: Int64, time: Int64)>((0, 0))

        init(_ log: MemorySharedLog, _ replica: String, _ session: Int) {
            self.log = log
            self.replica = replica
            self.session = session
        }

        var identity: String { MemorySharedLog.name }
        var address: String { "memory" }
        var durability: Durability { .quorum }
        let takesCancellations = false
        var backlog: Int { Int(log.count - applied.withLock { $0.position }) }
        var lastPosition: Int64 { log.count }
        var waiting: String? { own.withLock { $0.isHeld } ? "held" : nil }

        /// While held, nothing is delivered to this server.
        func hold(_ isHeld: Bool) {
            own.withLock { $0.isHeld = isHeld }
            log.state.update { _ in }
        }

        /// As if entries waited for long, or did not any more.
        func report(_ reason: String?) { own.withLock { $0.report }?(reason) }

        func first(_ wanted: LogBeginning) throws(StoreError) -> LogBeginning {
            var beginning: LogBeginning?
            log.state.update { state in
                if state.beginning == nil {
                    state.beginning = wanted
                    state.beginning!.position = 1
                    state.beginning!.time = state.clock
                    var first = ReplicaNote.upgrade(fingerprint: wanted.fingerprint).entry
                    (first.position, first.time) = (1, state.clock)
                    state.entries = [Entry(session: 0, ticket: nil, content: first)]
                }
                beginning = state.beginning
            }
            return beginning!
        }

        func begin(after position: Int64, at time: Int64, reporting report: @escaping @Sendable (String?) -> Void) {
            applied.withLock { $0 = (position, time) }
            own.withLock { $0.report = report }
        }

        func append(_ entry: PendingEntry) {
            let refusal = log.state.withLock { $0.refusal }
            guard let refusal else {
                own.withLock { $0.appended += 1 }
                return log.append(entry.whole, entry.ticket, of: session)
            }
            own.withLock { $0.refused.append((before: $0.appended, entry: entry, error: refusal)) }
            log.state.update { _ in }
        }

        func append(_ note: ReplicaNote) {
            own.withLock { $0.appended += 1 }
            log.append(note.entry, nil, of: session)
        }

        func trim(through position: Int64) { log.state.withLock { $0.trimmed = position } }

        func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
            log.state.wait { state -> [LogItem]?? in
                let items = self.own.withLock { own -> [LogItem]? in
                    if own.isStopped { return nil }
                    return own.isHeld ? [] : self.items(in: state.entries, after: position, &own)
                }
                guard let items else { return .some(nil) }
                return items.isEmpty ? nil : .some(items)
            }
        }

        private func items(in entries: [Entry], after position: Int64, _ own: inout Own) -> [LogItem] {
            var items: [LogItem] = []
            func takeRefused() {
                while let first = own.refused.first, first.before <= own.delivered {
                    items.append(.refused(first.entry, first.error))
                    own.refused.removeFirst()
                }
            }
            takeRefused()
            for index in Int(position)..<min(entries.count, Int(position) + 100) {
                let entry = entries[index]
                items.append(item(entry))
                if entry.session == session { own.delivered += 1 }
                takeRefused()
            }
            return items
        }

        private func item(_ entry: Entry) -> LogItem {
            var content = entry.content
            content.time = applied.withLock { applied in
                applied.time = max(applied.time, content.time)
                return applied.time
            }
            let isOwn = entry.session == session
            let ticket = isOwn ? entry.ticket : nil
            if let note = ReplicaNote(content) { return .note(note, content.mark, isOwn: isOwn) }
            guard content.kind == .job else { return .change(content, ticket: ticket) }
            return ticket.map { .job(ticket: $0, content.place, payload: content.payload) } ?? .other(content)
        }

        func applied(through position: Int64) {}

        func write(to writer: inout JSONWriter) { writer.member("kind", "memory") }

        func stop() {
            own.withLock { $0.isStopped = true }
            log.state.update { _ in }
        }
    }
}
