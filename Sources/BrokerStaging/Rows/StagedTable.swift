package import BrokerJSON
internal import BrokerModel
internal import Glibc

/// The staged rows of one table, an entity's or a hierarchy's: at most one per identity.
///
/// Owned by one context while it grows; after freezing it never changes.
struct StagedTable: ~Copyable {
    /// In a hierarchy the topmost entity.
    let entity: EntityPlan
    private(set) var rowCount = 0
    /// Row after row; allocated with the first.
    private var cells: UnsafeMutablePointer<Cell>
    /// Rows for which the cells have room.
    private var capacity = 0
    /// By row, how the job names its object.
    private(set) var namings = ShortList<RowNaming>()
    /// By row, for an entity with `modified`: the value that its record has, with all the digits that were sent.
    private(set) var modified: [Cell] = []
    /// By row, for such an entity: its record names links that are not in the row.
    private(set) var linksElsewhere: [Bool] = []
    private var index = IdentityIndex()
    /// In a hierarchy whose entities have several identities, the indexes of the other identities.
    private var otherIndexes: [IdentityIndex]
    /// By row, in a hierarchy: the index of the object's concrete entity, as far as the job says.
    private(set) var concreteEntities: [Int32] = []
    /// By row, in a hierarchy: the entities of the bare keys that make nothing, without the topmost one of the identity.
    private(set) var keyEntities: [Int: Set<Int>] = [:]
    static let bytesPerKeyEntity = 128
    /// Rows of objects that were named by the store's own key, by that key.
    private(set) var givenKeys: [Int64: Int] = [:]
    /// The groups of a frozen table, and their order.
    private(set) var groups: [RowGroup] = []
    private(set) var order = RowOrder.single

