internal import Synchronization

/// A part of a budget, held as long as this object lives.
final class BudgetShare: Sendable {
    private let budget: SharedBudget
    private let bytes: Int
    private let process: Int32

    init(of budget: SharedBudget, _ bytes: Int, _ process: Int32) {
        self.budget = budget
        self.bytes = bytes
        self.process = process
        budget.add(bytes, process)
    }

    deinit { budget.remove(bytes, process) }
}

/// Bytes that all connections together may hold of one kind, in fair shares of the processes that connected. Any thread may
/// call.
///
/// A process may hold more as long as it holds no more than is free. So one process alone gets half of the budget, two get a
/// third each, and there is always something left for the next one, whatever the others hold. (The dynamic thresholds of
/// Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998, with a factor of 1.)
///
/// It does not refuse: the caller asks ``hasRoom(_:)`` before it adds.
final class SharedBudget: Sendable {
    private struct Waiter {
        let process: Int32
        let notify: @Sendable () -> Void
    }

    private struct State {
        var held = 0
        /// Bytes by process; never 0.
        var shares: [Int32: Int] = [:]
        /// Waiters by client; each is called once, when there is room for its process.
        var waiters: [ObjectIdentifier: Waiter] = [:]

        func hasRoom(_ process: Int32, _ byteLimit: Int) -> Bool {
            held < byteLimit && shares[process, default: 0] <= byteLimit - held
        }
    }

    let byteLimit: Int
    private let state = Mutex(State())

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    var held: Int { state.withLock { $0.held } }

    /// Whether the process may hold more.
    func hasRoom(_ process: Int32) -> Bool { state.withLock { $0.hasRoom(process, byteLimit) } }

    /// Bytes that the process holds.
    func share(of process: Int32) -> Int { state.withLock { $0.shares[process, default: 0] } }

    /// Whether a client waits for room.
    var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// - Returns: the bytes held now.
    @discardableResult func add(_ bytes: Int, _ process: Int32) -> Int {
        state.withLock { state in
            guard bytes > 0 else { return state.held }
            state.held += bytes
            state.shares[process, default: 0] += bytes
            return state.held
        }
    }

    func remove(_ bytes: Int, _ process: Int32) {
        guard bytes > 0 else { return }
        let woken = state.withLock { state -> [Waiter] in
            state.held -= bytes
            let share = state.shares[process, default: 0] - bytes
            state.shares[process] = share > 0 ? share : nil
            guard !state.waiters.isEmpty else { return [] }
            let woken = state.waiters.filter { state.hasRoom($0.value.process, byteLimit) }
            for waiter in woken.keys { state.waiters[waiter] = nil }
            return Array(woken.values)
        }
        for waiter in woken { waiter.notify() }
    }

    /// Calls `notify` once when there is room for the process: at once, or on the thread that frees it. A later call for
    /// the same waiter replaces an earlier one.
    func whenRoom(for waiter: ObjectIdentifier, of process: Int32, _ notify: @escaping @Sendable () -> Void) {
        let hasRoom = state.withLock { state in
            if state.hasRoom(process, byteLimit) { return true }
            state.waiters[waiter] = Waiter(process: process, notify: notify)
            return false
        }
        if hasRoom { notify() }
    }

    func forget(_ waiter: ObjectIdentifier) { state.withLock { $0.waiters[waiter] = nil } }
}
