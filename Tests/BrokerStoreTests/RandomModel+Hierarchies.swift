import TestSupport

/// Entities that inherit from others.
extension RandomModel {
    /// The entity with all that it inherits.
    func entity(_ name: String) -> Entity {
        var entity = declared(name)
        guard let parent = entity.parent.map({ self.entity($0) }) else { return entity }
        entity.isBelowKeyless = parent.identity.isEmpty || parent.isBelowKeyless
        entity.isIdentityOptional = parent.isIdentityOptional
        entity.hasModified = parent.hasModified
        entity.hasTombstone = parent.hasTombstone
        if !parent.identity.isEmpty { entity.identity = parent.identity }
        entity.attributes = parent.attributes + entity.attributes
        entity.relationships = parent.relationships + entity.relationships
        return entity
    }

    private func declared(_ name: String) -> Entity { entities.first { $0.name == name }! }

    /// From its parent on up.
    func ancestors(_ name: String) -> [String] {
        declared(name).parent.map { [$0] + ancestors($0) } ?? []
    }

    func topmost(_ name: String) -> String { ancestors(name).last ?? name }

    func isInHierarchy(_ name: String) -> Bool {
        declared(name).parent != nil || entities.contains { $0.parent == name }
    }

    /// It is that entity, or inherits from it.
    func isKind(_ name: String, of other: String) -> Bool { name == other || ancestors(name).contains(other) }

    /// The entity among whose objects the identity is unique.
    func identityOwner(_ name: String) -> String {
        ([name] + ancestors(name)).last { !declared($0).identity.isEmpty } ?? name
    }

    /// The column of an attribute in the hierarchy's table: siblings share one if they agree on its type.
    func column(_ attribute: String, of name: String) -> String {
        let owner = ([name] + ancestors(name)).first { declared($0).attributes.contains { $0.name == attribute } }!
        let types = entities.filter { topmost($0.name) == topmost(name) }
            .flatMap { $0.attributes.filter { $0.name == attribute } }.map(\.type)
        return Set(types).count == 1 ? attribute : "\(owner)_\(attribute)"
    }

    /// Lists of columns of the hierarchy's table that are unique.
    func uniqueColumns(below topmost: String) -> Set<[String]> {
        var lists: Set<[String]> = []
        for entity in entities where self.topmost(entity.name) == topmost {
            for list in entity.unique + entity.attributes.filter(\.isUnique).map({ [$0.name] }) {
                lists.insert(list.map { column($0, of: entity.name) })
            }
        }
        return lists
    }

    // MARK: - At random

    mutating func addSubentities(_ generator: inout SeededGenerator) {
        for name in ["E", "F", "G"].prefix(Int.random(in: 1...3, using: &generator)) {
            let parent = entities.randomElement(using: &generator)!.name
            var entity = Entity(name: name, parent: parent)
            if self.entity(parent).identity.isEmpty, generator.chance(2) {
                let types = [SampleType.integer64, .string, .integer16]
                entity.attributes = [Attribute(name: "id", type: types.randomElement(using: &generator)!)]
                entity.identity = ["id"]
            }
            let names =
                ancestors(parent).isEmpty ? ["t", "u"] : ancestors(parent).count == 1 ? ["v", "w"] : ["x", "y"]
            for name in names.prefix(Int.random(in: 0...2, using: &generator)) {
                entity.attributes.append(Self.attribute(name, &generator))
            }
            entity.isAbstract = generator.chance(8)
            entities.append(entity)
        }
        for index in entities.indices where entities.contains(where: { $0.parent == entities[index].name }) {
            if generator.chance(3) { entities[index].isAbstract = true }
        }
    }
}
