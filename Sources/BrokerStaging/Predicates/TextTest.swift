import BrokerModel
import CRE2
import Glibc

/// A compiled test of texts. Immutable, shared by all threads.
struct TextTest: Sendable {
    private enum Kind: Sendable {
        case equals([UInt8])
        case isOneOf(Set<[UInt8]>)
        case isOrdered(PredicateOrder, [UInt8])
        case beginsWith([UInt8])
        case endsWith([UInt8])
        case contains([UInt8])
        case like(WildcardPattern)
        case matches(RegularExpression)
    }

    private let kind: Kind
    private let folding: TextFolding?

    /// - Precondition: ``instructions(of:)`` does not throw.
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
            case .contains: .contains(first)
            case .like: .like(WildcardPattern(first))
            case .matches:
                Self.compiled(test)
            }
        self.folding = folding
    }

    /// Returns the number of instructions of the test's regular expression; 0 when it has none.
    ///
    /// - Throws: the reason why it cannot be compiled, and the remedy.
    static func instructions(of test: PredicateTextTest) throws(RegularExpression.Problem) -> Int {
        test.relation == .matches ? try expression(test).instructions : 0
    }

    private static func compiled(_ test: PredicateTextTest) -> Kind {
        do throws(RegularExpression.Problem) {
            return .matches(try expression(test))
        } catch {
            preconditionFailure("a checked pattern can be compiled: \(error.message)")
        }
    }

    /// A regular expression ignores case itself, because folding would change the meaning of `\D`.
    private static func folding(_ test: PredicateTextTest) -> TextFolding? {
        TextFolding(
            ignoresCase: test.ignoresCase && test.relation != .matches, ignoresDiacritics: test.ignoresDiacritics)
    }

    private static func expression(
        _ test: PredicateTextTest
    ) throws(RegularExpression.Problem) -> RegularExpression {
        let text = test.texts.first ?? []
        // Folding makes a text at most three times as long, so a longer pattern is rejected before it is folded.
        guard text.count <= RegularExpression.maximumBytes else {
            return try RegularExpression(String(decoding: text, as: UTF8.self))
        }
        let folded = folding(test).map { fold in text.withUnsafeBufferPointer { fold($0) } } ?? text
        return try RegularExpression(String(decoding: folded, as: UTF8.self), ignoresCase: test.ignoresCase)
    }

    /// Bytes that are compared for one unit.
    private static let comparedBytesPerUnit = 32
    /// Bytes that memmem searches for one unit: it takes up to 8 ns a byte.
    private static let searchedBytesPerUnit = 2

    /// Returns false also when the budget is spent; the caller checks that.
    ///
    /// - Throws: `invalidPredicate` when the text is too long for the pattern.
    func isMet(
        by text: UnsafeBufferPointer<UInt8>, budget: inout WorkBudget
    ) throws(Fault) -> Bool {
        budget.charge(text.count / Self.comparedBytesPerUnit)
        guard let folding else { return try isMet(byFolded: text, budget: &budget) }
        budget.charge(text.count)
        guard !budget.isSpent else { return false }
        let folded = folding(text)
        return try folded.withUnsafeBufferPointer { bytes throws(Fault) in
            try isMet(byFolded: bytes, budget: &budget)
        }
    }

    private func isMet(
        byFolded text: UnsafeBufferPointer<UInt8>, budget: inout WorkBudget
    ) throws(Fault) -> Bool {
        switch kind {
        case .equals(let other): return Self.order(text, other) == 0
        case .isOneOf(let others): return others.contains(Array(text))
        case .isOrdered(let order, let other): return order.holds(Self.order(text, other))
        case .beginsWith(let other): return text.count >= other.count && Self.occurs(other, in: text, at: 0)
        case .endsWith(let other):
            return text.count >= other.count && Self.occurs(other, in: text, at: text.count - other.count)
        case .contains(let other):
            budget.charge(text.count / Self.searchedBytesPerUnit)
            return Self.isWithin(text, other)
        case .like(let pattern):
            switch pattern.verdict(on: text, budget: &budget) {
            case .matches: return true
            case .doesNotMatch, .budgetSpent: return false
            case .tooManySteps: throw Self.tooManySteps
            }
        case .matches(let expression):
            switch expression.verdict(on: text, wholeText: true, budget: &budget) {
            case .matches: return true
            case .doesNotMatch, .budgetSpent: return false
            case .textTooLong: throw Self.tooManySteps
            }
        }
    }

    private static var tooManySteps: Fault {
        Fault(
            .invalidPredicate,
            "A text is too long for the pattern of MATCHES or LIKE: comparing them takes more than "
                + "\(RegularExpression.maximumSteps / 1_000_000) million steps. Shorten the pattern, or let other comparisons "
                + "before it exclude long texts.")
    }

    /// Every text contains the empty text.
    private static func isWithin(_ text: UnsafeBufferPointer<UInt8>, _ other: [UInt8]) -> Bool {
        guard !other.isEmpty else { return true }
        guard let start = text.baseAddress, other.count <= text.count else { return false }
        return broker_contains(start, text.count, other, other.count)
    }

    private static func occurs(_ other: [UInt8], in text: UnsafeBufferPointer<UInt8>, at offset: Int) -> Bool {
        other.isEmpty || memcmp(text.baseAddress! + offset, other, other.count) == 0
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

/// A pattern of LIKE: `*` matches any characters, `?` matches one (a Unicode scalar), and a backslash escapes the next
/// character.
struct WildcardPattern: Sendable {
    private enum Part: Sendable, Equatable {
        case byte(UInt8)
        case oneCharacter
        case anything
    }

    private let parts: [Part]

    init(_ pattern: [UInt8]) {
        var parts: [Part] = []
        var isEscaped = false
        for byte in pattern {
            switch byte {
            case _ where isEscaped:
                parts.append(.byte(byte))
                isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = true
            case UInt8(ascii: "*"): if parts.last != .anything { parts.append(.anything) }
            case UInt8(ascii: "?"): parts.append(.oneCharacter)
            default: parts.append(.byte(byte))
            }
        }
        // A backslash at the end is literal.
        if isEscaped { parts.append(.byte(UInt8(ascii: "\\"))) }
        self.parts = parts
    }

    /// SQL's pattern with the wildcards of this one; nil for a pattern that has some of these, or no `%` at an end.
    static func form(ofSQL pattern: String) -> String? {
        guard pattern.hasPrefix("%") || pattern.hasSuffix("%") && !pattern.hasSuffix("\\%") else { return nil }
        var (form, isEscaped) = ("", false)
        for character in pattern.unicodeScalars {
            guard isEscaped || (character != "*" && character != "?") else { return nil }
            form.unicodeScalars.append(character == "%" && !isEscaped ? "*" : character)
            isEscaped = character == "\\" && !isEscaped
        }
        return form
    }

    enum Verdict: Equatable {
        case matches
        case doesNotMatch
        /// Matching took more than ``RegularExpression/maximumSteps``.
        case tooManySteps
        case budgetSpent
    }

    /// A step takes 2 ns.
    static let stepsPerUnit = 8

    /// Whether the whole text matches the pattern.
    ///
    /// Only the latest star is tried again, so steps are at most the text's length times the pattern's. All of them are
    /// charged.
    func verdict(on text: UnsafeBufferPointer<UInt8>, budget: inout WorkBudget) -> Verdict {
        let affordable = budget.remaining.multipliedReportingOverflow(by: Self.stepsPerUnit)
        let allowed = min(RegularExpression.maximumSteps, affordable.overflow ? .max : affordable.partialValue)
        var steps = 0
        let matches = matches(text, &steps, allowed)
        budget.charge(steps / Self.stepsPerUnit + 1)
        if let matches { return matches ? .matches : .doesNotMatch }
        return steps > RegularExpression.maximumSteps ? .tooManySteps : .budgetSpent
    }

    /// Returns nil when the steps were not enough.
    private func matches(_ text: UnsafeBufferPointer<UInt8>, _ steps: inout Int, _ allowed: Int) -> Bool? {
        var index = 0
        var part = 0
        var star: (part: Int, index: Int)?
        while index < text.count || part < parts.count {
            steps += 1
            guard steps <= allowed else { return nil }
            if part < parts.count {
                switch parts[part] {
                case .anything:
                    star = (part, index)
                    part += 1
                    continue
                case .byte(let byte) where index < text.count && text[index] == byte:
                    index += 1
                    part += 1
                    continue
                case .oneCharacter where index < text.count:
                    index = Self.next(text, index)
                    part += 1
                    continue
                case .byte, .oneCharacter: break
                }
            }
            guard let last = star, last.index < text.count else { return false }
            // The star matches one character more.
            star = (last.part, Self.next(text, last.index))
            index = star!.index
            part = last.part + 1
        }
        return true
    }

    private static func next(_ text: UnsafeBufferPointer<UInt8>, _ index: Int) -> Int {
        var next = index + 1
        while next < text.count, text[next] & 0xC0 == 0x80 { next += 1 }
        return next
    }
}
