internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// The net changes of rows since the recording began: the state of each row then, and its state now.
///
/// SQLite's hook before the change (sqlite.org/c3ref/preupdate_blobwrite.html) reports every change of a row, also the
/// changes that foreign keys make. A row that is deleted and inserted again with the same key is one object, and so is
/// a row whose key changes.
final class NetChanges {
    enum Original: Equatable {
        case absent
        /// The row exists, and nothing has changed it yet.
        case untouched
        /// Equal for equal rows; different for different ones but once in 2⁶⁴.
        case content(Int)
    }

    struct Entry {
        /// The entity whose table has the row.
        let entity: Int
        /// The concrete entity of the object; `entity` outside of hierarchies.
        var concreteEntity: Int
        /// The concrete entity when the row was first recorded.
        var originalConcreteEntity = 0
        /// If clients name the object by its identity and the store by a row key: when it was first recorded, and when deleted.
        var originalIdentity, identity: StoredKey?
        var original: Original
        let originalKey: StoredKey
        let originalNumber: Int64
        /// The row's number now; nil when it does not exist.
        var number: Int64?
        var content: Int
        var key: StoredKey
        /// A record of the object has a value for a relationship with a link table.
        var namesLinks = false
        /// The object was deleted, perhaps made again, and not as an owned object that its owner's value does not name.
        var wasDeleted = false
    }

    /// A row of an entity's table.
    struct RowLocation: Hashable {
        let entity: Int
        let number: Int64
    }

    private struct Name: Hashable {
        let entity: Int
        let key: StoredKey
    }

    /// Units of work for a row of the deletion set and of its index, beside SQLite's instructions.
    private static let unitsPerDeletion = 40

    private let connection: Connection
    private let tables: ChangedTables
    private var memory: RecordingMemory

    private(set) var entries: [Entry] = []
    /// The rows that a first step changed, as they were before the job: a digest, and the concrete entity. The merge
    /// counts the rows of that step itself, so they need no entries.
    private(set) var baseOriginals: [RowLocation: (content: Int, concreteEntity: Int)] = [:]
    private var links = LinkChanges()
    private var isRecordingBase = false
    /// The changes of the first step were recorded, too.
    private var hasBase = false
    private var isHearingParking = false
    /// The digests of rows before a value of theirs was parked.
    private var parkedOriginals: [RowLocation: Int] = [:]
    private var entryIndices: [RowLocation: Int] = [:]
    private var deleted: [Name: Int] = [:]
    /// In the last step of a job, whether more than a count is needed of an object; nil where further steps may follow.
    var needsEntry: ((_ entity: Int, _ number: Int64, _ key: StoredKey) -> Bool)?
    /// By the index of their concrete entity, the number of deleted objects for which a count suffices.
    private(set) var deletedCounts: [Int: Int] = [:]
    /// Those of them that their owners' values do not name.
    private(set) var unnamedCounts: [Int: Int] = [:]
    /// By the index of their concrete entity, the row numbers of changed objects for which a count suffices.
    private(set) var changedNumbers: [Int: Set<Int64>] = [:]
    /// The keys of the deleted objects for which a count suffices; nil where the store keeps no keys for the feed.
    var countedKeys: CountedKeys?
    /// While owned objects are deleted that their owners' values do not name: the owned entities; else empty.
    var ownedEntities: [Int: HolderRelationship] = [:]
    /// Entries as they were before the changes since the first ``mark()``.
    private var undo: [(index: Int, entry: Entry)] = []
    /// By ``mark()``, the outermost first: the numbers of entries and of changes to undo, and the memory then.
    private var marks: [(entries: Int, undo: Int, memory: Int)] = []
    /// The hook is set: recordings may be nested.
    private var isRecording = false
    /// The digest of every change, also of those that were undone: the same job makes the same attempts on the same
    /// store. Nil when no caller asked for it.
    private(set) var digest: RowDigest?

