internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The objects of a job's own records, for its reply (`reply: objects`).
///
/// ```
/// step ─merged─▶ its rows are retained ─…last step─▶ the key that each object has now ─▶ its row, written as `fetch` does
/// ```
///
/// The objects are read inside the job's savepoint, so no later job is visible. The retained rows exist anyway; a job
/// that does not ask for its objects has none of this cost.
struct PayloadObjects {
    private enum Step {
        case merged(StagedRows, MergedRows)
        /// By operation, the objects with their keys after the step.
        case interpreted([[AppliedStep.Named?]])
        /// Without records of its own.
        case deletion

        /// The number of records of each operation.
        var counts: [Int] {
            switch self {
            case .merged(let rows, _): rows.payload?.operations.map(\.count) ?? []
            case .interpreted(let operations): operations.map(\.count)
            case .deletion: [0]
            }
        }
    }

    private let merger: Merger
    private let dates: FetchDates
    private var steps: [Step] = []
    private var renamings = Renamings()

    init(_ merger: Merger, dates: FetchDates) {
        self.merger = merger
        self.dates = dates
    }

    // MARK: - Step by step

    /// Adds the next step, whose rows have been merged.
    mutating func note(_ rows: StagedRows, _ merged: MergedRows) throws(MergeFailure) {
        steps.append(.merged(rows, merged))
    }

    /// Adds the next step, which the interpreter has applied.
    mutating func note(_ applied: [[AppliedStep.Named?]], _ renamed: [AppliedStep.Renaming]) throws(MergeFailure) {
        for one in renamed { renamings.add(one.entity, from: one.old, to: one.new, step: steps.count) }
        steps.append(.interpreted(applied))
    }

    /// Adds the next step, which has no records of its own.
    mutating func noteDeletion() { steps.append(.deletion) }

    // MARK: - Reply

    /// The reply: an array with an array of objects for each operation.
    ///
    /// - Parameter limit: the maximum number of bytes; if the objects need more, only their number is reported.
    func reply(within limit: Int) throws(StoreError) -> ReplyObjects {
        let count = steps.reduce(0) { $0 + $1.counts.reduce(0, +) }
        let settled = renamings.settled()
        var writer = JSONWriter()
        try writer.array { writer throws(StoreError) in
            for (number, step) in steps.enumerated() {
                for operation in step.counts.indices where writer.count <= limit {
                    try writer.array { writer throws(StoreError) in
                        try write(step, operation, &writer, limit) { settled.key($0, $1, after: number) }
                    }
                }
            }
        }
        return ReplyObjects(count: count, json: writer.count > limit ? nil : writer.bytes)
    }

    /// - Parameter lastKey: returns the key that an object has at the end, by its key after the step.
    private func write(
        _ step: Step, _ operation: Int, _ writer: inout JSONWriter, _ limit: Int,
        _ lastKey: (StoredKey, Int) -> StoredKey?
    ) throws(StoreError) {
        switch step {
        case .deletion: return
        case .interpreted(let operations):
            for object in operations[operation] where writer.count <= limit {
                guard let object, let key = lastKey(object.key, object.table) else {
                    writer.null()
                    continue
                }
                let read = try merger.entities[object.table].object(dates)
                key.bind(to: read.statement, from: 1)
                try read.write(to: &writer)
            }
        case .merged(let rows, let merged):
            for object in rows.payload!.operations[operation].objects {
                guard writer.count <= limit else { return }
                guard let object, try bind(object, rows, merged, lastKey) else {
                    writer.null()
                    continue
                }
                try merger.entities[object.table].object(dates).write(to: &writer)
            }
        }
    }

    /// Binds the key that an object has at the end to the statement that reads it; false when it has none.
    private func bind(
        _ object: (table: Int, row: Int), _ rows: StagedRows, _ result: MergedRows,
        _ lastKey: (StoredKey, Int) -> StoredKey?
    ) throws(StoreError) -> Bool {
        let (entity, row) = object
        let statements = merger.entities[entity]
        let table = rows.tables[entity]!
        let read = try statements.object(dates).statement
        if statements.hasRowKey {
            read.bind(result.rowKeys[entity][row], at: 1)
        } else if renamings.isEmpty {
            statements.bindIdentity(table.row(row), to: read, from: 1)
        } else if let key = lastKey(try merger.key(of: row, table, result), entity) {
            key.bind(to: read, from: 1)
        } else {
            return false
        }
        return true
    }
}

/// The objects of a job whose identities changed, in the order of the steps.
struct Renamings {
    fileprivate struct Name: Hashable {
        let entity: Int
        let key: StoredKey
    }

    private var all: [(step: Int, old: Name, new: Name)] = []

    var isEmpty: Bool { all.isEmpty }

    /// - Parameter step: the step whose rows have the new key. Steps must be added in order.
    mutating func add(_ entity: Int, from old: StoredKey, to new: StoredKey, step: Int) {
        guard old != new else { return }
        all.append((step, Name(entity: entity, key: old), Name(entity: entity, key: new)))
    }

    /// The final key for each key that changed.
    func settled() -> Settled {
        var settled = Settled()
        // In reverse order, so that the final key of a new key is known.
        for (step, old, new) in all.reversed() {
            let last: StoredKey? = if let later = settled.changes[new]?.last { later.key } else { new.key }
            // Only a free key can be assigned: the object that had it was deleted.
            settled.changes[new, default: []].append((step, nil))
            settled.changes[old, default: []].append((step, last))
        }
        return settled
    }

    struct Settled {
        /// By key: the steps at which its object lost it, the last one first, and the final key of that object; nil
        /// when it has none.
        fileprivate var changes: [Name: [(step: Int, key: StoredKey?)]] = [:]

        /// The final key of the object that had this key after a step; nil when the object no longer exists.
        func key(_ key: StoredKey, _ entity: Int, after step: Int) -> StoredKey? {
            guard let changes = changes[Name(entity: entity, key: key)] else { return key }
            // The first of the later steps is the last one among them.
            var later = 0..<changes.count
            while !later.isEmpty {
                let middle = later.lowerBound + later.count / 2
                later = changes[middle].step > step ? middle + 1..<later.upperBound : later.lowerBound..<middle
            }
            return later.lowerBound == 0 ? key : changes[later.lowerBound - 1].key
        }
    }
}
