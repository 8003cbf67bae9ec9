internal import BrokerFastJSON
internal import BrokerJSON
package import BrokerJournal
internal import BrokerModel
internal import BrokerSchema
package import BrokerStore
internal import DequeModule

/// The durable order of jobs, which alone decides it: the writer gets only what the log delivers, in its order.
///
/// ```
/// opened frames ──▶ append ──▶ the log assigns positions ──▶ read ──▶ Application ──▶ writer
/// ```
///
/// ``DiskJournal`` stores it on the disk. ``MemoryLog`` is the one of a server without a journal. A ``SharedLog`` also delivers
/// the jobs of other servers.
protocol JobLog: Sendable {
    /// The number of entries that earlier runs appended and that ``read(after:bytes:)`` delivers first.
    var backlog: Int { get }

    /// Whether a job that was appended can still be cancelled: only its own server applies it.
    var takesCancellations: Bool { get }

    /// Appends an entry, in the order of the calls; ``read(after:bytes:)`` delivers it, or its refusal. Must not block: the job
    /// table is locked.
    func append(_ entry: PendingEntry)

    /// Waits for the next entries of the log after a position, and returns them in its order. Called by one thread, one call after
    /// the other.
    ///
    /// - Parameter bytes: entries of other servers are returned until they have that many, but one at least.
    /// - Returns: nil after ``stop()``, when everything that was appended has been delivered.
    /// - Throws: `StoreError` when the log has failed. Entries that were not delivered may be in it or not.
    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]?

    /// The effects of the jobs up to that position are durable in the store: the log may delete them.
    func applied(through position: Int64)

    /// - Throws: when the files of the log are no longer those that were opened.
    func checkFiles() throws(StoreError)

    /// Why there is no room for new jobs; nil while there is.
    var fullness: StoreError? { get }

    func write(to writer: inout JSONWriter)

    func stop()
}

extension JobLog {
    func checkFiles() {}

    var fullness: StoreError? { nil }
}

/// A job or a change on its way to the log, or the cancellation of a job that is there.
struct PendingEntry: Sendable {
    /// The ticket of the job, or of the change, in this run of the server.
    let ticket: Int
    /// A job's without its payload. The log gives it its position.
    let entry: LogEntry
    /// Makes that of a job from its frame.
    var payload: (@Sendable () -> [UInt8])?

    /// With its payload.
    var whole: LogEntry {
        var entry = entry
        if let payload { entry.payload = payload() }
        return entry
    }
}

enum LogItem: Sendable {
    /// A job that this server appended.
    ///
    /// - Parameter payload: its frame, where another server may have changed the model before it; else nil.
    case job(ticket: Int, LogPlace, payload: [UInt8]? = nil)
    /// A cancellation that this server appended.
    case cancellation(PendingEntry)
    /// The log had no room for an entry of this server: it is not in it.
    case refused(PendingEntry, StoreError)
    /// A job of another server, or of an earlier run of this one.
    case other(LogEntry, isCancelled: Bool = false)
    /// - Parameter ticket: nil for the change of another server, or of an earlier run of this one.
    case change(LogEntry, ticket: Int? = nil)
    /// An entry of a shared log about the servers themselves.
    case note(ReplicaNote, LogMark, isOwn: Bool)

    /// Whether it concerns a job of this server.
    var isOwnJob: Bool {
        switch self {
        case .job, .cancellation: true
        case .refused(let pending, _): pending.entry.kind == .job || pending.entry.kind == .cancellation
        case .other, .change, .note: false
        }
    }
}

extension LogEntry {
    package var owner: JobOwner { JobOwner(user: user) }

    var place: LogPlace { LogPlace(position: position, time: time) }

    var mark: LogMark { LogMark(position: position, time: time, content: payload) }
}

/// The log broke its own rules; nothing is applied any more.
extension StoreError {
    /// An entry of this server was delivered out of order, or twice.
    static let unexpectedJob = inconsistent("it delivered jobs of this server in another order than they were appended")
    static let fallingPosition = inconsistent("a position is not above the one before")

    private static func inconsistent(_ what: String) -> StoreError {
        StoreError(
            .defect,
            "The log of jobs is inconsistent: \(what). Nothing after that was applied. Report the defect, and start again."
        )
    }
}

/// A job's id as a key: compared byte by byte, as the ledger does.
typealias JobID = ExactText

struct LogPlace: Equatable {
    /// The job's sequence. Nil for a job that the log refused.
    let position: Int64?
    /// When the job was accepted, in milliseconds since 1970; the log gives no time before that of an earlier place.
    let time: Int64
    /// When the log began to write the job, and when it was durable, in microseconds of the monotonic clock; 0 without a
    /// journal. For a shared log only the second is known.
    var writtenAt: Int64 = 0
    var durableAt: Int64 = 0
}

