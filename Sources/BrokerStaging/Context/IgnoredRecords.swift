internal import BrokerModel

/// Objects of one entity whose records are passed over, because they may not be inserted, or not be updated. What is
/// nested in such a record is staged all the same.
public final class IgnoredRecords {
    enum Word {
        /// The record is taken.
        case taken
        /// Its object exists, and stays as it is.
        case named
        /// Its object does not exist, and is not made.
        case absent
    }

    /// And its subentities.
    let entity: Int
    private let table: Int
    private let inserts: Bool
    private let updates: Bool
    private let existing: TableSet
    /// Objects that are not made, though the newest staging named them: of its rows' memory.
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

    /// A new staging names anew.
    func begin() { absent = TableSet(plan) }

    /// The identities of those of that table which the newest staging named and did not make.
    func namedAlone(_ table: Int) -> [[Cell]] {
        guard absent.exists(table) else { return [] }
        return (0..<absent[table].pointee.rowCount).map { absent[table].pointee.identity(ofRow: $0) }
    }

    /// The object of that staged row is in the store.
    public func noteExisting(_ row: Int, of rows: StagedRows) {
        let staged = rows.tables[table]!
        let identity = staged.row(row)
        var cells = Array(repeating: Cell.absent, count: staged.columnCount)
        // The rows that the cells point into go before this object does.
        for column in staged.identityColumns(ofRow: row) { cells[column] = arena.copy(of: identity[column]) }
        cells.withUnsafeBufferPointer {
            _ = existing[table].pointee.findOrAdd(
                identity: $0.baseAddress!, offset: 0, origin: .record, kind: staged.kind(of: row))
        }
    }

    /// - Parameter identity: a row's worth of cells; nil of a record that has none.
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
    /// What becomes of a record, or a bare key, of that identity.
    ///
    /// Mutating, though it changes nothing: else the context would be copied for the call, and it is large.
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
