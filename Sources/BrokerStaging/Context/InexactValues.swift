internal import BrokerModel

/// Counts, by attribute, the values that their attributes cannot represent exactly.
struct InexactValues {
    private struct Place: Hashable {
        let entity: Int
        let attribute: Int
    }

    private var counts: [Place: Int] = [:]

    mutating func note(entity: Int, attribute: Int) {
        counts[Place(entity: entity, attribute: attribute), default: 0] += 1
    }

    /// Returns one warning for each attribute, in the order of the model.
    func warnings(_ model: Model) -> [Warning] {
        counts.sorted { ($0.key.entity, $0.key.attribute) < ($1.key.entity, $1.key.attribute) }.map { place, count in
            let entity = model.entities[place.entity]
            return Warning(.inexact, entity: entity.name, key: entity.attributes[place.attribute].name, count: count)
        }
    }
}
