internal import BrokerJSON
internal import BrokerModel
internal import Glibc

/// The staged rows of one table, an entity's or a hierarchy's: at most one per identity.
///
/// Owned by one context while it grows; after freezing it never changes.
struct StagedTable: ~Copyable {
    /// In a hierarchy the topmost entity.
    let entity: EntityPlan
    private(set) var rowCount = 0
    private var capacity = 0
    private var storage = CellStorage()
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

    /// - Parameter space: memory for the first row, which is valid as long as the table; nil allocates it.
    init(_ entity: EntityPlan, in space: UnsafeMutablePointer<Cell>? = nil) {
        self.entity = entity
        if let space {
            storage = CellStorage(in: space)
            capacity = 1
        }
        otherIndexes = Array(repeating: IdentityIndex(), count: max(0, (entity.hierarchy?.identities.count ?? 1) - 1))
    }

    private var cells: UnsafeMutablePointer<Cell> { storage.cells }

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
        let columns = identityColumns(of: concreteEntity)
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

    /// Returns the row of the object with this key of the store's own.
    ///
    /// - Parameters:
    ///   - identity: a row's worth of cells, if the object's identity is known.
    ///   - concreteEntity: the entity whose identity that is.
    mutating func findOrAdd(
        key: Int64, identity: UnsafePointer<Cell>? = nil, offset: Int, origin: RowOrigin, concreteEntity: Int
    ) -> Int {
        if let row = givenKeys[key] {
            if !concreteEntities.isEmpty { concreteEntities[row] = Int32(concreteEntity) }
            return row
        }
        let row = findOrAdd(identity: identity, offset: offset, origin: origin, concreteEntity: concreteEntity)
        givenKeys[key] = row
        return row
    }

    /// Returns the row of that identity; nil without such a row.
    ///
    /// - Parameter concreteEntity: the entity whose identity it is, or one of its subentities.
    func find(identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        let columns = identityColumns(of: concreteEntity)
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

    /// Returns the columns that identify an object of that entity.
    func identityColumns(of concreteEntity: Int) -> [Int] { entity.identityColumns(of: concreteEntity) }

    /// Returns the index of the object's concrete entity, as far as the job says.
    func concreteEntity(of row: Int) -> Int { concreteEntities.isEmpty ? entity.ownIndex : Int(concreteEntities[row]) }

    /// Notes that a bare key that makes nothing asks for an object of that entity.
    mutating func noteKey(_ row: Int, of concreteEntity: Int) { keyEntities[row, default: []].insert(concreteEntity) }

    /// Notes a record of the row.
    ///
    /// - Parameter value: that of `modified`; nil for an entity without.
    mutating func noteRecord(_ row: Int, modified value: Cell?) {
        if let value { modified[row] = value }
    }

    /// Notes that a record of the row names links that are not in the row.
    mutating func noteLinksElsewhere(_ row: Int) {
        if entity.modified != nil { linksElsewhere[row] = true }
    }

    /// Notes that a record of the row has a value for a relationship with a link table.
    mutating func noteLinks(_ row: Int) { namings[row].namesLinks = true }

    private mutating func name(_ row: Int, _ origin: RowOrigin) {
        if origin == .record, namings[row].origin == .record { namings[row].isRepeated = true }
        if origin.rawValue < namings[row].origin.rawValue { namings[row].origin = origin }
    }

    /// Makes room for the cells of so many rows in all, so that rows are not moved as they come. The memory is used as they
    /// come.
    mutating func reserve(_ count: Int) {
        guard count > capacity else { return }
        capacity = count
        storage.grow(from: rowCount * columnCount, to: capacity * columnCount)
    }

    private mutating func add(_ offset: Int, _ origin: RowOrigin, _ concreteEntity: Int) -> Int {
        if rowCount == capacity {
            // Most small jobs have one row of a table.
            capacity = capacity == 0 ? 1 : max(8, capacity * 2)
            storage.grow(from: rowCount * columnCount, to: capacity * columnCount)
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
    func identity(ofRow row: Int) -> [Cell] { identityColumns(of: concreteEntity(of: row)).map { self.row(row)[$0] } }

    /// Whether the row has a value for its entity's whole identity.
    func hasIdentity(_ row: Int) -> Bool { EntityPlan.has(identityColumns(of: concreteEntity(of: row)), self.row(row)) }

    /// Groups the rows by the columns that they bring, each group in the identity's order; after that nothing changes.
    mutating func freeze() {
        groups = RowGrouping(entity, cells, concreteEntities, rowCount).groups()
        order = rowCount == 1 ? .single : groups.first?.order ?? RowOrder([])
    }
}

extension EntityPlan {
    /// Returns the columns that identify an object of an entity of the table.
    func identityColumns(of concreteEntity: Int) -> [Int] {
        guard let hierarchy else { return identity }
        return hierarchy.identityNumber(of: concreteEntity).map { hierarchy.identities[$0] } ?? []
    }

    /// Whether a row's worth of cells has a value for the whole identity.
    static func has(_ identity: [Int], _ cells: UnsafePointer<Cell>) -> Bool {
        !identity.isEmpty && identity.allSatisfy { cells[$0].kind.rawValue > Cell.Kind.null.rawValue }
    }

    /// Estimated memory in bytes of a row with its entries in the indexes.
    var rowByteCount: Int { columnCount * MemoryLayout<Cell>.stride + 48 }
}

extension Cell {
    /// Whether the values are equal, for identities: values of one column have one type, or are NULL.
    public func isSame(as other: Cell) -> Bool {
        guard kind == other.kind else { return false }
        return kind == .text || kind == .blob ? Bytes.areEqual(bytes, other.bytes) : payload == other.payload
    }
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

/// The memory of one table's cells, row after row.
struct CellStorage: ~Copyable, @unchecked Sendable {
    // Only the owner reaches it: a ``StagedTable``, which grows it until it is frozen.
    private(set) var cells: UnsafeMutablePointer<Cell>
    private var isAllocated = false

    init() { cells = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)! }

    /// - Parameter space: the first memory, which another object owns.
    init(in space: UnsafeMutablePointer<Cell>) { cells = space }

    /// - Parameter used: cells to retain.
    mutating func grow(from used: Int, to count: Int) {
        let bytes = max(1, count) * MemoryLayout<Cell>.stride
        guard let grown = isAllocated ? realloc(cells, bytes) : malloc(bytes) else {
            preconditionFailure("out of memory for \(count) staged cells")
        }
        if !isAllocated { memcpy(grown, cells, used * MemoryLayout<Cell>.stride) }
        cells = grown.assumingMemoryBound(to: Cell.self)
        isAllocated = true
    }

    deinit {
        if isAllocated { free(cells) }
    }
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
