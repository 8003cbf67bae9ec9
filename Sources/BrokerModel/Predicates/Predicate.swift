/// A condition on the objects of one entity, checked against the model: the tree from which the store makes SQL, and
/// which staging evaluates for records in memory.
///
/// Logic has two values, as in Foundation: a comparison with an absent value (nil) is false, and its `not` is true.
package indirect enum Predicate: Sendable, Equatable {
    /// `TRUEPREDICATE` and `FALSEPREDICATE`, and conditions with the same result for every object.
    case always(Bool)
    case not(Predicate)
    case all([Predicate])
    case any([Predicate])
    case comparison(PredicateComparison)
}

/// One value of an object, and its test.
package struct PredicateComparison: Sendable, Equatable {
    package let operand: PredicateOperand
    package let test: PredicateTest

    package init(_ operand: PredicateOperand, _ test: PredicateTest) {
        self.operand = operand
        self.test = test
    }
}

/// The position of a value, from the object.
package struct PredicateOperand: Sendable, Equatable {
    package enum Column: Sendable, Equatable {
        /// Index among the attributes of the entity at the end of the path.
        case attribute(Int)
        /// A part of the key that a to-one relationship stores: a part of the destination's identity, or its `_pk`.
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

/// A test of a value. All but ``isNil`` are false for nil.
package enum PredicateTest: Sendable, Equatable {
    case isNil
    case equals(PredicateValue)
    case isOrdered(PredicateOrder, PredicateValue)
    case isOneOf([PredicateValue])
    case text(PredicateTextTest)
    /// Here, nil equals nil.
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
        /// With `*` for any characters and `?` for one; a backslash escapes both.
        case like
        /// A regular expression of RE2's syntax that must match the whole text.
        case matches
    }

    package let relation: Relation
    /// `[c]`: ignores upper and lower case.
    package let ignoresCase: Bool
    /// `[d]`: ignores diacritics.
    package let ignoresDiacritics: Bool
    /// UTF-8; several for ``Relation/isOneOf`` alone.
    package let texts: [[UInt8]]
    /// The number of RE2 instructions of ``Relation/matches``; 0 for all others.
    package var instructions = 0

    package init(_ relation: Relation, _ texts: [[UInt8]], ignoresCase: Bool = false, ignoresDiacritics: Bool = false) {
        self.relation = relation
        self.texts = texts
        self.ignoresCase = ignoresCase
        self.ignoresDiacritics = ignoresDiacritics
    }
}

extension Predicate {
    package var comparisons: [PredicateComparison] {
        switch self {
        case .always: []
        case .not(let inner): inner.comparisons
        case .all(let parts), .any(let parts): parts.flatMap(\.comparisons)
        case .comparison(let comparison): [comparison]
        }
    }

    package var operands: [PredicateOperand] { comparisons.flatMap(\.operands) }

    /// The condition needs values of other objects, or links, so a record alone cannot be tested.
    package var usesRelationships: Bool { operands.contains(where: \.isBeyondTheRecord) }

    /// The number of links on all key paths.
    package var linkCount: Int { operands.reduce(0) { $0 + $1.hops.count } }

    /// The sum of RE2 instructions of all `MATCHES`.
    package var instructions: Int {
        comparisons.reduce(0) { sum, comparison in
            if case .text(let test) = comparison.test { sum + test.instructions } else { sum }
        }
    }
}

extension PredicateComparison {
    /// One value, or two for a comparison of an object's values with each other.
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
