/// The objects of a job that got other identities, one step after the other.
struct Renamings {
    fileprivate struct Name: Hashable {
        let entity: Int
        let key: StoredKey
    }

    private var all: [(step: Int, old: Name, new: Name)] = []

    var isEmpty: Bool { all.isEmpty }

    /// - Parameter step: its rows bear the new key. Steps come in order.
    mutating func add(_ entity: Int, from old: StoredKey, to new: StoredKey, step: Int) {
        guard old != new else { return }
        all.append((step, Name(entity: entity, key: old), Name(entity: entity, key: new)))
    }

    /// What became of the keys in the end.
    func settled() -> Settled {
        var settled = Settled()
        // Backwards, so that what becomes of a new key is known when it is given.
        for (step, old, new) in all.reversed() {
            let last: StoredKey? = if let later = settled.changes[new]?.last { later.key } else { new.key }
            // Only a free key can be given: who had it was deleted.
            settled.changes[new, default: []].append((step, nil))
            settled.changes[old, default: []].append((step, last))
        }
        return settled
    }

    struct Settled {
        /// By a key: at which steps it was taken from its object, the last one first, and which key that has in the end; nil
        /// when it has none.
        fileprivate var changes: [Name: [(step: Int, key: StoredKey?)]] = [:]

        /// The last key of the object that had this one after a step; nil when it is gone.
        func key(_ key: StoredKey, _ entity: Int, after step: Int) -> StoredKey? {
            guard let changes = changes[Name(entity: entity, key: key)] else { return key }
            // The first of the later ones stands last among them.
            var later = 0..<changes.count
            while !later.isEmpty {
                let middle = later.lowerBound + later.count / 2
                later = changes[middle].step > step ? middle + 1..<later.upperBound : later.lowerBound..<middle
            }
            return later.lowerBound == 0 ? key : changes[later.lowerBound - 1].key
        }
    }
}
