internal import BrokerJournal
internal import BrokerStaging
package import BrokerStore
internal import Logging

/// Checks that a store and the journal beside it belong together, before anything is written to either.
enum JournalOpening {
    /// A server without a journal, which would migrate the store: leaves the journal beside it with the model in force, since no
    /// refusal may follow a migration.
    ///
    /// - Throws: as ``open(for:_:_:)``.
    static func leaveBeforeMigration(
        to plan: StagingPlan, _ options: CoordinatorOptions, _ logger: Logger
    ) throws(StoreError) {
        guard !options.keepsJournal, try Store.hasJournal(path: options.storePath),
            let inForce = try Store.planInForce(path: options.storePath, unlike: plan)
        else { return }
        var opening = options.store
        // Parts of the file that are not in that model may be in the wanted one.
        opening.removal = .keep
        _ = try open(for: Store(path: options.storePath, plan: inForce, options: opening), options, logger)
    }

    /// Reads and checks the journal of a store that is not open. Opening the store copies its WAL, which a refused start must not
    /// have done. Changes nothing.
    ///
    /// - Parameter isKept: the server keeps a journal.
    /// - Returns: the number of accepted jobs that the store has not applied.
    /// - Throws: as ``open(for:_:_:)``.
    static func pendingJobs(_ store: String, isKept: Bool) throws(StoreError) -> Int {
        let position = try Store.logPosition(path: store)
        let path = try Store.journal(path: store).location + ".journal"
        guard isKept || position != nil, try exists(path, isExpected: position != nil) else { return 0 }
        return try onJournal { () throws(JournalError) in
            try Journal.pendingJobs(
                path: path, expected: position?.identity.flatMap { JournalIdentity($0) },
                applied: position?.applied ?? 0, idOfApplied: position?.id)
        }
    }

    /// - Throws: ``StoreError`` when the start would be refused because of the journal.
    static func check(_ options: CoordinatorOptions) throws(StoreError) {
        let jobs = try pendingJobs(options.storePath, isKept: options.keepsJournal)
        guard jobs > 0, !options.keepsJournal else { return }
        throw StoreError(
            .incompatible,
            "The journal of \(options.storePath) holds \(jobs) jobs that were accepted, and that the store has not applied. Start "
                + "with --journal, which applies them; or, to give them up, move the journal away. Nothing was touched."
        )
    }

    /// - Returns: the journal with the jobs that the store has not applied; nil when none is wanted.
    /// - Throws: ``StoreError`` when they do not belong together, something is damaged, or jobs would be lost.
    static func open(
        for store: Store, _ options: CoordinatorOptions, _ logger: Logger
    ) throws(StoreError) -> Journal? {
        let path = store.location + ".journal"
        let remembered = try store.logPosition()
        let expected = remembered.identity.flatMap { JournalIdentity($0) }
        guard options.keepsJournal else {
            if expected != nil {
                try leave(path, expected: expected, after: remembered, options, of: store, logger: logger)
            }
            return nil
        }
        let isThere = try exists(path, isExpected: expected != nil)
        let journal = try opened(path, expected: expected, after: remembered, options, logger: logger)
        if journal.identity != expected {
            if expected != nil, !isThere {
                logger.warning(
                    """
                    The store was fed from a journal that is missing; a new one is begun. Jobs that were accepted, and \
                    that the store has not applied, are lost with the old one.
                    """,
                    metadata: ["applied": "\(remembered.applied)"])
            }
            try store.beginLog(journal.identity.description, after: journal.lastPosition)
        }
        return journal
    }

    /// - Parameter isExpected: the store was fed from a journal.
    /// - Throws: also when the journal's folder is there without its files. (A copy of the store alone has no folder.)
    private static func exists(_ path: String, isExpected: Bool) throws(StoreError) -> Bool {
        let presence = try onJournal { () throws(JournalError) in try Journal.presence(path) }
        if presence == .emptyFolder, isExpected {
            throw StoreError(
                .incompatible,
                "The journal \(path) lacks its files, and jobs that were accepted may be in them. Put them back; or, to give such "
                    + "jobs up, delete the folder. Nothing was touched.")
        }
        return presence == .present
    }

