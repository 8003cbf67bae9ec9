internal import BrokerJSON
internal import BrokerJournal
internal import BrokerStaging
internal import DequeModule
internal import Synchronization

/// The memory of one frame and of the job in it, from admission until its rows are freed: all of it is given back with
/// this object.
///
/// A frame is first opened *briefly*, within what every worker may take at any time. A frame that needs more is opened
/// again with a grant of the budget.
package final class JobMemory: MemoryAllowance, StagingAllowance {
    fileprivate struct State {
        var payloadBytes: Int
        /// Bytes of the budget, beside the payload.
        var granted = 0
        var used = 0
        /// The granted bytes that stay until the attempt has ended, used or not, because the job waited for them.
        var reserved = 0
        /// While the frame is opened briefly, bytes that it may use without asking.
        var briefLimit: Int?
        /// The bytes that would have been used when room was refused; 0 when none was.
        var refusedAt = 0
        var isInTurn = false
        /// In its turn, the job takes what it asks for.
        var isUnlimited = false
        /// Nothing was before this attempt when it began: if there is no room now, there will be none later.
        var isLastAttempt = false
    }

    private let budget: MemoryBudget
    private let ticket: Int
    /// Each job has one, so it has no object of its own as that of a ``Monitor``.
    private let state: Mutex<State>

    init(_ budget: MemoryBudget, _ ticket: Int, payloadBytes: Int) {
        self.budget = budget
        self.ticket = ticket
        state = Mutex(State(payloadBytes: payloadBytes))
    }

    deinit { budget.change { $0.remove(ticket) } }

    // MARK: - Taking

    package func take(_ bytes: Int) -> Bool { take(bytes, passesWaiting: false) }

    private func take(_ bytes: Int, passesWaiting: Bool) -> Bool {
        state.withLock { state in
            if state.isInTurn { return state.takeInTurn(bytes, of: budget, for: ticket) }
            let wanted = state.used + bytes
            if let limit = state.briefLimit {
                guard wanted <= limit else { return false }
            } else if wanted > state.granted {
                switch budget.shares.withLock({
                    $0.take(wanted - state.granted, for: ticket, passesWaiting: passesWaiting)
                }) {
                case .granted: state.granted = wanted
                case .later: return state.refuse(wanted)
                case .never:
                    state.isLastAttempt = true
                    return state.refuse(wanted)
                }
            }
            state.used = wanted
            return true
        }
    }

    /// The job's turn to be merged has come: from now on it may take memory up to its limit, whatever the others hold; without a
    /// limit when the store limits what the merge takes.
    func beginTurn(isUnlimited: Bool = false) {
        state.withLock {
            $0.isInTurn = true
            $0.isUnlimited = isUnlimited
        }
    }

    /// Takes memory that is in use already, also where there is no room for it; it is given back with the rest.
    func add(_ bytes: Int) {
        state.withLock { state in
            state.granted += bytes
            state.used += bytes
        }
        budget.change { $0.hold(bytes, for: ticket) }
    }

    package func giveBack(_ bytes: Int) {
        let surplus = state.withLock { state in
            state.used -= bytes
            return state.takeSurplus()
        }
        returnToBudget(surplus)
    }

    /// The attempt has succeeded: unused bytes that the job waited for are given back.
    func end() {
        let surplus = state.withLock { state in
            state.reserved = 0
            return state.takeSurplus()
        }
        returnToBudget(surplus)
    }

    private func returnToBudget(_ bytes: Int) {
        if bytes > 0 { budget.change { $0.giveBack(bytes, of: ticket) } }
    }

    // MARK: - Attempts

    /// Begins an attempt that may use `bytes` without asking; nothing is used so far.
    func beginBriefly(_ bytes: Int) { state.withLock { $0.briefLimit = bytes } }

    /// Begins an attempt with a grant of the budget; nothing is used so far.
    func begin(granted: Int) {
        let isFirst = budget.shares.withLock { $0.isNext(ticket) }
        state.withLock { state in
            state.briefLimit = nil
            state.granted += granted
            state.reserved = granted
            state.refusedAt = 0
            state.isLastAttempt = isFirst
        }
    }

    /// Retains what was used briefly, for which the budget must grant the bytes; does nothing after that.
    func keepBrief() -> Bool {
        let used = state.withLock { state -> Int? in
            guard state.briefLimit != nil else { return nil }
            state.briefLimit = nil
            defer { state.used = 0 }
            return state.used
        }
        return used.map { take($0, passesWaiting: true) } ?? true
    }

    func dropAll() {
        let granted = state.withLock { state in
            defer {
                state.granted = 0
                state.used = 0
                state.reserved = 0
            }
            return state.granted
        }
        returnToBudget(granted)
    }

    /// Gives back everything, with the ticket; the object is not used any more.
    func leave() {
        state.withLock { $0 = State(payloadBytes: 0) }
        budget.change { $0.remove(ticket) }
    }

    func dropPayload() {
        let bytes = state.withLock { state in
            defer { state.payloadBytes = 0 }
            return state.payloadBytes
        }
        returnToBudget(bytes)
    }

    /// Whether room was refused and waiting for it helps.
    var canWait: Bool { state.withLock { !$0.isLastAttempt } }

    /// Tries again when there is room for the bytes that the job probably needs, by those of its content, or when nothing is before
    /// it any more. Gives back the memory of the attempt.
    func wait(contentBytes: Int, _ retry: @escaping MemoryBudget.Waiter) {
        dropAll()
        let reached = state.withLock { $0.refusedAt }
        // With too low a number the same would be staged again and again.
        let probable = max(Self.memoryPerContentByte * contentBytes, Self.growth * reached)
        budget.change { $0.wait(ticket, for: min(probable, $0.shared), retry) }
    }

    /// The size that ordinary JSON reaches: its text, its tape and its rows.
    private static let memoryPerContentByte = 5
    /// How much more may be needed than was taken when room was refused.
    private static let growth = 4

    /// Why the job can never be done, and the remedy.
    var message: String {
        let reached = state.withLock { $0.refusedAt + $0.payloadBytes }
        return """
            The job needs more memory than one job may take: \(reached) bytes at least, and the limit is \
            \(budget.one). Split it into several jobs, or raise the server's limit.
            """
    }
}

