internal import BrokerCoordinator
internal import BrokerWire
internal import NIOCore
internal import Synchronization

/// The open connections and their shared limits. Lives on the one event loop.
///
/// It limits the resources of all clients together: connections, memory for incomplete frames, and answers that are not
/// read. As long as no client waits, a client may be as slow as it likes; while others wait, a stalled one is closed.
final class ConnectionSet {
    /// Bytes of large frames that are being read: two of the largest.
    static let assemblyBytes = 2 * (FrameLimits.largestPayloadCount + FrameScanner.prefixCount)
    /// Frames up to this size have a budget of their own, so that they do not wait for the largest.
    static let middleFrameBytes = 1 << 20
    /// Bytes of the frames of medium size that are being read.
    static let middleAssemblyBytes = 8 << 20
    /// Bytes of answers that are not taken, above which large ones wait and connections have one message at a time.
    static let answerBytes = 32 << 20
    /// Refused connections that may read the reason at the same time; above that, they are closed as soon as it is
    /// written.
    static let lingeringRefused = 64
    /// While others wait for its turn, a large frame must get more bytes within this time: a thousand times what a
    /// socket needs.
    static let stall = TimeAmount.milliseconds(500)
    /// While others wait, a large frame must be complete within this time.
    static let longestTurn = TimeAmount.seconds(5)
    /// While others wait for room for their answers, a client must take some of its own within this time.
    static let longestPause = TimeAmount.seconds(5)

    let eventLoop: any EventLoop
    let messages: MessageHandler
    let answers = SharedBudget(byteLimit: answerBytes)
    private var handlers: [ObjectIdentifier: FrameHandler] = [:]
    /// Those that were served since the start.
    private var servedCount = 0
    private var places: ConnectionPlaces
    private(set) var users: UserRules
    private var backlog = 0
    /// For frames of medium size, and for larger ones.
    private var turns = [middleAssemblyBytes, assemblyBytes].map(AssemblyTurns<ObjectIdentifier>.init(byteLimit:))
    private var isWatching = false
    private var whenEmpty: EventLoopPromise<Void>?
    var onRemoval: () -> Void = {}

    var coordinator: Coordinator { messages.coordinator }
    var options: ServerOptions { messages.options }
    var log: ServerLog { messages.log }

    init(on eventLoop: any EventLoop, _ messages: MessageHandler) {
        self.eventLoop = eventLoop
        self.messages = messages
        places = ConnectionPlaces(messages.options.connections)
        users = messages.options.users
        limitUsers()
    }

    /// From now on these users may connect, and have these limits. Connections of others end; those above a limit stay.
    func use(_ users: UserRules) {
        self.users = users
        limitUsers()
        for handler in numbered { handler.use(users) }
    }

    private func limitUsers() {
        messages.rates.use(users.jobsPerSecond)
        coordinator.limitBytesInFlight(users.bytesInFlight)
    }

    // MARK: - Places

    /// A client has connected.
    ///
    /// - Returns: why it is not served; nil when it is, and has a place.
    func add(_ handler: FrameHandler) -> WireError? {
        let identifier = ObjectIdentifier(handler)
        handlers[identifier] = handler
        guard whenEmpty == nil else {
            return WireError(.draining, "The server is stopping. Connect again when it is back.")
        }
        let user = handler.peer.user
        if !handler.isAllowed { return UserRules.refusal(of: handler.peer) }
        if let limit = users.connections.of(user), places.places(of: user) >= limit { return .tooMany(limit, user) }
        guard places.take(handler.peer, isPrivileged: handler.peer.owner.isPrivileged) else {
            return .noPlace(places, user)
        }
        servedCount += 1
        handler.number = servedCount
        return nil
    }

    func remove(_ handler: FrameHandler) {
        let identifier = ObjectIdentifier(handler)
        guard handlers.removeValue(forKey: identifier) != nil else { return }
        if handler.number != nil { places.leave(handler.peer) }
        answers.forget(identifier)
        leaveTurn(handler)
        onRemoval()
        if handlers.isEmpty { whenEmpty?.succeed() }
    }

    /// A refused client is closed at once where enough others are reading the reason.
    func mayLinger(_ handler: FrameHandler) -> Bool {
        handler.number != nil || handlers.values.count { $0.number == nil } <= Self.lingeringRefused
    }

