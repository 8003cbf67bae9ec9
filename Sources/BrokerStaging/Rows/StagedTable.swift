internal import BrokerModel
internal import Glibc

/// Why a staged row is there; of several reasons the smallest counts.
public enum RowOrigin: UInt8, Sendable {
    /// A record named it.
    case record = 0
    /// A bare key named it, and it is created if it does not exist.
    case stub = 1
    /// A bare key named it, and it must exist.
    case mustExist = 2
    /// A bare key named it; what links to it is left out if it does not exist.
    case mayBeMissing = 3
    /// A record named it that may not change it; it exists, and does not count.
    case passedOver = 4
}

/// The staged rows of one table, an entity's or a hierarchy's: at most one per identity.
///
/// Owned by one context while it grows; frozen into ``StagedRows`` it never changes again.
struct StagedTable: ~Copyable {
    /// Of a hierarchy the topmost.
    let entity: EntityPlan
    private(set) var rowCount = 0
    private var capacity = 0
    private let storage = CellStorage()
    /// Text offset of the record or bare key that first named the row.
    private(set) var offsets: [UInt32] = []
    private(set) var origins: [RowOrigin] = []
    /// By row and ``EntityPlan/uniqueColumns``: text offset of the record that last brought the attribute; 0 for none.
    private(set) var claims: [UInt32] = []
    /// By row, of an entity with `modified`: what the first record brought of it that brought anything, null included.
    private(set) var firstModified: [Cell] = []
    private(set) var index = IdentityIndex()
    /// Of a hierarchy whose entities have several identities, those of the others.
    private(set) var otherIndexes: [IdentityIndex]
    /// By row, of a hierarchy: the index of the entity that the object is, as far as the job says.
    private(set) var kinds: [Int32] = []
    /// By row, of a hierarchy: the index of the most special entity that a record, and not only a bare key, is of; -1 for none.
    private(set) var recordKinds: [Int32] = []
    /// Rows of objects that were named by their key of the store's own, by that.
    private(set) var givenKeys: [Int64: Int] = [:]

    init(_ entity: EntityPlan) {
        self.entity = entity
        otherIndexes = Array(repeating: IdentityIndex(), count: max(0, (entity.family?.identities.count ?? 1) - 1))
    }

    private var cells: UnsafeMutablePointer<Cell> { storage.cells }

    private var columnCount: Int { entity.layout.columnCount }

    /// Valid until the next row is added.
    func row(_ row: Int) -> UnsafeMutablePointer<Cell> { cells + row * columnCount }

    /// The row of that identity, added when it is new; a row without identity is always new.
    ///
    /// - Parameters:
    ///   - identity: a row's worth of cells, of which the identity's are read; none when there is no identity.
    ///   - kind: of a hierarchy, the index of the entity that the object is known to be.
    mutating func findOrAdd(identity: UnsafePointer<Cell>?, offset: Int, origin: RowOrigin, kind: Int) -> Int {
        guard let identity else {
            index.skip()
            for other in otherIndexes.indices { otherIndexes[other].skip() }
            return add(offset, origin, kind)
        }
        let columns = identityColumns(of: kind)
        let hash = IdentityIndex.hash(identity, columns)
        if let row = find(hash, identity, columns, kind) {
            if origin.rawValue < origins[row].rawValue { origins[row] = origin }
            if !kinds.isEmpty { kinds[row] = Int32(kind) }
            return row
        }
        let row = add(offset, origin, kind)
        for column in columns { self.row(row)[column] = identity[column] }
        insert(hash, row, columns, number: entity.family?.identityNumber(of: kind) ?? 0)
        return row
    }

    /// The row of the object that has this key of the store's own.
    ///
    /// - Parameters:
    ///   - identity: a row's worth of cells, if the object is known to have that identity, too.
    ///   - kind: whose identity that is.
    mutating func findOrAdd(
        key: Int64, identity: UnsafePointer<Cell>? = nil, offset: Int, origin: RowOrigin, kind: Int
    ) -> Int {
        if let row = givenKeys[key] {
            if !kinds.isEmpty { kinds[row] = Int32(kind) }
            return row
        }
        let row = findOrAdd(identity: identity, offset: offset, origin: origin, kind: kind)
        givenKeys[key] = row
        return row
    }