extension JobMemory.State {
    fileprivate mutating func takeInTurn(_ bytes: Int, of budget: MemoryBudget, for ticket: Int) -> Bool {
        let isTaken = budget.shares.withLock { $0.takeInTurn(bytes, for: ticket, isUnlimited: isUnlimited) }
        if isTaken {
            granted += bytes
            used += bytes
        }
        return isTaken
    }

    fileprivate mutating func refuse(_ wanted: Int) -> Bool {
        refusedAt = max(refusedAt, wanted)
        return false
    }

    /// Granted bytes that are neither used nor reserved; they are to be given back.
    fileprivate mutating func takeSurplus() -> Int {
        let surplus = max(0, granted - max(used, reserved))
        granted -= surplus
        return surplus
    }
}

/// The memory of all jobs in flight, shared by the threads that work on them.
final class MemoryBudget: Sendable {
    /// Called when the job may be tried again, with the bytes that are granted to it already.
    typealias Waiter = @Sendable (_ granted: Int) -> Void

    fileprivate let shares: Monitor<MemoryShares<Waiter>>
    let one: Int

    init(shared: Int, one: Int) {
        self.one = one
        shares = Monitor(MemoryShares(shared: shared, one: one))
    }

    var total: Int { shares.withLock { $0.total } }

    /// Tickets are admitted in their order. The frame is in memory already.
    func admit(_ ticket: Int, payloadBytes: Int, isLogged: Bool = false) -> JobMemory {
        shares.withLock { $0.add(ticket, bytes: payloadBytes, isLogged: isLogged) }
        return JobMemory(self, ticket, payloadBytes: payloadBytes)
    }

    /// Changes the shares, and wakes the holders that this helps.
    func change(_ body: (inout MemoryShares<Waiter>) -> Void) {
        let woken = shares.withLock { shares in
            body(&shares)
            return shares.takeWoken()
        }
        for (waiter, granted) in woken { waiter(granted) }
    }
}

/// How much of the memory for jobs in flight each holder has, in the bytes that it really takes.
///
/// ```
/// the first in merge order    ├──────── up to `one` ────────┤
/// the first read from the log ├──────── what it needs ──────┤
/// all others together         ├──── up to `shared` ────┤
/// ```
///
/// Tickets are in merge order, except that a job that was read from the log precedes jobs of this server that have earlier tickets
/// and later positions. The next in the order of positions is the first of one of both kinds.
///
/// Invariants
/// 1. All but these first hold at most `shared` together, beside what was taken by force and what they held when another
///    was first before them.
/// 2. The first is never refused below `one`, and the first of the log never, whatever the others hold: so the order never stalls
///    for want of memory.
/// 3. A waiting holder is woken once: when it has become one of the first, or when the room that it waited for is its own.
///    Until then no later holder takes that room.
///
/// A pure value: no threads, no locks.
struct MemoryShares<Waiter> {
    /// A job's ticket: rising numbers, each added once.
    typealias Ticket = Int

