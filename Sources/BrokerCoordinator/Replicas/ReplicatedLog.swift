#if Replication
internal import BrokerJSON
internal import BrokerJournal
package import BrokerReplication
internal import BrokerStore
internal import DequeModule

/// The log of several servers in a stream of NATS JetStream.
///
/// ```
/// append ──▶ queue ──▶ one group in flight, the next gathers ──▶ stream ──▶ read
///                                       └── stored, and next in order ────────┘
/// ```
///
/// A group that is stored, and whose positions follow the newest that was read, is delivered from memory: the stream delivers it
/// later, from a copy that may lack it for a while; then it must be the same.
final class ReplicatedLog: SharedLog {
    struct Queue {
        var waiting: [PendingEntry] = []
        var isStopping = false
    }

    /// An entry on its way: the reader finds them in the order in which they were sent.
    enum SentEntry {
        case stored(ticket: Int)
        /// The stream has no room for it.
        case refused(PendingEntry, StoreError)
    }

    struct Outbox {
        var sent = Deque<SentEntry>()
        /// Groups of entries that are stored, with the positions of their first ones.
        var stored = Deque<(first: Int64, entries: [LogEntry])>()
        /// Why nothing more is appended.
        var failure: StoreError?
    }

    /// The state of the reading thread, which alone touches it.
    final class ReaderState: @unchecked Sendable {
        var reader: StreamReader?
        var time: Int64 = 0
        /// The newest position that was delivered.
        var position: Int64 = 0
    }

    struct Positions {
        var last: Int64
        var waiting: String?
    }

    let identity: String
    let address: String
    let replica: String
    let durability: Durability
    let backlogEnd: Int64
    private let applied = Monitor<Int64>(0)
    let stream: ReplicatedStream
    let session: Session
    let queue = Monitor(Queue())
    let outbox = Monitor(Outbox())
    let reading = ReaderState()
    let positions: Monitor<Positions>
    private let appending = Monitor<Thread?>(nil)
    private let trimming = SerialThread(named: "trimming")

    /// Microseconds that a group waits before new jobs are refused: an election of the stream's leader takes up to that long.
    private static let patience: Int64 = 10_000_000
    /// Microseconds after which a server that appends nothing repeats its newest checkpoint, so that the others know that it lives.
    private static let heartbeat: Int64 = 3_600_000_000

    init(_ stream: ReplicatedStream, replica: String, durability: Durability) throws(StoreError) {
        self.stream = stream
        self.replica = replica
        self.durability = durability
        identity = SharedLogSource.prefix + stream.identity.description
        address = "\(stream.name) at \(stream.connection.address.hosts)"
        session = Session(stream)
        backlogEnd = try onStream { () throws(ReplicationError) in try stream.status().lastPosition }
        positions = Monitor(Positions(last: backlogEnd))
    }

    // MARK: - Beginning

    func first(_ own: LogBeginning) throws(StoreError) -> LogBeginning {
        // They have a subject of their own: the session has appended nothing yet.
        let id = SessionID()
        let entries = [
            LogChange.limits(own.limits).entry, LogChange.model(own.model, .refuse).entry,
            ReplicaNote.upgrade(fingerprint: own.fingerprint).entry,
        ].map { $0.appended(in: id) }
        return try onStream { () throws(ReplicationError) in
            try stream.begin(with: entries)
            let reader = StreamReader(stream, after: 0)
            defer { reader.stop() }
            var read: [LogEntry] = []
            while read.count < entries.count, let next = try reader.read(bytes: 1) { read += next }
            return try Self.beginning(of: read.prefix(entries.count))
        }
    }

    private static func beginning(of entries: ArraySlice<LogEntry>) throws(ReplicationError) -> LogBeginning {
        var limits: LoggedLimits?
        var model: String?
        var fingerprint: String?
        for entry in entries {
            switch LogChange(entry) {
            case .limits(let texts): limits = texts
            case .model(let text, _): model = text
            case nil: if case .upgrade(let digits)? = ReplicaNote(entry) { fingerprint = digits }
            }
        }
        guard let limits, let model, let fingerprint, let last = entries.last else {
            throw .unknownPayload(at: entries.first?.position ?? 1)
        }
        return LogBeginning(
            limits: limits, model: model, fingerprint: fingerprint, position: last.position,
            time: entries.map(\.time).max() ?? 0)
    }

