internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// The net changes of rows since the recording began: the state of each row then, and its state now.
///
/// SQLite's hook before the change (sqlite.org/c3ref/preupdate_blobwrite.html) reports every change of a row, also the
/// changes that foreign keys make. A row that is deleted and inserted again with its last key, or its first, is one object, and so
/// is a row whose key changes.
final class NetChanges {
    enum Original: Equatable {
        case absent
        /// The row exists, and nothing has changed it yet.
        case untouched
        /// Equal for equal rows; different for different ones but once in 2⁶⁴.
        case content(Int)
    }

    struct Entry {
        let entity: Int
        /// The concrete entity of the object; `entity` outside of hierarchies.
        var concreteEntity: Int
        let originalConcreteEntity: Int
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

        fileprivate init(
            _ entity: Int, _ concreteEntity: Int, _ number: Int64, _ key: StoredKey, _ original: Original, content: Int
        ) {
            self.entity = entity
            (self.concreteEntity, originalConcreteEntity) = (concreteEntity, concreteEntity)
            (self.number, originalNumber) = (number, number)
            (self.key, originalKey) = (key, key)
            self.original = original
            self.content = content
        }

        var originalLocation: RowLocation { RowLocation(entity: entity, number: originalNumber) }
    }

    struct RowLocation: Hashable {
        let entity: Int
        let number: Int64
    }

    /// Units of work for a row of the deletion set and of its index, beside SQLite's instructions; and bytes of SQLite's pages.
    private static let unitsPerDeletion = 40
    private static let bytesPerDeletion = 64
    /// The maximum number of entries, whatever memory the job may take.
    private static let maximumEntries = 400_000
    /// An entry in an array that has doubled, its places in two indexes, and the header of its key's bytes.
    private static let bytesPerEntry = 2 * MemoryLayout<Entry>.stride + 144
    private static let bytesPerUndo = MemoryLayout<(Int, Entry)>.stride
    /// The state of a row before a first step, and the number of a row that is only counted, in hash tables that have doubled.
    private static let bytesPerOriginal = 64
    private static let bytesPerNumber = 24

    private let connection: Connection
    private let tables: ChangedTables
    private let memory: MergeMemory
    /// Of what is recorded, and of the deletion set.
    private var bytes = 0

    private(set) var entries: [Entry] = []
    /// The rows that a first step changed, as they were before: a digest, and the concrete entity. The merge counts them.
    private(set) var baseOriginals: [RowLocation: (content: Int, concreteEntity: Int)] = [:]
    private var links = LinkChanges()
    private var isRecordingBase = false
    /// The changes of the first step were recorded, too.
    private var hasBase = false
    private var isHearingParking = false
    /// The digests of rows before a value of theirs was parked.
    private var parkedOriginals: [RowLocation: Int] = [:]
    private var entryIndices: [RowLocation: Int] = [:]
    private var deleted: [ObjectName: Int] = [:]
    /// By entity whose table reuses numbers, the greatest that a deleted row had.
    private(set) var greatestDeletedNumbers: [Int: Int64] = [:]
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
    private var marks: [(entries: Int, undo: Int, bytes: Int)] = []
    /// The hook is set: recordings may be nested.
    private var isRecording = false
    /// The digest of every change, also of those that were undone, as they are in every store; nil when nobody asked for it.
    private(set) var digest: RowDigest?

    /// When memory is refused, the job is ended.
    init(_ tables: ChangedTables, on connection: Connection, _ memory: MergeMemory, hasDigest: Bool) {
        self.memory = memory
        self.tables = tables
        self.connection = connection
        digest = hasDigest ? RowDigest() : nil
    }

    // MARK: - Recording

