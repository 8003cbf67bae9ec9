internal import BrokerModel

/// Objects of one entity whose records a sync ignores, because it may not insert or not update them. Records nested in
/// an ignored record are staged.
public final class IgnoredRecords {
    enum Word {
        /// The record is staged.
        case taken
        /// The object exists, and does not change.
        case named
        /// The object does not exist, and is not inserted.
        case absent
    }

    /// The entity of the sync; its subentities belong to it.
    let entity: Int
    private let table: Int
    private let inserts: Bool
    private let updates: Bool
    private let existing: TableSet
    /// Objects that the latest staging named and did not insert; in the memory of its rows.
    private var absent: TableSet
    private let plan: StagingPlan
    private var arena = ByteArena()

    public init(_ sync: StagedSync, _ plan: StagingPlan) {
        entity = sync.selection.entity
        table = plan.entities[entity].index
        inserts = sync.inserts
        updates = sync.updates
        existing = TableSet(plan)
        absent = TableSet(plan)
        self.plan = plan
    }

    /// Prepares for a new staging.
    func begin() { absent = TableSet(plan) }

    /// Returns the identities of the objects of that table that the latest staging named and did not insert.
    func namedAlone(_ table: Int) -> [[Cell]] {
        guard absent.exists(table) else { return [] }
        return (0..<absent[table].pointee.rowCount).map { absent[table].pointee.identity(ofRow: $0) }
    }

    /// Notes that the object of a staged row is in the store.
    public func noteExisting(_ row: Int, of rows: StagedRows) {
        let staged = rows.tables[table]!
        let identity = staged.row(row)
        var cells = Array(repeating: Cell.absent, count: staged.columnCount)
        // The rows own the memory of the cells and are freed before this object.
        for column in staged.identityColumns(ofRow: row) { cells[column] = arena.copy(of: identity[column]) }
        cells.withUnsafeBufferPointer {
            _ = existing[table].pointee.findOrAdd(
                identity: $0.baseAddress!, offset: 0, origin: .record, kind: staged.kind(of: row))
        }
    }

    /// - Parameter identity: a row's worth of cells; nil for a record without an identity.
    func word(_ identity: UnsafePointer<Cell>?, kind: Int) -> Word {
        let exists = identity.map { existing[table].pointee.find(identity: $0, kind: kind) != nil } ?? false
        if exists { return updates ? .taken : .named }
        if inserts { return .taken }
        if let identity {
            _ = absent[table].pointee.findOrAdd(identity: identity, offset: 0, origin: .passedOver, kind: kind)
        }
        return .absent
    }
}

extension StagingContext {
    /// Returns the decision for a record, or a bare key, of that identity.
    ///
    /// Mutating, though it changes nothing: otherwise Swift copies the context, which is large, for the call.
    mutating func passing(_ entity: EntityPlan, identity: Int?) -> IgnoredRecords.Word {
        guard let passedOver = exclusions?.passedOver else { return .taken }
        return passing(entity, identity: identity, passedOver)
    }

    private mutating func passing(_ entity: EntityPlan, identity: Int?, _ passedOver: IgnoredRecords)
        -> IgnoredRecords.Word
    {
        guard entity.kind == passedOver.entity || entity.family?.inherits(from: passedOver.entity) ?? false else {
            return .taken
        }
        guard let identity else { return passedOver.word(nil, kind: entity.kind) }
        return scratch.withCells(at: identity) { passedOver.word($0, kind: entity.kind) }
    }
}
