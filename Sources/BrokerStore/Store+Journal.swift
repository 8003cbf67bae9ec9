package import BrokerSchema
package import BrokerStaging
internal import Glibc

extension Store {
    package func logPosition() throws(StoreError) -> JournalPosition {
        guard let identity = try StoreMeta(connection: connection).value(of: .log), let history = ledger.history else {
            return JournalPosition(identity: nil, applied: try lastSequence(), id: nil)
        }
        return JournalPosition(
            identity: identity, applied: history.position, id: try ledger.id(ofJobAt: history.position))
    }

    /// The same of a store that is not open; nil when there is none, or it was fed from no journal. Changes nothing.
    package static func logPosition(path: String) throws(StoreError) -> JournalPosition? {
        guard let connection = try look(path) else { return nil }
        let meta = StoreMeta(connection: connection)
        guard let identity = try meta.value(of: .log),
            let applied = try meta.value(of: .logApplied).flatMap({ StateDigest($0) })?.position
        else { return nil }
        return JournalPosition(
            identity: identity, applied: applied,
            id: try connection.text("SELECT id FROM _broker_jobs WHERE sequence = \(applied)"))
    }

    package static func hasJournal(path: String) throws(StoreError) -> Bool {
        access(try StoreFile(path: path).location + ".journal", F_OK) == 0
    }

    /// Assigns a journal to the store, of which no job is applied yet, with the position before its first job. For a shared log,
    /// `time` is that of the entry there, in milliseconds since 1970.
    package func beginLog(_ identity: String, after position: Int64, at time: Int64? = nil) throws(StoreError) {
        try setLog(identity, StateDigest(position: position, time: time))
    }

    package func endLog() throws(StoreError) { try setLog(nil, nil) }

    /// Stores the fingerprint under which the journal accepts jobs from now on, and returns what differs from the one before.
    package func updateFingerprint() throws(StoreError) -> [String] {
        let meta = StoreMeta(connection: connection)
        let earlier = try meta.value(of: .fingerprint).flatMap { ApplicationFingerprint($0) }
        let fingerprint = fingerprint
        guard earlier != fingerprint else { return [] }
        try inTransaction { () throws(StoreError) in try meta.set(.fingerprint, to: fingerprint.text) }
        return earlier.map { fingerprint.differences(from: $0) } ?? []
    }

    package func fact(_ key: StoreMeta.Key) throws(StoreError) -> String? {
        try StoreMeta(connection: connection).value(of: key)
    }

    /// Whether nothing is in a store of that model, or there is none: it may begin with a shared log. Changes nothing.
    package static func isUnused(path: String, plan: StagingPlan) throws(StoreError) -> Bool {
        let file = try StoreFile(path: path)
        guard file.exists, fileSize(file.location) ?? 0 > 0 else { return true }
        let connection = try look(at: file)
        guard try StoreFormat.modelInForce(of: connection, path: path) == plan.model.text,
            try connection.integer("SELECT max(sequence) FROM _broker_jobs") == nil
        else { return false }
        let tables = try connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        while try tables.step() {
            let name = tables.text(0)
            guard !name.hasPrefix("sqlite_"), !name.hasPrefix("_broker_") else { continue }
            if try connection.integer("SELECT 1 FROM \(quoted(name)) LIMIT 1") != nil { return false }
        }
        return true
    }

    /// The digits of the fingerprint that a store would have here, with its model or, if it has none, with that one.
    package static func fingerprintDigits(path: String, plan: StagingPlan) throws(StoreError) -> String {
        let file = try StoreFile(path: path)
        guard file.exists, let inForce = try planInForce(path: path) else {
            return ApplicationFingerprint(plan).digits
        }
        return ApplicationFingerprint(inForce, statistics: try planStatistics(of: look(at: file))).digits
    }

    package var fingerprint: ApplicationFingerprint {
        ApplicationFingerprint(merger.plan, statistics: planStatistics)
    }