/// A change of what decides outcomes. It is an entry of the log, and takes effect between the jobs before and after it.
enum LogChange: Sendable, Equatable {
    /// The text of the model, and what happens to parts of the store that it does not have.
    case model(String, RemovalPolicy)
    case limits(LoggedLimits)

    /// - Returns: nil for an entry that a later version wrote, or of another kind.
    init?(_ entry: LogEntry) {
        guard let text = String(validating: entry.payload, as: UTF8.self) else { return nil }
        switch entry.kind {
        case .model:
            let parts = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let removal = RemovalPolicy(line: String(parts[0])) else { return nil }
            self = .model(String(parts[1]), removal)
        case .limits:
            guard let limits = LoggedLimits(text) else { return nil }
            self = .limits(limits)
        case .job, .cancellation, .replica, .checkpoint, .upgrade: return nil
        }
    }

    /// A model begins with a line with the policy.
    var entry: LogEntry {
        switch self {
        case .model(let text, let removal): .control(.model, Array("\(removal.line)\n\(text)".utf8))
        case .limits(let limits): .control(.limits, Array(limits.text.utf8))
        }
    }
}

extension LogEntry {
    /// An entry of a server that is no job.
    static func control(_ kind: Kind, _ payload: [UInt8]) -> LogEntry {
        LogEntry(kind, isIDMade: true, isPrivileged: true, time: wallClockMilliseconds(), payload: payload)
    }
}

/// A log that several servers share. Each applies all of it to a store of its own, so their stores are equal.
protocol SharedLog: JobLog {
    /// Stored in a store that is fed from it. No journal has such a one.
    var identity: String { get }
    /// For messages, without a password.
    var address: String { get }
    var replica: String { get }
    var durability: Durability { get }

    /// The first entries of the log; `own` ones are what an empty log begins with. Blocks until they are known.
    func first(_ own: LogBeginning) throws(StoreError) -> LogBeginning

    /// Begins to read after that position, where an entry has that time, and to take entries. Called once, before any other use but
    /// ``first(_:)``. `report` is called with the reason when entries wait for the log for long, and with nil when they do not any
    /// more.
    func begin(after position: Int64, at time: Int64, reporting report: @escaping @Sendable (_ reason: String?) -> Void)

    /// Appends an entry about the servers, in order with the others.
    func append(_ note: ReplicaNote)

    /// Deletes the entries up to that position, some time. Must not block.
    func trim(through position: Int64)

    /// The newest position that is known to be in the log.
    var lastPosition: Int64 { get }

    /// Why entries wait; nil while the log takes them.
    var waiting: String? { get }
}

/// The first entries of a log that is shared: each new store begins with them.
struct LogBeginning: Sendable {
    /// The texts of the limits, the model, and the fingerprint.
    var limits: LoggedLimits
    var model: String
    /// `ApplicationFingerprint.digits`.
    var fingerprint: String
    var position: Int64 = 0
    var time: Int64 = 0
}

/// Where a job is that is `accepted`.
package enum Durability: String, Sendable {
    case queued
    case disk
    /// Most servers of the log have it in memory, and perhaps on the disk.
    case quorumMemory = "quorum-memory"
    /// Most servers of the log have it on the disk.
    case quorum
}

/// Opens a shared log before the store that it feeds.
package struct SharedLogSource: Sendable {
    /// Opens the log of that identity, from which the store was fed; nil for a new store.
    typealias Open = @Sendable (_ identity: String?) throws(StoreError) -> any SharedLog

    let open: Open

    init(_ open: @escaping Open) { self.open = open }

    static let prefix = "nats:"

    /// A store that a shared log feeds is a copy of others: without the log it would become another one.
    static func refuse(_ identity: String?, at path: String) throws(StoreError) {
        guard let identity, identity.hasPrefix(prefix) else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) is a replica: a log that several servers share feeds it, and only brokerd --log may change it. To "
                + "make a store of its own of it, copy it by `broker backup`, and use `broker restore` with another path. "
                + "Nothing was touched.")
    }
}

