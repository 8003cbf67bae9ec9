package import BrokerJSON

/// Parses a predicate's text. Or binds more weakly than And, And more weakly than Not.
///
/// Time and memory are linear in the text, and the stack is bounded by `deepest`.
package struct PredicateParser {
    /// The maximum bytes of a predicate's text. Long lists belong in the arguments.
    package static let longest = 1 << 20
    /// The maximum depth of parentheses and negations.
    static let deepest = 200
    /// The maximum number of comparisons: SQLite limits the depth of expressions, which grows with it.
    package static let mostComparisons = 500

    private var lexer: PredicateLexer
    private var token: PredicateToken
    private var depth = 0
    private var comparisons = 0
    private var literals = JSONWriter()
    private var literalCount = 0
    private var argumentOffsets: [Int] = []

    package static func parse(_ text: String) throws(PredicateFault) -> PredicateText {
        guard text.utf8.count <= longest else {
            throw PredicateFault(
                "The predicate has \(text.utf8.count) bytes, and \(longest) are allowed. Put long lists into the "
                    + "arguments, with IN %@ in their place.", at: nil)
        }
        var parser = try PredicateParser(text)
        return try parser.whole()
    }

    private init(_ text: String) throws(PredicateFault) {
        lexer = PredicateLexer(Array(text.utf8))
        token = try lexer.next()
    }

    private mutating func whole() throws(PredicateFault) -> PredicateText {
        if token.kind == .end {
            throw PredicateFault("the predicate is empty; TRUEPREDICATE matches all objects", at: 0)
        }
        let syntax = try alternatives()
        guard token.kind == .end else {
            let isDate = if case .number(let digits) = token.kind { digits.first == UInt8(ascii: "-") } else { false }
            let remedy = isDate ? "; write a date in quotes" : ""
            throw PredicateFault("expected AND, OR or the end, saw \(token.shown)\(remedy)", at: token.offset)
        }
        let array = [UInt8(ascii: "[")] + literals.bytes + [UInt8(ascii: "]")]
        do throws(JSONError) {
            let document = try JSONDocument(parsing: JSONText(copying: array))
            return PredicateText(syntax: syntax, literals: document, argumentOffsets: argumentOffsets)
        } catch {
            throw PredicateFault("the predicate's constants cannot be read: \(error)", at: nil)
        }
    }

    private mutating func advance() throws(PredicateFault) { token = try lexer.next() }

    private mutating func take(_ sign: PredicateToken.Sign) throws(PredicateFault) -> Bool {
        guard token.kind == .sign(sign) else { return false }
        try advance()
        return true
    }
}

// MARK: - Logic

extension PredicateParser {
    private mutating func alternatives() throws(PredicateFault) -> PredicateSyntax {
        var parts = [try conjunction()]
        while try take(.or) { parts.append(try conjunction()) }
        return parts.count == 1 ? parts[0] : .any(parts)
    }

    private mutating func conjunction() throws(PredicateFault) -> PredicateSyntax {
        var parts = [try negation()]
        while try take(.and) { parts.append(try negation()) }
        return parts.count == 1 ? parts[0] : .all(parts)
    }

    private mutating func negation() throws(PredicateFault) -> PredicateSyntax {
        var isNegated = false
        while try take(.not) { isNegated.toggle() }
        let inner = try primary()
        return isNegated ? .not(inner) : inner
    }

    private mutating func primary() throws(PredicateFault) -> PredicateSyntax {
        let opening = token.offset
        if try take(.open) {
            depth += 1
            guard depth <= Self.deepest else {
                throw PredicateFault(
                    "parentheses are nested more than \(Self.deepest) deep here; write the predicate flatter",
                    at: opening)
            }
            let inner = try alternatives()
            guard try take(.close) else {
                throw PredicateFault(
                    "expected \")\" for the parenthesis of column \(opening + 1), saw \(token.shown)",
                    at: token.offset)
            }
            depth -= 1
            return inner
        }
        guard let constant = token.keyword.flatMap({ Self.constants[$0] }) else { return try comparison() }
        try advance()
        return .constant(constant)
    }

    private static let constants = ["TRUEPREDICATE": true, "FALSEPREDICATE": false]
}

// MARK: - Comparisons