    /// Records the changes that `body` makes: to the base, those of a first step, which counts its rows itself.
    func record<Value, Failure: Error>(
        toBase isBase: Bool = false, _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
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
        return try body()
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
            guard operation == SQLITE_INSERT else { return hold(-Self.bytesPerDeletion) }
            connection.work.budget.charge(Self.unitsPerDeletion)
            return hold(Self.bytesPerDeletion)
        case .entity(let table): changedTable = table
        }
        let entity = changedTable.entity
        func before() -> RowValues { read(count, changedTable) { Self.value($0, isNew: false, database) } }
        func after() -> RowValues { read(count, changedTable) { Self.value($0, isNew: true, database) } }
        if isHearingParking {
            return parked(RowLocation(entity: entity, number: old), before().content, after().content)
        }
        if isRecordingBase {
            let location = RowLocation(entity: entity, number: old)
            // The first step inserts and updates, and counts itself which rows it inserted.
            guard operation == SQLITE_UPDATE, baseOriginals[location] == nil else { return }
            let original = before()
            hold(Self.bytesPerOriginal)
            baseOriginals[location] = (parkedOriginals[location] ?? original.content, original.concreteEntity)
            return
        }
        switch operation {
        case SQLITE_INSERT:
            let now = after()
            note(operation, entity, now)
            inserted(entity, new, now)
        case SQLITE_DELETE:
            // Of most deleted rows no more than the key is needed.
            let hasContent = needsEntry == nil || digest != nil
            func read(hasContent: Bool) -> RowValues {
                RowValues(count: count, changedTable, hasContent: hasContent, hasDigest: digest != nil) {
                    Self.value($0, isNew: false, database)
                }
            }
            let row = read(hasContent: hasContent)
            connection.work.budget.charge(row.work)
            note(operation, entity, row)
            if changedTable.reusesNumbers {
                greatestDeletedNumbers[entity] = max(greatestDeletedNumbers[entity] ?? old, old)
            }
            gone(entity, old, row) { hasContent ? row : read(hasContent: true) }
        default:
            let now = after()
            note(operation, entity, now)
            changed(entity, old, new, before, now)
        }
    }

    private static func value(_ column: Int32, isNew: Bool, _ database: OpaquePointer) -> OpaquePointer? {
        var value: OpaquePointer?
        _ = isNew ? sqlite3_preupdate_new(database, column, &value) : sqlite3_preupdate_old(database, column, &value)
        return value
    }

    /// Reads a row, and charges it with its bytes: a change of one column reads and writes the whole row.
    private func read(
        _ count: Int32, _ table: ChangedTables.Table, _ value: (Int32) -> OpaquePointer?
    ) -> RowValues {
        let row = RowValues(count: count, table, hasContent: true, hasDigest: digest != nil, value)
        connection.work.budget.charge(row.work)
        return row
    }

    private func note(_ operation: Int32, _ entity: Int, _ row: RowValues) {
        guard digest != nil else { return }
        var hash = RowHash(UInt64(entity) << 8 | UInt64(operation))
        hash.add(row.digest)
        digest?.add(hash.value)
    }

    private func recordChange(
        _ operation: Int32, _ table: ChangedTables.LinkTable, _ count: Int32, _ database: OpaquePointer
    ) {
        if operation != SQLITE_INSERT {
            let row = LinkRow(count: count, table) { Self.value($0, isNew: false, database) }
            links.remove(row)
            if operation == SQLITE_DELETE { note(operation, row) }
        }
        if operation != SQLITE_DELETE {
            let row = LinkRow(count: count, table) { Self.value($0, isNew: true, database) }
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
        let name = ObjectName(entity: entity, key: now.key)
        guard let index = deleted.removeValue(forKey: name) else {
            return add(Entry(entity, now.concreteEntity, number, now.key, .absent, content: now.content))
        }
        change(index) {
            $0.number = number
            $0.content = now.content
            $0.key = now.key
            $0.concreteEntity = now.concreteEntity
        }
    }

    private func gone(_ entity: Int, _ number: Int64, _ old: RowValues, whole: () -> RowValues) {
        if isOnlyCounted(entity, number, { old }) {
            deletedCounts[old.concreteEntity, default: 0] += 1
            if ownedEntities[entity] != nil { unnamedCounts[old.concreteEntity, default: 0] += 1 }
            countedKeys?.noteDeletion(old.concreteEntity, old.identity ?? old.key)
            changedNumbers[old.concreteEntity]?.remove(number)
            return
        }
        let index = entry(entity, number, whole)
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
            if changedNumbers[now.concreteEntity, default: []].insert(number).inserted {
                hold(Self.bytesPerNumber)
            }
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
        var entry = Entry(
            entity, old.concreteEntity, number, old.key, .content(parkedOriginals[location] ?? old.content),
            content: old.content)
        entry.originalIdentity = old.identity
        add(entry)
        return entries.count - 1
    }

    /// Whether the object has other links in link tables than before the job. The first step may have changed them.
    func hasOtherLinks(_ entity: Int, _ key: StoredKey, isBaseChanged: Bool) -> Bool {
        isBaseChanged && !hasBase || links.hasOthers(entity, key)
    }

    /// The number that a deleted object had.
    func deletedNumber(_ entity: Int, _ key: StoredKey) -> Int64? {
        deleted[ObjectName(entity: entity, key: key)].map { entries[$0].originalNumber }
    }

    func knows(_ entity: Int, _ number: Int64) -> Bool {
        entryIndices[RowLocation(entity: entity, number: number)] != nil
    }

    /// Counts an object, even if nothing in it changes.
    func touch(_ entity: Int, concreteEntity: Int, _ number: Int64, _ key: StoredKey, namesLinks: Bool) {
        let known = entryIndices[RowLocation(entity: entity, number: number)]
        if known == nil { add(Entry(entity, concreteEntity, number, key, .untouched, content: 0)) }
        let index = known ?? entries.count - 1
        if namesLinks, !entries[index].namesLinks { change(index) { $0.namesLinks = true } }
    }

    /// Takes memory, or gives some of it back. Entries and the deletion set grow while one statement runs, so a job that may take
    /// no more is ended by the work meter, in the middle of the statement.
    private func hold(_ count: Int) {
        bytes += count
        if !memory.hold(bytes) { refuse("take more memory than one job may") }
    }

    private func refuse(_ what: String) {
        connection.work.refuse(
            .busy(
                "The objects that the job changes or deletes \(what). Send it as several jobs, or a large `delete` or `sync` as a "
                    + "job of its own and without `reply: keys`."))
    }

    // MARK: - Rolling back

    private func add(_ entry: Entry) {
        entryIndices[RowLocation(entity: entry.entity, number: entry.originalNumber)] = entries.count
        entries.append(entry)
        hold(Self.bytesPerEntry + entry.key.bytes.count)
        if entries.count > Self.maximumEntries {
            refuse("are more than the \(Self.maximumEntries) that are tracked for one job")
        }
    }

    private func change(_ index: Int, _ body: (inout Entry) -> Void) {
        if !marks.isEmpty {
            undo.append((index, entries[index]))
            hold(Self.bytesPerUndo)
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
            for key in [entry.key, entry.originalKey] {
                let name = ObjectName(entity: entry.entity, key: key)
                if deleted[name] == index { deleted[name] = nil }
            }
        }
    }

    private func addToIndex(_ index: Int) {
        let entry = entries[index]
        if let number = entry.number {
            entryIndices[RowLocation(entity: entry.entity, number: number)] = index
        } else {
            deleted[ObjectName(entity: entry.entity, key: entry.key)] = index
            guard entry.original != .absent, entry.originalKey != entry.key else { return }
            let original = ObjectName(entity: entry.entity, key: entry.originalKey)
            if deleted[original] == nil { deleted[original] = index }
        }
    }

    /// Begins changes that may be rolled back.
    func mark() {
        marks.append((entries.count, undo.count, bytes))
        links.mark()
    }

    /// The changes since the mark stay.
    func accept() {
        marks.removeLast()
        links.accept()
        guard marks.isEmpty else { return }
        hold(-undo.count * Self.bytesPerUndo)
        undo = []
    }

    func rollBack() {
        guard let marked = marks.popLast() else { return }
        for (index, entry) in undo[marked.undo...].reversed() {
            removeFromIndex(index)
            entries[index] = entry
            addToIndex(index)
        }
        for index in (marked.entries..<entries.count).reversed() { removeFromIndex(index) }
        entries.removeLast(entries.count - marked.entries)
        bytes = marked.bytes
        undo.removeLast(undo.count - marked.undo)
        links.rollBack()
        if isRecordingBase { baseOriginals = [:] }
    }
}

