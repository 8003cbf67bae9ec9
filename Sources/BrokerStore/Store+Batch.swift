internal import BrokerModel
package import BrokerSchema
package import BrokerStaging
internal import Glibc

/// Applies several jobs at once, without a savepoint for each: the fast path for jobs that are expected to succeed.
extension Store {
    /// Whether the job may be applied together with others.
    package func canJoin(_ job: StoreJob) -> Bool {
        if case .refused = job.work { return true }
        return joinableRows(job) != nil
    }

    private func joinableRows(_ job: StoreJob) -> StagedRows? {
        guard let rows = job.work.onlyRows, rows.isBatchable, !job.wantsKeys, !job.wantsObjects, !job.isDryRun,
            !merger.isForeign, !merger.interpretsAll
        else { return nil }
        return rows
    }

    /// Applies jobs for which ``canJoin(_:)`` is true inside the open transaction, with the result of ``apply(_:)`` for
    /// one after the other.
    ///
    /// - Returns: the outcome of each job; nil when they cannot be applied together. The caller must then roll the
    ///   transaction back and can apply the jobs one by one.
    package func applyBatch(_ jobs: [StoreJob]) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.count)
        var rest = jobs[...]
        while !rest.isEmpty {
            let part = prefix(of: rest)
            guard let applied = try applyAtOnce(part) else { return nil }
            if part.count == jobs.count { return applied }
            ends += applied
            rest = rest.dropFirst(part.count)
        }
        return ends
    }

    /// The jobs that can be merged at once: a job whose id occurs before it must wait until the ledger has that id.
    private func prefix(of jobs: ArraySlice<StoreJob>) -> ArraySlice<StoreJob> {
        // Different ids with the same hash only end the batch earlier.
        var ids = Set<UInt64>(minimumCapacity: jobs.count)
        return jobs.prefix(BatchMerge.maximumMembers(merger)).prefix { job in
            job.contentHash == nil || ids.insert(JobIndex.hash(job.id)).inserted
        }
    }

    private func applyAtOnce(_ jobs: ArraySlice<StoreJob>) throws(StoreError) -> [JobOutcome]? {
        var found: [(known: StoredOutcome?, end: JobOutcome?)] = []
        var members: [BatchMerge.Member] = []
        found.reserveCapacity(jobs.count)
        members.reserveCapacity(jobs.count)
        for job in jobs {
            found.append(try find(job))
            if found.last?.end != nil { continue }
            if case .refused = job.work { continue }
            guard let rows = joinableRows(job) else { return nil }
            members.append(BatchMerge.Member(job: job, rows: rows))
        }
        merger.digest = ledger.history == nil ? nil : RowDigest()
        let ends = try BatchMerge.run(members, merger) { merge throws(StoreError) in
            try record(zip(jobs, found), merge)
        }
        return ends ?? nil
    }

    /// Records jobs whose steps, if they have any, are merged.
    ///
    /// - Parameter jobs: each with what ``find(_:)`` returned.
    /// - Returns: nil when the line that determines a job's outcome has expired with an earlier job of these.
    private func record(
        _ jobs: Zip2Sequence<ArraySlice<StoreJob>, [(known: StoredOutcome?, end: JobOutcome?)]>, _ merge: BatchMerge
    ) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.underestimatedCount)
        var member = 0
        // Similar jobs share one outcome.
        var shared: JobOutcome?
        var sharedChanges: [(entity: String, counts: ChangeCounts)] = []
        for (job, found) in jobs {
            if let end = found.end {
                if let known = found.known, known.sequence < ledger.firstSequence { return nil }
                try extendDigest(end, of: job, nil)
                ends.append(end)
                continue
            }
            if case .refused(let fault) = job.work {
                ends.append(try record(.failed(fault), of: job, found.known, nil, isWritten: false))
                continue
            }
            let rows = merge.digest(member)
            defer { member += 1 }
            if let shared, merge.isOnly(sharedChanges, member) {
                let feedKeys = merge.feedKeys(member, sharedChanges)
                ends.append(try record(shared, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
                continue
            }
            var outcome = merge.outcome(member)
            let feedKeys = merge.feedKeys(member, outcome.changes)
            outcome.writeBrief()
            let end = JobOutcome.completed(outcome)
            if outcome.isOnly(outcome.changes) { (shared, sharedChanges) = (end, outcome.changes) }
            ends.append(try record(end, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
        }
        try ledger.write()
        return ends
    }
}

extension StoreJob.Work {
    /// The rows of a job that only merges records; nil for any other.
    fileprivate var onlyRows: StagedRows? {
        switch self {
        case .merge(let rows): return rows
        case .steps(let steps):
            guard steps.count == 1, case .merge = steps[0].action else { return nil }
            return steps[0].rows
        case .refused: return nil
        }
    }
}

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

extension Store {
    /// The changes that opening an existing store with that model would make, and what is lost by them. Changes nothing, and
    /// reads one state, also while a server has the store open.
    ///
    /// - Parameter vfs: see ``StoreOptions/vfs``.
    /// - Throws: ``StoreError`` when no store is there, or it cannot be read.
    package static func changes(
        path: String, plan: StagingPlan, removal: RemovalPolicy = .refuse, vfs: String? = nil
    ) throws(StoreError) -> [StoreChange] {
        let file = try StoreFile(path: path)
        guard file.exists else {
            throw StoreError(.unavailable, "There is no store \(path). Check the path.")
        }
        let connection = try look(at: file, vfs: vfs)
        try connection.execute("PRAGMA foreign_keys = ON")
        try connection.execute("BEGIN")
        return try opening(connection, file.path, plan, removal).changesWithLosses(on: connection)
    }

    /// The same; nil when the store would be made.
    ///
    /// - Throws: ``StoreError`` when it could not be opened for another reason than a refused change.
    package static func changesOfOpening(
        path: String, plan: StagingPlan, removal: RemovalPolicy
    ) throws(StoreError) -> [StoreChange]? {
        let file = try StoreFile(path: path)
        try SQLiteLibrary.check()
        try file.checkAccess()
        try file.checkWAL()
        return file.exists ? try changes(path: path, plan: plan, removal: removal) : nil
    }

    /// The store's path without symbolic links, and the identity of the journal that it was fed from; nil without one.
    /// Changes nothing.
    package static func journal(path: String) throws(StoreError) -> (location: String, identity: String?) {
        let file = try StoreFile(path: path)
        guard file.exists else { return (file.location, nil) }
        let connection = try look(at: file)
        guard try StoreFormat.modelInForce(of: connection, path: path) != nil else { return (file.location, nil) }
        return (file.location, try StoreMeta(connection: connection).value(of: .log))
    }

    /// Whether a name belongs to a store, whether or not there is a file of that name.
    ///
    /// - Returns: "belongs to …"; nil for a name that is not the store's.
    /// - Throws: ``StoreError`` when no store can be at its path.
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
        do throws(StoreError) {
            try checkUsable()
            let newest = max(try lastSequence(), position)
            try beginning.run()
            try reserveSequences(through: newest + count)
            try commit()
            return newest
        } catch {
            rollback()
            throw error
        }
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

    /// The number of outcomes that the ledger has.
    package var outcomeCount: Int { ledger.count }
}