    /// The journal as a start would find it. Changes nothing, and reads no jobs, so damage and jobs that wait are not found.
    static func find(_ path: String, isKept: Bool) throws(StoreError) -> JournalFinding {
        let (location, known) = try Store.journal(path: path)
        try SharedLogSource.refuse(known, at: path)
        let path = location + ".journal"
        let expected = known.flatMap { JournalIdentity($0) }
        guard isKept || expected != nil else { return JournalFinding(path: path, state: .unused) }
        guard try exists(path, isExpected: expected != nil) else {
            return JournalFinding(path: path, state: expected == nil ? .new : .missing)
        }
        let journal = try onJournal { () throws(JournalError) in
            let journal = try JournalPreview(path: path)
            if let journal, journal.identity != expected, !journal.isEmpty {
                throw JournalPreview.stranger(path: path, isFed: expected != nil)
            }
            return journal
        }
        return JournalFinding(path: path, state: journal?.identity == expected ? .present : .new)
    }

    private static func opened(
        _ path: String, expected: JournalIdentity?, after remembered: JournalPosition, _ options: CoordinatorOptions,
        logger: Logger
    ) throws(StoreError) -> Journal {
        let journal = try onJournal { () throws(JournalError) in
            try Journal(
                path: path, expected: expected, applied: remembered.applied, idOfApplied: remembered.id,
                mode: options.store.fileMode ?? StoreLock.defaultMode, system: options.journalSystem)
        }
        if let tail = journal.tail {
            logger.warning(
                """
                The end of the journal was being written when the server or the machine stopped, and was cut off. \
                No client was answered for the jobs in it.
                """, metadata: ["file": "\(tail.file)", "byte": "\(tail.offset)", "bytes": "\(tail.bytes)"])
        }
        return journal
    }

    /// The server runs without a journal, and the store was fed from one: deletes it, if it is not needed any more.
    private static func leave(
        _ path: String, expected: JournalIdentity?, after remembered: JournalPosition, _ options: CoordinatorOptions,
        of store: Store, logger: Logger
    ) throws(StoreError) {
        let isThere = try exists(path, isExpected: true)
        if isThere {
            let journal = try opened(path, expected: expected, after: remembered, options, logger: logger)
            try onJournal { () throws(JournalError) in try journal.remove() }
        }
        try store.endLog()
        guard isThere else {
            return logger.warning(
                """
                The store was fed from a journal that is missing, and continues without one. Jobs that were accepted, and \
                that the store has not applied, are lost with it.
                """,
                metadata: ["applied": "\(remembered.applied)"])
        }
        logger.notice("The store continues without its journal, all of whose jobs are applied.")
    }
}

extension StoreError {
    init(_ error: JournalError) {
        self.init(error.code == .full ? .full : .unavailable, error.message)
    }
}

/// Runs what may fail because of the journal: to clients and operators it is a part of the store.
func onJournal<Value>(_ body: () throws(JournalError) -> Value) throws(StoreError) -> Value {
    do throws(JournalError) {
        return try body()
    } catch {
        throw StoreError(error)
    }
}

/// The journal beside a store, as a start would find it.
package struct JournalFinding: Sendable {
    package enum State: Sendable {
        /// The store was not fed from a journal, and the server uses none.
        case unused
        /// A journal would be begun.
        case new
        /// The folder has the journal that the store was fed from.
        case present
        /// The store was fed from a journal that is not there.
        case missing
    }

    /// The path of the journal's folder.
    package let path: String
    package let state: State
}

extension JournalFinding {
    /// - Parameters:
    ///   - store: the path of the store, which may be absent.
    ///   - isKept: the server would keep a journal.
    /// - Throws: ``StoreError`` when the start would fail because of the journal.
    package init(store: String, isKept: Bool) throws(StoreError) {
        self = try JournalOpening.find(store, isKept: isKept)
    }

    /// The number of accepted jobs in the journal beside a store that it has not applied. Changes nothing.
    ///
    /// - Throws: ``StoreError`` when the journal cannot be read, or is not that of the store.
    package static func pendingJobs(store: String) throws(StoreError) -> Int {
        try JournalOpening.pendingJobs(store, isKept: true)
    }
}
