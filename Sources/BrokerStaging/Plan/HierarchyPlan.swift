internal import BrokerModel

/// The relations of one entity to the other entities of its hierarchy, which share one table.
final class HierarchyPlan: Sendable {
    private let ancestors: Set<Int>
    private let descendants: Set<Int>
    /// The topmost of the entities that share the entity's identity.
    let identityHead: Int
    /// The identities of the hierarchy: the topmost entity's alone, or those that entities below it declare.
    let identities: [[Int]]
    /// By entity index, the index of its identity in `identities`.
    private let identityNumbers: [Int: Int]

    init(_ entity: Int, of model: Model) {
        ancestors = Set(model.ancestors(of: entity))
        let line = [entity] + model.ancestors(of: entity)
        identityHead = line.last { !model.entities[$0].identity.isEmpty } ?? entity
        descendants = Set(model.subentities(of: entity)).subtracting([entity])
        var identities: [[Int]] = []
        var numbers: [Int: Int] = [:]
        /// By the entity that declares an identity, the index of that identity.
        var byHead: [Int: Int] = [:]
        for member in model.subentities(of: model.topmost(of: entity)) {
            let path = [member] + model.ancestors(of: member)
            guard let head = path.last(where: { !model.entities[$0].identity.isEmpty }) else { continue }
            let number = byHead[head] ?? identities.count
            if number == identities.count { identities.append(model.entities[head].identity) }
            byHead[head] = number
            numbers[member] = number
        }
        self.identities = identities
        identityNumbers = numbers
    }

    func inherits(from other: Int) -> Bool { ancestors.contains(other) }

    func isInherited(by other: Int) -> Bool { descendants.contains(other) }

    func identityNumber(of entity: Int) -> Int? { identityNumbers[entity] }
}
