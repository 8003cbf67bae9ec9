internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// The tables of entities and of links, by the names that SQLite's hook reports.
final class ChangedTables {
    /// The table of an entity or of a hierarchy.
    struct Table {
        let entity: Int
        let keyColumns: [Int32]
        /// Columns of real numbers: SQL returns a whole number in them as a real number, the hook as an integer.
        let realColumns: Set<Int32>
        /// The column of a hierarchy's table with the name of the concrete entity.
        let entityColumn: Int32?
        /// By the name in that column.
        let concreteEntities: [String: Int]
        /// By the index of an entity below the topmost that has an identity, the columns of that identity.
        let identities: [Int: [Int32]]
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
        /// The ends at objects that have a relationship for these links: the first end, and the second if there is an
        /// inverse.
        let ends: [End]
        let realColumns: Set<Int32>
    }

    enum RecordedTable {
        case entity(Table)
        case links(LinkTable)
        /// The deletion set of the connection (``DeletionStatements``).
        case deletionSet
    }

    private var tables: [String: RecordedTable] = [:]
    private var ownIdentities: Set<Int> = []
    /// By entity index.
    private(set) var longColumns: [LongColumns]
    /// By the address of a name, the name that was found there. SQLite may have another one there later: it reads its schema
    /// again when a savepoint is rolled back after tables were made.
    private var known: [UnsafePointer<CChar>: (name: ContiguousArray<CChar>, table: RecordedTable)] = [:]
    /// Addresses in ``known``, at most.
    private static let maximumKnown = 4_096

    init(_ entities: [EntityStatements], _ plan: StagingPlan, on connection: Connection) throws(StoreError) {
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
                    realColumns: columns.realColumns,
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

    /// The table of that name; nil for one without entity.
    func table(_ name: UnsafePointer<CChar>) -> RecordedTable? {
        if let known = known[name], known.name.withUnsafeBufferPointer({ strcmp($0.baseAddress!, name) }) == 0 {
            return known.table
        }
        let text = String(cString: name)
        guard let found = tables[text] else { return nil }
        if known.count == Self.maximumKnown { known = [:] }
        known[name] = (text.utf8CString, found)
        return found
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

/// A row of a link table, as ``LinkChanges`` needs it.
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

    /// The digest of an object of the entity's table.
    static func object(_ entity: Int, _ key: (inout Hasher) -> Void) -> Int {
        var hasher = Hasher()
        hasher.combine(entity)
        key(&hasher)
        return hasher.finalize()
    }
}

/// A row as the net changes need it.
struct RowValues {
    /// Bytes of a row for one unit of work, each time that it is read: before or after a change, which writes the whole
    /// row. Rewriting a row of 25 MB took 35 ms, so 1.4 ns a byte, where a unit takes 10 to 30 ns.
    private static let bytesPerUnit = 4
    /// Units for each time that a row is read: the hook and the bookkeeping take about a microsecond.
    private static let unitsPerRead = 50

    let key: StoredKey
    let content: Int
    /// The index of the object's concrete entity.
    let concreteEntity: Int
    /// Its identity, where the store has a row key and clients name the object by its identity.
    let identity: StoredKey?
    /// Units of work, for the row and for the bytes of its texts and blobs.
    let work: Int
    /// A hash of all columns that is the same on every machine; 0 when no caller asked for it.
    let digest: UInt64

    init(
        count: Int32, _ table: ChangedTables.Table, hasDigest: Bool, _ value: (Int32) -> OpaquePointer?
    ) {
        func cell(_ column: Int32) -> Cell { Cell(value(column)).stored(asReal: table.realColumns.contains(column)) }
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
            cell.hash(into: &hasher)
            if cell.kind == .text || cell.kind == .blob { byteCount += Int(cell.count) }
            if hasDigest { digest.add(cell) }
        }
        content = hasher.finalize()
        work = Self.unitsPerRead + byteCount / Self.bytesPerUnit
        self.digest = hasDigest ? digest.value : 0
    }
}

extension Cell {
    /// A value of SQLite's, valid as long as that one.
    ///
    /// - Parameter value: nil for a generated column that is not stored.
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

    /// A column of real numbers stores 5.0 as the integer 5, and returns the real number. The hook reports either form.
    func stored(asReal isReal: Bool) -> Cell { kind == .integer && isReal ? .real(Double(integer)) : self }

    func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        switch kind {
        case .integer: hasher.combine(integer)
        case .real: hasher.combine(real)
        case .text, .blob:
            hasher.combine(count)
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        case .null, .absent, .object: break
        }
    }
}
