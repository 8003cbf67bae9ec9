package import BrokerModel
import CRE2
import Glibc

/// A predicate's compiled test of one value. Immutable, shared by all threads.
///
/// The store calls it for tests that SQL alone cannot express.
package final class ValueTest: Sendable {
    private enum Kind: Sendable {
        case isNil
        case equals(OwnedCell)
        case isOrdered(PredicateOrder, OwnedCell)
        case isOneOf(Set<PredicateValue>)
        case beginsWith([UInt8])
        case endsWith([UInt8])
        case contains([UInt8])
        case like(WildcardPattern)
        case matches(RegularExpression)
    }

    private static let unitsPerCall = 5
    /// Bytes that are compared for one unit.
    private static let bytesPerUnit = 32
    /// Bytes that memmem searches for one unit: it takes up to 8 ns a byte.
    private static let searchedBytesPerUnit = 2

    private let kind: Kind
    private let isDecimal: Bool
    /// A test of texts alone, which may fold them first.
    private let isOfTexts: Bool
    private let folding: TextFolding?

    /// Returns nil for a comparison of two values of an object.
    ///
    /// - Precondition: ``instructions(of:)`` does not throw for a test of texts.
    package init?(_ test: PredicateTest, of type: AttributeType) {
        let isDecimal = type == .decimal
        var text: PredicateTextTest?
        switch test {
        case .isNil: kind = .isNil
        case .equals(let value): kind = .equals(value.owned)
        case .isOrdered(let order, let value): kind = .isOrdered(order, value.owned)
        case .isOneOf(let values): kind = .isOneOf(Set(isDecimal ? values.map(\.shortestDecimal) : values))
        case .text(let test):
            text = test
            kind = Self.kind(test)
        case .equalsOperand, .isOrderedAgainst: return nil
        }
        self.isDecimal = isDecimal && text == nil
        isOfTexts = text != nil
        folding = text.flatMap(Self.folding)
    }

    private static func kind(_ test: PredicateTextTest) -> Kind {
        let texts = test.texts.map { text in
            folding(test).map { fold in text.withUnsafeBufferPointer { fold($0) } } ?? text
        }
        let first = texts.first ?? []
        switch test.relation {
        case .equals: return .equals(PredicateValue.text(first).owned)
        case .isOneOf: return .isOneOf(Set(texts.map { .text($0) }))
        case .isOrdered(let order): return .isOrdered(order, PredicateValue.text(first).owned)
        case .beginsWith: return .beginsWith(first)
        case .endsWith: return .endsWith(first)
        case .contains: return .contains(first)
        case .like: return .like(WildcardPattern(first))
        case .matches:
            do throws(RegularExpression.Problem) {
                return .matches(try expression(test))
            } catch {
                preconditionFailure("a checked pattern can be compiled: \(error.message)")
            }
        }
    }

    /// Returns the number of instructions of the test's regular expression; 0 when it has none.
    ///
    /// - Throws: the reason why it cannot be compiled, and the remedy.
    static func instructions(of test: PredicateTextTest) throws(RegularExpression.Problem) -> Int {
        test.relation == .matches ? try expression(test).instructions : 0
    }

    /// A regular expression ignores case itself, because folding would change the meaning of `\D`.
    private static func folding(_ test: PredicateTextTest) -> TextFolding? {
        TextFolding(
            ignoresCase: test.ignoresCase && test.relation != .matches, ignoresDiacritics: test.ignoresDiacritics)
    }

    private static func expression(
        _ test: PredicateTextTest
    ) throws(RegularExpression.Problem) -> RegularExpression {
        var text = test.texts.first ?? []
        // Folding makes a text at most three times as long, so a longer pattern is rejected before it is folded.
        if text.count <= RegularExpression.maximumBytes, let fold = folding(test) {
            text = text.withUnsafeBufferPointer { fold($0) }
        }
        return try RegularExpression(String(decoding: text, as: UTF8.self), ignoresCase: test.ignoresCase)
    }

    /// Whether the value passes the test; absent and null are nil.
    ///
    /// True only when the budget is not spent.
    ///
    /// - Throws: `invalidPredicate` when a text is too long for a pattern.
    package func isMet(by cell: Cell, budget: inout WorkBudget) throws(Fault) -> Bool {
        if cell.isNil {
            if case .isNil = kind { return true }
            return false
        }
        budget.charge(Self.unitsPerCall + Int(cell.count) / Self.bytesPerUnit)
        guard !budget.isSpent else { return false }
        guard isOfTexts else { return try holds(cell, &budget) }
        guard cell.kind == .text else { return false }
        budget.charge(cell.bytes.count / Self.bytesPerUnit)
        guard let folding else { return try holds(cell, &budget) }
        budget.charge(cell.bytes.count)
        guard !budget.isSpent else { return false }
        return try folding(cell.bytes).withUnsafeBufferPointer { folded throws(Fault) in
            try holds(.text(folded), &budget)
        }
    }

    private func holds(_ cell: Cell, _ budget: inout WorkBudget) throws(Fault) -> Bool {
        switch kind {
        case .isNil: return false
        case .equals(let other): return Cell.order(cell, other.cell, isDecimal: isDecimal) == 0
        case .isOrdered(let order, let other):
            return Cell.order(cell, other.cell, isDecimal: isDecimal).map(order.holds) ?? false
        case .isOneOf(let values):
            let value = PredicateValue(cell)
            return values.contains(isDecimal ? value.shortestDecimal : value)
        case .beginsWith(let other): return cell.bytes.starts(with: other)
        case .endsWith(let other): return cell.bytes.suffix(other.count).elementsEqual(other)
        case .contains(let other):
            budget.charge(cell.bytes.count / Self.searchedBytesPerUnit)
            guard let start = cell.bytes.baseAddress, !other.isEmpty else { return other.isEmpty }
            return other.count <= cell.bytes.count && broker_contains(start, cell.bytes.count, other, other.count)
        case .like(let pattern):
            switch pattern.verdict(on: cell.bytes, budget: &budget) {
            case .matches: return true
            case .doesNotMatch, .budgetSpent: return false
            case .tooManySteps: throw Self.tooManySteps
            }
        case .matches(let expression):
            switch expression.verdict(on: cell.bytes, wholeText: true, budget: &budget) {
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
}

extension PredicateValue {
    fileprivate var owned: OwnedCell {
        switch self {
        case .integer(let integer): OwnedCell(copying: .integer(integer))
        case .real(let real): OwnedCell(copying: .real(real))
        case .text(let bytes): bytes.withUnsafeBufferPointer { OwnedCell(copying: .text($0)) }
        case .blob(let bytes): bytes.withUnsafeBufferPointer { OwnedCell(copying: .blob($0)) }
        }
    }

    /// Equal decimals in one form: without zeros at the end of the fraction.
    fileprivate var shortestDecimal: PredicateValue {
        guard case .text(var bytes) = self, bytes.contains(UInt8(ascii: ".")) else { return self }
        while bytes.last == UInt8(ascii: "0") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        return .text(bytes)
    }
}

extension Cell {
    /// Returns a negative number when the left one is less, as SQLite orders values of one column; nil for values of
    /// different types.
    static func order(_ left: Cell, _ right: Cell, isDecimal: Bool) -> Int? {
        switch (left.kind, right.kind) {
        case (.integer, .integer): left.integer < right.integer ? -1 : left.integer > right.integer ? 1 : 0
        case (.real, .real): left.real < right.real ? -1 : left.real > right.real ? 1 : 0
        case (.integer, .real): order(left.integer, right.real)
        case (.real, .integer): -order(right.integer, left.real)
        case (.text, .text) where isDecimal: DecimalText.order(left.bytes, right.bytes)
        case (.text, .text), (.blob, .blob): Bytes.order(left.bytes, right.bytes)
        default: nil
        }
    }

    /// Exact: does not round the integer to a double.
    private static func order(_ integer: Int64, _ real: Double) -> Int {
        if real >= 0x1p63 { return -1 }
        if real < -0x1p63 { return 1 }
        let whole = Int64(real.rounded(.down))
        if integer != whole { return integer < whole ? -1 : 1 }
        return real > real.rounded(.down) ? -1 : 0
    }
}

extension DecimalText {
    /// Returns a negative number when the left one is less. Both must have the stored form; other texts have some
    /// order.
    package static func order(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        let (first, second) = (DecimalText(normal: left), DecimalText(normal: right))
        return first < second ? -1 : first == second ? 0 : 1
    }
}

/// A compiled predicate for records in memory. Immutable, shared by all threads.
package struct RecordPredicate: Sendable {
    private typealias Test = @Sendable (inout WorkBudget, (Int) -> Cell) throws(Fault) -> Bool

    private let test: Test
    /// The attributes that the predicate uses.
    let attributes: Set<Int>

    /// Returns nil when the predicate uses more than the record's own attributes.
    package init?(_ predicate: Predicate) {
        guard !predicate.usesRelationships else { return nil }
        test = Self.test(predicate)
        attributes = Set(predicate.operands.map(\.attribute))
    }

    /// - Parameters:
    ///   - budget: charged for each value that is compared.
    ///   - value: returns an attribute's value by its index; absent means nil.
    /// - Throws: `invalidPredicate` when a text is too long for a pattern, `busy` when the budget is spent.
    package func matches(budget: inout WorkBudget, _ value: (Int) -> Cell) throws(Fault) -> Bool {
        let matches = try test(&budget, value)
        guard !budget.isSpent else {
            throw .busy(
                "The predicate takes too much work together with the other records of this job. Send them in several "
                    + "jobs, or simplify the predicate.")
        }
        return matches
    }

    private static func test(_ predicate: Predicate) -> Test {
        switch predicate {
        case .always(let truth): return { _, _ in truth }
        case .not(let inner):
            let inner = test(inner)
            return { (budget, value) throws(Fault) in try !inner(&budget, value) }
        case .all(let parts): return test(of: parts.map(test), endsWith: false)
        case .any(let parts): return test(of: parts.map(test), endsWith: true)
        case .comparison(let comparison): return test(comparison)
        case .exists: preconditionFailure("a record has no collections")
        }
    }

    /// - Parameter end: the result of a part that is that of all of them.
    private static func test(of parts: [Test], endsWith end: Bool) -> Test {
        { (budget, value) throws(Fault) in
            for part in parts where try part(&budget, value) == end { return end }
            return !end
        }
    }

    private static func test(_ comparison: PredicateComparison) -> Test {
        let (attribute, type) = (comparison.operand.attribute, comparison.operand.type)
        func pair(_ other: PredicateOperand, _ isMet: @escaping @Sendable (Int?, _ areNil: Bool) -> Bool) -> Test {
            let second = other.attribute
            return { _, value in
                let (left, right) = (value(attribute), value(second))
                let (isLeftNil, isRightNil) = (left.isNil, right.isNil)
                let order = isLeftNil || isRightNil ? nil : Cell.order(left, right, isDecimal: type == .decimal)
                return isMet(order, isLeftNil && isRightNil)
            }
        }
        switch comparison.test {
        case .equalsOperand(let other): return pair(other) { order, areNil in order == 0 || areNil }
        case .isOrderedAgainst(let wanted, let other):
            return pair(other) { order, _ in order.map(wanted.holds) ?? false }
        case .isNil, .equals, .isOrdered, .isOneOf, .text:
            guard let test = ValueTest(comparison.test, of: type) else {
                preconditionFailure("a test of one value can be compiled")
            }
            return { (budget, value) throws(Fault) in try test.isMet(by: value(attribute), budget: &budget) }
        }
    }
}

extension PredicateOperand {
    fileprivate var attribute: Int {
        guard case .attribute(let index) = column else { preconditionFailure("a record's own attribute was asked for") }
        return index
    }
}