extension PredicateParser {
    private mutating func comparison() throws(PredicateFault) -> PredicateSyntax {
        comparisons += 1
        guard comparisons <= Self.mostComparisons else {
            throw PredicateFault(
                "a predicate has at most \(Self.mostComparisons) comparisons, and this is one more; IN takes many "
                    + "values at once", at: token.offset)
        }
        let quantifier = try quantifier()
        let left = try term()
        guard case .relation(let kind) = token.kind else { throw missingRelation() }
        var relation = PredicateRelation(kind: kind, offset: token.offset)
        try advance()
        if case .options(let options) = token.kind {
            for option in options.lowercased() {
                switch option {
                case "c": relation.ignoresCase = true
                case "d": relation.ignoresDiacritics = true
                default:
                    throw PredicateFault("\(token.shown) is no option; there are [c], [d] and [cd]", at: token.offset)
                }
            }
            try advance()
        }
        let right = try term()
        if relation.kind == .between, case .literal = right.kind {
            throw PredicateFault("both bounds are in braces, as in BETWEEN {1, 2}", at: right.offset)
        }
        return .comparison(
            PredicateComparisonSyntax(quantifier: quantifier, left: left, relation: relation, right: right))
    }

    private mutating func quantifier() throws(PredicateFault) -> PredicateQuantifier? {
        guard let word = token.keyword, let kind = Self.quantifiers[word] else { return nil }
        let start = token.offset
        let shown = token.shown.dropFirst().dropLast()
        try advance()
        switch token.kind {
        case .word, .escapedWord, .nameArgument: return PredicateQuantifier(kind: kind, offset: start)
        default:
            throw PredicateFault(
                "after \(word) comes a key path through a to-many relationship, as in \(word) employees.age > 30; for an "
                    + "attribute of that name write #\(shown)", at: start)
        }
    }

    private static let quantifiers: [String: PredicateQuantifier.Kind] = [
        "ANY": .any, "SOME": .any, "ALL": .all, "NONE": .none,
    ]

    /// By SQL's operator, its form here.
    private static let forms = [
        "IS": "IS NULL is written == nil, and IS NOT NULL is != nil", "ILIKE": "it is written LIKE[c]",
        "GLOB": "it is written LIKE", "REGEXP": "it is written MATCHES", "RLIKE": "it is written MATCHES",
    ]

    private func missingRelation() -> PredicateFault {
        if token.kind == .sign(.not) {
            return PredicateFault("NOT goes before the whole comparison, as in NOT (age IN {1, 2})", at: token.offset)
        }
        let form = token.keyword.flatMap { Self.forms[$0] }.map { "; \($0)" } ?? ""
        return PredicateFault("expected an operator like ==, saw \(token.shown)\(form)", at: token.offset)
    }

    private mutating func term() throws(PredicateFault) -> PredicateTerm {
        let start = token.offset
        switch token.kind {
        case .string(let content):
            content.withUnsafeBufferPointer { literals.string($0) }
            return try literal(at: start)
        case .number(let number):
            literals.raw(number)
            return try literal(at: start)
        case .argument: return try argument(at: start)
        case .sign(.openList): return try list(at: start)
        case .escapedWord, .nameArgument: return try path(at: start)
        case .word: return try word(at: start)
        case .sign(.open):
            throw PredicateFault(
                "expected a value, saw \"(\"; lists are written {1, 2}, and parentheses hold whole comparisons",
                at: start)
        default:
            throw PredicateFault("expected a name or a value, saw \(token.shown)", at: start)
        }
    }

    private mutating func word(at start: Int) throws(PredicateFault) -> PredicateTerm {
        switch token.keyword {
        case "NIL", "NULL": literals.null()
        case "TRUE", "YES": literals.bool(true)
        case "FALSE", "NO": literals.bool(false)
        case let word? where Self.refused.contains(word):
            throw PredicateFault(
                "\(word) is not supported; for an attribute of that name write #\(token.shown.dropFirst().dropLast())",
                at: start)
        default: return try path(at: start)
        }
        return try literal(at: start)
    }

    /// Words that Foundation supports and Broker does not.
    private static let refused: Set<String> = ["ANY", "ALL", "SOME", "NONE", "SELF", "SUBQUERY", "CAST", "TERNARY"]

    private mutating func literal(at start: Int) throws(PredicateFault) -> PredicateTerm {
        try advance()
        literalCount += 1
        return PredicateTerm(kind: .literal(literalCount - 1), offset: start)
    }

    private mutating func argument(at start: Int) throws(PredicateFault) -> PredicateTerm {
        try advance()
        argumentOffsets.append(start)
        return PredicateTerm(kind: .argument(argumentOffsets.count - 1), offset: start)
    }

