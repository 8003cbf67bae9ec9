internal import BrokerModel

/// A value that is not stored as it was sent.
struct ValueNote: Hashable {
    /// Index of the attribute; for an `ignoredKey`, of the relationship.
    let property: Int
    /// `inexact`, `ignoredValue` or `ignoredKey`.
    let code: Warning.Code
}

/// Counts such values of accepted records, and such keys, by entity, property and code.
struct ValueWarnings {
    private struct Subject: Hashable {
        let entity: Int
        let note: ValueNote
    }

    private var counts: [Subject: Int] = [:]

    mutating func note(entity: Int, _ notes: [ValueNote]) {
        for note in notes { counts[Subject(entity: entity, note: note), default: 0] += 1 }
    }

    /// Returns one warning for each property and code, in the order of the model.
    func warnings(_ model: Model) -> [Warning] {
        let sorted = counts.sorted { left, right in
            (left.key.entity, left.key.note.property, left.key.note.code.rawValue)
                < (right.key.entity, right.key.note.property, right.key.note.code.rawValue)
        }
        return sorted.map { subject, count in
            let (entity, note) = (model.entities[subject.entity], subject.note)
            let name =
                note.code == .ignoredKey
                ? entity.relationships[note.property].name : entity.attributes[note.property].name
            return Warning(note.code, entity: entity.name, key: name, count: count)
        }
    }
}
