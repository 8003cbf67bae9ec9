/// The staged rows of one table, an entity's or a hierarchy's, immutable.
///
/// Invariants
///  1. At most one row per identity.
///  2. ``groups`` name every row once, inside a group by ascending identity (rows without identity in payload order),
///     because SQLite takes ascending keys several times faster than scattered ones.
public final class FrozenTable: Sendable {
    public let entityIndex: Int
    public let rowCount: Int
    public let columnCount: Int
    /// One for each entity that the rows' objects are of, as far as the job says.
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
    private let recordKinds: [Int32]
    /// Rows of objects that were named by their key of the store's own, by that.
    public let givenKeys: [Int64: Int]
    private let storage: CellStorage
    // Immutable and kept alive by `storage`, so it may be read from any thread.
    nonisolated(unsafe) public let cells: UnsafePointer<Cell>
    /// Of all groups.
    public let order: RowOrder

    init(
        entity: EntityPlan, rowCount: Int, storage: CellStorage, offsets: [UInt32], origins: [RowOrigin],
        claims: [UInt32], firstModified: [Cell], index: IdentityIndex, otherIndexes: [IdentityIndex], kinds: [Int32],
        recordKinds: [Int32], givenKeys: [Int64: Int]
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
        self.recordKinds = recordKinds
        self.givenKeys = givenKeys
        entityIndex = entity.index
        columnCount = entity.layout.columnCount
        groups = RowGrouping(entity, cells, kinds, rowCount).groups()
        order = groups.first?.order ?? RowOrder([])
    }

    /// The rows of a group, by the columns that they bring: groups with ``RowGroup/columns``.
    public func uniform(_ group: RowGroup) -> [RowGroup] {
        group.columns == nil ? RowGrouping(entity, cells, kinds, rowCount).uniform(group) : [group]
    }

    /// Where in the text the records begin that last brought these attributes, which are unique together; where none did,
    /// the one that first named the object. Ascending, not empty.
    public func claims(of attributes: [Int], row: Int) -> [UInt32] {
        let columns = entity.uniqueColumns
        let claimed = columns.indices.filter { attributes.contains(columns[$0]) }
            .map { claims[row * columns.count + $0] }.filter { $0 > 0 }
        return claimed.isEmpty ? [offsets[row]] : claimed.sorted()
    }

    /// The index of the entity that the row's object would be of without its bare keys; nil when these make no difference.
    public func kindWithoutKeys(of row: Int) -> Int? {
        guard !recordKinds.isEmpty, recordKinds[row] >= 0, recordKinds[row] != kinds[row] else { return nil }
        return Int(recordKinds[row])
    }

    /// Bytes that a row takes with its place in the indexes, about.
    public var rowByteCount: Int { entity.rowByteCount }

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

    /// Its rows are found and made by their identities, or are always new, and nothing else has to be looked at.
    var isJoinable: Bool {
        entity.isJoinable && givenKeys.isEmpty && origins.allSatisfy { $0.rawValue <= RowOrigin.stub.rawValue }
    }

    /// The index of the entity that the row's object is, as far as the job says.
    public func kind(of row: Int) -> Int { kinds.isEmpty ? entity.kind : Int(kinds[row]) }

    /// The columns that identify the row's object.
    public func identityColumns(ofRow row: Int) -> [Int] { entity.identityColumns(of: kind(of: row)) }

    /// What identifies the row's object; without identity an empty list, or one with NULL in it. As long valid as the rows.
    public func identity(ofRow row: Int) -> [Cell] { identityColumns(ofRow: row).map { self.row(row)[$0] } }

    /// Whether a record of the row may be left out for what the store has.
    public func isComparable(_ row: Int) -> Bool { firstModified[row].kind.rawValue > Cell.Kind.null.rawValue }

    /// Whether a record of the row is not newer than what the store has of its entity's `modified` attribute.
    public func isStale(_ row: Int, against stored: Cell) -> Bool {
        entity.modified?.isStale(firstModified[row], against: stored) ?? false
    }

    /// The row has a value for its entity's whole identity.
    public func hasIdentity(_ row: Int) -> Bool { EntityPlan.has(identityColumns(ofRow: row), self.row(row)) }
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