    /// A connection must end because of what its client sent, or because of its user.
    func logEnd(of handler: FrameHandler, _ error: WireError) {
        var metadata = handler.peer.metadata
        metadata["code"] = "\(error.code)"
        switch error.code {
        case .unauthorized: log.log(.warning, .refusedUser, "A user was refused: \(error.message)", metadata)
        case .busy: log.log(.warning, .noPlace, "A connection was refused: \(error.message)", metadata)
        default: log.log(.notice, .badFrame, "A connection was ended: \(error.message)", metadata)
        }
    }

    /// Those that are served, in the order in which they came.
    var numbered: [FrameHandler] {
        handlers.values.filter { $0.number != nil }.sorted { $0.number ?? 0 < $1.number ?? 0 }
    }

    // MARK: - Stopping

    /// Handles what has been read, reads no more, and ends when everything is answered and closed.
    func drain() -> EventLoopFuture<Void> {
        let promise = eventLoop.makePromise(of: Void.self)
        whenEmpty = promise
        for handler in Array(handlers.values) { handler.drain() }
        if handlers.isEmpty { promise.succeed() }
        return promise.futureResult
    }

    func cutOffAll(_ reason: String) {
        for handler in Array(handlers.values) { handler.cutOff(reason) }
    }

    // MARK: - Large frames

    func askForTurn(_ handler: FrameHandler, _ bytes: Int) -> Bool {
        let isGiven = turns[bytes <= Self.middleFrameBytes ? 0 : 1]
            .ask(ObjectIdentifier(handler), process: handler.peer.process, bytes: bytes)
        if !isGiven { watch() }
        return isGiven
    }

    func leaveTurn(_ handler: FrameHandler) {
        for next in turns.indices.flatMap({ turns[$0].leave(ObjectIdentifier(handler)) }) {
            guard let connection = handlers[next]?.connection else { continue }
            // Not at once: the next one may end at once, too, and so on.
            connection.onHandler { $0.turnCame() }
        }
    }

    /// - Returns: whether too many bytes have arrived unasked.
    func count(backlog change: Int) -> Bool {
        backlog += change
        return backlog > options.backlogBytes
    }

    // MARK: - Stalled clients

    /// Checks from time to time, as long as a client waits.
    func watch() {
        guard !isWatching else { return }
        isWatching = true
        let set = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.scheduleTask(in: .milliseconds(100)) {
            set.value.isWatching = false
            set.value.look()
        }
    }

    private func look() {
        let now = NIODeadline.now()
        for turns in turns where turns.isContended {
            for handler in turns.current.compactMap({ handlers[$0] })
            where handler.isHoldingUp(stalledSince: now - Self.stall, begunBefore: now - Self.longestTurn) {
                handler.refuseStalled(
                    .busy("A large frame stopped arriving while others waited. Send each frame without a pause."))
            }
        }
        if answers.isAwaited {
            for handler in Array(handlers.values) where handler.lastTakenAt < now - Self.longestPause {
                // A process that holds less than is free delays no other.
                guard let connection = handler.connection, connection.bytes > 0,
                    !answers.hasRoom(handler.peer.process)
                else { continue }
                handler.cutOff("it has read none of its answers for a while, and others wait")
            }
        }
        if turns.contains(where: \.isContended) || answers.isAwaited { watch() }
    }

    /// All clients together have left too many answers: cuts off the connection with most of the process that left
    /// most.
    func cutOffLargest() {
        guard answers.held > Connection.cutOffBytesOfAll else { return }
        let largest = handlers.values.max {
            let (first, second) = ($0.peer.process, $1.peer.process)
            let (one, other) = (answers.share(of: first), answers.share(of: second))
            return (one, first, $0.connection?.bytes ?? 0) < (other, second, $1.connection?.bytes ?? 0)
        }
        largest?.cutOff("its process has more unread answers than any other, and those of all clients are too many")
    }
}

extension WireError {
    fileprivate static func tooMany(_ limit: Int, _ user: UInt32) -> WireError {
        .busy(
            "The user with the id \(user) has as many connections as it may have, which is \(limit). Try again, close one, or have "
                + "the operator raise --user-connections.")
    }

    fileprivate static func noPlace(_ places: ConnectionPlaces, _ user: UInt32) -> WireError {
        .busy(
            "The user with the id \(user) has \(places.places(of: user)) of the \(places.count) connections of this server, and may "
                + "have no other now: a user may while it has no more than are free. Try again, close some, or have the operator "
                + "raise --connections.")
    }
}

