package import BrokerJSON
package import BrokerModel

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

extension Model {
    /// Reads a predicate (`where`, `tombstone`) on the objects of an entity.
    ///
    /// It is in this module because a predicate's constants are converted like records' values: by the type of the
    /// attribute that they are compared with, but by ISO 8601 alone and without the attribute's transforms and limits.
    ///
    /// - Parameters:
    ///   - arguments: a JSON array, one element for each `%@` and `%K` in their order; nil when there are none. The
    /// predicate does not retain it.
    /// - Throws: `invalidPredicate` with the column in the predicate; the caller adds the path.
    package func predicate(
        _ text: String, arguments: JSONValue?, ofEntity entity: Int
    ) throws(Fault) -> Predicate {
        do throws(PredicateFault) {
            let read = try PredicateParser.parse(text)
            return try withExtendedLifetime(read.literals) { () throws(PredicateFault) in
                var checker = PredicateChecker(
                    model: self, entity: entity, literals: Array(read.literals.root.elements),
                    arguments: try Self.values(of: arguments, for: read.argumentOffsets))
                return try checker.check(read.syntax)
            }
        } catch {
            throw error.fault(in: text).of(entity: entities[entity].name)
        }
    }

    /// Returns the arguments, one for each `%@` and `%K`.
    private static func values(
        of arguments: JSONValue?, for offsets: [Int]
    ) throws(PredicateFault) -> [JSONValue] {
        guard let arguments, !arguments.isNull else {
            guard let first = offsets.first else { return [] }
            throw PredicateFault("this asks for an argument, and none came; send \"arguments\", an array", at: first)
        }
        guard arguments.kind == .array else {
            throw PredicateFault("\"arguments\" is \(arguments.kind.phrase), and an array is wanted.", at: nil)
        }
        let count = arguments.elements.reduce(0) { count, _ in count + 1 }
        guard count >= offsets.count else {
            throw PredicateFault(
                "this asks for argument number \(count + 1), and \(count) came; send one for each %@ and %K",
                at: offsets[count])
        }
        guard count == offsets.count else {
            throw PredicateFault(
                "The predicate asks for \(offsets.count) argument\(offsets.count == 1 ? "" : "s") (one for each %@ and %K), and \(count) came. "
                    + "Many values for one IN %@ are one argument, an array.", at: nil)
        }
        return Array(arguments.elements)
    }
}