    func begin(
        after position: Int64, at time: Int64, reporting report: @escaping @Sendable (_ reason: String?) -> Void
    ) {
        reading.reader = StreamReader(stream, after: position)
        reading.time = time
        reading.position = position
        applied.withLock { $0 = position }
        appending.withLock { $0 = Thread(named: "append") { [self] in appendAll(report) } }
    }

    var backlog: Int { Int(max(0, backlogEnd - applied.withLock { $0 })) }

    // MARK: - Appending

    let takesCancellations = false

    /// The ticket of a note, which is no job's.
    private static let ticketOfNotes = -2

    func append(_ note: ReplicaNote) { append(PendingEntry(ticket: Self.ticketOfNotes, entry: note.entry)) }

    func append(_ entry: PendingEntry) {
        queue.signal { queue in
            queue.waiting.append(entry)
            return queue.waiting.count == 1
        }
    }

    private func appendAll(_ report: @escaping @Sendable (_ reason: String?) -> Void) {
        var newest: PendingEntry?
        var rest: [PendingEntry] = []
        // Notes that were refused with their group go with the next one.
        var lost: [PendingEntry] = []
        while outbox.withLock({ $0.failure == nil }) {
            if rest.isEmpty {
                guard let taken = take() else { return }
                rest = taken
            }
            if rest.isEmpty, let newest { rest = [newest] }
            rest = lost + rest
            lost = []
            let group = takeGroup(&rest)
            newest = group.map(\.pending).last { $0.entry.kind == .checkpoint } ?? newest
            if !group.isEmpty, !append(group, report) { lost = group.map(\.pending).filter(\.isNote) }
        }
    }

    /// Waits for entries; none when there were none for long, nil at the end.
    private func take() -> [PendingEntry]? {
        let taken: [PendingEntry]?? = queue.wait(until: monotonicMicroseconds() + Self.heartbeat) { queue in
            guard !queue.waiting.isEmpty else { return queue.isStopping ? .some(nil) : nil }
            defer { queue.waiting.removeAll(keepingCapacity: queue.waiting.count < 4_096) }
            return queue.waiting
        }
        return taken ?? []
    }

    private func takeGroup(_ rest: inout [PendingEntry]) -> [(pending: PendingEntry, entry: LogEntry)] {
        var group: [(pending: PendingEntry, entry: LogEntry)] = []
        var bytes = 0
        for pending in rest {
            var entry = pending.whole.appended(in: session.id)
            // A note that is repeated shows when the server lived.
            if pending.isNote { entry.time = wallClockMilliseconds() }
            bytes += entry.payload.count + 256
            guard group.isEmpty || group.count < Session.maximumCount && bytes <= Session.maximumBytes else { break }
            group.append((pending, entry))
        }
        rest.removeFirst(group.count)
        return group
    }

    /// - Returns: false when the stream refused the group.
    private func append(
        _ group: [(pending: PendingEntry, entry: LogEntry)], _ report: @Sendable (_ reason: String?) -> Void
    ) -> Bool {
        // The reader may find them before the answer comes.
        outbox.withLock { outbox in for item in group { outbox.sent.append(.stored(ticket: item.pending.ticket)) } }
        var isReported = false
        defer { if isReported { report(nil) } }
        do throws(ReplicationError) {
            let stored = try session.append(group.map(\.entry)) { waiting in
                let reason = Self.noQuorum(waiting.reason)
                positions.withLock { $0.waiting = reason }
                guard monotonicMicroseconds() - waiting.since >= Self.patience else { return }
                isReported = true
                report(reason)
            }
            outbox.withLock { $0.stored.append((first: stored.lowerBound, entries: group.map(\.entry))) }
            reading.reader?.interrupt()
            positions.withLock {
                $0.last = max($0.last, stored.upperBound)
                $0.waiting = nil
            }
            return true
        } catch {
            switch error.code {
            case .full, .tooLarge, .refused:
                positions.withLock { $0.waiting = nil }
                refuse(group.map(\.pending), StoreError(error))
                return false
            case .stopped: outbox.withLock { $0.failure = StoreError(error) }
            default:
                outbox.withLock { $0.failure = StoreError(error) }
                reading.reader?.interrupt()
            }
            return true
        }
    }