    /// The contents of the tables in which ANALYZE, which other programs run, stores what it finds; nil when there are none.
    static func planStatistics(of connection: Connection) throws(StoreError) -> String? {
        var texts: [String] = []
        let columns = [
            "sqlite_stat1": ["tbl", "idx", "stat"], "sqlite_stat4": ["tbl", "idx", "neq", "nlt", "ndlt", "sample"],
        ]
        for (table, columns) in columns.sorted(by: { $0.key < $1.key }) {
            let count = try connection.integer("SELECT count(*) FROM sqlite_schema WHERE name = '\(table)'")
            guard count != 0 else { continue }
            let row = columns.map { "quote(\($0))" }.joined(separator: " || ' ' || ")
            let rows = "SELECT \(row) AS row FROM \(table) ORDER BY 1"
            texts.append(try connection.text("SELECT ifnull(group_concat(row, char(10)), '') FROM (\(rows))") ?? "")
        }
        return texts.isEmpty ? nil : texts.joined(separator: "\n")
    }

    /// The limits under which the jobs of a store's journal are applied; nil without a store, or if none are recorded.
    package static func limitsInForce(path: String) throws(StoreError) -> LoggedLimits? {
        guard let connection = try look(path) else { return nil }
        return try StoreMeta(connection: connection).value(of: .limits).flatMap { LoggedLimits($0) }
    }

    /// Moves to the position of an entry without a change of the store, but for facts; a nil value removes one.
    package func pass(
        _ mark: LogMark, setting facts: [(key: StoreMeta.Key, value: String?)] = [], syncs: Bool = true
    ) throws(StoreError) {
        try inTransaction { () throws(StoreError) in
            ledger.history?.extend(mark)
            for fact in facts { try StoreMeta(connection: connection).set(fact.key, to: fact.value) }
            mustSync = syncs
        }
    }

    /// Moves to the position of an entry whose change the open transaction makes.
    static func note(_ mark: LogMark, _ options: StoreOptions, on connection: Connection) throws(StoreError) {
        let meta = StoreMeta(connection: connection)
        var digest = try meta.value(of: .logApplied).flatMap { StateDigest($0) }
        digest?.extend(mark)
        try meta.set(.logApplied, to: digest?.text)
        try meta.set(.limits, to: LoggedLimits(options).text)
    }

    private func setLog(_ identity: String?, _ history: StateDigest?) throws(StoreError) {
        try inTransaction { () throws(StoreError) in
            let meta = StoreMeta(connection: connection)
            try meta.set(.log, to: identity)
            try meta.set(.logApplied, to: history?.text)
            if identity == nil { try meta.set(.fingerprint, to: nil) }
            try meta.set(.limits, to: identity == nil ? nil : limits.text)
            for key in [StoreMeta.Key.replicas, .halt] { try meta.set(key, to: nil) }
            ledger.history = history
            // The journal's first job is on the disk before the store's next COMMIT.
            mustSync = true
        }
    }

    func inTransaction(_ body: () throws(StoreError) -> Void) throws(StoreError) {
        do throws(StoreError) {
            try beginning.run()
            try body()
            try commit()
        } catch {
            rollback()
            throw error
        }
    }

    /// Jobs are applied in order, once: it is a defect if the job at that position of the journal is applied already.
    func extendDigest(_ end: JobOutcome, of job: StoreJob, _ rows: RowDigest?) throws(StoreError) {
        guard let history = ledger.history else { return }
        guard job.sequence > history.position else {
            throw StoreError(
                .defect,
                "Job \(job.sequence) was to be applied after job \(history.position) of the same log. This is a defect of Broker's; "
                    + "report it.")
        }
        ledger.history?.extend(job, end.body(of: job), end.isFailure ? nil : rows)
    }
}

extension Store {
    /// The changes that opening an existing store with that model would make, and what is lost by them. Changes nothing, and
    /// reads one state, also while a server has the store open.
    ///
    /// - Parameter freeBytes: what counts as free on the disk; nil for what is.
    package static func changes(
        path: String, plan: StagingPlan, removal: RemovalPolicy = .refuse, vfs: String? = nil, freeBytes: Int64? = nil
    ) throws(StoreError) -> [StoreChange] {
        let file = try StoreFile(path: path)
        guard file.exists else {
            throw StoreError.unavailable("There is no store \(path). Check the path.")
        }
        let connection = try look(at: file, vfs: vfs)
        try connection.execute("PRAGMA foreign_keys = ON")
        try connection.execute("BEGIN")
        return try opening(connection, file.path, plan, removal).changesWithLosses(
            on: connection, freeBytes: freeBytes ?? Self.freeBytes(ofDiskOf: file.path))
    }

