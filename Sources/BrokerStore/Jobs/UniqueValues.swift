internal import BrokerModel
internal import BrokerStaging

/// Unique values that a record brings while another object has them.
///
/// Only the values at the job's end must be unique, but an index of SQLite's is unique after each statement. So a
/// column of the holder gets a value that no other row has (it is parked): the first of the list that neither identifies
/// the object nor says when it was modified. Its own value is restored at the job's end, if the object still exists and the
/// column was not set since; where that is not possible, the record that brought the value is at fault.
///
/// A record is at fault at once when records are skipped, in a list without such a column, and in one whose column does not
/// allow other values, because another program made the table.
///
/// Used by the one thread that merges the job.
final class UniqueValues {
    private struct Parked {
        let table: Int
        let column: Int
        let rowNumber: Int64
        let value: OwnedCell
        let mark: [UInt8]
        /// Returns the fault of the record that brought the value.
        let fault: () -> Fault
    }

    private struct Column: Hashable {
        let table: Int
        let attribute: Int
    }

    /// The maximum number of values, which limits the cost of restoring them.
    private static let maximum = 100_000
    private static let bytesPerValue = 320

    private let merger: Merger
    private let memory: MergeMemory
    private let skips: Bool
    private var parked: [Parked] = []
    private var columns: Set<Column> = []
    private var count = 0
    /// The net changes of the job; nil until recording begins.
    var history: NetChanges?
    /// Returns the fault with the path of the value at that offset, in the step that is applied.
    var locate: (Fault, Int) -> Fault = { fault, _ in fault }

    init(_ merger: Merger, _ memory: MergeMemory, skips: Bool) {
        self.merger = merger
        self.memory = memory
        self.skips = skips
    }

    // MARK: - Parking

    /// Parks a value of another object that the record brings.
    ///
    /// - Parameter object: the object of the record; nil for a new one.
    /// - Returns: whether there was one, so that the row can be written.
    /// - Throws: `invalid` when the other object keeps its value.
    func free(
        _ entity: Int, _ cells: UnsafePointer<Cell>, _ object: AppliedObject?, claimedAt offset: Int
    ) throws(ApplyingFault) -> Bool {
        let model = merger.plan.model.entities[entity]
        let lists = model.hasRowKey && !model.identity.isEmpty ? [model.identity] + model.unique : model.unique
        do {
            for list in lists {
                guard let holder = try holder(of: list, entity, cells, object) else { continue }
                guard list != model.identity else {
                    // An operation that gives its object another identity is at fault itself.
                    let own = object.map { merger.plan.model.entities[$0.entity] }
                    throw ApplyingFault.invalid(Self.taken(own ?? model), offset: object == nil ? offset : nil)
                }
                let table = merger.plan.model.topmost(of: entity)
                let fault = Self.taken(list, model)
                guard !skips, let column = merger.plan.model.parkingColumn(of: list, table),
                    try park(table, column, of: holder, fault: { [locate] in locate(fault, offset) })
                else { throw ApplyingFault.invalid(fault, offset: offset) }
                return true
            }
            return false
        } catch let fault as ApplyingFault {
            throw fault
        } catch {
            throw .ended(error)
        }
    }

    /// The number of another object's row that has the values of a list which the record's object would get.
    private func holder(
        of list: [Int], _ entity: Int, _ cells: UnsafePointer<Cell>, _ object: AppliedObject?
    ) throws(StoreError) -> Int64? {
        let table = merger.plan.model.topmost(of: entity)
        var values: [OwnedCell] = []
        for attribute in list {
            if cells[attribute].kind != .absent {
                values.append(OwnedCell(copying: cells[attribute]))
            } else if let object, merger.plan.model.entities[object.entity].attributeIndices.contains(attribute) {
                guard let value = try merger.objects.value(of: attribute, table, object.number) else { return nil }
                values.append(value)
            } else {
                values.append(
                    OwnedCell(copying: merger.plan.defaultCell(entity: entity, attribute: attribute) ?? .null))
            }
        }
        guard !values.contains(where: { $0.cell.kind == .null }) else { return nil }
        let find = try merger.objects.holder(of: list, table)
        for (position, value) in values.enumerated() { find.bind(copying: value.cell, at: position + 1) }
        guard let number = try find.first(read: { $0.integer(0) }), number != object?.number else { return nil }
        return number
    }