    /// - Parameter memory: grants the memory for what is recorded; when it is refused, the job is ended.
    init(_ tables: ChangedTables, on connection: Connection, _ memory: MergeMemory, hasDigest: Bool) {
        self.memory = RecordingMemory(memory, connection.work)
        self.tables = tables
        self.connection = connection
        digest = hasDigest ? RowDigest() : nil
    }

    // MARK: - Recording

    /// Records the changes that `body` makes.
    ///
    /// - Parameter isBase: the changes are those of a first step, which counts its rows itself.
    func record<Failure: Error>(
        toBase isBase: Bool = false, _ body: () throws(Failure) -> Void
    ) throws(Failure) {
        guard !isRecording else { return try body() }
        (isRecordingBase, isRecording) = (isBase, true)
        if isBase { hasBase = true }
        sqlite3_preupdate_hook(
            connection.handle,
            { context, database, operation, _, table, old, new in
                guard let context, let database, let table else { return }
                let history = Unmanaged<NetChanges>.fromOpaque(context).takeUnretainedValue()
                history.recordChange(operation, UnsafePointer(table), old: old, new: new, database)
            }, Unmanaged.passUnretained(self).toOpaque())
        defer {
            sqlite3_preupdate_hook(connection.handle, nil, nil)
            isRecording = false
        }
        try body()
    }

