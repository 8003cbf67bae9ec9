internal import BrokerModel
internal import BrokerStaging

/// What the interpreter made of a step, as the rest of the job needs it.
struct AppliedStep {
    /// An object with its key after the step.
    struct Named {
        let table: Int
        let key: StoredKey
    }

    struct Renaming {
        let entity: Int
        let old: StoredKey
        let new: StoredKey
    }

    /// By operation, the objects of its own records.
    let payload: [[Named?]]
    let renamings: [Renaming]
    /// No record was rejected.
    let isComplete: Bool
    /// The row numbers of the sync's objects that the records name, their keys, and the identities of those that do not
    /// exist.
    let named: Set<Int64>
    let namedKeys: [StoredKey]
    let absent: [[OwnedCell]]

    init(_ interpreter: Interpreter, _ objects: StoredObjects) throws(StoreError) {
        var payload: [[Named?]] = []
        for operation in interpreter.payload {
            var named: [Named?] = []
            for object in operation {
                guard let object else {
                    named.append(nil)
                    continue
                }
                named.append(Named(table: object.table, key: try objects.key(of: object)))
            }
            payload.append(named)
        }
        self.payload = payload
        renamings = objects.renamings
        isComplete = interpreter.rejected.isEmpty && interpreter.unlistedRejections.isEmpty
        named = interpreter.named
        absent = interpreter.absent
        var keys: [StoredKey] = []
        for object in interpreter.namedObjects { keys.append(try objects.key(of: object)) }
        namedKeys = keys
    }
}