    init(_ entity: EntityPlan) {
        self.entity = entity
        cells = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)!
        otherIndexes = Array(repeating: IdentityIndex(), count: max(0, (entity.hierarchy?.identities.count ?? 1) - 1))
    }

    deinit { if capacity > 0 { free(cells) } }

    private var columnCount: Int { entity.columnCount }

    /// Valid until the next row is added.
    func row(_ row: Int) -> UnsafeMutablePointer<Cell> { cells + row * columnCount }

    /// Returns the row of that identity, and adds it if it is new; a row without identity is always new.
    ///
    /// - Parameters:
    ///   - identity: a row's worth of cells, of which only the identity's are read; nil when there is no identity.
    ///   - concreteEntity: in a hierarchy, the index of the object's concrete entity.
    mutating func findOrAdd(identity: UnsafePointer<Cell>?, offset: Int, origin: RowOrigin, concreteEntity: Int) -> Int
    {
        guard let identity else {
            index.skip()
            for other in otherIndexes.indices { otherIndexes[other].skip() }
            return add(offset, origin, concreteEntity)
        }
        if entity.singleKey >= 0 { return findOrAdd(key: identity + entity.singleKey, offset, origin, concreteEntity) }
        let columns = entity.identityColumns(of: concreteEntity)
        let hash = IdentityIndex.hash(identity, columns)
        if let row = find(hash, identity, columns, concreteEntity) {
            name(row, origin)
            if !concreteEntities.isEmpty { concreteEntities[row] = Int32(concreteEntity) }
            return row
        }
        let row = add(offset, origin, concreteEntity)
        for column in columns { self.row(row)[column] = identity[column] }
        insert(hash, row, number: entity.hierarchy?.identityNumber(of: concreteEntity) ?? 0)
        return row
    }

    /// The same for an entity outside of a hierarchy with an identity of one column: without a list of columns, whose
    /// references would be counted for each row by all workers.
    ///
    /// - Parameter key: the cell of the identity.
    private mutating func findOrAdd(
        key: UnsafePointer<Cell>, _ offset: Int, _ origin: RowOrigin, _ concreteEntity: Int
    ) -> Int {
        let (column, cell) = (entity.singleKey, key.pointee)
        let hash = IdentityIndex.hash(cell, into: Bytes.seed)
        let (cells, columnCount) = (self.cells, self.columnCount)
        if let row = index.find(hash, { cells[$0 * columnCount + column].isSame(as: cell) }) {
            name(row, origin)
            return row
        }
        let row = add(offset, origin, concreteEntity)
        self.row(row)[column] = cell
        index.insert(hash, row: row)
        return row
    }

    /// Adds a row for the object with this key of the store's own, unless there is one.
    mutating func addGivenKey(_ key: Int64, offset: Int, origin: RowOrigin, concreteEntity: Int) {
        guard let row = givenKeys[key] else {
            givenKeys[key] = findOrAdd(identity: nil, offset: offset, origin: origin, concreteEntity: concreteEntity)
            return
        }
        if !concreteEntities.isEmpty { concreteEntities[row] = Int32(concreteEntity) }
    }

    /// Returns the row of that identity; nil without such a row.
    ///
    /// - Parameter concreteEntity: the entity whose identity it is, or one of its subentities.
    func find(identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        let columns = entity.identityColumns(of: concreteEntity)
        return find(IdentityIndex.hash(identity, columns), identity, columns, concreteEntity)
    }

    private func find(_ hash: UInt64, _ identity: UnsafePointer<Cell>, _ columns: [Int], _ concreteEntity: Int) -> Int?
    {
        let number = entity.hierarchy?.identityNumber(of: concreteEntity) ?? 0
        if number == 0 { return index.find(hash) { isSame($0, identity, columns) } }
        return otherIndexes[number - 1].find(hash) { isSame($0, identity, columns) }
    }

    private mutating func insert(_ hash: UInt64, _ row: Int, number: Int) {
        if number == 0 { index.insert(hash, row: row) } else { index.skip() }
        for other in otherIndexes.indices {
            if other == number - 1 { otherIndexes[other].insert(hash, row: row) } else { otherIndexes[other].skip() }
        }
    }

    /// Returns the index of the object's concrete entity, as far as the job says.
    func concreteEntity(of row: Int) -> Int { concreteEntities.isEmpty ? entity.ownIndex : Int(concreteEntities[row]) }

    /// Notes that a bare key that makes nothing asks for an object of that entity.
    mutating func noteKey(_ row: Int, of concreteEntity: Int) { keyEntities[row, default: []].insert(concreteEntity) }

    /// Notes a record of the row of an entity with `modified`.
    mutating func noteRecord(_ row: Int, modified value: Cell) { modified[row] = value }

    /// Notes that a record of the row names links that are not in the row.
    mutating func noteLinksElsewhere(_ row: Int) {
        if entity.modified != nil { linksElsewhere[row] = true }
    }

    /// Notes that a record of the row has a value for a relationship with a link table.
    mutating func noteLinks(_ row: Int) {
        if !namings[row].namesLinks { namings[row].namesLinks = true }
    }

    private mutating func name(_ row: Int, _ origin: RowOrigin) {
        // To change an element of the list takes an allocation.
        let known = namings[row]
        if origin == .record, known.origin == .record, !known.isRepeated { namings[row].isRepeated = true }
        if origin.rawValue < known.origin.rawValue { namings[row].origin = origin }
    }

    /// Makes room for the cells of so many rows in all, so that rows are not moved as they come. The memory is used as they
    /// come.
    mutating func reserve(_ count: Int) {
        guard count > capacity else { return }
        let bytes = max(1, count * columnCount) * MemoryLayout<Cell>.stride
        guard let grown = capacity > 0 ? realloc(cells, bytes) : malloc(bytes) else {
            preconditionFailure("out of memory for \(bytes) bytes of staged cells")
        }
        cells = grown.assumingMemoryBound(to: Cell.self)
        capacity = count
    }

    private mutating func add(_ offset: Int, _ origin: RowOrigin, _ concreteEntity: Int) -> Int {
        if rowCount == capacity {
            // Most small jobs have one row of a table.
            reserve(capacity == 0 ? 1 : max(8, capacity * 2))
        }
        // All zero is `.absent`.
        memset(cells + rowCount * columnCount, 0, columnCount * MemoryLayout<Cell>.stride)
        namings.append(RowNaming(offset: UInt32(offset), origin: origin))
        if entity.modified != nil {
            modified.append(.absent)
            linksElsewhere.append(false)
        }
        if entity.hierarchy != nil {
            concreteEntities.append(Int32(concreteEntity))
        }
        rowCount += 1
        return rowCount - 1
    }

    private func isSame(_ row: Int, _ identity: UnsafePointer<Cell>, _ columns: [Int]) -> Bool {
        let own = self.row(row)
        return columns.allSatisfy { own[$0].isSame(as: identity[$0]) }
    }

    /// Returns the identity of the row's object. Valid until the next row is added.
    func identity(ofRow row: Int) -> [Cell] {
        entity.identityColumns(of: concreteEntity(of: row)).map { self.row(row)[$0] }
    }

    /// Whether the row has a value for its entity's whole identity.
    func hasIdentity(_ row: Int) -> Bool {
        EntityPlan.has(entity.identityColumns(of: concreteEntity(of: row)), self.row(row))
    }

    /// Groups the rows by the columns that they bring, each group in the identity's order; after that nothing changes.
    mutating func freeze() {
        groups = RowGrouping(entity, cells, concreteEntities, rowCount).groups()
        order = rowCount == 1 ? .single : groups.first?.order ?? RowOrder([])
    }
}