/// The keys of deleted objects of which the net changes need no more than a count, as text for the feed, until they
/// exceed the limit of one job: so a job may delete millions of objects.
struct CountedKeys {
    private struct List {
        /// The keys with commas between them.
        var json = JSONWriter(capacity: 0)
        /// Where each key ends in the text; of the first ``maximumCount`` keys only, and of none where all are wanted.
        var ends: [Int] = []
    }

    private let entities: [EntityStatements]
    /// By the index of the objects' concrete entity; empty when the limit is exceeded.
    private var lists: [List]
    private var byteCount = 0
    private let maximumCount: Int?

    /// - Parameter maximumCount: the number of keys of each entity that are enough; nil for all.
    init(_ entities: [EntityStatements], ofEach maximumCount: Int? = nil) {
        self.entities = entities
        self.maximumCount = maximumCount
        lists = Array(repeating: List(), count: entities.count)
    }

    /// Whether no key is missing for its bytes.
    var isComplete: Bool { byteCount <= FeedKeys.maximumBytesOfJob }

    mutating func noteDeletion(_ entity: Int, _ key: StoredKey) {
        guard isComplete, maximumCount.map({ lists[entity].ends.count < $0 }) ?? true else { return }
        let before = lists[entity].json.count
        if let integer = key.integer, entities[entity].writesIntegers {
            lists[entity].json.integer(integer)
        } else {
            key.withCells { lists[entity].json.key($0, of: entities[entity].entity) }
        }
        if maximumCount != nil { lists[entity].ends.append(lists[entity].json.count) }
        byteCount += lists[entity].json.count - before
        if !isComplete { lists = [] }
    }

