import BrokerJSON
import BrokerModel

// MARK: - With a constant

extension PredicateChecker {
    mutating func compare(
        _ target: PredicateTarget, _ relation: PredicateRelation, _ term: PredicateTerm
    ) throws(PredicateFault) -> Predicate {
        switch target.kind {
        case .attribute, .count: return try compare(try side(target), relation, term)
        case .relationship(let index): return try compare(target, key(ofRelationship: index, target), relation, term)
        case .objects: return try compare(target, key(ofObjects: target), relation, term)
        }
    }

    /// Compares an attribute, or a relationship's key of one part, with the other side.
    private mutating func compare(
        _ side: PredicateSide, _ relation: PredicateRelation, _ term: PredicateTerm
    ) throws(PredicateFault) -> Predicate {
        try side.check(relation)
        switch relation.kind {
        case .isIn: return try side.isOneOf(try listValues(term, of: relation), relation)
        case .between:
            let bounds = try listValues(term, of: relation)
            guard bounds.count == 2 else {
                throw PredicateFault("BETWEEN wants two values, {least, greatest}", at: term.offset)
            }
            return .conjunction([
                try side.isOrdered(.atLeast, bounds[0], relation), try side.isOrdered(.atMost, bounds[1], relation),
            ])
        default: break
        }
        let constant = try value(of: term)
        if let order = relation.kind.order { return try side.isOrdered(order, constant, relation) }
        switch relation.kind {
        case .equal: return try side.equals(constant, relation)
        case .notEqual: return .negation(of: try side.equals(constant, relation))
        case .matches:
            try addExpression(at: term.offset)
            let predicate = try side.follows(constant, relation)
            try addInstructions(predicate.instructions, at: term.offset)
            return predicate
        default: return try side.follows(constant, relation)
        }
    }

    /// Returns a constant with its offset in the predicate.
    private func value(of term: PredicateTerm) throws(PredicateFault) -> PredicateConstant {
        switch term.kind {
        case .literal(let index): return PredicateConstant(value: literals[index], offset: term.offset)
        case .argument(let index): return PredicateConstant(value: arguments[index], offset: term.offset)
        case .list: throw PredicateFault("this is a list, and one value was expected", at: term.offset)
        case .path: preconditionFailure("a name is no constant")
        }
    }

    private mutating func listValues(
        _ term: PredicateTerm, of relation: PredicateRelation
    ) throws(PredicateFault) -> [PredicateConstant] {
        var values: [PredicateConstant] = []
        switch term.kind {
        case .list(let elements):
            for element in elements { values.append(try value(of: element)) }
        case .argument(let index) where arguments[index].kind == .array:
            for element in arguments[index].elements {
                values.append(PredicateConstant(value: element, offset: term.offset))
                guard values.count <= Self.mostListed else { break }
            }
        default:
            throw PredicateFault(
                "\(relation.kind.rawValue) wants a list: {1, 2}, or %@ with an array as its argument", at: term.offset)
        }
        listed += values.count
        guard listed <= Self.mostListed else {
            throw PredicateFault(
                "the lists of a predicate hold at most \(Self.mostListed) values, and these are more; send several messages",
                at: term.offset)
        }
        return values
    }
}

// MARK: - With a key

extension PredicateChecker {
    /// The key of an object, which a relationship stores or which its objects have.
    private struct Key {
        let relationship: Relationship
        let parts: [PredicateSide]
    }

    private mutating func compare(
        _ target: PredicateTarget, _ key: Key, _ relation: PredicateRelation, _ term: PredicateTerm
    ) throws(PredicateFault) -> Predicate {
        let (relationship, sides) = (key.relationship, key.parts)
        guard [.equal, .notEqual, .isIn].contains(relation.kind), !relation.hasOptions else {
            throw PredicateFault(
                "\(relationship.name.quotedBriefly) is a \(relationship.isToMany ? "to-many" : "to-one") relationship: it is "
                    + "compared with a key or nil by ==, != and IN, or leads on to an attribute", at: relation.offset)
        }
        if sides.count == 1 { return try compare(sides[0], relation, term) }
        var alternatives: [Predicate] = []
        for constant in relation.kind == .isIn ? try listValues(term, of: relation) : [try value(of: term)] {
            alternatives.append(try Self.equals(sides, constant, relationship, relation))
            guard alternatives.count <= PredicateParser.mostComparisons else { throw Self.tooMany(at: term.offset) }
        }
        let isEqual = Predicate.alternative(alternatives)
        return relation.kind == .notEqual ? .negation(of: isEqual) : isEqual
    }

    /// The key that a to-one relationship stores.
    private func key(ofRelationship index: Int, _ target: PredicateTarget) -> Key {
        key(model.entities[target.entity].relationships[index], target) { part, _ in
            .key(ofRelationship: index, part: part)
        }
    }

