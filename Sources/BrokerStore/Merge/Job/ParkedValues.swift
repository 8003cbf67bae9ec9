internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// Unique values of objects that a job has not changed yet, while another object of the job has them.
///
/// Only the values at the job's end must be unique, but an index of SQLite's is unique after each statement. So a
/// column of the holder gets a value that no other row has: the first of the list that neither identifies the object nor
/// says when it was modified. Its own value is restored at the job's end, if the object still exists and the column was
/// not set since; where that is not possible, the object that claimed the value is at fault.
///
/// Values are not parked, and so judged at once, in a list without such a column, and in one whose column does not allow
/// other values, because another program made the table.
///
/// Used by the one thread that merges the job.
final class ParkedValues {
    private struct Parked {
        let occupied: OccupiedValue
        /// Returns a fault with the path of the value at that offset.
        let locate: (Fault, Int) -> Fault
        let column: Int
        let rowNumber: Int64
        /// The value in the column meanwhile.
        let mark: [UInt8]
    }

    private struct Statements {
        let find: Statement
        let park: Statement
        let unpark: Statement
        /// Prepared when an object was renamed.
        var unparkRenumbered: Statement?
    }

    /// The maximum number of values, which limits the cost of restoring them.
    private static let maximum = 100_000
    /// Bytes of memory that a parked value needs besides its key: itself in a list that grows, its mark, and its lists
    /// of columns.
    private static let bytesPerValue = 320

    private let merger: Merger
    private var parked: [Parked] = []
    /// Columns with parked values, each with its entity.
    private var columns: Set<[Int]> = []
    private var statements: [[Int]: Statements] = [:]
    /// By list: the column for its parked values; nil when its values cannot be parked.
    private var parkingColumns: [[Int]: Int?] = [:]
    private var count = 0
    let memory: MergeMemory
    /// The net changes of the job; nil until recording begins.
    var history: NetChanges?

    /// - Parameter memory: grants the memory for the values.
    init(_ merger: Merger, _ memory: MergeMemory) {
        self.merger = merger
        self.memory = memory
    }

    func canPark(_ value: OccupiedValue.Value) -> Bool {
        column(of: value) != nil
    }

    private func column(of value: OccupiedValue.Value) -> Int? {
        let list = value.list
        if let known = parkingColumns[list] { return known }
        let model = merger.plan.model
        let kinds = model.entities.indices.filter { model.topmost(of: $0) == value.entity }.map { model.entities[$0] }
        let column = value.attributes.first { attribute in
            kinds.allSatisfy { !$0.identity.contains(attribute) && $0.modified != attribute }
        }
        parkingColumns[list] = .some(column)
        return column
    }

    /// - Parameter locate: returns a fault with the path of the value at that offset.
    func park(
        _ values: [OccupiedValue], _ locate: @escaping (Fault, Int) -> Fault
    ) throws(MergeFailure) {
        guard count + values.count <= Self.maximum else {
            throw .fault(
                .busy(
                    "The job claims more than \(Self.maximum) unique values of objects that it changes or deletes later. "
                        + "Delete these objects in a job before it."))
        }
        let bytes = values.reduce(0) { $0 + Self.bytesPerValue + $1.value.key.bytes.count }
        guard memory.take(bytes) else {
            throw .fault(
                .busy(
                    "The unique values that the job claims of objects that it changes or deletes later take more memory than "
                        + "one job may. Delete these objects in a job before it, or split it into several jobs."))
        }
        try storing { () throws(StoreError) in
            for occupied in values { try park(occupied, locate) }
        }
    }

    private func park(
        _ occupied: OccupiedValue, _ locate: @escaping (Fault, Int) -> Fault
    ) throws(StoreError) {
        let value = occupied.value
        guard let column = column(of: value) else { return }
        let statements = try statements(of: value, column)
        value.key.bind(to: statements.find, from: 1)
        let rowNumber = try statements.find.step() ? statements.find.integer(0) : nil
        statements.find.reset()
        // Two objects of the step may claim the value.
        guard let rowNumber else { return }
        count += 1
        let mark = Array("_broker_parked \(count)".utf8)
        statements.park.bind(blob: mark, at: 1)
        statements.park.bind(rowNumber, at: 2)
        do throws(StoreError) {
            try run(statements.park)
        } catch {
            guard error.code == .constraint else { throw error }
            parkingColumns[value.list] = .some(nil)
            return
        }
        parked.append(Parked(occupied: occupied, locate: locate, column: column, rowNumber: rowNumber, mark: mark))
        columns.insert([value.entity, column])
    }

    /// Restores the values of the objects that still lack them.
    ///
    /// - Parameter isDue: selects the values, by their columns.
    /// - Throws: the fault of the job, when an object has kept a value that another one claims.
    func restore(
        _ isDue: (OccupiedValue.Value, _ column: Int) -> Bool = { _, _ in true }
    ) throws(MergeFailure) {
        var remaining: [Parked] = []
        for one in parked {
            guard isDue(one.occupied.value, one.column) else {
                remaining.append(one)
                continue
            }
            do throws(StoreError) {
                try restore(one)
            } catch {
                guard error.code == .constraint else { throw .store(error) }
                throw .fault(fault(of: one))
            }
        }
        parked = remaining
    }

    private func restore(_ one: Parked) throws(StoreError) {
        let value = one.occupied.value
        let unpark = try unpark(value, one.column)
        value.key.bind(to: unpark, from: 1)
        unpark.bind(blob: one.mark, at: value.attributes.count + 1)
        unpark.bind(one.rowNumber, at: value.attributes.count + 2)
        try run(unpark)
    }

    /// An object that is renamed may get another row number.
    private func unpark(_ value: OccupiedValue.Value, _ column: Int) throws(StoreError) -> Statement {
        let known = try statements(of: value, column)
        guard merger.hasRenamed else { return known.unpark }
        if let statement = known.unparkRenumbered { return statement }
        let made = try merger.entities[value.entity].unpark(value.attributes, from: column, isRenumbered: true)
        statements[value.list]!.unparkRenumbered = made
        return made
    }

    private func run(_ update: Statement) throws(StoreError) {
        guard let history else { return try update.run() }
        try history.recordParking { () throws(StoreError) in try update.run() }
    }

    private func statements(of value: OccupiedValue.Value, _ column: Int) throws(StoreError) -> Statements {
        if let known = statements[value.list] { return known }
        let entity = merger.entities[value.entity]
        let made = Statements(
            find: try entity.rowNumber(of: value.attributes), park: try entity.park(in: column),
            unpark: try entity.unpark(value.attributes, from: column, isRenumbered: false))
        statements[value.list] = made
        return made
    }

    private func fault(of one: Parked) -> Fault {
        let model = merger.plan.model.entities[one.occupied.claimant]
        return one.locate(
            UniqueValues.taken(one.occupied.value.attributes, model), one.occupied.claimedAt)
    }

    /// Restores the values that a predicate compares, because it must find them in their columns.
    func restore(askedBy selection: StagedSelection) throws(MergeFailure) {
        guard !columns.isEmpty, let predicate = selection.predicate else { return }
        let model = merger.plan.model
        var asked: Set<[Int]> = []
        for operand in predicate.operands {
            guard case .attribute(let attribute) = operand.column else { continue }
            var entity = selection.entity
            for hop in operand.hops { entity = model.entities[entity].relationships[hop].destination }
            asked.insert([model.topmost(of: entity), attribute])
        }
        guard !asked.isDisjoint(with: columns) else { return }
        columns.subtract(asked)
        try restore { asked.contains([$0.entity, $1]) }
    }
}