    /// The row of that identity, nil when nothing staged it.
    ///
    /// - Parameter kind: the entity whose identity it is, or one of those below it.
    func find(identity: UnsafePointer<Cell>, kind: Int) -> Int? {
        let columns = identityColumns(of: kind)
        return find(IdentityIndex.hash(identity, columns), identity, columns, kind)
    }

    private func find(_ hash: UInt64, _ identity: UnsafePointer<Cell>, _ columns: [Int], _ kind: Int) -> Int? {
        let number = entity.family?.identityNumber(of: kind) ?? 0
        if number == 0 { return index.find(hash) { isSame($0, identity, columns) } }
        return otherIndexes[number - 1].find(hash) { isSame($0, identity, columns) }
    }

    private mutating func insert(_ hash: UInt64, _ row: Int, _ columns: [Int], number: Int) {
        let cells = cells, width = columnCount
        let rehash = { (row: Int) in StagedTable.identityHash(cells + row * width, columns) }
        if number == 0 { index.insert(hash, row: row, rehash: rehash) } else { index.skip() }
        for other in otherIndexes.indices {
            if other == number - 1 {
                otherIndexes[other].insert(hash, row: row, rehash: rehash)
            } else {
                otherIndexes[other].skip()
            }
        }
    }

    /// The columns that identify an object of that entity.
    func identityColumns(of kind: Int) -> [Int] { entity.identityColumns(of: kind) }

    /// The index of the entity that the row's object is, as far as the job says.
    func kind(of row: Int) -> Int { kinds.isEmpty ? entity.kind : Int(kinds[row]) }

    /// A record of that entity names the row's object.
    ///
    /// - Parameter family: the entity's relatives.
    mutating func noteRecord(_ row: Int, of kind: Int, _ family: HierarchyPlan) {
        if recordKinds[row] < 0 || family.inherits(from: Int(recordKinds[row])) { recordKinds[row] = Int32(kind) }
    }

    /// The record at `offset` brought a value of the `position`th attribute of those that must be unique.
    mutating func claim(_ row: Int, _ position: Int, at offset: UInt32) {
        let place = row * entity.uniqueColumns.count + position
        claims[place] = max(claims[place], offset)
    }

    /// A record that was taken, the row's first or not, brought that of `modified`.
    mutating func bring(modified cell: Cell, _ row: Int) {
        if firstModified[row].kind == .absent { firstModified[row] = cell }
    }

    private mutating func add(_ offset: Int, _ origin: RowOrigin, _ kind: Int) -> Int {
        if rowCount == capacity {
            // As a rule a small job has one row of a table.
            capacity = capacity == 0 ? 1 : max(8, capacity * 2)
            storage.grow(to: capacity * columnCount)
        }
        // All zero is `.absent`.
        memset(cells + rowCount * columnCount, 0, columnCount * MemoryLayout<Cell>.stride)
        offsets.append(UInt32(offset))
        origins.append(origin)
        if entity.hasUniqueLists { claims.append(contentsOf: repeatElement(0, count: entity.uniqueColumns.count)) }
        if entity.modified != nil { firstModified.append(.absent) }
        if entity.family != nil {
            kinds.append(Int32(kind))
            recordKinds.append(-1)
        }
        rowCount += 1
        return rowCount - 1
    }

    private func isSame(_ row: Int, _ identity: UnsafePointer<Cell>, _ columns: [Int]) -> Bool {
        let own = self.row(row)
        return columns.allSatisfy { own[$0].isSame(as: identity[$0]) }
    }

    private static func identityHash(_ cells: UnsafePointer<Cell>, _ columns: [Int]) -> UInt64? {
        for column in columns where cells[column].kind.rawValue <= Cell.Kind.null.rawValue { return nil }
        return IdentityIndex.hash(cells, columns)
    }

    /// What identifies the row's object. Valid until the next row is added.
    func identity(ofRow row: Int) -> [Cell] { identityColumns(of: kind(of: row)).map { self.row(row)[$0] } }