    /// The first keys, with commas between them.
    func deleted(_ entity: Int, atMost count: Int) -> ArraySlice<UInt8>? {
        guard !lists.isEmpty, count > 0, lists[entity].json.count > 0 else { return nil }
        let bytes = lists[entity].json.bytes
        let ends = lists[entity].ends
        return ends.count > count ? bytes[..<ends[count - 1]] : bytes[...]
    }
}

/// The tables of entities and of links, by the names that SQLite's hook reports.
final class ChangedTables {
    /// An object, because the hook takes it for each row.
    final class Table {
        let entity: Int
        let keyColumns: [Int32]
        /// The values of columns that a row may end before.
        let defaults: [Int32: OwnedCell]
        /// Columns of real numbers: SQL returns a whole number in them as a real number, the hook as an integer.
        let realColumns: Set<Int32>
        /// The number of a row is not its key, so SQLite gives that of the last row again once it is deleted.
        let reusesNumbers: Bool
        /// The column of a hierarchy's table with the name of the concrete entity.
        let entityColumn: Int32?
        let concreteEntities: [String: Int]
        /// By the index of an entity below the topmost that has an identity, the columns of that identity.
        let identities: [Int: [Int32]]

        init(
            entity: Int, keyColumns: [Int32], defaults: [Int32: OwnedCell], realColumns: Set<Int32>,
            reusesNumbers: Bool,
            entityColumn: Int32?, concreteEntities: [String: Int], identities: [Int: [Int32]]
        ) {
            (self.entity, self.keyColumns, self.defaults, self.realColumns) = (
                entity, keyColumns, defaults, realColumns
            )
            (self.reusesNumbers, self.entityColumn) = (reusesNumbers, entityColumn)
            (self.concreteEntities, self.identities) = (concreteEntities, identities)
        }
    }

    struct LinkTable {
        /// One end of the table's rows: the object of the table of that entity whose key is in these columns.
        struct End {
            let entity: Int
            let columns: [Int32]
            /// The column with the link's position in the list of the object at the other end, which is nothing to this one.
            let otherPosition: Int32?
        }

        let number: Int
        /// The ends at objects that have a relationship for these links: the first, and the second if there is an inverse.
        let ends: [End]
        let realColumns: Set<Int32>
    }

