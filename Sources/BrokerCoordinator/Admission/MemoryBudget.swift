public import BrokerJSON
public import BrokerStaging

/// The memory of all jobs in flight, shared by the threads that work on them.
final class MemoryBudget: Sendable {
    /// Called when the job may be tried again, with what is granted to it already.
    typealias Waiter = @Sendable (_ granted: Int) -> Void

    private let shares: Monitor<MemoryShares<Waiter>>
    /// Bytes that one job may take.
    let one: Int

    init(shared: Int, one: Int) {
        self.one = one
        shares = Monitor(MemoryShares(shared: shared, one: one))
    }

    /// Bytes that all hold together.
    var total: Int { shares.withLock { $0.total } }

    /// - Parameters:
    ///   - payloadBytes: of the frame, which is there already. Places are admitted in their order.
    ///   - limit: bytes that the job may take when it is the first; nil is `one`.
    func admit(_ place: Int, payloadBytes: Int, limit: Int? = nil) -> JobMemory {
        shares.withLock { $0.add(place, bytes: payloadBytes, limit: limit) }
        return JobMemory(self, place, payloadBytes)
    }

    fileprivate func take(_ bytes: Int, for place: Int, passesWaiting: Bool) -> MemoryShares<Waiter>.Answer {
        shares.withLock { $0.take(bytes, for: place, passesWaiting: passesWaiting) }
    }

    fileprivate func takeInTurn(_ bytes: Int, for place: Int) -> Bool {
        shares.withLock { $0.takeInTurn(bytes, for: place) }
    }

    fileprivate func isFirst(_ place: Int) -> Bool { shares.withLock { $0.first == place } }

    /// Changes the shares, and wakes whom that helps.
    fileprivate func change(_ body: (inout MemoryShares<Waiter>) -> Void) {
        let woken = shares.withLock { shares in
            body(&shares)
            return shares.takeWoken()
        }
        for (waiter, granted) in woken { waiter(granted) }
    }
}

/// The memory of one frame and of the job in it, from admission until its rows are gone: it all goes back with this
/// object.
///
/// A frame is first opened *briefly*, within what every worker may take at any time; what needs more is opened anew with
/// the budget's leave.
public final class JobMemory: MemoryAllowance, StagingAllowance {
    fileprivate struct State {
        var payloadBytes: Int
        /// Of the budget's, beside the payload.
        var granted = 0
        var used = 0
        /// Of what is granted, what stays until the attempt has ended, used or not: it was waited for.
        var reserved = 0
        /// While it is opened briefly, bytes that it may use without asking.
        var briefLimit: Int?
        /// What would have been used when room was refused; 0 when none was.
        var refusedAt = 0
        /// When this attempt began, nothing was before it: if there is no room now, there will be none later.
        var isLastAttempt = false
    }

    private let budget: MemoryBudget
    private let place: Int
    private let state: Monitor<State>

    fileprivate init(_ budget: MemoryBudget, _ place: Int, _ payloadBytes: Int) {
        self.budget = budget
        self.place = place
        state = Monitor(State(payloadBytes: payloadBytes))
    }

    deinit { budget.change { $0.remove(place) } }

    // MARK: - RecordDecision

    public func take(_ bytes: Int) -> Bool { take(bytes, passesWaiting: false) }

    private func take(_ bytes: Int, passesWaiting: Bool) -> Bool {
        state.withLock { state in
            let wanted = state.used + bytes
            if let limit = state.briefLimit {
                guard wanted <= limit else { return false }
            } else if wanted > state.granted {
                switch budget.take(wanted - state.granted, for: place, passesWaiting: passesWaiting) {
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

    /// Takes memory while the job is merged: up to what it may take, whatever the others hold, because its turn has come.
    func takeInTurn(_ bytes: Int) -> Bool {
        guard budget.takeInTurn(bytes, for: place) else { return false }
        state.withLock { state in
            state.granted += bytes
            state.used += bytes
        }
        return true
    }

    /// Takes what is there already, also where there is no room for it; it goes back with everything else.
    func add(_ bytes: Int) {
        state.withLock { state in
            state.granted += bytes
            state.used += bytes
        }
        budget.change { $0.hold(bytes, for: place) }
    }

    public func giveBack(_ bytes: Int) {
        let surplus = state.withLock { state in
            state.used -= bytes
            return state.takeSurplus()
        }
        returnToBudget(surplus)
    }

    /// The attempt has ended well: what was waited for and is not used goes back.
    func end() {
        let surplus = state.withLock { state in
            state.reserved = 0
            return state.takeSurplus()
        }
        returnToBudget(surplus)
    }

    private func returnToBudget(_ bytes: Int) {
        if bytes > 0 { budget.change { $0.giveBack(bytes, of: place) } }
    }

    // MARK: - Attempts

    /// Begins an attempt that may use `bytes` without asking; nothing is used so far.
    func beginBriefly(_ bytes: Int) { state.withLock { $0.briefLimit = bytes } }

    /// Begins an attempt with the budget's leave; nothing is used so far.
    ///
    /// - Parameter granted: of the budget, for this attempt.
    func begin(granted: Int) {
        let isFirst = budget.isFirst(place)
        state.withLock { state in
            state.briefLimit = nil
            state.granted += granted
            state.reserved = granted
            state.refusedAt = 0
            state.isLastAttempt = isFirst
        }
    }

    /// What was used briefly is kept, so the budget must grant it.
    ///
    /// - Returns: false when it does not.
    func keepBrief() -> Bool {
        let used = state.withLock { state in
            state.briefLimit = nil
            defer { state.used = 0 }
            return state.used
        }
        return take(used, passesWaiting: true)
    }

    /// What the attempt took is gone.
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

    /// Everything is gone, and the place is given up: it is not used any more.
    func leave() {
        state.withLock { $0 = State(payloadBytes: 0) }
        budget.change { $0.remove(place) }
    }

    /// The frame's own bytes are gone.
    func dropPayload() {
        let bytes = state.withLock { state in
            defer { state.payloadBytes = 0 }
            return state.payloadBytes
        }
        returnToBudget(bytes)
    }

    /// Room was refused, and waiting for it helps.
    var canWait: Bool { state.withLock { !$0.isLastAttempt } }

    /// Tries again when there is room for what the job probably needs, or when nothing is before it any more. Everything
    /// that the attempt took must be gone.
    ///
    /// - Parameter contentBytes: of the frame, as far as is known.
    func wait(contentBytes: Int, _ retry: @escaping MemoryBudget.Waiter) {
        dropAll()
        let reached = state.withLock { $0.refusedAt }
        // Asking for too little would stage the same again and again.
        let probable = max(Self.memoryPerContentByte * contentBytes, Self.growth * reached)
        budget.change { $0.wait(place, for: min(probable, $0.shared), retry) }
    }

    /// What ordinary JSON becomes: its text, its tape and its rows.
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
    fileprivate mutating func refuse(_ wanted: Int) -> Bool {
        refusedAt = max(refusedAt, wanted)
        return false
    }

    /// What is granted beyond what is used or reserved; it is to go back.
    fileprivate mutating func takeSurplus() -> Int {
        let surplus = max(0, granted - max(used, reserved))
        granted -= surplus
        return surplus
    }
}
