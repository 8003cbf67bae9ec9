/// Rows of one entity that bring the same columns: one SQL statement merges them.
public struct RowGroup: Sendable {
    /// Of a hierarchy, the index of the entity that the rows' objects are, as far as the job says.
    public let kind: Int
    /// The columns that every row of the group brings, the identity's among them, ascending.
    public let columns: [Int]
    /// The group's part of ``FrozenTable/order``.
    public let range: Range<Int>
}

/// The staged rows of one table, an entity's or a hierarchy's, immutable.
///
/// Invariants
///  1. At most one row per identity.
///  2. `order` names every row once, group by group, inside a group by ascending identity (rows without identity in
///     payload order), because SQLite takes ascending keys several times faster than scattered ones.
public final class FrozenTable: Sendable {
    public let entityIndex: Int
    public let rowCount: Int
    public let columnCount: Int
    public let groups: [RowGroup]
    public let origins: [RowOrigin]
    /// As in ``StagedTable``.
    private let claims: [UInt32]
    /// As in ``StagedTable``.
    let firstModified: [Cell]
    let entity: EntityPlan
    let offsets: [UInt32]
    let index: IdentityIndex
    private let otherIndexes: [IdentityIndex]
    private let kinds: [Int32]
    /// Rows of objects that were named by their key of the store's own, by that.
    public let givenKeys: [Int64: Int]
    private let storage: CellStorage
    // Immutable and kept alive by `storage`, so it may be read from any thread.
    nonisolated(unsafe) public let cells: UnsafePointer<Cell>
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) public let order: UnsafePointer<UInt32>

    init(
        entity: EntityPlan, rowCount: Int, storage: CellStorage, offsets: [UInt32], origins: [RowOrigin],
        claims: [UInt32], firstModified: [Cell], index: IdentityIndex, otherIndexes: [IdentityIndex], kinds: [Int32],
        givenKeys: [Int64: Int]
    ) {
        self.entity = entity
        self.rowCount = rowCount
        self.storage = storage
        cells = UnsafePointer(storage.cells)
        self.offsets = offsets
        self.origins = origins
        self.claims = claims
        self.firstModified = firstModified
        self.index = index
        self.otherIndexes = otherIndexes
        self.kinds = kinds
        self.givenKeys = givenKeys
        entityIndex = entity.index
        columnCount = entity.layout.columnCount
        let order = UnsafeMutablePointer<UInt32>.allocate(capacity: max(1, rowCount))
        groups = RowGrouping(entity, cells, kinds, rowCount).fill(order)
        self.order = UnsafePointer(order)
    }

    deinit { order.deallocate() }

    /// Where in the text the records begin that last brought these attributes, which are unique together; where none did,
    /// the one that first named the object. Ascending, not empty.
    public func claims(of attributes: [Int], row: Int) -> [UInt32] {
        let columns = entity.uniqueColumns
        let claimed = columns.indices.filter { attributes.contains(columns[$0]) }
            .map { claims[row * columns.count + $0] }.filter { $0 > 0 }
        return claimed.isEmpty ? [offsets[row]] : claimed.sorted()
    }

    @inlinable public func row(_ row: Int) -> UnsafePointer<Cell> { cells + row * columnCount }

    /// The row whose identity cells are those of `identity` (a row's worth of cells), nil when nothing staged it.
    ///
    /// - Parameter kind: the entity whose identity it is, or one of those below it.
    public func find(identity: UnsafePointer<Cell>, kind: Int) -> Int? {
        let columns = entity.identityColumns(of: kind)
        let number = entity.family?.identityNumber(of: kind) ?? 0
        let index = number == 0 ? index : otherIndexes[number - 1]
        return index.find(IdentityIndex.hash(identity, columns)) { candidate in
            let own = row(candidate)
            return columns.allSatisfy { own[$0].isSame(as: identity[$0]) }
        }
    }

    /// The index of the entity that the row's object is, as far as the job says.
    public func kind(of row: Int) -> Int { kinds.isEmpty ? entity.kind : Int(kinds[row]) }

    /// The columns that identify the row's object.
    public func identityColumns(ofRow row: Int) -> [Int] { entity.identityColumns(of: kind(of: row)) }

    /// Whether a record of the row may be left out for what the store has.
    public func isComparable(_ row: Int) -> Bool { firstModified[row].kind.rawValue > Cell.Kind.null.rawValue }

    /// Whether a record of the row is not newer than what the store has of its entity's `modified` attribute.
    public func isStale(_ row: Int, against stored: Cell) -> Bool {
        entity.modified?.isStale(firstModified[row], against: stored) ?? false
    }

    /// The row has a value for its entity's whole identity.
    public func hasIdentity(_ row: Int) -> Bool { EntityPlan.has(identityColumns(ofRow: row), self.row(row)) }
}