    /// The group is not in the stream: it is the newest that was sent.
    private func refuse(_ group: [PendingEntry], _ error: StoreError) {
        outbox.withLock { outbox in
            outbox.sent.removeLast(group.count)
            for entry in group where !entry.isNote { outbox.sent.append(.refused(entry, error)) }
        }
        reading.reader?.interrupt()
    }

    private static func noQuorum(_ reason: String) -> String {
        "The log takes no entries now (\(reason)): most of its servers must be reachable. Accepted jobs wait and are not "
            + "lost. Send this one again later."
    }

    // MARK: - The rest

    /// Checkpoints say which entries may be trimmed.
    func applied(through position: Int64) {}

    func trim(through position: Int64) {
        trimming.run([
            { [self] in
                do throws(ReplicationError) {
                    try stream.trim(through: position)
                } catch {
                    // A later checkpoint trims these entries with others.
                }
            }
        ])
    }

    var lastPosition: Int64 { positions.withLock { $0.last } }

    var waiting: String? { positions.withLock { $0.waiting } ?? reading.reader?.state.waiting }

    func write(to writer: inout JSONWriter) {
        let (waiting, last) = (queue.withLock { $0.waiting.count }, lastPosition)
        writer.member("kind", "nats")
        writer.member("stream", stream.name)
        writer.member("identity", stream.identity.description)
        writer.member("replica", replica)
        writer.member("durability", durability.rawValue)
        writer.member("waiting", waiting)
        writer.member("last", last)
        let connection = stream.connection.state
        writer.member("connected", connection.isConnected)
        if let server = connection.server { writer.member("server", server) }
        if let cause = self.waiting { writer.member("cause", cause) }
    }

    func stop() {
        queue.update { $0.isStopping = true }
        session.stop()
        reading.reader?.stop()
        stream.stop()
        appending.withLock { $0 }?.join()
        trimming.stop()
    }
}

/// Entries in the order of their positions, from the stream and from memory.
extension ReplicatedLog {
    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
        guard let reader = reading.reader else { preconditionFailure("the log was not begun") }
        while true {
            var items = takeRefused() + (try takeStored())
            if !items.isEmpty { return items }
            if let failure = outbox.withLock({ $0.failure }), !queue.withLock({ $0.isStopping }) { throw failure }
            guard let entries = try onStream({ () throws(ReplicationError) in try reader.read(bytes: bytes) }) else {
                return nil
            }
            for entry in entries {
                guard entry.position > reading.position else {
                    guard entry.session == session.id.number else { throw .unexpectedJob }
                    continue
                }
                items.append(try item(of: entry, at: entry.position))
                items += takeRefused()
            }
            if let last = entries.last { positions.withLock { $0.last = max($0.last, last.position) } }
            if !items.isEmpty { return items }
        }
    }

    /// Own entries that the stream refused and that are next, in the order in which they were appended.
    private func takeRefused() -> [LogItem] {
        outbox.withLock { outbox in
            var items: [LogItem] = []
            while case .refused(let entry, let error)? = outbox.sent.first {
                outbox.sent.removeFirst()
                items.append(.refused(entry, error))
            }
            return items
        }
    }

    /// Own entries that the stream has stored, as far as everything before them was delivered.
    private func takeStored() throws(StoreError) -> [LogItem] {
        var items: [LogItem] = []
        while let group = takeStoredGroup() {
            for (index, entry) in group.entries.enumerated() where group.first + Int64(index) > reading.position {
                items.append(try item(of: entry, at: group.first + Int64(index)))
                items += takeRefused()
            }
        }
        return items
    }

    private func takeStoredGroup() -> (first: Int64, entries: [LogEntry])? {
        outbox.withLock { outbox in
            guard let first = outbox.stored.first?.first, first <= reading.position + 1 else { return nil }
            return outbox.stored.removeFirst()
        }
    }

    private func item(of entry: LogEntry, at position: Int64) throws(StoreError) -> LogItem {
        var entry = entry
        reading.time = max(reading.time, entry.time)
        reading.position = position
        (entry.position, entry.time) = (position, reading.time)
        var ticket: Int?
        if entry.session == session.id.number {
            ticket = outbox.withLock { outbox in
                guard case .stored(let ticket)? = outbox.sent.first else { return nil }
                outbox.sent.removeFirst()
                return ticket
            }
            guard ticket != nil else { throw .unexpectedJob }
        }
        switch entry.kind {
        case .job:
            guard let ticket else { return .other(entry) }
            var place = entry.place
            place.durableAt = monotonicMicroseconds()
            return .job(ticket: ticket, place, payload: entry.payload)
        case .model, .limits: return .change(entry, ticket: ticket)
        case .replica, .checkpoint, .upgrade:
            guard let note = ReplicaNote(entry) else { throw StoreError(.unknownPayload(at: position)) }
            return .note(note, entry.mark, isOwn: ticket != nil)
        case .cancellation: preconditionFailure("a shared log has no cancellations")
        }
    }
}

