internal import BrokerModel
internal import BrokerStaging

/// The effect of a step that the interpreter applied, as the rest of the job needs it.
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
}
