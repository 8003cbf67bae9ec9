import BrokerJSON
import BrokerModel

/// The attribute or relationship at the end of a key path.
struct PredicateTarget {
    enum Kind {
        case attribute(Int)
        case relationship(Int)
    }

    /// To-one relationships of the path.
    let hops: [Int]
    /// The entity that has the attribute or relationship.
    let entity: Int
    let kind: Kind
    /// Offset of the last name.
    let offset: Int
}

extension PredicateChecker {
    /// Limit on the relationships of a key path; each is a join.
    static let mostHops = 8
    /// Limit in bytes on a misspelt name for which the nearest known name is sought.
    private static let longestMisspelling = 128

    func target(_ names: [PredicateName]) throws(PredicateFault) -> PredicateTarget {
        let path = try components(names)
        var hops: [Int] = []
        var reached = entity
        for (position, component) in path.enumerated() {
            let found = try find(component, in: reached)
            guard position < path.count - 1 else {
                return PredicateTarget(hops: hops, entity: reached, kind: found, offset: component.offset)
            }
            guard case .relationship(let index) = found else {
                throw PredicateFault(
                    "\(component.name.quotedBriefly) is an attribute of \(model.entities[reached].name), and nothing "
                        + "lies below it", at: component.offset)
            }
            guard hops.count < Self.mostHops else {
                throw PredicateFault(
                    "a key path goes through at most \(Self.mostHops) relationships", at: component.offset)
            }
            hops.append(index)
            reached = model.entities[reached].relationships[index].destination
        }
        preconditionFailure("a key path has at least one name")
    }

    /// Returns the names of the path, with those of %K.
    private func components(
        _ names: [PredicateName]
    ) throws(PredicateFault) -> [(name: String, offset: Int)] {
        var components: [(name: String, offset: Int)] = []
        for name in names {
            switch name.kind {
            case .written(let text): components.append((text, name.offset))
            case .argument(let index):
                guard let text = arguments[index].string else {
                    throw PredicateFault(
                        "%K takes a name, and its argument is \(arguments[index].kind.phrase)", at: name.offset)
                }
                guard text.utf8.count <= PredicateParser.longest else {
                    throw PredicateFault("the argument of this %K is too long for a name", at: name.offset)
                }
                // A name may contain points.
                let isName = names.count == 1 && isKnown(text)
                let parts = isName ? [text[...]] : text.split(separator: ".", omittingEmptySubsequences: false)
                components += parts.map { (String($0), name.offset) }
            }
        }
        return components
    }

    private func isKnown(_ name: String) -> Bool {
        let entity = model.entities[entity]
        return entity.index(ofAttribute: name) != nil || entity.index(ofRelationship: name) != nil
    }

    private func find(
        _ component: (name: String, offset: Int), in index: Int
    ) throws(PredicateFault) -> PredicateTarget.Kind {
        let entity = model.entities[index]
        if let attribute = entity.index(ofAttribute: component.name) { return .attribute(attribute) }
        guard let relationship = entity.index(ofRelationship: component.name) else {
            let names = entity.attributes.map(\.name) + entity.relationships.map(\.name)
            let isShort = component.name.utf8.count <= Self.longestMisspelling
            throw PredicateFault(
                "\(entity.name) has no attribute or relationship \(component.name.quotedBriefly)"
                    + (isShort ? NearMiss.question(component.name, among: names) : ""), at: component.offset)
        }
        guard !entity.relationships[relationship].isToMany else {
            throw PredicateFault(
                "\(component.name.quotedBriefly) of \(entity.name) is a to-many relationship, and ANY, ALL and counts "
                    + "are not supported; a key path goes through to-one relationships", at: component.offset)
        }
        return .relationship(relationship)
    }
}
