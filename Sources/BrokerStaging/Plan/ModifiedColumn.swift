internal import BrokerModel

/// The `modified` attribute of an entity, and how its values compare.
struct ModifiedColumn: Sendable {
    let column: Int
    private let isDecimal: Bool

    init(column: Int, type: AttributeType) {
        self.column = column
        isDecimal = type == .decimal
    }

    /// Whether a record with `value` is not newer than the record that brought `known`. False if one of them is no
    /// value.
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
