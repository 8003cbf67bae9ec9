#if Replication
internal import BrokerJSON
internal import BrokerJournal
internal import BrokerReplication
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
    enum Waiting {
        case entry(LogEntry)
        case note(ReplicaNote)
    }

    struct Queue {
        var waiting: [Waiting] = []
        var isStopping = false
    }

    /// An entry on its way: the reader finds them in the order in which they were sent.
    enum Sent {
        case stored(Waiting)
        /// The stream has no room for it.
        case refused(LogEntry, StoreError)
    }

    struct Way {
        var sent = Deque<Sent>()
        /// Groups of entries that are stored, with the positions of their first ones.
        var stored = Deque<(first: Int64, entries: [ReplicatedEntry])>()
        /// Why nothing more is appended.
        var failure: StoreError?
    }

    /// The state of the reading thread, which alone touches it.
    final class Reading: @unchecked Sendable {
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
    let way = Monitor(Way())
    let reading = Reading()
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
        do throws(ReplicationError) {
            backlogEnd = try stream.status().lastPosition
        } catch {
            throw StoreError(error)
        }
        positions = Monitor(Positions(last: backlogEnd))
    }

    // MARK: - Beginning

    func first(_ own: LogBeginning) throws(StoreError) -> LogBeginning {
        let entries: [(ReplicatedEntry.Kind, [UInt8])] = [
            (.limits, Array(own.limits.text.utf8)),
            (.model, LogChange.model(own.model, .refuse).payload),
            (.upgrade, ReplicaNote.upgrade(fingerprint: own.fingerprint).payload),
        ]
        // They have a subject of their own: the session has appended nothing yet.
        let id = SessionID()
        do throws(ReplicationError) {
            try stream.begin(
                with: entries.map {
                    ReplicatedEntry(
                        $0.0, session: id, isIDMade: true, isPrivileged: true, time: wallClockMilliseconds(),
                        payload: $0.1)
                })
            let reader = StreamReader(stream, after: 0)
            defer { reader.stop() }
            var read: [DeliveredEntry] = []
            while read.count < entries.count, let next = try reader.read(bytes: 1) { read += next }
            return try Self.beginning(of: read.prefix(entries.count))
        } catch {
            throw StoreError(error)
        }
    }

    private static func beginning(of entries: ArraySlice<DeliveredEntry>) throws(ReplicationError) -> LogBeginning {
        var limits: LoggedLimits?
        var model: String?
        var fingerprint: String?
        for entry in entries {
            let (kind, payload) = (entry.entry.kind, entry.entry.payload)
            switch kind {
            case .limits: limits = LoggedLimits(String(decoding: payload, as: UTF8.self))
            case .model: if case .model(let text, _)? = LogChange(.model, payload) { model = text }
            case .upgrade: if case .upgrade(let digits)? = ReplicaNote(entry.entry) { fingerprint = digits }
            case .job, .replica, .checkpoint: break
            }
        }
        guard let limits, let model, let fingerprint, let last = entries.last else {
            throw .unknownPayload(at: entries.first?.position ?? 1)
        }
        return LogBeginning(
            limits: limits, model: model, fingerprint: fingerprint, position: last.position,
            time: entries.map(\.entry.time).max() ?? 0)
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

    func append(_ entry: LogEntry) { append(.entry(entry)) }

    func append(_ note: ReplicaNote) { append(.note(note)) }

    private func append(_ waiting: Waiting) {
        queue.signal { queue in
            queue.waiting.append(waiting)
            return queue.waiting.count == 1
        }
    }

    /// The appending thread.
    private func appendAll(_ report: @escaping @Sendable (_ reason: String?) -> Void) {
        var newest: ReplicaNote?
        var rest: [Waiting] = []
        // Notes that were refused with their group go with the next one.
        var lost: [Waiting] = []
        while way.withLock({ $0.failure == nil }) {
            if rest.isEmpty {
                guard let taken = take() else { return }
                rest = taken
            }
            if rest.isEmpty, let newest { rest = [.note(newest)] }
            rest = lost + rest
            lost = []
            let group = takeGroup(&rest)
            for case .note(let note) in group.map(\.waiting) { if case .checkpoint = note { newest = note } }
            if !group.isEmpty, !append(group, report) {
                lost = group.map(\.waiting).filter { if case .note = $0 { true } else { false } }
            }
        }
    }

    /// Waits for entries; none when there were none for long, nil at the end.
    private func take() -> [Waiting]? {
        let taken: [Waiting]?? = queue.wait(until: monotonicMicroseconds() + Self.heartbeat) { queue in
            guard !queue.waiting.isEmpty else { return queue.isStopping ? .some(nil) : nil }
            defer { queue.waiting.removeAll(keepingCapacity: queue.waiting.count < 4_096) }
            return queue.waiting
        }
        return taken ?? []
    }

    private func takeGroup(_ rest: inout [Waiting]) -> [(waiting: Waiting, entry: ReplicatedEntry)] {
        var group: [(waiting: Waiting, entry: ReplicatedEntry)] = []
        var bytes = 0
        for waiting in rest {
            let entry = entry(of: waiting)
            bytes += entry.payload.count + 256
            guard group.isEmpty || group.count < Session.maximumCount && bytes <= Session.maximumBytes else { break }
            group.append((waiting, entry))
        }
        rest.removeFirst(group.count)
        return group
    }

    private func entry(of waiting: Waiting) -> ReplicatedEntry {
        switch waiting {
        case .entry(let entry):
            let kind: ReplicatedEntry.Kind =
                switch entry.kind {
                case .job: .job
                case .model: .model
                case .limits: .limits
                case .cancellation: preconditionFailure("a shared log takes no cancellations")
                }
            return ReplicatedEntry(
                kind, session: session.id, id: entry.id.text, isIDMade: entry.isIDMade, mayDelete: entry.mayDelete,
                isPrivileged: entry.isPrivileged, user: entry.owner.user, time: entry.time, payload: entry.payload())
        case .note(let note): return ReplicatedEntry(note, of: session.id)
        }
    }

    /// - Returns: false when the stream refused the group.
    private func append(
        _ group: [(waiting: Waiting, entry: ReplicatedEntry)], _ report: @Sendable (_ reason: String?) -> Void
    ) -> Bool {
        // The reader may find them before the answer comes.
        way.withLock { way in for item in group { way.sent.append(.stored(item.waiting)) } }
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
            way.withLock { $0.stored.append((first: stored.lowerBound, entries: group.map(\.entry))) }
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
                refuse(group.map(\.waiting), StoreError(error))
                return false
            case .stopped: way.withLock { $0.failure = StoreError(error) }
            default:
                way.withLock { $0.failure = StoreError(error) }
                reading.reader?.interrupt()
            }
            return true
        }
    }

    /// The group is not in the stream: it is the newest that was sent.
    private func refuse(_ group: [Waiting], _ error: StoreError) {
        way.withLock { way in
            way.sent.removeLast(group.count)
            for case .entry(let entry) in group { way.sent.append(.refused(entry, error)) }
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
        writer.key("connected")
        writer.bool(connection.isConnected)
        if let server = connection.server { writer.member("server", server) }
        if let cause = self.waiting { writer.member("cause", cause) }
    }

    func stop() {
        queue.signal {
            $0.isStopping = true
            return true
        }
        session.stop()
        reading.reader?.stop()
        appending.withLock { $0 }?.join()
        trimming.stop()
        stream.stop()
    }
}
#endif
