internal import BrokerSchema
internal import Glibc

/// Puts a backup in the place of a store that no server has open.
///
/// 1. The backup is checked and copied beside the store first; a fault there leaves the store as it was.
/// 2. The store that is replaced, its WAL, its journal and Litestream's folder for it are renamed, never deleted.
/// 3. New jobs get sequences after those of the replaced store, and the feed begins after them. So no client has two
///    outcomes for one sequence, and each follower learns that it must begin again.
package struct StoreRestore: Sendable {
    /// The jobs of the backup, and those that only the store has.
    package struct Survey: Sendable, Equatable {
        package var sequence: Int64 = 0
        /// When the newest job of the backup ended, in milliseconds since 1970; nil without jobs.
        package var newestTime: Int64?
        /// The store that is replaced; nil when there is none, or an empty file.
        package var replaced: Replaced?
        /// The model of the backup is not that of the replaced store.
        package var hasOtherModel = false
        /// The store has a journal, which may hold accepted jobs that are not applied.
        package var hasJournal = false
    }

    package struct Replaced: Sendable, Equatable {
        /// Why it cannot be read; the numbers are then unknown.
        package var fault: String?
        /// Jobs whose outcomes are in it and not in the backup: their effects are undone.
        package var forgottenJobs: Int64 = 0
        /// The newest of their ids, ten at most.
        package var forgottenIDs: [String] = []
        /// The highest sequence that a client may have.
        package var newestSequence: Int64 = 0
    }

    package struct Outcome: Sendable {
        package let survey: Survey
        /// The name that the replaced store has now; nil when there was none.
        package let replacedPath: String?
    }

    private static let listedIDs = 10

    private let backup: String
    private let store: String
    private let time: String

    /// - Parameter time: the time of the restore as a part of file names, `20261125T213000Z`.
    package init(of backup: String, to store: String, time: String) {
        self.backup = backup
        self.store = store
        self.time = time
    }

    /// Refuses a store that a server has open.
    package static func refuseOpen(_ store: String) throws(StoreError) { try StoreLock(storePath: store).abandon() }

    /// Compares both. Changes nothing.
    package func survey() throws(StoreError) -> Survey {
        var survey = Survey()
        let copy = try StoreVerification.openBackup(backup)
        survey.sequence = try Self.newest(copy)
        survey.newestTime = try copy.integer("SELECT ended FROM _broker_jobs ORDER BY sequence DESC LIMIT 1")
        let model = try StoreMeta(connection: copy).value(of: .model) ?? ""
        _ = try StoreOpening.read(model, backup)
        let file = try StoreFile(path: store)
        survey.hasJournal = access(Self.journal(of: file), F_OK) == 0
        guard file.exists, fileSize(file.location) ?? 0 > 0 else { return survey }
        var replaced = Replaced()
        do throws(StoreError) {
            let present = try StoreVerification.open(store)
            try Self.compare(present, after: survey.sequence, &replaced)
            survey.hasOtherModel = try StoreMeta(connection: present).value(of: .model) != model
        } catch {
            replaced = Replaced(fault: error.message)
        }
        survey.replaced = replaced
        return survey
    }

    /// Replaces the store. Blocks. After an error the store is as it was, unless the message names the file that has it.
    package func run() throws(StoreError) -> Outcome {
        let faults = try StoreVerification.faults(of: backup)
        guard faults.isEmpty else {
            throw StoreError.unavailable(
                "The backup \(backup) is damaged: \(faults.joined(separator: "; ")). Take another one; nothing was touched."
            )
        }
        let lock = try StoreLock(storePath: store)
        defer { withExtendedLifetime(lock) {} }
        do throws(StoreError) {
            let survey = try survey()
            let file = try StoreFile(path: store)
            let copy = file.location + ".restored"
            var copying = StoreBackup(of: backup, to: copy, replaces: true)
            copying.sourceAccess = .look
            _ = try copying.run()
            try Self.separate(copy, survey)
            if survey.replaced != nil { try Self.adopt(copy, as: file) }
            let aside = freeName(for: file)
            let replacedPath = survey.replaced == nil ? nil : aside
            try Self.moveAside(file, to: aside, survey)
            guard rename(copy, file.location) == 0 else {
                throw Self.failure(
                    "\(copy) cannot be renamed to \(store)", "The replaced store is \(replacedPath ?? "not there")")
            }
            Self.syncFolder(of: file)
            // A lock file of another owner would keep the server from starting.
            lock.discardLockFile()
            return Outcome(survey: survey, replacedPath: replacedPath)
        } catch {
            lock.abandon()
            throw error
        }
    }

    // MARK: - Comparing

    private static func newest(_ connection: Connection) throws(StoreError) -> Int64 {
        try connection.integer("SELECT max(sequence) FROM _broker_jobs") ?? 0
    }

    private static func compare(
        _ connection: Connection, after sequence: Int64, _ replaced: inout Replaced
    ) throws(StoreError) {
        replaced.forgottenJobs =
            try connection.integer("SELECT count(*) FROM _broker_jobs WHERE sequence > \(sequence)") ?? 0
        let ids = try connection.prepare(
            "SELECT id FROM _broker_jobs WHERE sequence > \(sequence) ORDER BY sequence DESC LIMIT \(listedIDs)")
        while try ids.step() { replaced.forgottenIDs.append(ids.text(0)) }
        let reserved = try StoreMeta(connection: connection).value(of: .reservedSequence).flatMap { Int64($0) }
        replaced.newestSequence = max(try newest(connection), reserved ?? 0)
    }

    // MARK: - Replacing

    /// Ends what connects the copy to the store's clients: its log, and the sequences of the replaced store.
    private static func separate(_ copy: String, _ survey: Survey) throws(StoreError) {
        let connection = try Connection(store: copy)
        // As of a store that was closed: a reader does not keep the next start from changing the mode.
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("BEGIN IMMEDIATE")
        let meta = StoreMeta(connection: connection)
        for key in [StoreMeta.Key.log, .logApplied, .replicas, .halt] { try meta.set(key, to: nil) }
        let reserved = try meta.value(of: .reservedSequence).flatMap { Int64($0) } ?? 0
        let newest = max(survey.sequence, reserved, survey.replaced?.newestSequence ?? 0)
        try meta.set(.reservedSequence, to: String(newest + 1))
        // One more: also a follower that has seen the newest job begins again.
        try meta.set(.forgotten, to: String(newest + 1))
        try connection.execute("COMMIT")
    }

    private func freeName(for file: StoreFile) -> String {
        let name = "\(file.location).replaced-\(time)"
        var (candidate, number) = (name, 1)
        while ["", "-wal", ".journal", "-litestream"].contains(where: { access(candidate + $0, F_OK) == 0 }) {
            number += 1
            candidate = "\(name)-\(number)"
        }
        return candidate
    }

    /// Gives the copy the owner and the permissions of the file that it replaces, so that the server can open it.
    private static func adopt(_ copy: String, as file: StoreFile) throws(StoreError) {
        var (old, new) = (stat(), stat())
        guard stat(file.location, &old) == 0, stat(copy, &new) == 0 else { return }
        let isOwned = (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid)
        guard isOwned || chown(copy, old.st_uid, old.st_gid) == 0, chmod(copy, old.permissions) == 0 else {
            defer { unlink(copy) }
            throw failure(
                "The restored store cannot have the owner of \(file.location) (user \(old.st_uid), group \(old.st_gid))",
                "Run the command as root, or as that user. The store is as it was")
        }
    }

    private static func moveAside(_ file: StoreFile, to aside: String, _ survey: Survey) throws(StoreError) {
        if let replaced = survey.replaced, replaced.fault == nil {
            // Its WAL is copied into it, so that it is one file.
            try Connection(store: file.location).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        // The database first: a database without its WAL lacks jobs. A WAL whose database is not there must not become that of the
        // copy.
        let hasWAL = fileSize(file.location + "-wal") ?? 0 > 0
        let names = survey.replaced == nil ? (hasWAL ? ["-wal"] : []) : ["", "-wal", "-shm"]
        for name in names where access(file.location + name, F_OK) == 0 {
            guard rename(file.location + name, aside + name) == 0 else {
                throw failure("\(file.location + name) cannot be renamed", "Look at \(aside) before the next attempt")
            }
        }
        // Litestream would go on from what it has of the replaced store.
        let name = file.location.split(separator: "/").last ?? ""
        let copying = "\(StoreFile.folder(of: file.location))/.\(name)-litestream"
        guard rename(copying, aside + "-litestream") == 0 || errno == ENOENT else {
            throw failure("\(copying) cannot be renamed", "The replaced store is \(aside)")
        }
        guard survey.hasJournal else { return }
        guard rename(journal(of: file), aside + ".journal") == 0 else {
            throw failure("\(journal(of: file)) cannot be renamed", "The replaced store is \(aside)")
        }
    }

    private static func journal(of file: StoreFile) -> String { file.location + ".journal" }

    /// The new name is on the disk before the command says so.
    private static func syncFolder(of file: StoreFile) {
        let folder = open(StoreFile.folder(of: file.location), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { return }
        fsync(folder)
        close(folder)
    }

    private static func failure(_ what: String, _ remedy: String) -> StoreError {
        StoreError.unavailable("\(what): \(String(cString: strerror(errno))). \(remedy).")
    }
}

/// Checks a file that is no store in use: a backup.
package enum StoreVerification {
    private static let listedFaults = 10

    /// Reads the whole file and returns its faults, a line each: its structure (SQLite's `integrity_check`), links that lead to no
    /// row (`foreign_key_check`). Blocks; changes nothing. A file that is no store is an error.
    package static func faults(of path: String) throws(StoreError) -> [String] {
        let connection = try openBackup(path)
        var faults: [String] = []
        let integrity = try connection.prepare("PRAGMA integrity_check(\(listedFaults))")
        while try integrity.step() {
            if integrity.text(0) != "ok" { faults.append(integrity.text(0)) }
        }
        let links = try connection.prepare(
            "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT \(listedFaults)")
        while try links.step() {
            faults.append("row \(links.text(1)) of \(links.text(0)) has a link to no row of \(links.text(2))")
        }
        return faults
    }

    static func open(_ path: String) throws(StoreError) -> Connection {
        let file = try StoreFile(path: path)
        guard file.exists else { throw StoreError.unavailable("There is no store \(path). Check the path.") }
        let connection = try Store.look(at: file)
        switch try StoreFormat.kind(of: connection, path: path) {
        case .store, .foreign(isMarked: true): return connection
        case .new, .foreign(isMarked: false):
            throw noStore(path)
        }
    }

    /// The same for a file that the user has named as a backup.
    static func openBackup(_ path: String) throws(StoreError) -> Connection {
        do throws(StoreError) {
            return try open(path)
        } catch {
            throw error.isNoDatabase ? noStore(path) : error
        }
    }

    private static func noStore(_ path: String) -> StoreError {
        StoreError(.incompatible, "\(path) is no store of Broker's. Name a backup that `broker backup` made.")
    }
}
