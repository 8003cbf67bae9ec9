/// A condition on the objects of one entity, checked against the model: the tree of which the store makes SQL and
/// staging asks records in memory.
///
/// Logic has two values, as in Foundation: a comparison with an absent value (nil) is false, and its `not` is true.
package indirect enum Predicate: Sendable, Equatable {
    /// `TRUEPREDICATE` and `FALSEPREDICATE`, and what comes out the same for every object.
    case always(Bool)
    case not(Predicate)
    case all([Predicate])
    case any([Predicate])
    case comparison(PredicateComparison)
}

/// One value of an object, and what must be true of it.
package struct PredicateComparison: Sendable, Equatable {
    package let operand: PredicateOperand
    package let test: PredicateTest

    package init(_ operand: PredicateOperand, _ test: PredicateTest) {
        self.operand = operand
        self.test = test
    }
}

/// Where a value lies, seen from the object.
package struct PredicateOperand: Sendable, Equatable {
    package enum Column: Sendable, Equatable {
        /// Index among the attributes of the entity that was reached.
        case attribute(Int)
        /// A part of the key that a to-one relationship holds: the destination's identity in its order, or its `_pk`.
        case key(ofRelationship: Int, part: Int)
    }

    /// To-one relationships to follow first, each an index among the relationships of the entity reached so far.
    package let hops: [Int]
    package let column: Column
    package let type: AttributeType

    package init(hops: [Int] = [], _ column: Column, _ type: AttributeType) {
        self.hops = hops
        self.column = column
        self.type = type
    }
}

/// What may be true of a value. All but ``isNil`` are false for nil.
package enum PredicateTest: Sendable, Equatable {
    case isNil
    case equals(PredicateValue)
    case isOrdered(PredicateOrder, PredicateValue)
    case isOneOf([PredicateValue])
    case text(PredicateTextTest)
    /// Nil equals nil here.
    case equalsOperand(PredicateOperand)
    case isOrderedAgainst(PredicateOrder, PredicateOperand)
}

package enum PredicateOrder: Sendable, Equatable {
    case less, atMost, greater, atLeast
}

/// A constant in the form in which its attribute is stored. Texts are compared byte by byte, decimals by value.
package enum PredicateValue: Sendable, Hashable {
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])
}

/// A test of texts that is more than a comparison of bytes.
package struct PredicateTextTest: Sendable, Equatable {
    package enum Relation: Sendable, Equatable {
        case equals, isOneOf, beginsWith, endsWith, contains
        case isOrdered(PredicateOrder)
        /// With `*` for any characters and `?` for one; a backslash takes their meaning away.
        case like
        /// A regular expression of RE2's syntax that the whole text follows.
        case matches
    }

    package let relation: Relation
    /// `[c]`: upper and lower case are the same.
    package let ignoresCase: Bool
    /// `[d]`: letters with and without diacritics are the same.
    package let ignoresDiacritics: Bool
    /// UTF-8; several for ``Relation/isOneOf`` alone.
    package let texts: [[UInt8]]
    /// The size of the program that ``Relation/matches`` is compiled to; 0 for all others.
    package var instructions = 0

    package init(_ relation: Relation, _ texts: [[UInt8]], ignoresCase: Bool = false, ignoresDiacritics: Bool = false) {
        self.relation = relation
        self.texts = texts
        self.ignoresCase = ignoresCase
        self.ignoresDiacritics = ignoresDiacritics
    }
}

extension Predicate {
    /// Values of other objects, or links, are asked for; a record by itself cannot tell.
    package var usesRelationships: Bool {
        switch self {
        case .always: false
        case .not(let inner): inner.usesRelationships
        case .all(let parts), .any(let parts): parts.contains(where: \.usesRelationships)
        case .comparison(let comparison): comparison.operands.contains(where: \.isBeyondTheRecord)
        }
    }
}

extension Predicate {
    /// Links that all key paths follow.
    package var linkCount: Int {
        switch self {
        case .always: 0
        case .not(let inner): inner.linkCount
        case .all(let parts), .any(let parts): parts.reduce(0) { $0 + $1.linkCount }
        case .comparison(let comparison): comparison.operands.reduce(0) { $0 + $1.hops.count }
        }
    }

    /// The sizes of all programs that `MATCHES` is compiled to.
    package var instructions: Int {
        switch self {
        case .always: return 0
        case .not(let inner): return inner.instructions
        case .all(let parts), .any(let parts): return parts.reduce(0) { $0 + $1.instructions }
        case .comparison(let comparison):
            guard case .text(let test) = comparison.test else { return 0 }
            return test.instructions
        }
    }
}

extension PredicateComparison {
    /// One, or two for a comparison of an object's values with each other.
    package var operands: [PredicateOperand] {
        switch test {
        case .equalsOperand(let other), .isOrderedAgainst(_, let other): [operand, other]
        case .isNil, .equals, .isOrdered, .isOneOf, .text: [operand]
        }
    }
}

extension PredicateOperand {
    fileprivate var isBeyondTheRecord: Bool {
        if case .attribute = column { !hops.isEmpty } else { true }
    }
}
