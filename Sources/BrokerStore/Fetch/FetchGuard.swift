package import BrokerStaging
internal import CSQLite
internal import Glibc

/// Interrupts a statement of a fetch that takes too long, or whose client is gone. Belongs to the connection's thread.
final class FetchGuard {
    /// Steps of SQLite's virtual machine between two checks: some ten microseconds, but for patterns, which check themselves.
    private static let stepsPerLook = 1_000

    private let connection: Connection
    private let limits: FetchLimits
    private var looks = 0
    private let allowance: ProcessorTime?
    private let isWanted: () -> Bool
    private(set) var failure: FetchFailure?

    init(_ connection: Connection, _ limits: FetchLimits, isWanted: @escaping () -> Bool) {
        self.connection = connection
        self.limits = limits
        allowance = limits.microseconds.map(ProcessorTime.init(microseconds:))
        self.isWanted = isWanted
    }

    /// Runs `body` under guard. The limits hold for each call.
    func watch<Result>(_ body: () throws -> Result) throws -> Result {
        looks = limits.steps / Self.stepsPerLook
        connection.work.begin(WorkBudget(limit: limits.work))
        let own = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_progress_handler(
            connection.handle, Int32(Self.stepsPerLook),
            { Unmanaged<FetchGuard>.fromOpaque($0!).takeUnretainedValue().look() ? 1 : 0 }, own)
        defer { sqlite3_progress_handler(connection.handle, 0, nil, nil) }
        do {
            return try body()
        } catch {
            if let failure { throw failure }
            if connection.work.budget.isSpent { throw FetchFailure.tooLong }
            throw error
        }
    }

    /// Whether the fetch has used its time, or is not wanted any more; asked before every pattern, because one may take long.
    func mustEnd() -> Bool {
        if !isWanted() { failure = .stopped }
        if allowance?.isSpent() == true || connection.work.budget.isSpent { failure = failure ?? .tooLong }
        return failure != nil
    }

    private func look() -> Bool {
        looks -= 1
        if looks < 0 { failure = failure ?? .tooLong }
        return mustEnd()
    }
}

/// Processor time that the calling thread may spend: on a busy machine, a fetch with little work is not interrupted.
private struct ProcessorTime {
    private let spentAt: Int64
    /// In time of a clock that costs next to nothing to read: the processor time cannot be spent before this moment.
    private let notSpentBefore: Int64

    init(microseconds: Int64) {
        spentAt = Self.now(CLOCK_THREAD_CPUTIME_ID) + microseconds
        notSpentBefore = Self.now(CLOCK_MONOTONIC) + microseconds
    }

    func isSpent() -> Bool {
        Self.now(CLOCK_MONOTONIC) >= notSpentBefore && Self.now(CLOCK_THREAD_CPUTIME_ID) >= spentAt
    }

    private static func now(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }
}

/// Limits of a fetch's reply, memory and work. A long fetch, and each part of a stream, may do as much work as a job.
package struct FetchLimits: Sendable {
    /// Bytes of the reply; objects that do not fit are left to another fetch, or to the next part of a stream.
    package var answerBytes: Int
    /// Bytes of a reply that holds one object only.
    package var objectBytes: Int
    /// Bytes of a reply that every frame holds, even if nothing in it can be compressed.
    package var certainBytes: Int
    /// Bytes of the objects that are collected before they are nested in one another.
    package var gatheredBytes: Int
    package var steps: Int
    /// Units of a `WorkBudget`: bytes that are compared, and patterns. A pattern that would exceed them is not begun.
    package var work: Int
    package var microseconds: Int64?

    /// The work that one fetch may do, and a part of a stream: as much as a job.
    static let maximumWork = 300_000_000

    package init(
        answerBytes: Int, objectBytes: Int? = nil, certainBytes: Int, gatheredBytes: Int,
        steps: Int? = nil, work: Int? = nil, microseconds: Int64? = nil
    ) {
        self.answerBytes = answerBytes
        self.objectBytes = objectBytes ?? answerBytes
        self.certainBytes = certainBytes
        self.gatheredBytes = gatheredBytes
        self.steps = steps ?? Self.maximumWork
        self.work = work ?? Self.maximumWork
        self.microseconds = microseconds
    }

    /// A reply of ordinary JSON that a frame holds, within memory that a server can spare for one fetch at a time.
    package static let long = FetchLimits(answerBytes: 32 << 20, certainBytes: 15 << 20, gatheredBytes: 16 << 20)
    /// A part of a stream, made in turn with other frames; or one object, as large as it may be in a long reply.
    package static let part = FetchLimits(
        answerBytes: 1 << 20, objectBytes: long.objectBytes, certainBytes: long.certainBytes,
        gatheredBytes: long.gatheredBytes)
    /// Some milliseconds of work: requests of many clients at once are answered within a second.
    package static let brief = FetchLimits(
        answerBytes: 256 << 10, certainBytes: 256 << 10, gatheredBytes: 512 << 10, steps: 1_000_000, work: 1_000_000,
        microseconds: 10_000)
}

