package import BrokerJSON
package import BrokerModel
package import BrokerStaging
internal import Glibc

/// How a job is to be applied, besides its operations.
package struct JobTerms: Sendable {
    package var policy: InvalidRecordPolicy
    /// Whether a record with a key that the model does not name is rejected, as `policy` says.
    package var refusesUnknownKeys = false
    package var wantsKeys: Bool
    /// Whether the reply has the objects of the job's records; see `Outcome.objects`.
    package var wantsObjects = false
    /// The names of the records, and the form of the objects of the reply.
    package var form = ObjectForm()
    /// The job is applied and undone: it changes nothing, and is not recorded.
    package var isDryRun = false
    package var maximumDeletions: DeletionLimit?
    /// Written in the job's transaction if the job takes effect.
    package var bookmark: Bookmark?
    /// Whether the job may delete objects. Else it fails if it deleted one, other than an owned object that its owner no
    /// longer names: that is a part of the owner.
    package var mayDelete = true

    package init(_ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false) {
        (self.policy, self.wantsKeys) = (policy, wantsKeys)
    }
}

/// The facts of a job that do not depend on its place among the others. A class: it is passed on many times.
package final class JobFacts: Sendable {
    package let id: String
    package let owner: JobOwner
    /// Whether the owner could see the jobs of all users when the job was accepted.
    package let isPrivileged: Bool
    /// The hash of the job's content; nil when the server made the id, which therefore cannot have been used before.
    package let contentHash: JobHash?
    /// A hash of the content for ``StateDigest``; nil when it is ``contentHash``, or there is no journal.
    package let contentDigest: JobHash?
    package let terms: JobTerms

    package init(
        id: String, owner: JobOwner = .server, isPrivileged: Bool? = nil, contentHash: JobHash?,
        contentDigest: JobHash? = nil, _ terms: JobTerms = JobTerms()
    ) {
        self.id = id
        self.owner = owner
        self.isPrivileged = isPrivileged ?? owner.isPrivileged
        self.contentHash = contentHash
        self.contentDigest = contentDigest
        self.terms = terms
    }
}

/// A job in the form in which the store applies it.
package struct StoreJob: Sendable {
    package enum Work: Sendable {
        /// One step, of the records of the job itself.
        case merge(StagedRows)
        case steps([StagedStep])
        /// The job could not be staged; the ledger stores the fault.
        indirect case refused(Fault)

        /// Empty for a job that could not be staged.
        package var steps: [StagedStep] {
            switch self {
            case .merge(let rows): [StagedStep(action: .merge, rows: rows)]
            case .steps(let steps): steps
            case .refused: []
            }
        }
    }

    package let facts: JobFacts
    package let sequence: Int64
    package let work: Work
    /// Milliseconds since 1970, for the ledger.
    package let now: Int64
    /// The allowance for the merge's memory besides the staged rows; nil grants everything.
    package let memory: (any MemoryAllowance)?

    package init(_ facts: JobFacts, sequence: Int64, work: Work, now: Int64, memory: (any MemoryAllowance)? = nil) {
        self.facts = facts
        self.sequence = sequence
        self.work = work
        self.now = now
        self.memory = memory
    }

    package var id: String { facts.id }
    package var owner: JobOwner { facts.owner }
    package var isPrivileged: Bool { facts.isPrivileged }
    package var contentHash: JobHash? { facts.contentHash }
    package var contentDigest: JobHash? { facts.contentDigest }
    package var terms: JobTerms { facts.terms }
}

extension StoreJob {
    /// Whether the recorded job has the same content, and this job's owner may see it: alike on every server.
    package func isRepetition(of recorded: StoredOutcome) -> Bool {
        guard recorded.owner == nil || recorded.owner == owner || isPrivileged else { return false }
        return recorded.contentHash == contentHash
    }
}

// Boxed: an outcome has many parts, and is passed from list to list.
package indirect enum JobOutcome: Sendable {
    /// It took effect; a dry run would have had this effect.
    case completed(Outcome)
    case failed(Fault)
    /// The job was applied before; this time nothing is done.
    case duplicate(StoredOutcome)
    /// The job failed, because a job with other content, or of another user, is committed under its id.
    case conflict(Fault, committed: StoredOutcome)

    var isFailure: Bool {
        switch self {
        case .failed, .conflict: true
        case .completed, .duplicate: false
        }
    }

    /// Takes the keys for the feed out of the outcome: they are not retained until it is sent.
    mutating func takeFeedKeys() -> [UInt8]? {
        guard case .completed(let completed) = self, let keys = completed.feedKeys else { return nil }
        var outcome = completed
        outcome.feedKeys = nil
        self = .completed(outcome)
        return keys
    }

    func body(of job: StoreJob) -> [UInt8] {
        switch self {
        case .completed(let outcome): return outcome.storedObject
        case .failed(let fault), .conflict(let fault, _):
            var writer = JSONWriter()
            fault.write(to: &writer)
            return writer.bytes
        case .duplicate(let outcome): return outcome.body
        }
    }
}

