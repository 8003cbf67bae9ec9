import TestSupport

/// Parents of a ``ChangingModel``'s entities, and changes of them that lose nothing.
extension ChangingModel {
    /// The entity and those that it inherits from, itself first.
    func line(of number: Int) -> [Entity] {
        var line = [entity(number)!]
        while let parent = line.last!.parent { line.append(entity(parent)!) }
        return line
    }

    /// Its own and those that it inherits from, as objects have them.
    func attributes(of number: Int) -> [Attribute] { line(of: number).flatMap(\.attributes) }
    func relationships(of number: Int) -> [Relationship] { line(of: number).flatMap(\.relationships) }
    func identity(of number: Int) -> [Int] { line(of: number).map(\.identity).first { !$0.isEmpty } ?? [] }
    /// The entities that share its table, and so one space of identities.
    func topmost(of number: Int) -> Int { line(of: number).last!.number }
    func isKind(_ number: Int, of other: Int) -> Bool { line(of: number).contains { $0.number == other } }

    func isShared(_ attribute: Attribute) -> Bool {
        entities.flatMap(\.attributes).contains {
            $0.number != attribute.number && $0.name.lowercased() == attribute.name.lowercased()
        }
    }

    /// An attribute that shares its name is about to lose it.
    mutating func noteShared(_ attribute: Attribute) {
        guard isShared(attribute) else { return }
        for entity in entities.indices {
            for index in entities[entity].attributes.indices
            where entities[entity].attributes[index].name.lowercased() == attribute.name.lowercased() {
                entities[entity].attributes[index].hasShared = true
            }
        }
    }

    /// A new entity's attribute may bear the name of one of a relative that it does not inherit: they share a column, or
    /// have columns with their entities' names.
    func shareName(
        of attributes: inout [Attribute], _ identity: [Int], _ parent: Int?, using generator: inout SeededGenerator
    ) {
        guard let parent, let index = attributes.firstIndex(where: { !identity.contains($0.number) && !$0.isUnique })
        else { return }
        let top = topmost(of: parent)
        let above = Set(line(of: parent).map(\.number))
        let taken = Set(self.attributes(of: parent).map { $0.name.lowercased() })
        let others = entities.filter { topmost(of: $0.number) == top && !above.contains($0.number) }
        let names = others.flatMap { other in
            other.attributes.filter { attribute in
                !attribute.isUnique && !taken.contains(attribute.name.lowercased())
                    && !other.identity.contains(attribute.number)
                    && !other.unique.contains { $0.contains(attribute.number) }
            }
        }
        guard !attributes[index].isUnique, let name = names.randomElement(using: &generator)?.name else { return }
        attributes[index].name = name
    }

    /// An abstract entity, or one with an attribute, comes between an entity and its parent, or above a topmost one, whose
    /// identity it takes.
    mutating func addEntity(above index: Int, using generator: inout SeededGenerator) {
        let (number, name) = newEntity(using: &generator)
        var new = Entity(number: number, name: name, identity: [], attributes: [])
        new.isAbstract = generator.chance(2)
        new.parent = entities[index].parent
        if new.parent == nil {
            new.identity = entities[index].identity
            new.attributes = entities[index].attributes.filter { new.identity.contains($0.number) }
            entities[index].attributes.removeAll { new.identity.contains($0.number) }
            entities[index].identity = []
        }
        entities[index].parent = number
        entities.insert(new, at: Int.random(in: 0...entities.count, using: &generator))
    }

    /// Rows of the parent and its other subentities take the default.
    mutating func moveUp(_ attribute: Int, of index: Int) {
        let found = entities[index].attributes[attribute]
        let isListed = (entities[index].unique + entities[index].indexes).contains { $0.contains(found.number) }
        guard let parent = entities[index].parent, !entities[index].identity.contains(found.number), !isListed,
            !isShared(found), !found.hasShared, !found.isRequired || found.defaultValue != nil,
            !found.isUnique || found.defaultValue == nil
        else { return }
        entities[index].attributes.remove(at: attribute)
        entities[entities.firstIndex { $0.number == parent }!].attributes.append(found)
    }
}