    /// - Returns: false when the table does not allow another value in the column.
    private func park(_ table: Int, _ column: Int, of rowNumber: Int64, fault: @escaping () -> Fault) throws -> Bool {
        guard let value = try merger.objects.value(of: column, table, rowNumber) else { return false }
        guard count < Self.maximum else {
            throw MergeFailure.fault(
                .busy(
                    "The job claims more than \(Self.maximum) unique values of objects that it changes or deletes later. "
                        + "Delete these objects in a job before it."))
        }
        guard memory.take(Self.bytesPerValue + Int(value.cell.count)) else {
            throw MergeFailure.fault(
                .busy(
                    "The unique values that the job claims of objects that it changes or deletes later take more memory than "
                        + "one job may. Delete these objects in a job before it, or split it into several jobs."))
        }
        count += 1
        let mark = Array("_broker_parked \(count)".utf8)
        let park = try merger.objects.park(table, column)
        park.bind(blob: mark, at: 1)
        park.bind(rowNumber, at: 2)
        do throws(StoreError) {
            try run(park)
        } catch {
            guard error.code == .constraint else { throw error }
            return false
        }
        parked.append(
            Parked(table: table, column: column, rowNumber: rowNumber, value: value, mark: mark, fault: fault))
        columns.insert(Column(table: table, attribute: column))
        return true
    }

    private func run(_ update: Statement) throws(StoreError) {
        guard let history else { return try update.run() }
        try history.recordParking { () throws(StoreError) in try update.run() }
    }

    // MARK: - Restoring

    /// Restores the values of the objects that still lack them. One that another object has by now is the fault of the job.
    func restore() throws { try restore { _ in true } }

    /// Restores the values that a predicate compares, because it must find them in their columns.
    func restore(askedBy selection: StagedSelection) throws {
        guard !columns.isEmpty, let predicate = selection.predicate else { return }
        let model = merger.plan.model
        var asked: Set<Column> = []
        for operand in predicate.operands {
            guard case .attribute(let attribute) = operand.column else { continue }
            asked.insert(
                Column(
                    table: model.topmost(of: model.end(of: operand.hops, from: selection.entity)),
                    attribute: attribute))
        }
        guard !asked.isDisjoint(with: columns) else { return }
        columns.subtract(asked)
        try restore { asked.contains(Column(table: $0.table, attribute: $0.column)) }
    }

    /// Restores the values of one object, because all of it is read.
    func restore(_ table: Int, row number: Int64) throws {
        // An object that is renamed may have another row number.
        try restore { $0.table == table && ($0.rowNumber == number || merger.hasRenamed) }
    }

    private func restore(_ isDue: (Parked) -> Bool) throws {
        var remaining: [Parked] = []
        for one in parked {
            guard isDue(one) else {
                remaining.append(one)
                continue
            }
            // An object that is renamed may have another row number.
            let unpark = try merger.objects.unpark(one.table, one.column, isRenumbered: merger.hasRenamed)
            unpark.bind(copying: one.value.cell, at: 1)
            unpark.bind(blob: one.mark, at: 2)
            if !merger.hasRenamed { unpark.bind(one.rowNumber, at: 3) }
            do throws(StoreError) {
                try run(unpark)
            } catch {
                guard error.code == .constraint else { throw error }
                throw MergeFailure.fault(one.fault())
            }
        }
        parked = remaining
    }

    // MARK: - Faults

    static func taken(_ model: Entity) -> Fault {
        Fault(
            .constraintViolation,
            "Another \(model.name) has the identity that the record brings, so the object cannot get it. Change that "
                + "identity, or process the record without `object` to update the other one.", entity: model.name)
    }

    private static func taken(_ list: [Int], _ model: Entity) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                + "Change one of the two, or take the unique constraint out of the model.",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}