/// A named text that a job writes with its changes: how far its data have come, in the words of their source.
package struct Bookmark: Sendable, Equatable {
    package let name: String
    /// Nil deletes the bookmark.
    package let value: String?

    package init(name: String, value: String?) {
        self.name = name
        self.value = value
    }
}

package struct StoredBookmark: Sendable, Equatable {
    package let value: String
    package let sequence: Int64
}

/// The user that sent a job, or asks about one: outcomes are for the sender, for root and for the server's own user.
package struct JobOwner: Sendable, Hashable {
    /// The user id at the other end of the socket, as the kernel reports it (unix(7), `SO_PEERCRED`).
    package let user: UInt32

    package init(user: UInt32) { self.user = user }

    package static let server = JobOwner(user: geteuid())

    /// The server's own user, or root: these see the jobs of all users, and administer the server.
    package var isPrivileged: Bool { user == 0 || self == .server }

    /// - Parameter owner: the job's; nil for a job that ended before owners were stored, which every user may see.
    package func maySee(jobOf owner: JobOwner?) -> Bool { owner == nil || owner == self || isPrivileged }
}

/// The bookmarks in the table `_broker_bookmarks`, written in the transactions of the jobs that carry them.
struct Bookmarks {
    private let write: Statement
    private let delete: Statement

    init(on connection: Connection) throws(StoreError) {
        write = try connection.prepare(
            "INSERT INTO _broker_bookmarks (name, value, sequence) VALUES (?1, ?2, ?3) "
                + "ON CONFLICT (name) DO UPDATE SET value = excluded.value, sequence = excluded.sequence")
        delete = try connection.prepare("DELETE FROM _broker_bookmarks WHERE name = ?1")
    }

    func set(_ bookmark: Bookmark, by sequence: Int64) throws(StoreError) {
        guard let value = bookmark.value else {
            delete.bind(bookmark.name, at: 1)
            return try delete.run()
        }
        write.bind(bookmark.name, at: 1)
        write.bind(value, at: 2)
        write.bind(sequence, at: 3)
        try write.run()
    }
}

/// The bytes of a job's hash, without an allocation: those of a ``FieldHasher`` have 17 bytes.
package struct JobHash: Sendable, Equatable, ExpressibleByArrayLiteral {
    private var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
    private var count = 0
    private var long: [UInt8]?

    package init(_ bytes: UnsafeRawBufferPointer) {
        count = bytes.count
        if count > MemoryLayout.size(ofValue: words) {
            long = Array(bytes)
        } else {
            withUnsafeMutableBytes(of: &words) { $0.copyMemory(from: bytes) }
        }
    }

    package init(_ bytes: [UInt8]) { self = bytes.withUnsafeBytes { JobHash($0) } }

    package init(arrayLiteral elements: UInt8...) { self.init(elements) }

    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if let long { return long.withUnsafeBytes(body) }
        return withUnsafeBytes(of: words) { body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }

    package static func == (left: JobHash, right: JobHash) -> Bool {
        left.count == right.count && left.words == right.words && left.long == right.long
    }
}

/// Finds lines of the ledger by job id, on one connection.
struct LedgerLines {
    private let index: JobIndex
    private let find: Statement

    init(on connection: Connection, _ index: JobIndex) throws(StoreError) {
        self.index = index
        find = try connection.prepare(
            "SELECT sequence, hash, failed, outcome, id, owner FROM _broker_jobs WHERE sequence = ?1")
    }

    /// The outcome of the job with that id, as the connection sees it; nil for an unknown one.
    func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? {
        for sequence in index.sequences(of: id) {
            find.bind(sequence, at: 1)
            defer { find.reset() }
            // Two ids may have one hash, and a line may be deleted, or not committed yet.
            if try find.step(), find.bytes(4).elementsEqual(id.utf8) { return StoredOutcome(find) }
        }
        return nil
    }
}

/// A job that failed, for a list of those.
package struct FailedJob: Sendable {
    package let id: String
    package let sequence: Int64
    /// Nil for a job that ended before owners were stored.
    package let owner: JobOwner?
    package let acceptedAt: Int64
    /// The `error` object: JSON.
    package let error: [UInt8]

    package init(id: String, sequence: Int64, owner: JobOwner?, acceptedAt: Int64, error: [UInt8]) {
        (self.id, self.sequence, self.owner) = (id, sequence, owner)
        (self.acceptedAt, self.error) = (acceptedAt, error)
    }
}

