internal import BrokerModel

/// Writes what an entity of a model lacks for the samples.
extension DesignWriter {
    mutating func extend(_ source: ModelDesign.Entity) {
        guard let index = source.known, let model = design.model else { return }
        let entity = model.model.entities[index]
        identityNames.append(entity.identity.map { entity.attributes[$0].name })
        var removed: Set<String> = []
        for leaf in source.leaves {
            guard case .attribute(let index)? = model.part(at: leaf.path, of: index),
                leaf.property.count > leaf.property.nulls, model.isPlaceholder(index, of: source.known!)
            else { continue }
            removed.insert(entity.attributes[index].name)
            changes.add(.removal(attribute: entity.attributes[index].name), to: entity.name)
        }
        var names = PropertyNames(
            reserved: entity.attributeNames.filter { !removed.contains($0) } + entity.relationshipNames)
        var identity: [String] = []
        for (position, leaf) in source.leaves.enumerated() {
            switch model.part(at: leaf.path, of: index) {
            case .attribute(let attribute)? where !removed.contains(entity.attributes[attribute].name):
                let attribute = entity.attributes[attribute]
                if source.identity?.paths.contains(leaf.path) ?? false { identity.append(attribute.name) }
                let isJSON = if case .json = leaf.form { true } else { false }
                let guess = leaf.property.scalars.type(key: leaf.path.last!, readsTexts: readsTexts)
                if let widening = TypeWidening(of: attribute, by: guess, isJSON: isJSON) {
                    widen(attribute.name, of: index, by: widening, in: model.model)
                }
            case .relationship(let relationship)?:
                let relationship = entity.relationships[relationship]
                if case .toMany = leaf.form, !relationship.isToMany {
                    changes.add(.list(relationship: relationship.name), to: entity.name)
                }
            default:
                let name = names.name(for: leaf.path)
                if let destination = source.destinations[position] {
                    let property = relationship(name, leaf, source, design.entities[destination])
                    changes.add(.relationship(property), to: entity.name)
                } else {
                    let property = attribute(name, leaf, source, isIdentity: false)
                    changes.add(.attribute(property), to: entity.name)
                }
            }
        }
        let ignored = source.ignored.filter { !entity.ignoredPaths.contains($0) }
        if !ignored.isEmpty {
            let all = (entity.ignoredPaths + ignored).map { $0.joined(separator: ".") }
            changes.add(.ignored(all), to: entity.name)
        }
        if entity.identity.isEmpty, !identity.isEmpty { changes.add(.identity(identity), to: entity.name) }
    }

    /// Gives an attribute a wider type, and with it the copies of an identity in owned objects.
    private mutating func widen(_ attribute: String, of entity: Int, by widening: TypeWidening, in model: Model) {
        changes.add(.type(attribute: attribute, widening), to: model.entities[entity].name)
        for (owned, owner) in model.holders.owners where owner.entity == entity {
            for copy in model.entities[owned].attributes where copy.keyPaths.contains(["@parent", attribute]) {
                widen(copy.name, of: owned, by: widening, in: model)
            }
        }
    }
}
