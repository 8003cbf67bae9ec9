import BrokerJSON
import BrokerModel

/// Checks a parsed predicate: resolves every name and converts every constant.
struct PredicateChecker {
    /// Limit on nested AND and OR after simplification. Each level takes three entries on the stack of SQLite's parser,
    /// which has a hundred; wide levels take as many again, and the store's statement around the predicate needs some.
    static let deepest = 8
    /// Limit on the constants of all lists together: each is in memory as long as the predicate.
    static let mostListed = 250_000

    let model: Model
    let entity: Int
    /// The constants of the text. Valid while its document lives; ``arguments`` while theirs lives.
    let literals: [JSONValue]
    let arguments: [JSONValue]
    var listed = 0
    /// The number of regular expressions so far, and the sum of their program sizes.
    private var expressions = (count: 0, instructions: 0)

    init(model: Model, entity: Int, literals: [JSONValue], arguments: [JSONValue]) {
        self.model = model
        self.entity = entity
        self.literals = literals
        self.arguments = arguments
    }

    /// Checks the whole predicate against the limits of SQLite.
    mutating func check(_ syntax: PredicateSyntax) throws(PredicateFault) -> Predicate {
        let predicate = try predicate(syntax)
        guard predicate.comparisons.count <= PredicateParser.mostComparisons else { throw Self.tooMany(at: nil) }
        guard predicate.depth <= Self.deepest else {
            throw PredicateFault(
                "The predicate has AND and OR nested more than \(Self.deepest) deep. Write it flatter.", at: nil)
        }
        guard predicate.linkCount <= Self.mostLinks else {
            throw PredicateFault(
                "The key paths of the predicate follow more than \(Self.mostLinks) links in all. Shorten the key paths, or "
                    + "send several messages.", at: nil)
        }
        return predicate
    }

    static func tooMany(at offset: Int?) -> PredicateFault {
        PredicateFault(
            "The predicate has more than \(PredicateParser.mostComparisons) comparisons, where BETWEEN counts as two, and "
                + "each key of several attributes as one for each. Send several messages.", at: offset)
    }

    /// Limit on the links of all key paths: each is a cursor of SQLite, and the time to open one grows with the number
    /// of open cursors.
    static let mostLinks = 500
    /// Limit on the regular expressions of one predicate: RE2 caches up to 2 MiB for each while the predicate is
    /// evaluated.
    static let mostExpressions = 16

    /// Counts a regular expression before it is compiled.
    mutating func addExpression(at offset: Int) throws(PredicateFault) {
        expressions.count += 1
        guard expressions.count <= Self.mostExpressions else {
            throw PredicateFault(
                "a predicate has at most \(Self.mostExpressions) MATCHES; join them to one by |, or send several messages",
                at: offset)
        }
    }

    /// Counts the program of a compiled regular expression.
    mutating func addInstructions(_ count: Int, at offset: Int) throws(PredicateFault) {
        expressions.instructions += count
        guard expressions.instructions <= RegularExpression.maximumInstructions else {
            throw PredicateFault(
                "the regular expressions of a predicate have at most \(RegularExpression.maximumInstructions) instructions "
                    + "of RE2 together, and these are more; send several messages", at: offset)
        }
    }

    private mutating func predicate(_ syntax: PredicateSyntax) throws(PredicateFault) -> Predicate {
        switch syntax {
        case .constant(let truth): return .always(truth)
        case .not(let inner): return .negation(of: try predicate(inner))
        case .all(let parts): return .conjunction(try predicates(parts))
        case .any(let parts): return .alternative(try predicates(parts))
        case .comparison(let comparison): return try predicate(comparison)
        }
    }

    private mutating func predicates(_ parts: [PredicateSyntax]) throws(PredicateFault) -> [Predicate] {
        var checked: [Predicate] = []
        for part in parts { checked.append(try predicate(part)) }
        return checked
    }

