internal import BrokerJSON
internal import BrokerStaging
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
        /// The job's turn to be merged has come.
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

    init(_ budget: MemoryBudget, _ ticket: Int, _ payloadBytes: Int) {
        self.budget = budget
        self.ticket = ticket
        state = Mutex(State(payloadBytes: payloadBytes))
    }

    deinit { budget.change { $0.remove(ticket) } }

    // MARK: - Taking

    package func take(_ bytes: Int) -> Bool { take(bytes, passesWaiting: false) }

    private func take(_ bytes: Int, passesWaiting: Bool) -> Bool {
        state.withLock { state in
            if state.isInTurn { return state.takeInTurn(bytes, budget, ticket) }
            let wanted = state.used + bytes
            if let limit = state.briefLimit {
                guard wanted <= limit else { return false }
            } else if wanted > state.granted {
                switch budget.take(wanted - state.granted, for: ticket, passesWaiting: passesWaiting) {
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

    /// The job's turn to be merged has come: from now on it may take memory up to its limit, whatever the others hold.
    ///
    /// - Parameter isUnlimited: the store limits what the merge takes.
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
    ///
    /// - Parameter granted: bytes of the budget for this attempt.
    func begin(granted: Int) {
        let isFirst = budget.isNext(ticket)
        state.withLock { state in
            state.briefLimit = nil
            state.granted += granted
            state.reserved = granted
            state.refusedAt = 0
            state.isLastAttempt = isFirst
        }
    }

    /// Retains what was used briefly, for which the budget must grant the bytes; does nothing after that.
    ///
    /// - Returns: false when it does not.
    func keepBrief() -> Bool {
        let used = state.withLock { state -> Int? in
            guard state.briefLimit != nil else { return nil }
            state.briefLimit = nil
            defer { state.used = 0 }
            return state.used
        }
        return used.map { take($0, passesWaiting: true) } ?? true
    }

    /// Gives back the memory of the attempt.
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

    /// Gives back the frame's own bytes.
    func dropPayload() {
        let bytes = state.withLock { state in
            defer { state.payloadBytes = 0 }
            return state.payloadBytes
        }
        returnToBudget(bytes)
    }

    /// Whether room was refused and waiting for it helps.
    var canWait: Bool { state.withLock { !$0.isLastAttempt } }

    /// Tries again when there is room for the bytes that the job probably needs, or when nothing is before it any more.
    /// The memory of the attempt must have been given back.
    ///
    /// - Parameter contentBytes: bytes of the frame's content, as far as is known.
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
    fileprivate mutating func takeInTurn(_ bytes: Int, _ budget: MemoryBudget, _ ticket: Int) -> Bool {
        if isUnlimited {
            budget.hold(bytes, for: ticket)
        } else if !budget.takeInTurn(bytes, for: ticket) {
            return false
        }
        granted += bytes
        used += bytes
        return true
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
