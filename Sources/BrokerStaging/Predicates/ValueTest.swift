package import BrokerModel

/// A predicate's compiled test of one value. Immutable, shared by all threads.
///
/// The store calls it for tests that SQL alone cannot express.
package final class ValueTest: Sendable {
    private enum Kind: Sendable {
        case isNil
        case equals(OwnedCell)
        case isOrdered(PredicateOrder, OwnedCell)
        case isOneOf(Set<PredicateValue>)
        case text(TextTest)
    }

    private static let unitsPerCall = 5
    private static let bytesPerUnit = 32

    private let kind: Kind
    private let isDecimal: Bool

    /// Returns nil for a comparison of two values of an object.
    package init?(_ test: PredicateTest, of type: AttributeType) {
        let isDecimal = type == .decimal
        switch test {
        case .isNil: kind = .isNil
        case .equals(let value): kind = .equals(value.owned)
        case .isOrdered(let order, let value): kind = .isOrdered(order, value.owned)
        case .isOneOf(let values): kind = .isOneOf(Set(isDecimal ? values.map(\.shortestDecimal) : values))
        case .text(let test): kind = .text(TextTest(test))
        case .equalsOperand, .isOrderedAgainst: return nil
        }
        self.isDecimal = isDecimal
    }

    /// Whether the value passes the test; absent and null are nil.
    ///
    /// True only when the budget is not spent.
    ///
    /// - Throws: `invalidPredicate` when a text is too long for a pattern.
    package func isMet(by cell: Cell, budget: inout WorkBudget) throws(Fault) -> Bool {
        if cell.kind == .absent || cell.kind == .null {
            if case .isNil = kind { return true }
            return false
        }
        budget.charge(Self.unitsPerCall + Int(cell.count) / Self.bytesPerUnit)
        guard !budget.isSpent else { return false }
        switch kind {
        case .isNil: return false
        case .equals(let other): return Cell.order(cell, other.cell, isDecimal: isDecimal) == 0
        case .isOrdered(let order, let other):
            return Cell.order(cell, other.cell, isDecimal: isDecimal).map(order.holds) ?? false
        case .isOneOf(let values):
            let value = PredicateValue(cell)
            return values.contains(isDecimal ? value.shortestDecimal : value)
        case .text(let test): return cell.kind == .text ? try test.isMet(by: cell.bytes, budget: &budget) : false
        }
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
    private indirect enum Node: Sendable {
        case always(Bool)
        case not(Node)
        case all([Node])
        case any([Node])
        case value(attribute: Int, ValueTest)
        /// Compares two attributes.
        case pair(Int, Int, isDecimal: Bool, PairTest)
    }

    private enum PairTest: Sendable {
        case equals
        case isOrdered(PredicateOrder)
    }

    private let root: Node
    /// The attributes that the predicate uses.
    let attributes: Set<Int>

    /// Returns nil when the predicate uses more than the record's own attributes.
    package init?(_ predicate: Predicate) {
        guard !predicate.usesRelationships else { return nil }
        root = Self.node(predicate)
        attributes = Set(predicate.operands.map(\.attribute))
    }

    private static func node(_ predicate: Predicate) -> Node {
        switch predicate {
        case .always(let truth): .always(truth)
        case .not(let inner): .not(node(inner))
        case .all(let parts): .all(parts.map(node))
        case .any(let parts): .any(parts.map(node))
        case .comparison(let comparison): node(comparison)
        case .exists: preconditionFailure("a record has no collections")
        }
    }

    private static func node(_ comparison: PredicateComparison) -> Node {
        let attribute = comparison.operand.attribute
        let isDecimal = comparison.operand.type == .decimal
        switch comparison.test {
        case .equalsOperand(let other):
            return .pair(attribute, other.attribute, isDecimal: isDecimal, .equals)
        case .isOrderedAgainst(let order, let other):
            return .pair(attribute, other.attribute, isDecimal: isDecimal, .isOrdered(order))
        case .isNil, .equals, .isOrdered, .isOneOf, .text:
            guard let test = ValueTest(comparison.test, of: comparison.operand.type) else {
                preconditionFailure("a test of one value can be compiled")
            }
            return .value(attribute: attribute, test)
        }
    }

    /// - Parameters:
    ///   - budget: charged for each value that is compared.
    ///   - value: returns an attribute's value by its index; absent means nil.
    /// - Throws: `invalidPredicate` when a text is too long for a pattern, `busy` when the budget is spent.
    package func matches(budget: inout WorkBudget, _ value: (Int) -> Cell) throws(Fault) -> Bool {
        let matches = try Self.matches(root, &budget, value)
        guard !budget.isSpent else {
            throw .busy(
                "The predicate takes too much work together with the other records of this job. Send them in several "
                    + "jobs, or simplify the predicate.")
        }
        return matches
    }

    private static func matches(
        _ node: Node, _ budget: inout WorkBudget, _ value: (Int) -> Cell
    ) throws(Fault) -> Bool {
        switch node {
        case .always(let truth): return truth
        case .not(let inner): return try !matches(inner, &budget, value)
        case .all(let parts):
            for part in parts where try !matches(part, &budget, value) { return false }
            return true
        case .any(let parts):
            for part in parts where try matches(part, &budget, value) { return true }
            return false
        case .value(let attribute, let test): return try test.isMet(by: value(attribute), budget: &budget)
        case .pair(let first, let second, let isDecimal, let test):
            return isMet(test, by: value(first), value(second), isDecimal: isDecimal)
        }
    }

    private static func isMet(_ test: PairTest, by first: Cell, _ second: Cell, isDecimal: Bool) -> Bool {
        let isFirstNil = first.kind == .absent || first.kind == .null
        let isSecondNil = second.kind == .absent || second.kind == .null
        let order = isFirstNil || isSecondNil ? nil : Cell.order(first, second, isDecimal: isDecimal)
        switch test {
        case .equals: return order == 0 || isFirstNil && isSecondNil
        case .isOrdered(let wanted): return order.map(wanted.holds) ?? false
        }
    }
}

extension PredicateOperand {
    fileprivate var attribute: Int {
        guard case .attribute(let index) = column else { preconditionFailure("a record's own attribute was asked for") }
        return index
    }
}
