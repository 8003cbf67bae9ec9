package import BrokerJSON
internal import BrokerModel

/// The staged rows of one table, an entity's or a hierarchy's, immutable.
///
/// Invariants
/// 1. At most one row per identity.
/// 2. ``groups`` have every row once, inside a group by ascending identity (rows without identity in payload order),
///    because SQLite inserts ascending keys several times faster than scattered ones.
public struct FrozenTable: @unchecked Sendable {
    // Immutable, and owned by `owner`, so it may be read from any thread.
    public let cells: UnsafePointer<Cell>
    public let rowCount: Int
    public let columnCount: Int
    private let content: UnsafePointer<StagedTable>
    /// Owns the memory of the rows.
    private let owner: TableStorage

    /// - Parameter content: a frozen table of `owner`.
    init(_ content: UnsafePointer<StagedTable>, in owner: TableStorage) {
        cells = UnsafePointer(content.pointee.row(0))
        rowCount = content.pointee.rowCount
        columnCount = content.pointee.entity.columnCount
        self.content = content
        self.owner = owner
    }

    private var table: StagedTable {
        _read { yield content.pointee }
    }

    public var entityIndex: Int { table.entity.index }

    /// One group for each concrete entity of the rows' objects, as far as the job says.
    public var groups: [RowGroup] { table.groups }

    /// The order of all groups.
    public var order: RowOrder { table.order }

    private var entity: EntityPlan { table.entity }

    /// By row, how the job names its object.
    package var namings: ShortList<RowNaming> { table.namings }

    /// As in `StagedTable`.
    public var keyEntities: [Int: Set<Int>] { table.keyEntities }

    /// Rows of objects that were named by the store's own key, by that key.
    public var givenKeys: [Int64: Int] { table.givenKeys }