/// Reads the ledger concurrently with the writer, on a connection of its own that cannot write. Belongs to one thread.
package final class LedgerReader {
    private let lines: LedgerLines
    private let failed: Statement
    private let findBookmark: Statement
    private let rejects: RejectReader

    /// A reader of a store that is open: its files must be those that were opened.
    package convenience init(_ files: OpenedFiles, _ index: JobIndex) throws(StoreError) {
        try files.check()
        try self.init(path: files.path, index)
    }

    /// - Parameter path: of a store that the writer, whose index that is, has opened before.
    package init(path: String, _ index: JobIndex) throws(StoreError) {
        let connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        lines = try LedgerLines(on: connection, index)
        // The index has the failed jobs alone, and all columns but the outcome, which is read for a code.
        failed = try connection.prepare(
            """
            SELECT sequence, hash, failed, outcome, id, owner, ended FROM _broker_jobs INDEXED BY _broker_failures
                WHERE failed = 1 AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR ended >= ?3)
                AND (?4 IS NULL OR substr(outcome, 1, length(?4)) = ?4) ORDER BY sequence DESC LIMIT ?1
            """)
        findBookmark = try connection.prepare("SELECT value, sequence FROM _broker_bookmarks WHERE name = ?1")
        rejects = try RejectReader(on: connection)
    }

    package func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? { try lines.outcome(ofJob: id) }

    package func rejects(
        _ query: RejectQuery, as asker: JobOwner
    ) throws(StoreError) -> (rejects: [StoredReject], hasMore: Bool) {
        try rejects.rejects(query, as: asker)
    }

    package func bookmark(named name: String) throws(StoreError) -> StoredBookmark? {
        findBookmark.bind(name, at: 1)
        defer { findBookmark.reset() }
        guard try findBookmark.step() else { return nil }
        return StoredBookmark(value: findBookmark.text(0), sequence: findBookmark.integer(1))
    }

    /// The newest failed jobs that pass the filter and that the asker may see, the newest first. The column `ended` has when
    /// a job was accepted, so that a journal that is applied again writes the same lines.
    package func failures(
        _ count: Int, _ filter: FailureFilter, as asker: JobOwner
    ) throws(StoreError) -> [FailedJob] {
        let user = filter.user ?? (asker.isPrivileged ? nil : asker.user)
        guard asker.isPrivileged || user == asker.user else { return [] }
        failed.bind(Int64(count), at: 1)
        for index: Int in 2...4 { failed.bind(blob: nil, at: index) }
        if let user { failed.bind(Int64(user), at: 2) }
        if let since = filter.since { failed.bind(since, at: 3) }
        if let beginning = filter.beginning { failed.bind(beginning, at: 4) }
        defer { failed.reset() }
        var failures: [FailedJob] = []
        while try failed.step() {
            let outcome = StoredOutcome(failed)
            failures.append(
                FailedJob(
                    id: failed.text(4), sequence: outcome.sequence, owner: outcome.owner,
                    acceptedAt: failed.integer(6), error: outcome.body))
        }
        return failures
    }
}

extension StoredOutcome {
    /// The columns of `row` are sequence, hash, failed, outcome, id, owner.
    init(_ row: Statement) {
        self.init(
            sequence: row.integer(0),
            owner: row.isNull(5) ? nil : JobOwner(user: UInt32(truncatingIfNeeded: row.integer(5))),
            contentHash: row.isNull(1) ? nil : JobHash(UnsafeRawBufferPointer(row.bytes(1))),
            isFailure: row.integer(2) != 0, body: Array(row.bytes(3)))
    }
}

package struct StoredOutcome: Sendable, Equatable {
    package let sequence: Int64
    /// Nil for a job that ended before owners were stored.
    package let owner: JobOwner?
    /// The hash of the job's content; nil for a job whose id the server made.
    package let contentHash: JobHash?
    package let isFailure: Bool
    /// A JSON object: a completed job's members of `completed` except `timing`, or a failed job's `error`.
    package let body: [UInt8]
}

package struct FailureFilter: Sendable {
    /// Accepted at that time or later, in milliseconds since 1970.
    package let since: Int64?
    package let user: UInt32?
    package let code: String?

    package init(since: Int64? = nil, user: UInt32? = nil, code: String? = nil) {
        self.since = since
        self.user = user
        self.code = code
    }

    /// With what the stored faults of the code begin: `Fault.write(to:)` writes the code first.
    var beginning: String? { code.map { #"{"code":"\#($0)""# } }

    package func includes(acceptedAt: Int64, of owner: JobOwner, error: [UInt8]) -> Bool {
        acceptedAt >= since ?? .min && user ?? owner.user == owner.user && error.starts(with: (beginning ?? "").utf8)
    }
}
