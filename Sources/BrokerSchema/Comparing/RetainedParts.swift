package import BrokerModel

/// The parts of a store that are not in force: retained from earlier models, unused.
package struct RetainedParts {
    private let stored: Model
    private let inForce: Model

    package init(in stored: Model, besides inForce: Model) {
        self.stored = stored
        self.inForce = inForce
    }

    package func has(entity: Int) -> Bool { inForce.index(ofEntity: stored.entities[entity].name) == nil }

    package func has(_ kind: PartKind, _ index: Int, of entity: Int) -> Bool {
        let entity = stored.entities[entity]
        guard let found = inForce.index(ofEntity: entity.name) else { return false }
        return inForce.entities[found].index(of: kind, named: entity.name(of: kind, index)) == nil
    }
}