    /// The condition on one object of a collection, and how many must meet it.
    ///
    /// "All" is "none that does not", so it is true of a collection without objects.
    private mutating func predicate(
        _ comparison: PredicateComparisonSyntax, _ quantifier: PredicateQuantifier
    ) throws(PredicateFault) -> Predicate {
        guard case .path(let names) = comparison.left.kind else {
            preconditionFailure("a name follows a quantifier")
        }
        if case .path = comparison.right.kind {
            throw PredicateFault(
                "the right side of \(quantifier.kind.rawValue) is a constant, not a name", at: comparison.right.offset)
        }
        let target = try target(names, quantifier)
        guard let collection = target.collection else { preconditionFailure("a quantified path has a collection") }
        let inner = try compare(target, comparison.relation, comparison.right)
        switch quantifier.kind {
        case .any: return .exists(one: inner, of: collection)
        case .all: return .negation(of: .exists(one: .negation(of: inner), of: collection))
        case .none: return .negation(of: .exists(one: inner, of: collection))
        }
    }

    private mutating func predicate(_ comparison: PredicateComparisonSyntax) throws(PredicateFault) -> Predicate {
        if let quantifier = comparison.quantifier { return try predicate(comparison, quantifier) }
        var relation = comparison.relation
        switch (comparison.left.kind, comparison.right.kind) {
        case (.path(let left), .path(let right)):
            return try compare(try target(left), relation, try target(right))
        case (.path(let names), _): return try compare(try target(names), relation, comparison.right)
        case (_, .path(let names)):
            guard let mirrored = relation.kind.mirrored else {
                throw PredicateFault(
                    "\(relation.kind.rawValue) has the name on its left and the constant on its right",
                    at: comparison.left.offset)
            }
            relation.kind = mirrored
            return try compare(try target(names), relation, comparison.left)
        default:
            throw PredicateFault(
                "a comparison needs a name on one of its sides; TRUEPREDICATE matches all objects",
                at: comparison.left.offset)
        }
    }
}

extension PredicateRelation.Kind {
    /// The relation with exchanged sides; nil where that is no comparison.
    fileprivate var mirrored: Self? {
        switch self {
        case .equal, .notEqual: self
        case .less: .greater
        case .atMost: .atLeast
        case .greater: .less
        case .atLeast: .atMost
        case .isIn, .between, .beginsWith, .endsWith, .contains, .like, .matches: nil
        }
    }
}

extension PredicateOperand {
    fileprivate var isCount: Bool {
        if case .count = column { true } else { false }
    }
}

extension Predicate {
    /// A collection is a `SELECT` of its own, which takes as many entries on the parser's stack.
    private static let levelsOfCollection = 3

    /// The depth of nested AND and OR.
    fileprivate var depth: Int {
        switch self {
        case .always: 0
        case .comparison(let comparison): comparison.operands.contains(where: \.isCount) ? Self.levelsOfCollection : 0
        case .exists(_, let inner): Self.levelsOfCollection + inner.depth
        case .not(let inner): inner.depth
        case .all(let parts), .any(let parts): 1 + (parts.map(\.depth).max() ?? 0)
        }
    }

    /// Simplified, so that the tree is no deeper than its meaning.
    static func negation(of inner: Predicate) -> Predicate {
        switch inner {
        case .always(let truth): .always(!truth)
        case .not(let same): same
        default: .not(inner)
        }
    }

    /// Whether one of the objects meets the condition.
    static func exists(one inner: Predicate, of collection: PredicateCollection) -> Predicate {
        inner == .always(false) ? inner : .exists(collection, inner)
    }

    static func conjunction(_ parts: [Predicate]) -> Predicate { joined(parts, isAll: true) }

    static func alternative(_ parts: [Predicate]) -> Predicate { joined(parts, isAll: false) }

    private static func joined(_ parts: [Predicate], isAll: Bool) -> Predicate {
        var simplified: [Predicate] = []
        for part in parts {
            switch part {
            case .always(isAll): continue
            case .always: return part
            case .all(let inner) where isAll: simplified += inner
            case .any(let inner) where !isAll: simplified += inner
            default: simplified.append(part)
            }
        }
        guard simplified.count > 1 else { return simplified.first ?? .always(isAll) }
        return isAll ? .all(simplified) : .any(simplified)
    }
}