    enum Answer: Equatable {
        case granted
        case later
        /// There will never be room for so much.
        case never
    }

    private struct Holder {
        let ticket: Ticket
        var bytes: Int
        let isLogged: Bool
        /// The bytes that a waiting holder needs, and its wake-up call.
        var waiting: (bytes: Int, waiter: Waiter)?
    }

    /// Bytes that all but the first may hold together.
    let shared: Int
    let one: Int
    private(set) var total = 0
    /// By rising tickets. Most leave at the front or at the end, which takes constant time.
    private var holders = Deque<Holder>()
    /// The waiting holders, in order; few, because each has at least begun.
    private var waiting: [Ticket] = []

    init(shared: Int, one: Int) {
        self.shared = shared
        self.one = one
    }

    func isNext(_ ticket: Ticket) -> Bool { position(of: ticket).map { isNext(at: $0) } ?? false }

    private var takenByOthers: Int { total - (holders.first?.bytes ?? 0) }

    private func position(of ticket: Ticket) -> Int? { holders.index(of: ticket) { $0.ticket } }

    /// Adds a holder after all others, with the bytes that it has already. A job that was read from the log must be applied.
    mutating func add(_ ticket: Ticket, bytes: Int, isLogged: Bool = false) {
        holders.append(Holder(ticket: ticket, bytes: bytes, isLogged: isLogged))
        total += bytes
    }

    /// - Parameter passesWaiting: takes room also where an earlier holder waits for it, because the amount is small.
    mutating func take(_ bytes: Int, for ticket: Ticket, passesWaiting: Bool = false) -> Answer {
        guard let position = position(of: ticket) else { return .never }
        let held = holders[position].bytes
        let limit = limit(of: holders[position])
        if isNext(at: position) {
            guard held + bytes <= limit else { return .never }
        } else {
            let hasRoom = takenByOthers + bytes <= shared && (passesWaiting || !isWaiting(before: ticket))
            guard hasRoom else { return held + bytes <= limit ? .later : .never }
        }
        holders[position].bytes += bytes
        total += bytes
        return .granted
    }

    /// Takes bytes for a job that is being merged, up to its limit, whatever the others hold: nothing is before it.
    mutating func takeInTurn(_ bytes: Int, for ticket: Ticket, isUnlimited: Bool = false) -> Bool {
        guard let position = position(of: ticket) else { return isUnlimited }
        guard isUnlimited || holders[position].bytes + bytes <= limit(of: holders[position]) else { return false }
        hold(bytes, for: ticket)
        return true
    }

    /// The holder has taken that much already, whether there is room or not.
    mutating func hold(_ bytes: Int, for ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        holders[position].bytes += bytes
        total += bytes
    }

    mutating func giveBack(_ bytes: Int, of ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        holders[position].bytes -= bytes
        total -= bytes
    }

    mutating func remove(_ ticket: Ticket) {
        guard let position = position(of: ticket) else { return }
        let holder = holders.remove(at: position)
        total -= holder.bytes
        if holder.waiting != nil { waiting.removeAll { $0 == ticket } }
    }

    /// The holder waits for `bytes` of room beside what it has, or until it is the first.
    mutating func wait(_ ticket: Ticket, for bytes: Int, _ waiter: Waiter) {
        guard let position = position(of: ticket) else { return }
        holders[position].waiting = (bytes, waiter)
        waiting.insert(ticket, at: waiting.firstIndex { $0 > ticket } ?? waiting.count)
    }

    /// Takes the holders that need not wait any longer, in order. The room that each waited for is its own now; the
    /// first gets what there is.
    mutating func takeWoken() -> [(waiter: Waiter, granted: Int)] {
        guard !waiting.isEmpty else { return [] }
        var woken: [(Waiter, Int)] = []
        for ticket in waiting {
            guard let position = position(of: ticket), let (bytes, waiter) = holders[position].waiting else { continue }
            if take(bytes, for: ticket) == .granted {
                woken.append((waiter, bytes))
            } else if isNext(at: position) {
                woken.append((waiter, 0))
            } else {
                // Later ones do not take the room for which this one waits.
                continue
            }
            holders[position].waiting = nil
            waiting.removeAll { $0 == ticket }
        }
        return woken
    }

    private func isNext(at position: Int) -> Bool {
        position == 0
            || holders[position].isLogged && !holders.prefix(position).contains { $0.isLogged }
    }

    private func limit(of holder: Holder) -> Int { holder.isLogged ? .max : one }

    private func isWaiting(before ticket: Ticket) -> Bool { waiting.first.map { $0 < ticket } ?? false }
}