    /// Records values that are parked or restored. Neither changes an object, and an object that is changed meanwhile
    /// is compared with its state before.
    func recordParking<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        isHearingParking = true
        defer { isHearingParking = false }
        try record(body)
    }

    private func recordChange(
        _ operation: Int32, _ table: UnsafePointer<CChar>, old: Int64, new: Int64, _ database: OpaquePointer
    ) {
        let count = sqlite3_preupdate_count(database)
        let changedTable: ChangedTables.Table
        switch tables.table(table) {
        case nil: return
        case .links(let link): return recordChange(operation, link, count, database)
        case .deletionSet:
            guard operation == SQLITE_INSERT else { return memory.note(.outOfDeletionSet) }
            connection.work.budget.charge(Self.unitsPerDeletion)
            return memory.note(.inDeletionSet)
        case .entity(let table): changedTable = table
        }
        let entity = changedTable.entity
        func before() -> RowValues {
            read(count, changedTable) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_old(database, column, &value)
                return value
            }
        }
        func after() -> RowValues {
            read(count, changedTable) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_new(database, column, &value)
                return value
            }
        }
        if isHearingParking {
            return parked(RowLocation(entity: entity, number: old), before().content, after().content)
        }
        if isRecordingBase {
            let location = RowLocation(entity: entity, number: old)
            // The first step inserts and updates, and counts itself which rows it inserted.
            guard operation == SQLITE_UPDATE, baseOriginals[location] == nil else { return }
            let original = before()
            memory.note(.original)
            baseOriginals[location] = (parkedOriginals[location] ?? original.content, original.concreteEntity)
            return
        }
        switch operation {
        case SQLITE_INSERT:
            let now = after()
            note(operation, entity, now)
            inserted(entity, new, now)
        case SQLITE_DELETE:
            let row = before()
            note(operation, entity, row)
            gone(entity, old, row)
        default:
            let now = after()
            note(operation, entity, now)
            changed(entity, old, new, before, now)
        }
    }

    /// Reads a row, and charges it with its bytes: a change of one column reads and writes the whole row.
    private func read(
        _ count: Int32, _ table: ChangedTables.Table, _ value: (Int32) -> OpaquePointer?
    ) -> RowValues {
        let row = RowValues(count: count, table, hasDigest: digest != nil, value)
        connection.work.budget.charge(row.work)
        return row
    }

    /// - Parameter row: the row after the change; for a deletion, before.
    private func note(_ operation: Int32, _ entity: Int, _ row: RowValues) {
        guard digest != nil else { return }
        var hash = RowHash(UInt64(entity) << 8 | UInt64(operation))
        hash.add(row.digest)
        digest?.add(hash.value)
    }

    /// Records a row of a link table: the links of the objects at its ends.
    private func recordChange(
        _ operation: Int32, _ table: ChangedTables.LinkTable, _ count: Int32, _ database: OpaquePointer
    ) {
        if operation != SQLITE_INSERT {
            let row = LinkRow(count: count, table) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_old(database, column, &value)
                return value
            }
            links.remove(row)
            if operation == SQLITE_DELETE { note(operation, row) }
        }
        if operation != SQLITE_DELETE {
            let row = LinkRow(count: count, table) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_new(database, column, &value)
                return value
            }
            links.add(row)
            note(operation, row)
        }
    }

    private func note(_ operation: Int32, _ row: LinkRow) {
        guard digest != nil else { return }
        var hash = RowHash(row.digest)
        hash.add(UInt64(operation))
        digest?.add(hash.value)
    }

    private func inserted(_ entity: Int, _ number: Int64, _ now: RowValues) {
        let name = Name(entity: entity, key: now.key)
        guard let index = deleted.removeValue(forKey: name) else {
            return add(
                Entry(
                    entity: entity, concreteEntity: now.concreteEntity, original: .absent, originalKey: now.key,
                    originalNumber: number,
                    number: number,
                    content: now.content, key: now.key))
        }
        change(index) {
            $0.number = number
            $0.content = now.content
            $0.concreteEntity = now.concreteEntity
        }
    }

    private func gone(_ entity: Int, _ number: Int64, _ old: RowValues) {
        if isOnlyCounted(entity, number, { old }) {
            deletedCounts[old.concreteEntity, default: 0] += 1
            if ownedEntities[entity] != nil { unnamedCounts[old.concreteEntity, default: 0] += 1 }
            countedKeys?.noteDeletion(old.concreteEntity, old.identity ?? old.key)
            changedNumbers[old.concreteEntity]?.remove(number)
            return
        }
        let index = entry(entity, number) { old }
        let identity = tables.hasOwnIdentities(entity) ? old.identity : nil
        change(index) {
            ($0.number, $0.identity) = (nil, identity)
            if ownedEntities[entity] == nil { $0.wasDeleted = true }
        }
    }

    private func changed(
        _ entity: Int, _ oldNumber: Int64, _ number: Int64, _ old: () -> RowValues, _ now: RowValues
    ) {
        if oldNumber == number, isOnlyCounted(entity, number, old) {
            if changedNumbers[now.concreteEntity, default: []].insert(number).inserted { memory.note(.number) }
            return
        }
        let index = entry(entity, oldNumber, old)
        change(index) {
            $0.number = number
            $0.content = now.content
            $0.key = now.key
            $0.concreteEntity = now.concreteEntity
        }
    }

    private func parked(_ location: RowLocation, _ before: Int, _ after: Int) {
        guard let index = entryIndices[location] else {
            if parkedOriginals[location] == nil { parkedOriginals[location] = before }
            return
        }
        let original = parkedOriginals[location] ?? before
        change(index) {
            if $0.original == .untouched { $0.original = .content(original) }
            $0.content = after
        }
    }

    private func isOnlyCounted(_ entity: Int, _ number: Int64, _ old: () -> RowValues) -> Bool {
        guard let needsEntry, entryIndices[RowLocation(entity: entity, number: number)] == nil else { return false }
        let old = old()
        if changedNumbers[old.concreteEntity]?.contains(number) == true { return true }
        return !needsEntry(entity, number, old.key)
    }

    /// The entry of a row that is about to change; a new entry starts with the row's present state.
    private func entry(_ entity: Int, _ number: Int64, _ old: () -> RowValues) -> Int {
        let location = RowLocation(entity: entity, number: number)
        if let known = entryIndices[location] {
            if entries[known].original == .untouched {
                let old = old()
                change(known) {
                    $0.original = .content(parkedOriginals[location] ?? old.content)
                    $0.originalIdentity = old.identity
                }
            }
            return known
        }
        let old = old()
        add(
            Entry(
                entity: entity, concreteEntity: old.concreteEntity, originalIdentity: old.identity,
                original: .content(parkedOriginals[location] ?? old.content),
                originalKey: old.key,
                originalNumber: number,
                number: number, content: old.content, key: old.key))
        return entries.count - 1
    }

    /// Whether the object has other links in link tables than before the job.
    ///
    /// - Parameter isBaseChanged: the first step changed its links.
    func hasOtherLinks(_ entity: Int, _ key: StoredKey, isBaseChanged: Bool) -> Bool {
        isBaseChanged && !hasBase || links.hasOthers(entity, key)
    }

    /// Whether the object of that row is counted.
    func knows(_ entity: Int, _ number: Int64) -> Bool {
        entryIndices[RowLocation(entity: entity, number: number)] != nil
    }

    /// Counts an object, even if nothing in it changes.
    ///
    /// - Parameter concreteEntity: the object's.
    func touch(_ entity: Int, concreteEntity: Int, _ number: Int64, _ key: StoredKey, namesLinks: Bool) {
        let known = entryIndices[RowLocation(entity: entity, number: number)]
        if known == nil {
            add(
                Entry(
                    entity: entity, concreteEntity: concreteEntity, original: .untouched, originalKey: key,
                    originalNumber: number,
                    number: number,
                    content: 0, key: key))
        }
        let index = known ?? entries.count - 1
        if namesLinks, !entries[index].namesLinks { change(index) { $0.namesLinks = true } }
    }

    // MARK: - Rolling back

    private func add(_ entry: Entry) {
        entryIndices[RowLocation(entity: entry.entity, number: entry.originalNumber)] = entries.count
        var entry = entry
        entry.originalConcreteEntity = entry.concreteEntity
        entries.append(entry)
        memory.note(.entry(keyBytes: entry.key.bytes.count, count: entries.count))
    }

    private func change(_ index: Int, _ body: (inout Entry) -> Void) {
        if !marks.isEmpty {
            undo.append((index, entries[index]))
            memory.note(.undo)
        }
        removeFromIndex(index)
        body(&entries[index])
        addToIndex(index)
    }

    private func removeFromIndex(_ index: Int) {
        let entry = entries[index]
        if let number = entry.number {
            let location = RowLocation(entity: entry.entity, number: number)
            if entryIndices[location] == index { entryIndices[location] = nil }
        } else {
            let name = Name(entity: entry.entity, key: entry.key)
            if deleted[name] == index { deleted[name] = nil }
        }
    }

    private func addToIndex(_ index: Int) {
        let entry = entries[index]
        if let number = entry.number {
            entryIndices[RowLocation(entity: entry.entity, number: number)] = index
        } else {
            deleted[Name(entity: entry.entity, key: entry.key)] = index
        }
    }

    /// Begins changes that may be rolled back.
    func mark() {
        marks.append((entries.count, undo.count, memory.bytes))
        links.mark()
    }

    /// The changes since the mark stay.
    func accept() {
        marks.removeLast()
        links.accept()
        guard marks.isEmpty else { return }
        memory.forget(undo.count)
        undo = []
    }

    /// Discards everything that was recorded since the mark.
    func rollBack() {
        guard let marked = marks.popLast() else { return }
        for (index, entry) in undo[marked.undo...].reversed() {
            removeFromIndex(index)
            entries[index] = entry
            addToIndex(index)
        }
        for index in (marked.entries..<entries.count).reversed() { removeFromIndex(index) }
        entries.removeLast(entries.count - marked.entries)
        memory.reset(to: marked.memory)
        undo.removeLast(undo.count - marked.undo)
        links.rollBack()
        if isRecordingBase { baseOriginals = [:] }
    }
}