/// The places for connections, and whether a client gets one. A pure value.
///
/// 1. A user may have another place while it has no more than are free, as in ``SharedBudget``. So one user alone gets half of
///    them, and there is always one for the next user, whatever the others hold.
/// 2. Root and the server's own user have no such share. Some places are reserved for those of their processes that have no
///    other one, so an operator can always look at the server and stop it.
struct ConnectionPlaces {
    /// Enough for the commands of some operators and monitors at once.
    private static let mostReserved = 16

    /// Those of all, with the reserved ones.
    let count: Int
    private let reserved: Int
    private var taken = 0
    private var users: [UInt32: Int] = [:]
    private var processes: [Int32: Int] = [:]

    init(_ count: Int) {
        self.count = count
        reserved = min(Self.mostReserved, count / 8)
    }

    /// - Parameter isPrivileged: it is root, or the server's own user.
    /// - Returns: whether the client has a place now, until ``leave(_:)``.
    mutating func take(_ peer: PeerCredentials, isPrivileged: Bool) -> Bool {
        let free = count - reserved - taken
        let hasShare = free > 0 && (isPrivileged || places(of: peer.user) <= free)
        guard hasShare || isPrivileged && taken < count && processes[peer.process] == nil else { return false }
        taken += 1
        users[peer.user, default: 0] += 1
        processes[peer.process, default: 0] += 1
        return true
    }

    mutating func leave(_ peer: PeerCredentials) {
        taken -= 1
        users[peer.user] = users[peer.user].flatMap { $0 > 1 ? $0 - 1 : nil }
        processes[peer.process] = processes[peer.process].flatMap { $0 > 1 ? $0 - 1 : nil }
    }

    func places(of user: UInt32) -> Int { users[user, default: 0] }
}

/// Which connections may read a large frame: a bound on the bytes of unfinished ones, over all connections. A pure
/// machine.
///
/// Processes take turns, and the connections of one process in the order of their requests, so that a process with many
/// connections delays itself and not the others. One frame may always be read, so that reading never stalls.
struct AssemblyTurns<Holder: Hashable> {
    private struct Process {
        let identifier: Int32
        var waiting: [(holder: Holder, bytes: Int)]
    }

    let byteLimit: Int
    private(set) var heldBytes = 0
    private var holders: [Holder: Int] = [:]
    private var processes: [Process] = []

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    var current: [Holder] { Array(holders.keys) }

    var isContended: Bool { !processes.isEmpty }

    /// - Returns: whether it is the holder's turn at once; otherwise a later ``leave(_:)`` names it.
    mutating func ask(_ holder: Holder, process: Int32, bytes: Int) -> Bool {
        if processes.isEmpty, fits(bytes) {
            give(holder, bytes)
            return true
        }
        if let index = processes.firstIndex(where: { $0.identifier == process }) {
            processes[index].waiting.append((holder, bytes))
        } else {
            processes.append(Process(identifier: process, waiting: [(holder, bytes)]))
        }
        return false
    }

    /// The holder has its frame, or waits no longer.
    ///
    /// - Returns: the holders whose turn it is now.
    mutating func leave(_ holder: Holder) -> [Holder] {
        if let bytes = holders.removeValue(forKey: holder) {
            heldBytes -= bytes
        } else {
            for index in processes.indices { processes[index].waiting.removeAll { $0.holder == holder } }
            processes.removeAll { $0.waiting.isEmpty }
        }
        var next: [Holder] = []
        while let first = processes.first?.waiting.first, fits(first.bytes) {
            give(first.holder, first.bytes)
            next.append(first.holder)
            var process = processes.removeFirst()
            process.waiting.removeFirst()
            if !process.waiting.isEmpty { processes.append(process) }
        }
        return next
    }

    private func fits(_ bytes: Int) -> Bool { holders.isEmpty || heldBytes + bytes <= byteLimit }

    private mutating func give(_ holder: Holder, _ bytes: Int) {
        holders[holder] = bytes
        heldBytes += bytes
    }
}

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

    func hasRoom(_ process: Int32) -> Bool { state.withLock { $0.hasRoom(process, byteLimit) } }

    func share(of process: Int32) -> Int { state.withLock { $0.shares[process, default: 0] } }

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