extension PendingEntry {
    /// It is about the servers of the log.
    fileprivate var isNote: Bool {
        switch entry.kind {
        case .replica, .checkpoint, .upgrade: true
        case .job, .cancellation, .model, .limits: false
        }
    }
}

extension LogEntry {
    fileprivate func appended(in session: SessionID) -> LogEntry {
        var entry = self
        entry.session = session.number
        return entry
    }
}

extension ReplicatedStream {
    /// Appends a note of no server: an operator's. Blocks until it is in the stream.
    package func append(_ note: ReplicaNote) throws(ReplicationError) -> Int64 {
        let session = Session(self)
        return try session.append([note.entry.appended(in: session.id)]).upperBound
    }
}

extension StoreError {
    init(_ error: ReplicationError) { self.init(error.code == .full ? .full : .unavailable, error.message) }
}

/// Runs what may fail because of the log: to clients and operators it is a part of the store.
private func onStream<Value>(_ body: () throws(ReplicationError) -> Value) throws(StoreError) -> Value {
    do throws(ReplicationError) {
        return try body()
    } catch {
        throw StoreError(error)
    }
}

extension SharedLogSource {
    /// A stream of NATS JetStream.
    ///
    /// - Parameters:
    ///   - replica: the name of this server, which no other one has.
    ///   - system: a connection of a user of the system account, which sees whether the servers sync each write; nil when that stays
    ///     unknown.
    package static func nats(
        _ address: StreamAddress, _ files: ConnectionFiles, replica: String,
        system: (address: StreamAddress, files: ConnectionFiles)?
    ) -> SharedLogSource {
        SharedLogSource { identity throws(StoreError) in
            let stream = try onStream { () throws(ReplicationError) in
                let connection = try StreamConnection(address, files: files)
                let expected = identity.flatMap { StreamIdentity(String($0.dropFirst(prefix.count))) }
                let stream = try ReplicatedStream.open(connection, expected: expected)
                if let system { try survey(system.address, system.files) }
                return stream
            }
            return try ReplicatedLog(stream, replica: replica, durability: system == nil ? .quorumMemory : .quorum)
        }
    }

    private static func survey(_ system: StreamAddress, _ files: ConnectionFiles) throws(ReplicationError) {
        let connection = try StreamConnection(system, files: files)
        defer { connection.stop() }
        try ServerSurvey(connection, patience: surveyPatience).check(connection)
    }

    /// Microseconds.
    private static var surveyPatience: Int64 { 10_000_000 }
}
#endif