/// The tables of some records, by entity index; a hierarchy's table has the index of its topmost entity. Each is created on first
/// use, at a fixed address, so that nothing counts references to it.
// One thread at a time uses it; frozen tables never change.
final class StagedTables: @unchecked Sendable {
    private let plan: StagingPlan
    private let tables: UnsafeMutablePointer<UnsafeMutablePointer<StagedTable>?>

    var count: Int { plan.entities.count }

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = .allocate(capacity: plan.entities.count)
        tables.initialize(repeating: nil, count: plan.entities.count)
    }

    deinit {
        for entity in 0..<count {
            tables[entity]?.deinitialize(count: 1)
            tables[entity]?.deallocate()
        }
        tables.deallocate()
    }

    @inline(__always)
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable> { tables[entity] ?? make(entity) }

    private func make(_ entity: Int) -> UnsafeMutablePointer<StagedTable> {
        let table = UnsafeMutablePointer<StagedTable>.allocate(capacity: 1)
        table.initialize(to: StagedTable(plan.entities[entity]))
        tables[entity] = table
        return table
    }

    @inline(__always)
    func exists(_ entity: Int) -> Bool { tables[entity] != nil }

    /// Returns a cell of an existing row. Valid until the table's next row is added.
    func cell(_ entity: Int, _ row: Int, _ column: Int) -> UnsafeMutablePointer<Cell> {
        tables[entity]!.pointee.row(row) + column
    }

    /// Freezes the tables, which are not changed any more; nil where an entity has no rows.
    func frozen() -> [FrozenTable?] {
        (0..<count).map { entity in
            guard let table = tables[entity] else { return nil }
            table.pointee.freeze()
            return FrozenTable(table, in: self)
        }
    }
}

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
    private let owner: StagedTables

    /// - Parameter content: a frozen table of `owner`.
    init(_ content: UnsafePointer<StagedTable>, in owner: StagedTables) {
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
        Cell.row(values, at: entity.identityColumns(of: concreteEntity), width: columnCount).withUnsafeBufferPointer {
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
    public func isComparable(_ row: Int) -> Bool { !table.modified[row].isNil }

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

/// How a job names the object of a row.
public struct RowNaming: Sendable {
    /// Text offset of the record or bare key that first named it.
    let offset: UInt32
    public internal(set) var origin: RowOrigin
    /// Several records name it.
    package internal(set) var isRepeated = false
    /// A record of it has a value, be it empty, for a relationship with a link table: other links there change the object.
    package internal(set) var namesLinks = false
}

/// The reason for a staged row; of several reasons the smallest counts.
public enum RowOrigin: UInt8, Sendable {
    /// A record named it.
    case record = 0
    /// A bare key named it; it is inserted if it does not exist.
    case stub = 1
    /// A bare key named it, and it must exist.
    case mustExist = 2
    /// A bare key named it; links to it are skipped if it does not exist.
    case mayBeMissing = 3

    /// The origin is a bare key that neither makes an object nor determines its entity.
    public var makesNothing: Bool { self == .mustExist || self == .mayBeMissing }
}

extension EntityPlan {
    /// Returns the columns that identify an object of an entity of the table.
    func identityColumns(of concreteEntity: Int) -> [Int] {
        guard let hierarchy else { return identity }
        return hierarchy.identityNumber(of: concreteEntity).map { hierarchy.identities[$0] } ?? []
    }

    /// Whether a row's worth of cells has a value for the whole identity.
    static func has(_ identity: [Int], _ cells: UnsafePointer<Cell>) -> Bool {
        !identity.isEmpty && identity.allSatisfy { !cells[$0].isNil }
    }

    /// Estimated memory in bytes of a row with its entries in the indexes.
    var rowByteCount: Int { columnCount * MemoryLayout<Cell>.stride + 48 }
}

/// A hash index from identity to row of one staged table: open addressing over row numbers, with the cells as keys.
/// While the table has only a few rows, a search compares them one by one.
struct IdentityIndex {
    private static let rowsWithoutSlots = 8
    /// Row + 1, zero for a free slot. The count is a power of two, and at most half of them are used.
    private var slots: [UInt32] = []
    /// By row: its hash, never zero; zero for a row without identity.
    private var hashes = ShortList<UInt64>()
    private var count = 0

    @inline(__always)
    static func hash(_ cells: UnsafePointer<Cell>, _ columns: [Int]) -> UInt64 {
        var state = Bytes.seed
        for column in columns { state = hash(cells[column], into: state) }
        return state
    }

    @inline(__always)
    static func hash(_ cell: Cell, into state: UInt64) -> UInt64 {
        cell.kind == .text || cell.kind == .blob
            ? Bytes.hash(cell.bytes, into: state) : Bytes.mix(state, UInt64(bitPattern: cell.integer))
    }

    /// Returns the row for which `isSame` is true; nil when there is none.
    @inline(__always)
    func find(_ hash: UInt64, _ isSame: (Int) -> Bool) -> Int? {
        let hash = max(1, hash)
        guard !slots.isEmpty else {
            return (0..<min(hashes.count, Self.rowsWithoutSlots)).first { hashes[$0] == hash && isSame($0) }
        }
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 {
            let row = Int(slots[position]) - 1
            if hashes[row] == hash, isSame(row) { return row }
            position = (position + 1) & (slots.count - 1)
        }
        return nil
    }

    /// - Precondition: rows are inserted in order, 0, 1, 2 …, with ``skip()`` for those without identity.
    mutating func insert(_ hash: UInt64, row: Int) {
        count += 1
        hashes.append(max(1, hash))
        guard !slots.isEmpty || row >= Self.rowsWithoutSlots else { return }
        if count * 2 > slots.count { grow() } else { place(row) }
    }

    mutating func skip() { hashes.append(0) }

    private mutating func place(_ row: Int) {
        var position = Int(truncatingIfNeeded: hashes[row]) & (slots.count - 1)
        while slots[position] != 0 { position = (position + 1) & (slots.count - 1) }
        slots[position] = UInt32(row + 1)
    }

    private mutating func grow() {
        slots = Array(repeating: 0, count: max(4 * Self.rowsWithoutSlots, slots.count * 2))
        for row in hashes.indices where hashes[row] != 0 { place(row) }
    }
}
