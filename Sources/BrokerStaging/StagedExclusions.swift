public import BrokerModel

/// Objects that the merge found to be left out, and what is to be told of them. Their records and bare keys are staged
/// no more, so that nothing that these say has an effect.
// Changed by the one thread that merges the job, between two stagings, which only read it.
public final class StagedExclusions: @unchecked Sendable {
    public let policy: InvalidRecordPolicy
    public private(set) var rejections = RejectionList()
    private let tables: TableSet
    private var arena = ByteArena()
    /// Where records without identity begin.
    private var offsets = Set<Int>()

    public init(_ plan: StagingPlan, _ policy: InvalidRecordPolicy) {
        self.policy = policy
        tables = TableSet(plan)
    }

    /// Leaves an object out.
    ///
    /// - Parameter fault: told at the place that first named the object; nil leaves it out without a word.
    public func add(entity: Int, row: Int, of rows: StagedRows, _ fault: Fault?) {
        let table = rows.tables[entity]!
        let offset = Int(table.offsets[row])
        if table.hasIdentity(row) {
            var cells = Array(UnsafeBufferPointer(start: table.row(row), count: table.columnCount))
            for column in table.entity.identity { cells[column] = owned(cells[column]) }
            cells.withUnsafeBufferPointer {
                _ = tables[entity].pointee.findOrAdd(identity: $0.baseAddress!, offset: offset, origin: .record)
            }
        } else {
            offsets.insert(offset)
        }
        if let fault { rejections.add(fault, at: offset) }
    }

    /// Whether the object of that identity is left out.
    func contain(_ entity: Int, identity: UnsafePointer<Cell>) -> Bool {
        tables.exists(entity) && tables[entity].pointee.find(identity: identity) != nil
    }

    /// Whether the record without identity that begins there is left out.
    func contain(recordAt offset: Int) -> Bool { offsets.contains(offset) }

    /// The rows that the cell points into go before this object does.
    private func owned(_ cell: Cell) -> Cell {
        switch cell.kind {
        case .text: .text(arena.store(cell.bytes))
        case .blob: .blob(arena.store(cell.bytes))
        default: cell
        }
    }
}
