internal import BrokerSchema
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