    /// The same; nil when the store would be made.
    package static func changesOfOpening(
        path: String, plan: StagingPlan, removal: RemovalPolicy
    ) throws(StoreError) -> [StoreChange]? {
        let file = try StoreFile(path: path)
        try SQLiteLibrary.check()
        try file.checkAccess()
        try file.checkWAL()
        return file.exists ? try changes(path: path, plan: plan, removal: removal) : nil
    }

    /// A connection to an existing store of Broker's that changes nothing; nil when there is none.
    static func look(_ path: String) throws(StoreError) -> Connection? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        return try StoreFormat.modelInForce(of: connection, path: path) == nil ? nil : connection
    }

    /// The store's path without symbolic links, and the identity of the journal that it was fed from; nil without one.
    package static func journal(path: String) throws(StoreError) -> (location: String, identity: String?) {
        let location = try StoreFile(path: path).location
        guard let connection = try look(path) else { return (location, nil) }
        return (location, try StoreMeta(connection: connection).value(of: .log))
    }

    /// "belongs to …" for a name that belongs to a store, whether or not there is a file of that name; nil for any other.
    package static func owner(ofFile path: String, besideStore store: String) throws(StoreError) -> String? {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        return try StoreFile(path: store).owner(of: name, in: StoreFile.folder(of: path))
    }
}

// The sequences of jobs, and their lines in the ledger.
extension Store {
    /// Finds the lines of jobs, for readers of the ledger on other connections.
    package var jobs: JobIndex { ledger.index }

    /// The highest sequence that may have been sent to a client; 0 in a new store.
    ///
    /// The next sequence is greater. After a crash there is a gap, as wide as the reservation.
    package func lastSequence() throws(StoreError) -> Int64 { try ledger.newestSequence() }

    /// Reserves sequences in a transaction of its own, before the first of them is sent to a client.
    ///
    /// - Parameter position: the newest position of the journal: after a loss of power, the store may know only earlier ones.
    /// - Returns: the highest sequence that may have been sent before; the `count` after it are reserved.
    package func openSequences(_ count: Int64, after position: Int64 = 0) throws(StoreError) -> Int64 {
        try checkUsable()
        let newest = max(try lastSequence(), position)
        try inTransaction { () throws(StoreError) in try reserveSequences(through: newest + count) }
        return newest
    }

    /// Reserves sequences in the open transaction: once that is durable, those up to `sequence` may be sent to clients,
    /// and no later server assigns one of them to another job.
    ///
    /// At a clean stop, with the highest sequence that was sent, it releases the others.
    package func reserveSequences(through sequence: Int64) throws(StoreError) {
        try ledger.reserve(through: sequence)
    }

    /// The highest sequence whose outcome may have been deleted; 0 for none.
    package var forgottenThrough: Int64 { ledger.forgottenThrough }

    package var outcomeCount: Int { ledger.count }

    /// When the oldest job whose outcome is stored ended, in milliseconds since 1970; nil for none.
    package var oldestOutcomeTime: Int64? { ledger.oldestTime }
}

// The time of the newest backup, which the store remembers for its operator.
extension Store {
    /// In milliseconds since 1970; nil when none was made, or none could be noted.
    package func lastBackup() throws(StoreError) -> Int64? {
        try StoreMeta(connection: connection).value(of: .backedUpAt).flatMap { Int64($0) }
    }

    /// Notes a backup, in a transaction of its own. Does not wait for a lock.
    package func noteBackup(at milliseconds: Int64) throws(StoreError) {
        try inTransaction { () throws(StoreError) in
            try StoreMeta(connection: connection).set(.backedUpAt, to: String(milliseconds))
        }
    }
}
