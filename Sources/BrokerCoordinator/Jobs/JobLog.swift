internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
package import BrokerStore

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

    /// Appends an entry; entries are stored in the order of the calls. Must not block: it is called while the job table
    /// is locked. ``read(after:bytes:)`` delivers the entry, or its refusal.
    func append(_ entry: LogEntry)

    /// Waits for the next entries of the log, and returns them in its order. Called by one thread, one call after the other.
    ///
    /// - Parameters:
    ///   - position: the newest that was delivered.
    ///   - bytes: entries of other servers are returned until they have that many bytes, but one at least.
    /// - Returns: nil after ``stop()``, when everything that was appended has been delivered.
    /// - Throws: `StoreError` when the log has failed. Entries that were not delivered may be in it or not.
    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]?

    /// The effects of the jobs up to that position are durable in the store: the log may delete them.
    func applied(through position: Int64)

    /// - Throws: when the files of the log are no longer those that were opened.
    func checkFiles() throws(StoreError)

    /// Why there is no room for new jobs; nil while there is.
    var fullness: StoreError? { get }

    /// The members of `stats`.
    func write(to writer: inout JSONWriter)

    /// No more is appended.
    func stop()
}

extension JobLog {
    func checkFiles() {}

    var fullness: StoreError? { nil }
}

/// A job or a change on its way to the log, or the cancellation of a job that is there.
struct LogEntry: Sendable {
    let kind: JournalEntry.Kind
    /// The ticket of the job, or of the change, in this run of the server.
    let ticket: Int
    /// For a cancellation, the position of the job; else 0, because the log has given none yet.
    let position: Int64
    let id: JobID
    let isIDMade: Bool
    let owner: JobOwner
    let mayDelete: Bool
    let isPrivileged: Bool
    /// In milliseconds since 1970.
    let time: Int64
    /// A job's frame as it was received, without its length; a change as bytes.
    let payload: @Sendable () -> [UInt8]

    /// - Parameter place: nil for a cancellation.
    func stored(at place: LogPlace?) -> JournalEntry {
        JournalEntry(
            kind, position: place?.position ?? position, id: id.text, isIDMade: isIDMade, mayDelete: mayDelete,
            isPrivileged: isPrivileged, user: owner.user, time: place?.time ?? time, payload: payload())
    }
}

extension LogEntry {
    /// A change of this server.
    init(_ change: LogChange, ticket: Int) {
        self.init(
            kind: change.kind, ticket: ticket, position: 0, id: JobID(""), isIDMade: true, owner: .server,
            mayDelete: true,
            isPrivileged: true, time: wallClockMilliseconds(), payload: { change.payload })
    }
}

/// The next of the log.
enum LogItem: Sendable {
    /// A job that this server appended.
    ///
    /// - Parameter payload: its frame, where another server may have changed the model before it; else nil.
    case job(ticket: Int, LogPlace, payload: [UInt8]? = nil)
    /// A cancellation that this server appended.
    case cancellation(LogEntry)
    /// The log had no room for an entry of this server: it is not in it.
    case refused(LogEntry, StoreError)
    /// A job of another server, or of an earlier run of this one.
    case other(JournaledJob, payload: [UInt8])
    case change(LoggedChange)
    /// An entry of a shared log about the servers themselves.
    case note(ReplicaNote, LogMark, isOwn: Bool)

    /// Whether it concerns a job of this server.
    var isOwnJob: Bool {
        switch self {
        case .job, .cancellation: true
        case .refused(let entry, _): entry.kind == .job || entry.kind == .cancellation
        case .other, .change, .note: false
        }
    }
}

/// A job that was read from the log, with its position, id and time.
package struct JournaledJob: Sendable {
    package let sequence: Int64
    package let id: String
    package let owner: JobOwner
    package let isIDMade: Bool
    package let mayDelete: Bool
    package let isPrivileged: Bool
    /// When it was accepted, in milliseconds since 1970.
    let time: Int64
    let isCancelled: Bool

    var place: LogPlace { LogPlace(position: sequence, time: time) }
}

/// The log broke its own rules; nothing is applied any more.
enum LogViolation: Error {
    /// An entry of this server was delivered out of order, or twice.
    case unexpectedJob
    /// A position was not above the one before.
    case fallingPosition

    var error: StoreError {
        let what =
            switch self {
            case .unexpectedJob: "it delivered jobs of this server in another order than they were appended"
            case .fallingPosition: "a position is not above the one before"
            }
        return StoreError(
            .defect,
            "The log of jobs is inconsistent: \(what). Nothing after that was applied. Report the defect, and start again."
        )
    }
}
