import BrokerJSON
import BrokerModel

/// The attribute or relationship at the end of a key path.
struct PredicateTarget {
    enum Kind {
        case attribute(Int)
        case relationship(Int)
        /// The objects of the collection themselves.
        case objects
        /// The number of objects of a to-many relationship.
        case count(Int)
    }

    /// The to-many relationship of the path, with the to-one relationships before it; nil without one, and for a count.
    let collection: PredicateCollection?
    /// To-one relationships of the path, after those of the collection.
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

    /// - Parameter quantifier: of the comparison; with it the path has one to-many relationship, otherwise none.
    func target(
        _ names: [PredicateName], _ quantifier: PredicateQuantifier? = nil
    ) throws(PredicateFault) -> PredicateTarget {
        let path = try components(names)
        var collection: PredicateCollection?
        var hops: [Int] = []
        var reached = entity
        for (position, component) in path.enumerated() {
            let isLast = position == path.count - 1
            let kind = try find(component, in: reached)
            var target: PredicateTarget {
                PredicateTarget(
                    collection: collection, hops: hops, entity: reached, kind: kind, offset: component.offset)
            }
            guard case .relationship(let index) = kind else {
                guard isLast else { throw noPath(beyond: component, of: reached) }
                guard quantifier == nil || collection != nil else { throw Self.isOne(quantifier, at: path[0].offset) }
                return target
            }
            let relationship = model.entities[reached].relationships[index]
            if relationship.isToMany {
                let isCounted = position == path.count - 2 && path[position + 1].name == PredicateName.count
                if isCounted, quantifier == nil {
                    return PredicateTarget(
                        collection: nil, hops: hops, entity: reached, kind: .count(index), offset: component.offset)
                }
                guard quantifier != nil, collection == nil, !isCounted else {
                    throw isToMany(component, of: reached, isSecond: collection != nil, quantifier)
                }
                collection = PredicateCollection(hops: hops, index)
                hops = []
                reached = relationship.destination
                guard !isLast else {
                    return PredicateTarget(
                        collection: collection, hops: [], entity: reached, kind: .objects, offset: component.offset)
                }
                continue
            }
            guard !isLast else {
                guard quantifier == nil || collection != nil else { throw Self.isOne(quantifier, at: path[0].offset) }
                return target
            }
            guard hops.count + (collection?.hops.count ?? 0) < Self.mostHops else {
                throw PredicateFault(
                    "a key path goes through at most \(Self.mostHops) relationships", at: component.offset)
            }
            hops.append(index)
            reached = relationship.destination
        }
        preconditionFailure("a key path has at least one name")
    }

    private func noPath(beyond component: (name: String, offset: Int), of entity: Int) -> PredicateFault {
        PredicateFault(
            "\(component.name.quotedBriefly) is an attribute of \(model.entities[entity].name), and nothing lies below it",
            at: component.offset)
    }

    private static func isOne(_ quantifier: PredicateQuantifier?, at offset: Int) -> PredicateFault {
        PredicateFault(
            "\(quantifier?.kind.rawValue ?? "") is for a key path through a to-many relationship, and this leads to one "
                + "value; omit it", at: offset)
    }

    private func isToMany(
        _ component: (name: String, offset: Int), of entity: Int, isSecond: Bool, _ quantifier: PredicateQuantifier?
    ) -> PredicateFault {
        let name = component.name
        let lead = "\(name.quotedBriefly) of \(model.entities[entity].name) is a to-many relationship"
        if isSecond {
            return PredicateFault("\(lead), and a key path has one of them at most", at: component.offset)
        }
        if let quantifier {
            return PredicateFault(
                "\(lead), and its @count is one value; omit \(quantifier.kind.rawValue)", at: quantifier.offset)
        }
        return PredicateFault(
            "\(lead): write ANY, ALL or NONE before the comparison, or compare \(name.briefly).@count",
            at: component.offset)
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
            guard component.name != PredicateName.count else {
                throw PredicateFault(
                    "@count follows a to-many relationship and ends the key path, as in employees.@count > 3",
                    at: component.offset)
            }
            let names = entity.attributes.map(\.name) + entity.relationships.map(\.name)
            let isShort = component.name.utf8.count <= Self.longestMisspelling
            throw PredicateFault(
                "\(entity.name) has no attribute or relationship \(component.name.quotedBriefly)"
                    + (isShort ? NearMiss.question(component.name, among: names) : ""), at: component.offset)
        }
        return .relationship(relationship)
    }
}
