internal import Synchronization

/// A part of a budget, held as long as this object lives.
final class BudgetShare: Sendable {
    private let budget: SharedBudget
    private let bytes: Int

    init(of budget: SharedBudget, _ bytes: Int) {
        self.budget = budget
        self.bytes = bytes
        budget.add(bytes)
    }

    deinit { budget.remove(bytes) }
}

/// Bytes that all connections together may hold of one kind. Any thread may call.
///
/// It does not refuse: whoever adds looks at ``hasRoom`` first, and does without when there is none.
final class SharedBudget: Sendable {
    private struct State {
        var held = 0
        /// Called once, when there is room again.
        var waiters: [ObjectIdentifier: @Sendable () -> Void] = [:]
    }

    let byteLimit: Int
    private let state = Mutex(State())

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    var held: Int { state.withLock { $0.held } }
    var hasRoom: Bool { held < byteLimit }

    /// Somebody waits for room.
    var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// - Returns: what is held now.
    @discardableResult func add(_ bytes: Int) -> Int {
        state.withLock { state in
            state.held += bytes
            return state.held
        }
    }

    func remove(_ bytes: Int) {
        let waiters = state.withLock { state -> [@Sendable () -> Void] in
            state.held -= bytes
            guard state.held < byteLimit, !state.waiters.isEmpty else { return [] }
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for tell in waiters { tell() }
    }

    /// Calls `tell` once when there is room: at once, or on whatever thread makes it. A later call for the same waiter
    /// takes the place of an earlier one.
    func whenRoom(for waiter: ObjectIdentifier, _ tell: @escaping @Sendable () -> Void) {
        let hasRoom = state.withLock { state in
            if state.held < byteLimit { return true }
            state.waiters[waiter] = tell
            return false
        }
        if hasRoom { tell() }
    }

    func forget(_ waiter: ObjectIdentifier) { state.withLock { $0.waiters[waiter] = nil } }
}
