package import BrokerJSON

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
    /// At least one object of the collection meets the condition, whose operands begin there.
    case exists(PredicateCollection, Predicate)
}

/// The objects at the end of a to-many relationship; none where a link before it is missing.
package struct PredicateCollection: Sendable, Equatable {
    /// To-one relationships to follow first, as of ``PredicateOperand/hops``.
    package let hops: [Int]
    /// Index among the relationships of the entity at the end of the hops.
    package let relationship: Int

    package init(hops: [Int] = [], _ relationship: Int) {
        self.hops = hops
        self.relationship = relationship
    }
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
        /// The row key of an entity without identity, or with an optional one.
        case rowKey
        /// The number of objects to which a to-many relationship leads: never nil, 0 where a link before it is missing.
        case count(ofRelationship: Int)
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

package enum PredicateOrder: String, Sendable {
    case less = "<"
    case atMost = "<="
    case greater = ">"
    case atLeast = ">="

    /// - Parameter difference: negative where the first of two values is less.
    package func holds(_ difference: Int) -> Bool {
        switch self {
        case .less: difference < 0
        case .atMost: difference <= 0
        case .greater: difference > 0
        case .atLeast: difference >= 0
        }
    }
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
    /// The comparisons and collections that the logic joins.
    package var leaves: [Predicate] {
        switch self {
        case .always: []
        case .not(let inner): inner.leaves
        case .all(let parts), .any(let parts): parts.flatMap(\.leaves)
        case .comparison, .exists: [self]
        }
    }

    /// All comparisons, also those with values of a collection's objects.
    package var comparisons: [PredicateComparison] {
        leaves.flatMap { leaf -> [PredicateComparison] in
            switch leaf {
            case .comparison(let comparison): [comparison]
            case .exists(_, let inner): inner.comparisons
            case .always, .not, .all, .any: []
            }
        }
    }

    /// The values of all comparisons, from the object: the path to one of a collection leads through its relationship.
    package var operands: [PredicateOperand] {
        leaves.flatMap { leaf -> [PredicateOperand] in
            switch leaf {
            case .comparison(let comparison): comparison.operands
            case .exists(let collection, let inner):
                inner.operands.map {
                    PredicateOperand(hops: collection.hops + [collection.relationship] + $0.hops, $0.column, $0.type)
                }
            case .always, .not, .all, .any: []
            }
        }
    }

    /// The condition needs values of other objects, or links, so a record alone cannot be tested.
    package var usesRelationships: Bool {
        leaves.contains { leaf in
            guard case .comparison(let comparison) = leaf else { return true }
            return comparison.operands.contains(where: \.isBeyondTheRecord)
        }
    }

    /// The number of links on all key paths. One to many objects counts as two: a link table may be between them.
    package var linkCount: Int {
        leaves.reduce(0) { (sum: Int, leaf: Predicate) -> Int in
            switch leaf {
            case .comparison(let comparison): comparison.operands.reduce(sum) { $0 + $1.linkCount }
            case .exists(let collection, let inner): sum + collection.hops.count + 2 + inner.linkCount
            case .always, .not, .all, .any: sum
            }
        }
    }

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
    fileprivate var linkCount: Int {
        if case .count = column { hops.count + 2 } else { hops.count }
    }

    fileprivate var isBeyondTheRecord: Bool {
        if case .attribute = column { !hops.isEmpty } else { true }
    }
}

package enum FetchNames: String, Sendable, CaseIterable {
    /// The inverse mapping: a record that could be sent again, with each attribute at its first key path.
    case remote
    /// The names in the model.
    case local
}

package enum FetchDates: String, Sendable, CaseIterable {
    /// The attribute's first format, so that a record could be sent again.
    case model
    case iso8601
}

/// The form of whole objects.
package struct ObjectForm: Sendable, Hashable {
    package let names: FetchNames
    package let dates: FetchDates

    /// - Parameter dates: with remote names; with local ones dates are in ISO 8601.
    package init(names: FetchNames = .remote, dates: FetchDates = .model) {
        self.names = names
        self.dates = names == .local ? .iso8601 : dates
    }
}

package enum FetchResult: String, Sendable, CaseIterable {
    /// An array.
    case collection
    /// The first object, or null.
    case object
    /// An object, with the text of the identity as key.
    case dictionary
    /// The number of objects.
    case count
}

/// A client's fetch. Nothing of it is checked against a model yet; `StagingPlan.fetchRequest(_:)` does that.
///
/// Its JSON values are valid as long as the document that they were read from.
package struct FetchDescription {
    /// The maximum number of objects, and the default, of a fetch that is not streamed.
    package static let limits = 0...100_000
    package static let defaultLimit = 10_000

    package var entity: String
    /// A predicate that the objects match; nil for all objects.
    package var predicate: String?
    package var arguments: JSONValue?
    /// The key of the one requested object.
    package var object: JSONValue?
    /// The key after which the objects come; with `sort`, an array of the sort values and the key.
    package var after: JSONValue?
    /// Attributes, or key paths to them; with `-` before them in descending order.
    package var sort: [String] = []
    /// Nil for the default: ``defaultLimit``, or all objects of a stream and of a count.
    package var limit: Int?
    package var offset = 0
    /// Paths of relationships whose objects are nested.
    package var include: [String] = []
    /// Attributes, to-one relationships, or key paths to them: the only values of the objects. Empty for whole objects.
    package var select: [String] = []
    package var names = FetchNames.remote
    /// With remote names; with local ones dates are in ISO 8601.
    package var dates = FetchDates.model
    package var result = FetchResult.collection
    /// The objects come in several answers of one read transaction.
    package var isStreamed = false
    /// Each object has its version.
    package var hasVersions = false

    package init(entity: String) { self.entity = entity }
}
