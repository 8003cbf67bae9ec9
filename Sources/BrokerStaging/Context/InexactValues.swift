internal import BrokerModel

/// Counts the values that their attributes do not hold exactly, by attribute.
struct InexactValues {
    private struct Place: Hashable {
        let entity: Int
        let attribute: Int
    }

    private var counts: [Place: Int] = [:]

    mutating func note(entity: Int, attribute: Int) {
        counts[Place(entity: entity, attribute: attribute), default: 0] += 1
    }

    /// One warning for each attribute, in the order of the model.
    func warnings(_ model: Model) -> [Warning] {
        counts.sorted { ($0.key.entity, $0.key.attribute) < ($1.key.entity, $1.key.attribute) }.map { place, count in
            let entity = model.entities[place.entity]
            return Warning(.inexact, entity: entity.name, key: entity.attributes[place.attribute].name, count: count)
        }
    }
}
