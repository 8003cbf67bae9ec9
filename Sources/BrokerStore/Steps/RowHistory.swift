internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// What became of rows since it began to listen: what each was then, and what it is now.
///
/// It hears of every change of a row, also of those that foreign keys make, from SQLite's hook before the change
/// (sqlite.org/c3ref/preupdate_blobwrite.html). A row that is deleted and made again with the same key is one object, and so is
/// one whose key changes.
final class RowHistory {
    enum Original: Equatable {
        case absent
        /// It is there, and nothing has changed it yet.
        case untouched
        /// Equal for equal rows; different for different ones but once in 2⁶⁴.
        case content(Int)
    }

    struct Entry {
        /// In whose table it is.
        let entity: Int
        /// What the object is; of an entity that stands alone, that.
        var kind: Int
        var original: Original
        let originalKey: StoredKey
        let originalNumber: Int64
        /// The row's number now; nil when it does not exist.
        var number: Int64?
        var content: Int
        var key: StoredKey
        /// A link in a link table changed that one of its records names.
        var isLinkChanged = false
    }

    private struct Place: Hashable {
        let entity: Int
        let number: Int64
    }

    private struct Name: Hashable {
        let entity: Int
        let key: StoredKey
    }

    private let connection: Connection
    private let tables: HistoryTables
    /// Entries at most: some 100 MB.
    static let maximumEntries = 400_000
    /// Of a first step that names more objects than that, no history is kept.
    static let maximumBaseRows = 20_000

    private(set) var entries: [Entry] = []
    private var places: [Place: Int] = [:]
    private var deleted: [Name: Int] = [:]
    /// In the last step of a job, whether more than a count is wanted of an object; nil where more may follow.
    var wants: ((_ entity: Int, _ number: Int64, _ key: StoredKey) -> Bool)?
    /// By the index of their own entity, objects that were deleted, of which no more is wanted.
    private(set) var deletedCounts: [Int: Int] = [:]
    /// By the index of their own entity, the row numbers of objects that were changed, of which no more is wanted.
    private(set) var changedNumbers: [Int: Set<Int64>] = [:]
    /// What entries were before the newest ``mark()``.
    private var undo: [(index: Int, entry: Entry)] = []
    private var marked = 0

    init(_ tables: HistoryTables, on connection: Connection) {
        self.tables = tables
        self.connection = connection
    }

    // MARK: - Listening

    /// Hears of the changes that `body` makes.
    func listen<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        sqlite3_preupdate_hook(
            connection.handle,
            { context, database, operation, _, table, old, new in
                guard let context, let database, let table else { return }
                let history = Unmanaged<RowHistory>.fromOpaque(context).takeUnretainedValue()
                history.hear(operation, UnsafePointer(table), old: old, new: new, database)
            }, Unmanaged.passUnretained(self).toOpaque())
        defer { sqlite3_preupdate_hook(connection.handle, nil, nil) }
        try body()
    }

    private func hear(
        _ operation: Int32, _ table: UnsafePointer<CChar>, old: Int64, new: Int64, _ database: OpaquePointer
    ) {
        guard let listened = tables.table(table) else { return }
        let entity = listened.entity
        let count = sqlite3_preupdate_count(database)
        func before() -> RowValues {
            RowValues(count: count, listened) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_old(database, column, &value)
                return value
            }
        }
        func after() -> RowValues {
            RowValues(count: count, listened) { column in
                var value: OpaquePointer?
                sqlite3_preupdate_new(database, column, &value)
                return value
            }
        }
        switch operation {
        case SQLITE_INSERT: inserted(entity, new, after())
        case SQLITE_DELETE: gone(entity, old, before)
        default: changed(entity, old, new, before, after())
        }
    }

    private func inserted(_ entity: Int, _ number: Int64, _ now: RowValues) {
        let name = Name(entity: entity, key: now.key)
        guard let index = deleted.removeValue(forKey: name) else {
            return add(
                Entry(
                    entity: entity, kind: now.kind, original: .absent, originalKey: now.key, originalNumber: number,
                    number: number,
                    content: now.content, key: now.key))
        }
        change(index) {
            $0.number = number
            $0.content = now.content
            $0.kind = now.kind
        }
    }

    private func gone(_ entity: Int, _ number: Int64, _ old: () -> RowValues) {
        if isOnlyCounted(entity, number, old) {
            let kind = old().kind
            deletedCounts[kind, default: 0] += 1
            changedNumbers[kind]?.remove(number)
            return
        }
        let index = entry(entity, number, old)
        change(index) { $0.number = nil }
    }

    private func changed(
        _ entity: Int, _ oldNumber: Int64, _ number: Int64, _ old: () -> RowValues, _ now: RowValues
    ) {
        if oldNumber == number, isOnlyCounted(entity, number, old) {
            changedNumbers[now.kind, default: []].insert(number)
            return
        }
        let index = entry(entity, oldNumber, old)
        change(index) {
            $0.number = number
            $0.content = now.content
            $0.key = now.key
            $0.kind = now.kind
        }
    }

    private func isOnlyCounted(_ entity: Int, _ number: Int64, _ old: () -> RowValues) -> Bool {
        guard let wants, places[Place(entity: entity, number: number)] == nil else { return false }
        let old = old()
        if changedNumbers[old.kind]?.contains(number) == true { return true }
        return !wants(entity, number, old.key)
    }

    /// The entry of a row that is about to change, begun with what it is.
    private func entry(_ entity: Int, _ number: Int64, _ old: () -> RowValues) -> Int {
        if let known = places[Place(entity: entity, number: number)] {
            if entries[known].original == .untouched {
                let content = old().content
                change(known) { $0.original = .content(content) }
            }
            return known
        }
        let old = old()
        add(
            Entry(
                entity: entity, kind: old.kind, original: .content(old.content), originalKey: old.key,
                originalNumber: number,
                number: number, content: old.content, key: old.key))
        return entries.count - 1
    }

    /// An object is looked at: it counts, also when nothing of it changes.
    ///
    /// - Parameter kind: what it is.
    func touch(_ entity: Int, kind: Int, _ number: Int64, _ key: StoredKey, isLinkChanged: Bool) {
        let known = places[Place(entity: entity, number: number)]
        if known == nil {
            add(
                Entry(
                    entity: entity, kind: kind, original: .untouched, originalKey: key, originalNumber: number,
                    number: number,
                    content: 0, key: key))
        }
        if isLinkChanged { change(known ?? entries.count - 1) { $0.isLinkChanged = true } }
    }

    /// More has happened than can be remembered.
    var isOverfull: Bool { entries.count > Self.maximumEntries }

    // MARK: - Keeping

    private func add(_ entry: Entry) {
        places[Place(entity: entry.entity, number: entry.originalNumber)] = entries.count
        entries.append(entry)
    }

    private func change(_ index: Int, _ body: (inout Entry) -> Void) {
        undo.append((index, entries[index]))
        forget(index)
        body(&entries[index])
        keep(index)
    }

    private func forget(_ index: Int) {
        let entry = entries[index]
        if let number = entry.number {
            let place = Place(entity: entry.entity, number: number)
            if places[place] == index { places[place] = nil }
        } else {
            let name = Name(entity: entry.entity, key: entry.key)
            if deleted[name] == index { deleted[name] = nil }
        }
    }

    private func keep(_ index: Int) {
        let entry = entries[index]
        if let number = entry.number {
            places[Place(entity: entry.entity, number: number)] = index
        } else {
            deleted[Name(entity: entry.entity, key: entry.key)] = index
        }
    }

    /// From here on what is heard may be taken back.
    func mark() {
        undo = []
        marked = entries.count
    }

    /// What was heard since the mark has not happened.
    func takeBack() {
        for (index, entry) in undo.reversed() {
            forget(index)
            entries[index] = entry
            keep(index)
        }
        for index in (marked..<entries.count).reversed() { forget(index) }
        entries.removeLast(entries.count - marked)
        undo = []
    }
}