    /// The same by row.
    public var keysByRow: [Int: Int64] {
        Dictionary(givenKeys.map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// Returns the rows of a group by the columns that they bring: groups with ``RowGroup/columns``.
    public func uniform(_ group: RowGroup) -> [RowGroup] {
        group.columns == nil ? RowGrouping(entity, cells, table.concreteEntities, rowCount).uniform(group) : [group]
    }

    /// Estimated memory in bytes of a row with its entries in the indexes.
    public var rowByteCount: Int { entity.rowByteCount }

    @inlinable public func row(_ row: Int) -> UnsafePointer<Cell> { cells + row * columnCount }

    /// Returns the row whose identity cells equal those of `identity` (a row's worth of cells); nil without such a row.
    ///
    /// - Parameter concreteEntity: the entity whose identity it is, or one of its subentities.
    public func find(identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        table.find(identity: identity, concreteEntity: concreteEntity)
    }

    /// The same for the values of that entity's identity, in its order.
    package func find(identity values: [Cell], concreteEntity: Int) -> Int? {
        Cell.row(values, at: table.identityColumns(of: concreteEntity), width: columnCount).withUnsafeBufferPointer {
            find(identity: $0.baseAddress!, concreteEntity: concreteEntity)
        }
    }

    /// Its rows are found and inserted by their identities, or are always new; the result depends on nothing else.
    var isBatchable: Bool {
        entity.isBatchable && givenKeys.isEmpty && keyEntities.isEmpty
            && namings.allSatisfy { $0.origin.rawValue <= RowOrigin.stub.rawValue }
    }

    /// Returns the index of the object's concrete entity, as far as the job says.
    public func concreteEntity(of row: Int) -> Int { table.concreteEntity(of: row) }

    /// Returns the identity of the row's object; without identity an empty list, or one with NULL in it. Valid as long
    /// as the rows.
    public func identity(ofRow row: Int) -> [Cell] { table.identity(ofRow: row) }

    /// Whether the row's record is compared with the stored object.
    public func isComparable(_ row: Int) -> Bool { table.modified[row].kind.rawValue > Cell.Kind.null.rawValue }

    /// Whether the row's record is not newer than the stored value of its entity's `modified` attribute.
    public func isStale(_ row: Int, against stored: Cell) -> Bool {
        entity.modified?.isStale(table.modified[row], against: stored) ?? false
    }

    /// Whether only the row's record asserts the links in the row.
    public func hasOwnLinksOnly(_ row: Int) -> Bool {
        (entity.layout.attributeCount..<columnCount).allSatisfy { column in
            let cell = self.row(row)[column]
            return cell.kind == .absent || cell.sourceOffset == table.namings[row].offset
        }
    }

    /// Whether the row's record names links that are not in the row.
    public func hasLinksElsewhere(_ row: Int) -> Bool { table.linksElsewhere[row] }

    /// Whether the row has a value for its entity's whole identity.
    public func hasIdentity(_ row: Int) -> Bool { table.hasIdentity(row) }
}

extension Cell {
    /// A row's worth of cells with these values at some columns.
    static func row(_ values: [Cell], at columns: [Int], width: Int) -> [Cell] {
        var cells = Array(repeating: Cell.absent, count: width)
        for (column, value) in zip(columns, values) { cells[column] = value }
        return cells
    }

    /// SQLite's order of one column's values: NULL first.
    func precedes(_ other: Cell) -> Bool {
        guard kind == other.kind else { return kind.rawValue < other.kind.rawValue }
        switch kind {
        case .text, .blob: return Bytes.precedes(bytes, other.bytes)
        case .integer: return integer < other.integer
        case .real: return real < other.real
        case .absent, .null, .object: return false
        }
    }

    /// Monotonic in the values of one column: equal values have equal prefixes, different values may have equal ones,
    /// too.
    @inlinable public var orderPrefix: UInt64 {
        switch kind {
        case .integer: return UInt64(bitPattern: integer) ^ (1 << 63)
        case .text, .blob:
            if count >= 8 {
                return UInt64(bigEndian: UnsafeRawPointer(bytes.baseAddress!).loadUnaligned(as: UInt64.self))
            }
            var prefix: UInt64 = 0
            for byte in bytes { prefix = prefix << 8 | UInt64(byte) }
            return count == 0 ? 0 : prefix << UInt64(64 - 8 * Int(count))
        case .real, .absent, .null, .object: return 0
        }
    }
}

/// The memory of the tables of a ``TableSet``: a pointer for each entity, then the space for two tables and for their first
/// rows. Most small jobs have no more than their own table and one to which they link, of one row each, and so make one
/// allocation for all of it.
// One thread at a time uses it; frozen tables never change.
final class TableStorage: ManagedBuffer<TableStorage.Header, UnsafeMutablePointer<StagedTable>?> {
    struct Header {
        let plan: StagingPlan
        let count: Int
        /// Tables in the object itself.
        var ownCount = 0
        /// Cells of the space that are in use.
        var cellCount = 0
    }

    private typealias Table = UnsafeMutablePointer<StagedTable>

    private static let spaceCount = 2
    /// The cells of most models' rows, with a key beside them.
    private static let cellSpace = 24

    static func create(_ plan: StagingPlan) -> TableStorage {
        let count = plan.entities.count
        let stride = MemoryLayout<UnsafeMutablePointer<StagedTable>?>.stride
        let bytes =
            spaceCount * MemoryLayout<StagedTable>.stride + cellSpace * MemoryLayout<Cell>.stride
        precondition(MemoryLayout<StagedTable>.alignment <= stride && MemoryLayout<Cell>.alignment <= stride)
        let made = create(minimumCapacity: count + (bytes + stride - 1) / stride) { _ in
            Header(plan: plan, count: count)
        }
        made.withUnsafeMutablePointerToElements { $0.initialize(repeating: nil, count: count) }
        return unsafeDowncast(made, to: TableStorage.self)
    }

    deinit {
        for entity in 0..<header.count {
            guard let table = tables[entity] else { continue }
            table.deinitialize(count: 1)
            if !isOwn(table) { table.deallocate() }
        }
    }

    /// Valid as long as this object.
    @inline(__always)
    var tables: UnsafeMutablePointer<UnsafeMutablePointer<StagedTable>?> { withUnsafeMutablePointerToElements { $0 } }

    private var space: Table {
        UnsafeMutableRawPointer(tables + header.count).assumingMemoryBound(to: StagedTable.self)
    }

    private var cells: UnsafeMutablePointer<Cell> {
        UnsafeMutableRawPointer(space + Self.spaceCount).assumingMemoryBound(to: Cell.self)
    }

    private func isOwn(_ table: Table) -> Bool { table >= space && table < space + Self.spaceCount }

    /// Creates the table of that entity, which must not exist.
    @inline(never)
    func make(_ entity: Int) -> UnsafeMutablePointer<StagedTable> {
        let plan = header.plan.entities[entity]
        let isOwn = header.ownCount < Self.spaceCount
        let table = isOwn ? space + header.ownCount : Table.allocate(capacity: 1)
        if isOwn { header.ownCount += 1 }
        let columnCount = plan.columnCount
        let hasRow = header.cellCount + columnCount <= Self.cellSpace
        table.initialize(to: StagedTable(plan, in: hasRow ? cells + header.cellCount : nil))
        if hasRow { header.cellCount += columnCount }
        tables[entity] = table
        return table
    }
}

/// The tables of a context, by entity index; a hierarchy's table has the index of its topmost entity. Tables are
/// created on first use. One thread at a time uses it. Copies are the same set.
struct TableSet {
    private let storage: TableStorage

    init(_ plan: StagingPlan) { storage = TableStorage.create(plan) }

    /// The table of that entity, created on first use.
    @inline(__always)
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable> {
        storage.tables[entity] ?? storage.make(entity)
    }

    @inline(__always)
    func exists(_ entity: Int) -> Bool { storage.tables[entity] != nil }

    /// Returns the hierarchy of an entity; nil for an entity outside of a hierarchy.
    func hierarchy(of concreteEntity: Int) -> HierarchyPlan? { storage.header.plan.entities[concreteEntity].hierarchy }

    var count: Int { storage.header.count }

    /// Returns a cell of an existing row. Valid until the table's next row is added.
    func cell(_ entity: Int, _ row: Int, _ column: Int) -> UnsafeMutablePointer<Cell> {
        storage.tables[entity]!.pointee.row(row) + column
    }

    /// Freezes the tables, which are not changed any more.
    func freeze() -> FrozenTables {
        for entity in 0..<count { storage.tables[entity]?.pointee.freeze() }
        return FrozenTables(storage)
    }
}

/// The frozen tables of a `TableSet`, by entity index; nil without rows of the entity.
///
/// Not a collection: the functions of collections read each element by a coroutine, which allocates its frame on the heap.
// They do not change, so any thread may read them.
package struct FrozenTables: Sequence, @unchecked Sendable {
    private let storage: TableStorage

    init(_ storage: TableStorage) { self.storage = storage }

    package var count: Int { storage.header.count }
    package var underestimatedCount: Int { count }
    package var indices: Range<Int> { 0..<count }

    package subscript(entity: Int) -> FrozenTable? {
        precondition(entity >= 0 && entity < count, "no entity has the index \(entity)")
        return storage.tables[entity].map { FrozenTable($0, in: storage) }
    }

    package func makeIterator() -> Iterator { Iterator(self) }

    package struct Iterator: IteratorProtocol {
        private let tables: FrozenTables
        private var entity = 0

        fileprivate init(_ tables: FrozenTables) { self.tables = tables }

        package mutating func next() -> FrozenTable?? {
            guard entity < tables.count else { return nil }
            defer { entity += 1 }
            return .some(tables[entity])
        }
    }
}
