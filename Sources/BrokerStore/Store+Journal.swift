package import BrokerSchema
internal import BrokerModel
package import BrokerStaging
internal import Glibc

/// The journal whose jobs are applied to the store.
extension Store {
    /// The position that the store has reached in its journal.
    package func logPosition() throws(StoreError) -> JournalPosition {
        guard let identity = try StoreMeta(connection: connection).value(of: .log), let history = ledger.history else {
            return JournalPosition(identity: nil, applied: try lastSequence(), id: nil)
        }
        return JournalPosition(
            identity: identity, applied: history.position, id: try ledger.id(ofJobAt: history.position))
    }

    /// The same of a store that is not open; nil when there is none, or it was fed from no journal. Changes nothing.
    package static func logPosition(path: String) throws(StoreError) -> JournalPosition? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        let meta = StoreMeta(connection: connection)
        guard try StoreFormat.modelInForce(of: connection, path: path) != nil,
            let identity = try meta.value(of: .log),
            let applied = try meta.value(of: .logApplied).flatMap({ StateDigest($0) })?.position
        else { return nil }
        return JournalPosition(
            identity: identity, applied: applied,
            id: try connection.text("SELECT id FROM _broker_jobs WHERE sequence = \(applied)"))
    }

    /// Whether a journal is beside a store.
    package static func hasJournal(path: String) throws(StoreError) -> Bool {
        access(try StoreFile(path: path).location + ".journal", F_OK) == 0
    }

    /// Assigns a journal to the store, of which no job is applied yet.
    ///
    /// - Parameters:
    ///   - position: the position before the journal's first job.
    ///   - time: for a shared log, that of the entry there, in milliseconds since 1970.
    package func beginLog(_ identity: String, after position: Int64, at time: Int64? = nil) throws(StoreError) {
        try setLog(identity, StateDigest(position: position, time: time))
    }

    /// Ends the assignment of a journal.
    package func endLog() throws(StoreError) { try setLog(nil, nil) }

    /// Stores the fingerprint under which the journal accepts jobs from now on.
    ///
    /// - Returns: what differs from the one under which it accepted jobs before.
    package func updateFingerprint() throws(StoreError) -> [String] {
        let meta = StoreMeta(connection: connection)
        let earlier = try meta.value(of: .fingerprint).flatMap { ApplicationFingerprint($0) }
        let fingerprint = fingerprint
        guard earlier != fingerprint else { return [] }
        do throws(StoreError) {
            try beginning.run()
            try meta.set(.fingerprint, to: fingerprint.text)
            try commit()
        } catch {
            rollback()
            throw error
        }
        return earlier.map { fingerprint.differences(from: $0) } ?? []
    }

    /// A fact about the log of the store.
    package func fact(_ key: StoreMeta.Key) throws(StoreError) -> String? {
        try StoreMeta(connection: connection).value(of: key)
    }

    /// Whether nothing is in a store, or there is none: it may begin with a shared log. Changes nothing.
    ///
    /// - Parameter plan: the model that the log begins with; a store of another one is in use.
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

    /// The digits of the fingerprint that a store would have here, with its model or, if it has none, with that one. Changes
    /// nothing.
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

    /// The limits under which the jobs of a store's journal are applied; nil when there is no store, or none are recorded.
    /// Changes nothing.
    package static func limitsInForce(path: String) throws(StoreError) -> LoggedLimits? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        guard try StoreFormat.modelInForce(of: connection, path: path) != nil else { return nil }
        return try StoreMeta(connection: connection).value(of: .limits).flatMap { LoggedLimits($0) }
    }

    /// Moves to the position of an entry without a change of the store.
    ///
    /// - Parameters:
    ///   - facts: stored in the same transaction; a nil value removes the fact.
    ///   - syncs: waits for the disk.
    package func pass(
        _ mark: LogMark, setting facts: [(key: StoreMeta.Key, value: String?)] = [], syncs: Bool = true
    ) throws(StoreError) {
        do throws(StoreError) {
            try beginning.run()
            ledger.history?.extend(mark)
            for fact in facts { try StoreMeta(connection: connection).set(fact.key, to: fact.value) }
            mustSync = syncs
            try commit()
        } catch {
            rollback()
            throw error
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
        do throws(StoreError) {
            try beginning.run()
            let meta = StoreMeta(connection: connection)
            try meta.set(.log, to: identity)
            try meta.set(.logApplied, to: history?.text)
            if identity == nil { try meta.set(.fingerprint, to: nil) }
            try meta.set(.limits, to: identity == nil ? nil : limits.text)
            for key in [StoreMeta.Key.replicas, .halt] { try meta.set(key, to: nil) }
            ledger.history = history
            // The journal's first job is on the disk before the store's next COMMIT.
            mustSync = true
            try commit()
        } catch {
            rollback()
            throw error
        }
    }

    /// - Throws: ``StoreError`` `defect` when the job at that position of the journal is applied already: jobs are
    ///   applied in order, once.
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