/// An entry of a shared log about the servers that share it.
package enum ReplicaNote: Sendable, Equatable {
    /// A server takes part from now on: trimming waits for it.
    case joined(String)
    /// A server does not take part any more.
    case left(String)
    case checkpoint(ReplicaCheckpoint)
    /// The entries after it are applied under that fingerprint.
    case upgrade(fingerprint: String)

    package var entry: LogEntry {
        var writer = JSONWriter()
        writer.object { writer in
            switch self {
            case .joined(let name): writer.member("joined", name)
            case .left(let name): writer.member("left", name)
            case .upgrade(let fingerprint): writer.member("fingerprint", fingerprint)
            case .checkpoint(let checkpoint): checkpoint.write(to: &writer)
            }
        }
        let kind: LogEntry.Kind =
            switch self {
            case .joined, .left: .replica
            case .checkpoint: .checkpoint
            case .upgrade: .upgrade
            }
        return .control(kind, writer.bytes)
    }

    /// - Returns: nil for an entry that a later version wrote, or of another kind.
    package init?(_ entry: LogEntry) {
        guard let document = try? JSONDocument(parsing: JSONText(copying: entry.payload)) else { return nil }
        let root = document.root
        switch entry.kind {
        case .replica:
            if let name = root["joined"]?.string {
                self = .joined(name)
            } else if let name = root["left"]?.string {
                self = .left(name)
            } else {
                return nil
            }
        case .upgrade:
            guard let fingerprint = root["fingerprint"]?.string else { return nil }
            self = .upgrade(fingerprint: fingerprint)
        case .checkpoint:
            guard let checkpoint = ReplicaCheckpoint(root) else { return nil }
            self = .checkpoint(checkpoint)
        case .job, .cancellation, .model, .limits: return nil
        }
    }
}

/// The state of a server at a position, which the others compare with theirs.
package struct ReplicaCheckpoint: Sendable, Equatable {
    package var replica: String
    /// 0 before the first multiple of the interval.
    package var position: Int64
    /// `StateDigest.digits` there.
    package var digest: String
    /// The server's, under the model in force.
    package var fingerprint: String
    /// The newest position that its disk has.
    package var durable: Int64
    /// The newest position that a backup of it contains; 0 for none.
    package var backup: Int64
}

extension ReplicaCheckpoint {
    fileprivate init?(_ root: JSONValue) {
        guard let replica = root["replica"]?.string, let position = root["position"]?.int64,
            let digest = root["digest"]?.string, let fingerprint = root["fingerprint"]?.string
        else { return nil }
        self.init(
            replica: replica, position: position, digest: digest, fingerprint: fingerprint,
            durable: root["durable"]?.int64 ?? 0, backup: root["backup"]?.int64 ?? 0)
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("replica", replica)
        writer.member("position", position)
        writer.member("digest", digest)
        writer.member("fingerprint", fingerprint)
        writer.member("durable", durable)
        writer.member("backup", backup)
    }
}

/// The log of a server without a journal: it gives positions at once, as far as the store has reserved them. A pure value.
///
/// Only reserved positions are given, because a client that was sent one must never see it on another job, and after a crash
/// nothing but the store remembers them.
struct MemoryLog {
    /// The newest position that was given, by this log or before it; 0 for none.
    private(set) var newest: Int64
    /// Positions up to this one may be given.
    private(set) var reservedThrough: Int64
    private let block: Int64
    /// Jobs that have no position yet, in order, with their times.
    private var waiting = Deque<(ticket: Int, time: Int64)>()
    private var time: Int64 = 0

    /// - Parameters:
    ///   - position: the newest that was given before, 0 for none.
    ///   - reservedThrough: the last one that may be given until ``extend(through:)``.
    init(after position: Int64, reservedThrough: Int64, block: Int64) {
        newest = position
        self.block = block
        self.reservedThrough = reservedThrough
    }

    mutating func append(_ ticket: Int, at time: Int64) { waiting.append((ticket, time)) }

    /// The next job with its place; nil when there is none, or no position is reserved.
    mutating func read() -> (ticket: Int, place: LogPlace)? {
        guard newest < reservedThrough, let first = waiting.popFirst() else { return nil }
        newest += 1
        time = max(time, first.time)
        return (first.ticket, LogPlace(position: newest, time: time))
    }

    var isStarved: Bool { !waiting.isEmpty }

    /// No more can be reserved: the waiting jobs get no position. Returns their tickets.
    mutating func refuse() -> [Int] {
        defer { waiting = [] }
        return waiting.map(\.ticket)
    }

    // MARK: - Reserving

    /// The last position of the block that should be reserved now, because at most half of one is left; nil for not yet.
    var reservationDue: Int64? {
        reservedThrough - newest > block / 2 ? nil : newest + block
    }

    mutating func extend(through position: Int64) { reservedThrough = position }

    mutating func note(_ position: Int64) { newest = max(newest, position) }
}
