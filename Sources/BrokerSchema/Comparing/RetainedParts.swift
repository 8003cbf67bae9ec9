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

    package func has(attribute: Int, of entity: Int) -> Bool {
        guard let found = inForceEntity(entity) else { return false }
        return found.index(ofAttribute: stored.entities[entity].attributes[attribute].name) == nil
    }

    package func has(relationship: Int, of entity: Int) -> Bool {
        guard let found = inForceEntity(entity) else { return false }
        return found.index(ofRelationship: stored.entities[entity].relationships[relationship].name) == nil
    }

    private func inForceEntity(_ entity: Int) -> Entity? {
        inForce.index(ofEntity: stored.entities[entity].name).map { inForce.entities[$0] }
    }
}
