internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// Unique values of objects that a job has not changed yet, while another object of the job has them.
///
/// Only the values at the job's end must be unique, but an index of SQLite's is unique after each statement. So a
/// column of the holder gets a value that no other row has. Its own value is restored at the job's end, if the object
/// still exists and the column was not set since; where that is not possible, the object that claimed the value is at
/// fault.
///
/// Used by the one thread that merges the job.
final class ParkedValues {
    private struct Parked {
        let occupied: OccupiedValue
        /// Any rows of the step that claims the value: they know the offsets in the text.
        let rows: StagedRows
        /// The value in the column meanwhile.
        let mark: [UInt8]
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
    private var statements: [[Int]: (park: Statement, unpark: Statement)] = [:]
    private var count = 0
    /// Values that are checked at once, because an earlier run of the job showed that their holders do not give them
    /// up.
    private let settled: Set<OccupiedValue.Value>
    private let parksNothing: Bool
    private let memory: MergeMemory
    /// The net changes of the job; nil until recording begins.
    var history: NetChanges?

    /// - Parameter memory: grants the memory for the values.
    init(_ merger: Merger, _ memory: MergeMemory, settled: Set<OccupiedValue.Value> = [], parksNothing: Bool = false) {
        self.merger = merger
        self.memory = memory
        self.settled = settled
        self.parksNothing = parksNothing
    }

    /// Whether a value can be parked in the first column of its list: not if that column identifies the object or says
    /// when it was modified.
    func canPark(_ value: OccupiedValue.Value) -> Bool {
        guard !parksNothing, !settled.contains(value), let column = value.attributes.first else { return false }
        let model = merger.plan.model
        return model.entities.indices.allSatisfy { kind in
            let entity = model.entities[kind]
            return model.topmost(of: kind) != value.entity
                || !entity.identity.contains(column) && entity.modified != column
        }
    }

    /// - Parameter rows: any rows of the step that claims the values.
    func park(_ values: [OccupiedValue], _ rows: StagedRows) throws(MergeFailure) {
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
            for occupied in values {
                count += 1
                let mark = Array("_broker_parked \(count)".utf8)
                let value = occupied.value
                let update = try statements(of: value).park
                update.bind(blob: mark, at: 1)
                value.key.bind(to: update, from: 2)
                try run(update)
                parked.append(Parked(occupied: occupied, rows: rows, mark: mark))
                columns.insert([value.entity, value.attributes[0]])
            }
        }
    }

    /// Restores the values of the objects that still lack them.
    ///
    /// - Parameter isDue: selects the values.
    /// - Throws: the fault of the job that is to fail, or ``MergeFailure/unsettled(_:)``.
    func restore(
        _ policy: InvalidRecordPolicy, _ isDue: (OccupiedValue.Value) -> Bool = { _ in true }
    ) throws(MergeFailure) {
        var unsettled: Set<OccupiedValue.Value> = []
        var remaining: [Parked] = []
        for one in parked {
            guard isDue(one.occupied.value) else {
                remaining.append(one)
                continue
            }
            do throws(StoreError) {
                try restore(one)
            } catch {
                guard error.code == .constraint else { throw .store(error) }
                guard policy == .skip else { throw .fault(fault(of: one)) }
                unsettled.insert(one.occupied.value)
            }
        }
        parked = remaining
        if !unsettled.isEmpty { throw .unsettled(unsettled.union(settled)) }
    }

    private func restore(_ one: Parked) throws(StoreError) {
        let value = one.occupied.value
        let update = try statements(of: value).unpark
        value.key.bind(to: update, from: 1)
        update.bind(blob: one.mark, at: value.attributes.count + 1)
        try run(update)
    }

    private func run(_ update: Statement) throws(StoreError) {
        guard let history else { return try update.run() }
        try history.recordParking { () throws(StoreError) in try update.run() }
    }

    private func statements(
        of value: OccupiedValue.Value
    ) throws(StoreError) -> (park: Statement, unpark: Statement) {
        let list = [value.entity] + value.attributes
        if let known = statements[list] { return known }
        let entity = merger.entities[value.entity]
        let made = (park: try entity.park(value.attributes), unpark: try entity.unpark(value.attributes))
        statements[list] = made
        return made
    }

    private func fault(of one: Parked) -> Fault {
        let model = merger.plan.model.entities[one.occupied.claimant]
        return one.rows.located(
            JobMerge.taken(one.occupied.value.attributes, model, isTold: true), at: one.occupied.claimedAt)
    }

    /// Restores the values that a predicate compares, because it must find them in their columns.
    func restore(_ policy: InvalidRecordPolicy, askedBy selection: StagedSelection) throws(MergeFailure) {
        guard !columns.isEmpty, let predicate = selection.predicate else { return }
        let model = merger.plan.model
        var asked: Set<[Int]> = []
        predicate.forEachOperand { operand in
            guard case .attribute(let attribute) = operand.column else { return }
            var entity = selection.entity
            for hop in operand.hops { entity = model.entities[entity].relationships[hop].destination }
            asked.insert([model.topmost(of: entity), attribute])
        }
        guard !asked.isDisjoint(with: columns) else { return }
        columns.subtract(asked)
        try restore(policy) { asked.contains([$0.entity, $0.attributes[0]]) }
    }
}

extension Predicate {
    fileprivate func forEachOperand(_ body: (PredicateOperand) -> Void) {
        switch self {
        case .always: return
        case .not(let predicate): predicate.forEachOperand(body)
        case .all(let predicates), .any(let predicates): for predicate in predicates { predicate.forEachOperand(body) }
        case .comparison(let comparison):
            body(comparison.operand)
            switch comparison.test {
            case .equalsOperand(let other), .isOrderedAgainst(_, let other): body(other)
            case .isNil, .equals, .isOrdered, .isOneOf, .text: return
            }
        }
    }
}
