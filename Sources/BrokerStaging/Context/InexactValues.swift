internal import BrokerModel

/// Counts, by attribute, the values that their attributes cannot represent exactly: those of accepted records, and keys.
struct InexactValues {
    private struct AttributeID: Hashable {
        let entity: Int
        let attribute: Int
    }

    private var counts: [AttributeID: Int] = [:]

    mutating func note(entity: Int, attributes: [Int]) {
        for attribute in attributes { counts[AttributeID(entity: entity, attribute: attribute), default: 0] += 1 }
    }

    /// Returns one warning for each attribute, in the order of the model.
    func warnings(_ model: Model) -> [Warning] {
        counts.sorted { ($0.key.entity, $0.key.attribute) < ($1.key.entity, $1.key.attribute) }.map { id, count in
            let entity = model.entities[id.entity]
            return Warning(.inexact, entity: entity.name, key: entity.attributes[id.attribute].name, count: count)
        }
    }
}