    /// The key that the objects of a collection have.
    private func key(ofObjects target: PredicateTarget) -> Key {
        guard let collection = target.collection else { preconditionFailure("objects are those of a collection") }
        let owner = collection.hops.reduce(entity) { model.entities[$0].relationships[$1].destination }
        return key(model.entities[owner].relationships[collection.relationship], target) { _, attribute in
            attribute.map { .attribute($0) } ?? .rowKey
        }
    }

    private func key(
        _ relationship: Relationship, _ target: PredicateTarget, column: (Int, Int?) -> PredicateOperand.Column
    ) -> Key {
        let destination = model.entities[relationship.destination]
        let attributes: [(Int?, Attribute)] =
            destination.hasRowKey
            ? [(nil, Attribute(name: relationship.name, type: .integer64))]
            : destination.identity.map { ($0, destination.attributes[$0]) }
        return Key(
            relationship: relationship,
            parts: attributes.enumerated().map { part, attribute in
                PredicateSide(
                    operand: PredicateOperand(hops: target.hops, column(part, attribute.0), attribute.1.comparedType),
                    attribute: attribute.1, offset: target.offset)
            })
    }

    private static func equals(
        _ sides: [PredicateSide], _ constant: PredicateConstant, _ relationship: Relationship,
        _ relation: PredicateRelation
    ) throws(PredicateFault) -> Predicate {
        guard !constant.value.isNull else {
            return .comparison(PredicateComparison(sides[0].operand, .isNil))
        }
        var parts: [Predicate] = []
        for side in sides {
            guard let part = constant.value[side.attribute.name], !part.isNull else {
                let names = sides.map(\.attribute.name.quotedBriefly).joined(separator: ", ")
                throw PredicateFault(
                    "the key of \(relationship.name.quotedBriefly) is an object with \(names); send it as the argument of "
                        + "%@", at: constant.offset)
            }
            parts.append(try side.equals(PredicateConstant(value: part, offset: constant.offset), relation))
        }
        return .conjunction(parts)
    }
}

// MARK: - With each other

extension PredicateChecker {
    func compare(
        _ left: PredicateTarget, _ relation: PredicateRelation, _ right: PredicateTarget
    ) throws(PredicateFault) -> Predicate {
        let (first, second) = (try side(left), try side(right))
        for side in [first, second] where side.operand.isCountBeyondTheObject {
            // It would be counted again for each object that has the same link.
            throw PredicateFault(
                "\(side.attribute.name.quotedBriefly) of another object is compared with a constant, not with another name",
                at: side.offset)
        }
        guard !relation.hasOptions else {
            throw PredicateFault("[c] and [d] are for comparisons with a constant", at: relation.offset)
        }
        guard first.attribute.isComparable(with: second.attribute) else {
            throw PredicateFault(
                "\(first.described) and \(second.described) cannot be compared with each other", at: relation.offset)
        }
        if let order = relation.kind.order {
            return .comparison(PredicateComparison(first.operand, .isOrderedAgainst(order, second.operand)))
        }
        let isEqual = Predicate.comparison(PredicateComparison(first.operand, .equalsOperand(second.operand)))
        switch relation.kind {
        case .equal: return isEqual
        case .notEqual: return .not(isEqual)
        default:
            throw PredicateFault("\(relation.kind.rawValue) wants a constant on its right", at: relation.offset)
        }
    }

    private func side(_ target: PredicateTarget) throws(PredicateFault) -> PredicateSide {
        let attribute: Attribute
        let column: PredicateOperand.Column
        switch target.kind {
        case .attribute(let index):
            attribute = model.entities[target.entity].attributes[index]
            column = .attribute(index)
        case .count(let index):
            let name = model.entities[target.entity].relationships[index].name
            attribute = Attribute(name: "\(name).\(PredicateName.count)", type: .integer64)
            column = .count(ofRelationship: index)
        case .relationship, .objects:
            throw PredicateFault(
                "a relationship is compared with a key or nil, not with another name", at: target.offset)
        }
        return PredicateSide(
            operand: PredicateOperand(hops: target.hops, column, attribute.comparedType), attribute: attribute,
            offset: target.offset)
    }
}

extension PredicateRelation.Kind {
    fileprivate var order: PredicateOrder? { PredicateOrder(rawValue: rawValue) }
}

extension PredicateOperand {
    fileprivate var isCountBeyondTheObject: Bool {
        if case .count = column { !hops.isEmpty } else { false }
    }
}

extension Attribute {
    /// Whether the stored values of both have one order.
    fileprivate func isComparable(with other: Attribute) -> Bool {
        switch type {
        case .integer16, .integer32, .integer64, .double, .float, .boolean:
            other.type.isNumber && other.type != .decimal || other.type == .boolean
        case .string, .uri: other.type == .string || other.type == .uri
        case .date, .decimal: isStored(like: other)
        case .calendarDate, .uuid, .binary: other.type == type
        case .transformable: false
        }
    }
}
