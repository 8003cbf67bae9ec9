package import BrokerModel

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