/// Sorts row numbers by the entity that the objects are and the columns that the rows bring, then by identity.
private struct RowGrouping {
    private let entity: EntityPlan
    private let cells: UnsafePointer<Cell>
    private let kinds: [Int32]
    private let rowCount: Int
    private let columnCount: Int

    private struct Group {
        let kind: Int
        let columns: [Int]
        var rows: [UInt32] = []
    }

    private struct Form: Hashable {
        let kind: Int
        let columns: [Int]
    }

    init(_ entity: EntityPlan, _ cells: UnsafePointer<Cell>, _ kinds: [Int32], _ rowCount: Int) {
        self.entity = entity
        self.cells = cells
        self.kinds = kinds
        self.rowCount = rowCount
        columnCount = entity.layout.columnCount
    }

    func fill(_ order: UnsafeMutablePointer<UInt32>) -> [RowGroup] {
        var groups: [RowGroup] = []
        var start = 0
        for var group in rowsByForm() {
            sort(&group.rows, group.kind)
            for (position, row) in group.rows.enumerated() { order[start + position] = row }
            groups.append(RowGroup(kind: group.kind, columns: group.columns, range: start..<start + group.rows.count))
            start += group.rows.count
        }
        return groups
    }

    private func rowsByForm() -> [Group] {
        var groups: [Group] = []
        var positions: [Form: Int] = [:]
        var last: Int?
        for row in 0..<rowCount {
            let kind = kinds.isEmpty ? entity.kind : Int(kinds[row])
            if let last, groups[last].kind == kind, brings(row, exactly: groups[last].columns) {
                groups[last].rows.append(UInt32(row))
                continue
            }
            let columns = (0..<columnCount).filter { cells[row * columnCount + $0].kind != .absent }
            let form = Form(kind: kind, columns: columns)
            let position = positions[form] ?? groups.count
            if position == groups.count {
                groups.append(Group(kind: kind, columns: columns))
                positions[form] = position
            }
            groups[position].rows.append(UInt32(row))
            last = position
        }
        return groups
    }

    private func brings(_ row: Int, exactly columns: [Int]) -> Bool {
        let own = cells + row * columnCount
        var position = 0
        for column in 0..<columnCount where own[column].kind != .absent {
            guard position < columns.count, columns[position] == column else { return false }
            position += 1
        }
        return position == columns.count
    }

    private func sort(_ rows: inout [UInt32], _ kind: Int) {
        let identity = entity.identityColumns(of: kind)
        guard let first = identity.first else { return }
        if entity.hasIntegerIdentity {
            sort(&rows) { cells[Int($0) * columnCount + first].integer < cells[Int($1) * columnCount + first].integer }
        } else {
            sort(&rows) { precedes(cells + Int($0) * columnCount, cells + Int($1) * columnCount, identity) }
        }
    }

    private func sort(_ rows: inout [UInt32], by areInOrder: (UInt32, UInt32) -> Bool) {
        let isSorted = rows.indices.dropFirst().allSatisfy { !areInOrder(rows[$0], rows[$0 - 1]) }
        if !isSorted { rows.sort(by: areInOrder) }
    }

    private func precedes(_ left: UnsafePointer<Cell>, _ right: UnsafePointer<Cell>, _ identity: [Int]) -> Bool {
        for column in identity {
            if left[column].precedes(right[column]) { return true }
            if right[column].precedes(left[column]) { return false }
        }
        return false
    }
}

extension Cell {
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
}