extension FetchLimits {
    /// A fetch that exceeds them is repeated with those of a long one.
    package var isBrief: Bool { microseconds != nil }

    /// Bytes of objects that are read before the first is written; a stream holds them while its client takes earlier parts.
    var batchBytes: Int { min(gatheredBytes / 2, answerBytes) }
}

/// The text around the objects that a fetch finds, so that a reply need not be copied to be complete.
package struct FetchEnvelope: Sendable {
    package let beginning: [UInt8]
    package let ending: @Sendable (_ hasMore: Bool, _ last: [UInt8]?) -> [UInt8]

    /// - Parameter ending: called with ``FetchedObjects/hasMore`` and ``FetchedObjects/last``.
    package init(
        beginning: [UInt8], ending: @escaping @Sendable (_ hasMore: Bool, _ last: [UInt8]?) -> [UInt8]
    ) {
        self.beginning = beginning
        self.ending = ending
    }

    package static let none = FetchEnvelope(beginning: []) { _, _ in [] }
}

/// The result of a fetch, or the next part of a streamed one, as JSON text.
package struct FetchedObjects: Sendable {
    struct End {
        let offset: Int
        /// The object's position as JSON; nil when the reply does not have it.
        let position: [UInt8]?
    }

    /// The objects in the requested form, in their envelope.
    package private(set) var bytes: [UInt8]
    /// The store has further objects for the request; for a stream, further parts follow.
    package private(set) var hasMore: Bool
    /// The position of the last object as JSON: its key, or for a sorted request an array of the sort values and the key. Nil when the
    /// store has no further objects.
    package let last: [UInt8]?
    /// The end of the last object that fits any frame; nil where all of them fit.
    private let certainEnd: End?
    private let closing: [UInt8]
    private let envelope: FetchEnvelope

    /// - Parameter bytes: from the beginning of the envelope to the last object; `closing` ends the array or object around them.
    init(
        _ bytes: consuming [UInt8], closing: [UInt8], _ envelope: FetchEnvelope, hasMore: Bool, last: [UInt8]?,
        certainEnd: End?
    ) {
        bytes += closing
        bytes += envelope.ending(hasMore, last)
        self.bytes = bytes
        self.last = last
        self.closing = closing
        self.envelope = envelope
        self.hasMore = hasMore
        self.certainEnd = certainEnd
    }

    /// The first of these objects, so few that any frame holds them; nil when any frame holds all of them.
    package var shortened: FetchedObjects? {
        guard let certainEnd else { return nil }
        return FetchedObjects(
            Array(bytes[..<certainEnd.offset]), closing: closing, envelope, hasMore: true, last: certainEnd.position,
            certainEnd: nil)
    }
}

/// Fetches objects concurrently with the writer, on a connection of its own that cannot write. Used by one thread at a
/// time.
///
/// A read transaction lasts for one fetch, so that the WAL can be emptied between two.
package final class StoreReader {
    let connection: Connection
    package let plan: StagingPlan
    /// By entity; nil before the first fetch with a predicate.
    private var knownLongColumns: [LongColumns]?

    /// Bytes of SQLite's page cache for fetches of every kind.
    package static let cacheBytes = 8 << 20
    /// Bytes for a stream, of which several are open at a time. It reads most pages once.
    package static let streamCacheBytes = 2 << 20

    /// - Parameter path: of a store that the writer has opened before.
    package init(path: String, plan: StagingPlan, cacheBytes: Int = cacheBytes) throws(StoreError) {
        self.plan = plan
        connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        try connection.execute("PRAGMA cache_size = -\(cacheBytes / 1024)")
    }

    /// The same, of a store that is open: its files must be those that were opened.
    package convenience init(
        _ files: OpenedFiles, plan: StagingPlan, cacheBytes: Int = cacheBytes
    ) throws(StoreError) {
        try files.check()
        try self.init(path: files.path, plan: plan, cacheBytes: cacheBytes)
        // SQLite opens the WAL with the first read, by its name.
        _ = try connection.integer("SELECT 1 FROM sqlite_schema LIMIT 1")
    }

    /// The columns whose bytes a predicate is charged for, by entity.
    func longColumns() throws(StoreError) -> [LongColumns] {
        if let knownLongColumns { return knownLongColumns }
        let columns = try TableColumns.long(of: plan.model, on: connection)
        knownLongColumns = columns
        return columns
    }

    /// Runs a request. It stops when `isWanted`, which is called again and again, returns false.
    package func fetch(
        _ request: FetchRequest, limits: FetchLimits = .long, in envelope: FetchEnvelope = .none,
        isWanted: @escaping () -> Bool = { true }
    ) throws(FetchFailure) -> FetchedObjects {
        let stream = ObjectStream(request, on: self, limits, in: envelope, isWanted: isWanted)
        defer { stream.end() }
        return try stream.next()
    }
}
