internal import BrokerModel

/// The attribute that tells how new a record is, and how its values compare.
struct ModifiedColumn: Sendable {
    let column: Int
    private let isDecimal: Bool

    init(column: Int, type: AttributeType) {
        self.column = column
        isDecimal = type == .decimal
    }

    /// Whether a record that brings `value` is not newer than what brought `known`; where one of them is no value, it is
    /// taken.
    func isStale(_ value: Cell, against known: Cell) -> Bool {
        guard value.kind.rawValue > Cell.Kind.null.rawValue, known.kind.rawValue > Cell.Kind.null.rawValue else {
            return false
        }
        if isDecimal, value.kind == .text, known.kind == .text {
            return DecimalText(normal: value.bytes) <= DecimalText(normal: known.bytes)
        }
        return !known.precedes(value)
    }
}