    enum RecordedTable {
        case entity(Table)
        case links(LinkTable)
        case deletionSet
    }

    private var tables: [String: RecordedTable] = [:]
    /// The table of the row that changed last: most changes follow others of the same table.
    private var last: (name: [CChar], table: RecordedTable?) = ([0], nil)
    private var ownIdentities: Set<Int> = []
    /// By entity index.
    private(set) var longColumns: [LongColumns]
    init(
        _ entities: [EntityStatements], _ plan: StagingPlan, _ defaults: DeclaredDefaults, on connection: Connection
    ) throws(StoreError) {
        let model = plan.model
        let naming = ColumnNaming(model: model, layout: plan.layout)
        longColumns = Array(repeating: LongColumns(), count: model.entities.count)
        for index in model.tableEntities {
            let statements = entities[index]
            let columns = try TableColumns(of: statements.entity.table, on: connection)
            for member in model.subentities(of: index) { longColumns[member] = columns.long }
            let concreteEntities = model.subentities(of: index).map { (model.entities[$0].name, $0) }
            let identities = model.subentities(of: index).reduce(into: [Int: [Int32]]()) { identities, member in
                let entity = model.entities[member]
                guard statements.hasRowKey, !entity.isNamedByRowKey else { return }
                identities[member] = entity.identity.compactMap { columns.positions[entity.attributes[$0].column] }
            }
            tables[statements.entity.table] = .entity(
                Table(
                    entity: index, keyColumns: statements.keyNames.compactMap { columns.positions[$0] },
                    defaults: defaults.values(in: statements.entity.table), realColumns: columns.realColumns,
                    reusesNumbers: !statements.hasRowKey && !columns.isNumbered,
                    entityColumn: model.isInHierarchy(index) ? columns.positions[entityColumnName] : nil,
                    concreteEntities: Dictionary(uniqueKeysWithValues: concreteEntities), identities: identities))
            if !identities.isEmpty { ownIdentities.insert(index) }
        }
        tables[DeletionStatements.deletionSetName] = .deletionSet
        for (number, link) in plan.layout.linkTables.enumerated() {
            let name = naming.linkTable(link)
            let columns = try TableColumns(of: name, on: connection)
            let sides = naming.linkSides(link).map { $0.compactMap { columns.positions[$0] } }
            let places = [LinkPosition.position, .inversePosition].map { columns.positions[$0.rawValue] }
            var ends = [LinkTable.End(entity: link.source, columns: sides[0], otherPosition: places[1])]
            if link.hasInverse {
                ends.append(LinkTable.End(entity: link.destination, columns: sides[1], otherPosition: places[0]))
            }
            tables[name] = .links(LinkTable(number: number, ends: ends, realColumns: columns.realColumns))
        }
    }

    func hasOwnIdentities(_ entity: Int) -> Bool { ownIdentities.contains(entity) }

    func table(_ name: UnsafePointer<CChar>) -> RecordedTable? {
        if strcmp(name, last.name) != 0 {
            let text = String(cString: name)
            last = (Array(text.utf8CString), tables[text])
        }
        return last.table
    }
}

/// The objects whose links in link tables differ from those before the job.
///
/// For each object whose links changed, it stores the sum of the digests of its new links, less those of the links that
/// ended. The sum is 0 when the object has the same links as before, positions included. So the memory does not grow
/// with the number of links or of changes. Objects, too, are identified by a digest of their keys; two objects, or two
/// sets of links, are mistaken for each other once in 2⁶⁴.
struct LinkChanges {
    /// By the digest of an object's key; then the changes since each ``mark()``, the outermost first.
    private var sums: [[Int: Int]] = [[:]]

    mutating func add(_ row: LinkRow) {
        for end in row.ends { sums[sums.count - 1][end.object, default: 0] &+= end.content }
    }

    mutating func remove(_ row: LinkRow) {
        for end in row.ends { sums[sums.count - 1][end.object, default: 0] &-= end.content }
    }