    private mutating func list(at start: Int) throws(PredicateFault) -> PredicateTerm {
        try advance()
        var elements: [PredicateTerm] = []
        if try take(.closeList) { return PredicateTerm(kind: .list([]), offset: start) }
        repeat {
            guard token.kind != .sign(.openList) else {
                throw PredicateFault("a list holds no other lists", at: token.offset)
            }
            let element = try term()
            if case .path = element.kind {
                throw PredicateFault("a list holds constants, and this is a name", at: element.offset)
            }
            elements.append(element)
        } while try take(.comma)
        guard try take(.closeList) else {
            throw PredicateFault("expected \",\" or \"}\", saw \(token.shown)", at: token.offset)
        }
        return PredicateTerm(kind: .list(elements), offset: start)
    }

    private mutating func path(at start: Int) throws(PredicateFault) -> PredicateTerm {
        var names: [PredicateName] = []
        repeat {
            let place = token.offset
            switch token.kind {
            case .word(let name), .escapedWord(let name):
                names.append(PredicateName(kind: .written(name), offset: place))
                try advance()
                if token.kind == .sign(.open) {
                    throw PredicateFault("functions are not supported, and \(name.briefly)(…) is one", at: place)
                }
            case .nameArgument:
                try advance()
                argumentOffsets.append(place)
                names.append(PredicateName(kind: .argument(argumentOffsets.count - 1), offset: place))
            default:
                throw PredicateFault("expected a name, saw \(token.shown)", at: place)
            }
        } while try take(.point)
        return PredicateTerm(kind: .path(names), offset: start)
    }
}

/// A predicate as written, before any name is looked up.
package indirect enum PredicateSyntax {
    case constant(Bool)
    case not(PredicateSyntax)
    case all([PredicateSyntax])
    case any([PredicateSyntax])
    case comparison(PredicateComparisonSyntax)
}

package struct PredicateComparisonSyntax {
    /// Nil for a comparison of one value.
    package let quantifier: PredicateQuantifier?
    package let left: PredicateTerm
    package let relation: PredicateRelation
    package let right: PredicateTerm
}

/// How many objects of a to-many relationship must meet a comparison.
package struct PredicateQuantifier {
    package enum Kind: String {
        /// Also written SOME.
        case any = "ANY"
        case all = "ALL"
        case none = "NONE"
    }

    package let kind: Kind
    /// Its position, in bytes.
    package let offset: Int
}

/// An operator with its options.
package struct PredicateRelation {
    package enum Kind: String {
        case equal = "=="
        case notEqual = "!="
        case less = "<"
        case atMost = "<="
        case greater = ">"
        case atLeast = ">="
        case isIn = "IN"
        case between = "BETWEEN"
        case beginsWith = "BEGINSWITH"
        case endsWith = "ENDSWITH"
        case contains = "CONTAINS"
        case like = "LIKE"
        case matches = "MATCHES"
    }

    package var kind: Kind
    package var ignoresCase = false
    package var ignoresDiacritics = false
    package let offset: Int

    package var hasOptions: Bool { ignoresCase || ignoresDiacritics }
}

/// One side of a comparison.
package struct PredicateTerm {
    package enum Kind {
        case path([PredicateName])
        /// Index among the predicate's own constants (`PredicateText.literals`).
        case literal(Int)
        /// `%@`: index among the arguments.
        case argument(Int)
        /// `{…}`: literals and arguments.
        case list([PredicateTerm])
    }

    package let kind: Kind
    /// Its position, in bytes.
    package let offset: Int
}

/// One name of a key path.
package struct PredicateName {
    package enum Kind {
        case written(String)
        /// `%K`: index among the arguments. It may be a path itself.
        case argument(Int)
    }

    /// The last name of a key path that means the number of objects of a to-many relationship.
    package static let count = "@count"

    package let kind: Kind
    package let offset: Int
}

package struct PredicateText {
    package let syntax: PredicateSyntax
    /// The constants of the text, as the elements of a JSON array, so that they are converted like arguments.
    package let literals: JSONDocument
    /// The position of each use of an argument, in bytes.
    package let argumentOffsets: [Int]
}

/// A predicate that cannot be used.
package struct PredicateFault: Error {
    package let message: String
    /// The position in the text, in bytes; nil when the fault has none.
    package let offset: Int?

    package init(_ message: String, at offset: Int?) {
        self.message = message
        self.offset = offset
    }

    /// As the contract's fault. Columns count characters (Unicode scalars) from 1.
    package func fault(in text: String) -> Fault {
        guard let offset else { return Fault(.invalidPredicate, message) }
        var column = 1
        for byte in text.utf8.prefix(offset) where byte & 0xC0 != 0x80 { column += 1 }
        return Fault(.invalidPredicate, "Column \(column) of the predicate: \(message)")
    }
}
