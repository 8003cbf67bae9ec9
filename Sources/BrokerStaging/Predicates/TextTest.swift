import BrokerModel
import Glibc

/// A test of texts, compiled once. Immutable, shared by all threads.
struct TextTest: Sendable {
    private enum Kind: Sendable {
        case equals([UInt8])
        case isOneOf(Set<[UInt8]>)
        case isOrdered(PredicateOrder, [UInt8])
        case beginsWith([UInt8])
        case endsWith([UInt8])
        case contains(ByteSearch)
        case like(WildcardPattern)
        case matches(PatternConstraint)
    }

    private let kind: Kind
    private let folding: TextFolding?

    /// - Precondition: ``problem(with:)`` finds none.
    init(_ test: PredicateTextTest) {
        let folding = Self.folding(test)
        let texts = test.texts.map { text in
            folding.map { fold in text.withUnsafeBufferPointer { fold($0) } } ?? text
        }
        let first = texts.first ?? []
        kind =
            switch test.relation {
            case .equals: .equals(first)
            case .isOneOf: .isOneOf(Set(texts))
            case .isOrdered(let order): .isOrdered(order, first)
            case .beginsWith: .beginsWith(first)
            case .endsWith: .endsWith(first)
            case .contains: .contains(ByteSearch(first))
            case .like: .like(WildcardPattern(first))
            case .matches:
                Self.pattern(test).map { .matches($0) } ?? .isOneOf([])
            }
        self.folding = folding
    }

    /// What is wrong with a test that cannot be compiled, and the remedy.
    static func problem(with test: PredicateTextTest) -> String? {
        guard test.relation == .matches, pattern(test) == nil else { return nil }
        return "this is not a regular expression of ICU's syntax; look for unpaired brackets"
    }

    /// Case is the expression's own matter, because folding would change what `\D` means.
    private static func folding(_ test: PredicateTextTest) -> TextFolding? {
        TextFolding(
            ignoresCase: test.ignoresCase && test.relation != .matches, ignoresDiacritics: test.ignoresDiacritics)
    }

    private static func pattern(_ test: PredicateTextTest) -> PatternConstraint? {
        guard let text = test.texts.first else { return nil }
        let folded = folding(test).map { fold in text.withUnsafeBufferPointer { fold($0) } } ?? text
        let pattern = String(decoding: folded, as: UTF8.self)
        return PatternConstraint(test.ignoresCase ? "(?i)\(pattern)" : pattern, coversWholeText: true)
    }

    /// - Throws: `invalidPredicate` when it takes too many steps to find out.
    func isMet(
        by text: UnsafeBufferPointer<UInt8>, budget: inout PatternBudget
    ) throws(Fault) -> Bool {
        guard let folding else { return try isMet(byFolded: text, budget: &budget) }
        let folded = folding(text)
        return try folded.withUnsafeBufferPointer { bytes throws(Fault) in
            try isMet(byFolded: bytes, budget: &budget)
        }
    }

    private func isMet(
        byFolded text: UnsafeBufferPointer<UInt8>, budget: inout PatternBudget
    ) throws(Fault) -> Bool {
        switch kind {
        case .equals(let other): return Self.order(text, other) == 0
        case .isOneOf(let others): return others.contains(Array(text))
        case .isOrdered(let order, let other): return order.holds(Self.order(text, other))
        case .beginsWith(let other): return text.count >= other.count && Self.stands(other, in: text, at: 0)
        case .endsWith(let other):
            return text.count >= other.count && Self.stands(other, in: text, at: text.count - other.count)
        case .contains(let search): return search.isWithin(text)
        case .like(let pattern):
            guard let matches = pattern.matches(text, budget: &budget) else { throw Self.tooManySteps }
            return matches
        case .matches(let pattern):
            switch pattern.verdict(on: text, budget: &budget) {
            case .matches: return true
            case .doesNotMatch: return false
            case .givenUp, .budgetSpent: throw Self.tooManySteps
            case .tooLong:
                throw Fault(
                    .invalidPredicate,
                    "MATCHES looks around, and met a text of more than \(PatternConstraint.longestLookedAround) UTF-16 units. "
                        + "Write the expression without lookaround, atomic groups and back references.")
            }
        }
    }

    private static var tooManySteps: Fault {
        Fault(
            .invalidPredicate,
            "MATCHES or LIKE takes too many steps to find out which texts follow it. Simplify the pattern, or let "
                + "other comparisons before it leave fewer texts to try.")
    }

    private static func stands(_ other: [UInt8], in text: UnsafeBufferPointer<UInt8>, at place: Int) -> Bool {
        other.isEmpty || memcmp(text.baseAddress! + place, other, other.count) == 0
    }

    private static func order(_ text: UnsafeBufferPointer<UInt8>, _ other: [UInt8]) -> Int {
        other.withUnsafeBufferPointer { Bytes.order(text, $0) }
    }
}

extension PredicateOrder {
    /// - Parameter order: negative when the left side is less.
    func holds(_ order: Int) -> Bool {
        switch self {
        case .less: order < 0
        case .atMost: order <= 0
        case .greater: order > 0
        case .atLeast: order >= 0
        }
    }
}