    /// Begins changes that may be rolled back.
    mutating func mark() { sums.append([:]) }

    /// The changes since the mark stay.
    mutating func accept() {
        let newest = sums.removeLast()
        if !newest.isEmpty { sums[sums.count - 1].merge(newest, uniquingKeysWith: &+) }
    }

    mutating func rollBack() { sums.removeLast() }

    /// Whether the object with this key at the end of the job has other links than before the job.
    func hasOthers(_ entity: Int, _ key: StoredKey) -> Bool {
        let object = LinkRow.object(entity) { hasher in key.forEachCell { $0.hash(into: &hasher) } }
        return sums.reduce(0) { $0 &+ $1[object, default: 0] } != 0
    }
}

struct LinkRow {
    /// The digests of the objects at its ends that have a relationship for it, and of what the link is to each.
    let ends: [(object: Int, content: Int)]
    /// A hash of the link table and all columns that is the same on every machine.
    let digest: UInt64

    init(count: Int32, _ table: ChangedTables.LinkTable, _ value: (Int32) -> OpaquePointer?) {
        let cells = (0..<count).map { Cell(value($0)).stored(asReal: table.realColumns.contains($0)) }
        ends = table.ends.map { end in
            var hasher = Hasher()
            hasher.combine(table.number)
            for column in cells.indices where Int32(column) != end.otherPosition { cells[column].hash(into: &hasher) }
            let object = Self.object(end.entity) { hasher in
                for column in end.columns { cells[Int(column)].hash(into: &hasher) }
            }
            return (object, hasher.finalize())
        }
        var digest = RowHash(UInt64(table.number))
        for cell in cells { digest.add(cell) }
        self.digest = digest.value
    }

    static func object(_ entity: Int, _ key: (inout Hasher) -> Void) -> Int {
        var hasher = Hasher()
        hasher.combine(entity)
        key(&hasher)
        return hasher.finalize()
    }
}

struct RowValues {
    /// Bytes of a row for one unit of work, each time that it is read: before or after a change, which writes the whole
    /// row. Rewriting a row of 25 MB took 35 ms, so 1.4 ns a byte, where a unit takes 10 to 30 ns.
    private static let bytesPerUnit = 4
    /// Units for each time that a row is read: the hook and the bookkeeping take about a microsecond.
    private static let unitsPerRead = 50

    let key: StoredKey
    let content: Int
    let concreteEntity: Int
    /// Its identity, where the store has a row key and clients name the object by its identity.
    let identity: StoredKey?
    /// Units of work, for the row and for the bytes of its texts and blobs.
    let work: Int
    /// A hash of all columns that is the same on every machine; 0 when no caller asked for it.
    let digest: UInt64

    /// - Parameter hasContent: without it, ``content`` is 0.
    init(
        count: Int32, _ table: ChangedTables.Table, hasContent: Bool, hasDigest: Bool,
        _ value: (Int32) -> OpaquePointer?
    ) {
        func cell(_ column: Int32) -> Cell {
            let value = value(column)
            if !table.defaults.isEmpty, value == PreupdateHook.absentValue, let value = table.defaults[column] {
                return value.cell
            }
            return Cell(value).stored(asReal: table.realColumns.contains(column))
        }
        key = StoredKey(table.keyColumns.map(cell))
        concreteEntity =
            table.entityColumn.flatMap {
                table.concreteEntities[String(decoding: Cell(value($0)).bytes, as: UTF8.self)]
            }
            ?? table.entity
        identity = table.identities[concreteEntity].map { columns in StoredKey(columns.map(cell)) }
        var hasher = Hasher()
        var digest = RowHash(0)
        var byteCount = 0
        for column in 0..<count {
            let cell = cell(column)
            if hasContent { cell.hash(into: &hasher) }
            if cell.kind == .text || cell.kind == .blob { byteCount += Int(cell.count) }
            if hasDigest { digest.add(cell) }
        }
        content = hasContent ? hasher.finalize() : 0
        work = Self.unitsPerRead + byteCount / Self.bytesPerUnit
        self.digest = hasDigest ? digest.value : 0
    }
}