    /// The row has a value for its entity's whole identity.
    func hasIdentity(_ row: Int) -> Bool { EntityPlan.has(identityColumns(of: kind(of: row)), self.row(row)) }

    /// Freezes the rows: grouped by the columns they bring, each group in the identity's order.
    consuming func freeze() -> FrozenTable {
        FrozenTable(
            entity: entity, rowCount: rowCount, storage: storage, offsets: offsets, origins: origins, claims: claims,
            firstModified: firstModified, index: index, otherIndexes: otherIndexes, kinds: kinds,
            recordKinds: recordKinds,
            givenKeys: givenKeys)
    }
}

extension EntityPlan {
    /// The columns that identify an object of an entity in the same table.
    func identityColumns(of kind: Int) -> [Int] {
        guard let family else { return identity }
        return family.identityNumber(of: kind).map { family.identities[$0] } ?? []
    }

    /// Whether a row's worth of cells has a value for the whole identity.
    static func has(_ identity: [Int], _ cells: UnsafePointer<Cell>) -> Bool {
        !identity.isEmpty && identity.allSatisfy { cells[$0].kind.rawValue > Cell.Kind.null.rawValue }
    }

    /// Bytes that a row takes with its place in the indexes, about.
    var rowByteCount: Int { layout.columnCount * MemoryLayout<Cell>.stride + 48 }
}

/// The memory of one table's cells, row after row, freed with its last holder.
///
/// Grown by the one ``StagedTable`` that made it; from ``StagedTable/freeze()`` on, which ends that table, it never changes.
final class CellStorage: @unchecked Sendable {
    private(set) var cells: UnsafeMutablePointer<Cell> = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)!
    private var isEmpty = true

    fileprivate func grow(to count: Int) {
        guard let grown = realloc(isEmpty ? nil : cells, max(1, count) * MemoryLayout<Cell>.stride) else {
            preconditionFailure("out of memory for \(count) staged cells")
        }
        cells = grown.assumingMemoryBound(to: Cell.self)
        isEmpty = false
    }

    deinit {
        if !isEmpty { free(cells) }
    }
}

extension Cell {
    /// The same value, for identities: kinds are those of one column, so they differ only by NULL.
    public func isSame(as other: Cell) -> Bool {
        guard kind == other.kind else { return false }
        return kind == .text || kind == .blob ? Bytes.areEqual(bytes, other.bytes) : payload == other.payload
    }
}

/// The tables of a context, by entity index, that of a hierarchy by its topmost one; made when they are first wanted.
/// Belongs to one thread at a time.
final class TableSet {
    private let tables: UnsafeMutableBufferPointer<UnsafeMutablePointer<StagedTable>?>
    private let plan: StagingPlan

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = .allocate(capacity: plan.entities.count)
        tables.initialize(repeating: nil)
    }

    deinit {
        for case let table? in tables {
            table.deinitialize(count: 1)
            table.deallocate()
        }
        tables.deallocate()
    }

    /// The table of that entity, made when it is new.
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable> { tables[entity] ?? make(entity) }

    private func make(_ entity: Int) -> UnsafeMutablePointer<StagedTable> {
        let table = UnsafeMutablePointer<StagedTable>.allocate(capacity: 1)
        table.initialize(to: StagedTable(plan.entities[entity]))
        tables[entity] = table
        return table
    }

    func exists(_ entity: Int) -> Bool { tables[entity] != nil }

    /// The relatives of an entity; nil of one that stands alone.
    func family(_ kind: Int) -> HierarchyPlan? { plan.entities[kind].family }

    var count: Int { tables.count }

    /// A cell of a row that exists. Valid until the table's next row is added.
    func cell(_ entity: Int, _ row: Int, _ column: Int) -> UnsafeMutablePointer<Cell> {
        tables[entity]!.pointee.row(row) + column
    }

    /// Hands the rows over and leaves the set empty.
    func freeze() -> [FrozenTable?] {
        (0..<tables.count).map { entity in
            guard let table = tables[entity] else { return nil }
            tables[entity] = nil
            defer { table.deallocate() }
            return table.move().freeze()
        }
    }
}
