/// The staged rows of one table, an entity's or a hierarchy's, immutable.
///
/// Invariants
/// 1. At most one row per identity.
/// 2. ``groups`` have every row once, inside a group by ascending identity (rows without identity in payload order),
///    because SQLite inserts ascending keys several times faster than scattered ones.
public final class FrozenTable: Sendable {
    public let entityIndex: Int
    public let rowCount: Int
    public let columnCount: Int
    /// One group for each concrete entity of the rows' objects, as far as the job says.
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
    private let concreteEntities: [Int32]
    private let recordEntities: [Int32]
    /// As in `StagedTable`.
    public let keyEntities: [Int: Set<Int>]
    /// Rows of objects that were named by the store's own key, by that key.
    public let givenKeys: [Int64: Int]
    private let storage: CellStorage
    // Immutable and owned by `storage`, so it may be read from any thread.
    nonisolated(unsafe) public let cells: UnsafePointer<Cell>
    /// The order of all groups.
    public let order: RowOrder

    init(
        entity: EntityPlan, rowCount: Int, storage: CellStorage, offsets: [UInt32], origins: [RowOrigin],
        claims: [UInt32], firstModified: [Cell], index: IdentityIndex, otherIndexes: [IdentityIndex],
        concreteEntities: [Int32],
        recordEntities: [Int32], keyEntities: [Int: Set<Int>], givenKeys: [Int64: Int]
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
        self.concreteEntities = concreteEntities
        self.recordEntities = recordEntities
        self.keyEntities = keyEntities
        self.givenKeys = givenKeys
        entityIndex = entity.index
        columnCount = entity.layout.columnCount
        groups = RowGrouping(entity, cells, concreteEntities, rowCount).groups()
        order = groups.first?.order ?? RowOrder([])
    }

    /// Returns the rows of a group by the columns that they bring: groups with ``RowGroup/columns``.
    public func uniform(_ group: RowGroup) -> [RowGroup] {
        group.columns == nil ? RowGrouping(entity, cells, concreteEntities, rowCount).uniform(group) : [group]
    }

    /// Returns the offsets of the records that last brought these attributes, which are unique together; without such a
    /// record, the offset of the record or key that first named the object. Ascending, not empty.
    public func claims(of attributes: [Int], row: Int) -> [UInt32] {
        let columns = entity.uniqueColumns
        let claimed = columns.indices.filter { attributes.contains(columns[$0]) }
            .map { claims[row * columns.count + $0] }.filter { $0 > 0 }
        return claimed.isEmpty ? [offsets[row]] : claimed.sorted()
    }

    /// Returns the index of the concrete entity that the row's object would have without its bare keys; nil when these
    /// make no difference.
    public func entityWithoutKeys(of row: Int) -> Int? {
        guard !recordEntities.isEmpty, recordEntities[row] >= 0, recordEntities[row] != concreteEntities[row] else {
            return nil
        }
        return Int(recordEntities[row])
    }

    /// Estimated memory in bytes of a row with its entries in the indexes.
    public var rowByteCount: Int { entity.rowByteCount }

    @inlinable public func row(_ row: Int) -> UnsafePointer<Cell> { cells + row * columnCount }

    /// Returns the row whose identity cells equal those of `identity` (a row's worth of cells); nil without such a row.
    ///
    /// - Parameter concreteEntity: the entity whose identity it is, or one of its subentities.
    public func find(identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        let columns = entity.identityColumns(of: concreteEntity)
        let number = entity.hierarchy?.identityNumber(of: concreteEntity) ?? 0
        let index = number == 0 ? index : otherIndexes[number - 1]
        return index.find(IdentityIndex.hash(identity, columns)) { candidate in
            let own = row(candidate)
            return columns.allSatisfy { own[$0].isSame(as: identity[$0]) }
        }
    }

    /// Its rows are found and inserted by their identities, or are always new; the result depends on nothing else.
    var isBatchable: Bool {
        entity.isBatchable && givenKeys.isEmpty && keyEntities.isEmpty
            && origins.allSatisfy { $0.rawValue <= RowOrigin.stub.rawValue }
    }

    /// Returns the index of the object's concrete entity, as far as the job says.
    public func concreteEntity(of row: Int) -> Int {
        concreteEntities.isEmpty ? entity.ownIndex : Int(concreteEntities[row])
    }

    /// Returns the columns that identify the row's object.
    public func identityColumns(ofRow row: Int) -> [Int] { entity.identityColumns(of: concreteEntity(of: row)) }

    /// Returns the identity of the row's object; without identity an empty list, or one with NULL in it. Valid as long
    /// as the rows.
    public func identity(ofRow row: Int) -> [Cell] { identityColumns(ofRow: row).map { self.row(row)[$0] } }

    /// Whether the row's record may be skipped because of the stored object.
    public func isComparable(_ row: Int) -> Bool { firstModified[row].kind.rawValue > Cell.Kind.null.rawValue }

    /// Whether the row's record is not newer than the stored value of its entity's `modified` attribute.
    public func isStale(_ row: Int, against stored: Cell) -> Bool {
        entity.modified?.isStale(firstModified[row], against: stored) ?? false
    }

    /// Whether the row has a value for its entity's whole identity.
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