/// The tables of entities as the hook names them.
struct HistoryTables {
    struct Table {
        let entity: Int
        let keyColumns: [Int32]
        /// Where a hierarchy's table says what an object is.
        let kindColumn: Int32?
        /// By the name that stands there.
        let kinds: [String: Int]
    }

    private var tables: [String: Table] = [:]

    init(_ entities: [EntityStatements], _ model: Model, on connection: Connection) throws(StoreError) {
        for index in model.tableEntities {
            let statements = entities[index]
            let columns = try connection.prepare("SELECT name, cid FROM pragma_table_xinfo(?1)")
            columns.bind(statements.entity.table, at: 1)
            var positions: [String: Int32] = [:]
            while try columns.step() { positions[columns.text(0)] = Int32(columns.integer(1)) }
            let kinds = model.subentities(of: index).map { (model.entities[$0].name, $0) }
            tables[statements.entity.table] = Table(
                entity: index, keyColumns: statements.keyNames.compactMap { positions[$0] },
                kindColumn: model.isInHierarchy(index) ? positions[entityColumnName] : nil,
                kinds: Dictionary(uniqueKeysWithValues: kinds))
        }
    }

    func table(_ name: UnsafePointer<CChar>) -> Table? { tables[String(cString: name)] }
}

/// A row as the history needs it.
struct RowValues {
    let key: StoredKey
    let content: Int
    /// The index of the object's own entity.
    let kind: Int

    init(count: Int32, _ table: HistoryTables.Table, _ value: (Int32) -> OpaquePointer?) {
        key = StoredKey(table.keyColumns.map { Cell(value($0)) })
        kind =
            table.kindColumn.flatMap { table.kinds[String(decoding: Cell(value($0)).bytes, as: UTF8.self)] }
            ?? table.entity
        var hasher = Hasher()
        for column in 0..<count {
            let cell = Cell(value(column))
            hasher.combine(cell.kind)
            switch cell.kind {
            case .integer: hasher.combine(cell.integer)
            case .real: hasher.combine(cell.real)
            case .text, .blob:
                hasher.combine(cell.count)
                hasher.combine(bytes: UnsafeRawBufferPointer(cell.bytes))
            case .null, .absent, .object: break
            }
        }
        content = hasher.finalize()
    }
}

extension Cell {
    /// A value of SQLite's, valid as long as that is.
    ///
    /// - Parameter value: nil of a column that rows do not hold, because it is generated when it is read.
    init(_ value: OpaquePointer?) {
        guard value != nil else {
            self = .null
            return
        }
        func bytes() -> UnsafeBufferPointer<UInt8> {
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
        }
        self =
            switch sqlite3_value_type(value) {
            case SQLITE_INTEGER: .integer(sqlite3_value_int64(value))
            case SQLITE_FLOAT: .real(sqlite3_value_double(value))
            case SQLITE_TEXT: .text(bytes())
            case SQLITE_BLOB: .blob(bytes())
            default: .null
            }
    }
}
