internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The objects of a job's own records, for its reply (`reply: objects`).
///
/// ```
/// step ─applied─▶ its objects' keys are retained ─…last step─▶ the key that each has now ─▶ its row, written as `fetch` does
/// ```
///
/// The objects are read inside the job's savepoint, so no later job is visible.
struct PayloadObjects {
    private let merger: Merger
    private let form: ObjectForm
    /// By step and operation, the objects with their keys after the step; nil for a record without one.
    private var steps: [[[AppliedStep.Named?]]] = []
    private var renamings = Renamings()

    init(_ merger: Merger, _ form: ObjectForm) {
        self.merger = merger
        self.form = form
    }

    /// Adds the next step, whose rows have been merged.
    mutating func note(_ merged: SetMerge) throws(StoreError) {
        var operations: [[AppliedStep.Named?]] = []
        for operation in merged.rows.payload?.operations ?? [] {
            var objects: [AppliedStep.Named?] = []
            for object in operation.objects {
                guard let (table, row) = object else {
                    objects.append(nil)
                    continue
                }
                objects.append(
                    AppliedStep.Named(table: table, key: try merged.key(of: row, merged.rows.tables[table]!)))
            }
            operations.append(objects)
        }
        steps.append(operations)
    }

    /// Adds the next step, which the interpreter has applied.
    mutating func note(_ applied: AppliedStep) {
        for one in applied.renamings { renamings.add(one.entity, from: one.old, to: one.new, step: steps.count) }
        steps.append(applied.payload)
    }

    /// Adds the next step, which has no records of its own.
    mutating func noteDeletion() { steps.append([[]]) }

    /// The reply: an array with an array of objects for each operation; only their number when they exceed the limit of bytes.
    func reply(within limit: Int) throws(StoreError) -> ReplyObjects {
        let settled = renamings.settled()
        var writer = JSONWriter()
        try writer.array { writer throws(StoreError) in
            for (number, step) in steps.enumerated() {
                for operation in step where writer.count <= limit {
                    try writer.array { writer throws(StoreError) in
                        for object in operation where writer.count <= limit {
                            guard let object, let key = settled.key(object.key, object.table, after: number) else {
                                writer.null()
                                continue
                            }
                            let read = try merger.entities[object.table].object(form)
                            key.bind(to: read.statement, from: 1)
                            try read.write(to: &writer)
                        }
                    }
                }
            }
        }
        let count = steps.joined().reduce(0) { $0 + $1.count }
        return ReplyObjects(count: count, json: writer.count > limit ? nil : writer.bytes)
    }
}

/// The objects of a job whose identities changed, in the order of the steps.
private struct Renamings {
    private var all: [(step: Int, old: ObjectName, new: ObjectName)] = []

    /// Steps must be added in order.
    mutating func add(_ entity: Int, from old: StoredKey, to new: StoredKey, step: Int) {
        guard old != new else { return }
        all.append((step, ObjectName(entity: entity, key: old), ObjectName(entity: entity, key: new)))
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
        /// By key: the steps at which its object lost it, the last one first, and the final key of that object, if it has one.
        fileprivate var changes: [ObjectName: [(step: Int, key: StoredKey?)]] = [:]

        /// The final key of the object that had this key after a step; nil when the object no longer exists.
        func key(_ key: StoredKey, _ entity: Int, after step: Int) -> StoredKey? {
            guard !changes.isEmpty, let changes = changes[ObjectName(entity: entity, key: key)] else { return key }
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
