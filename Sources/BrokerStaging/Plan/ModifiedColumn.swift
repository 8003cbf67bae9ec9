internal import BrokerJSON
internal import BrokerModel

/// The `modified` attribute of an entity, and how its values compare.
struct ModifiedColumn: Sendable {
    let column: Int
    private let isDecimal: Bool
    /// Set for dates.
    private let dates: ValueConverter.Dates?

    init(column: Int, _ converter: ValueConverter) {
        self.column = column
        isDecimal = converter.type == .decimal
        dates = converter.type == .date ? converter.dates : nil
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
        // Times with all their digits beside stored ones.
        if let dates, value.kind != known.kind || value.kind == .text && value.count != known.count,
            let sent = instant(value, dates), let stored = instant(known, dates)
        {
            return sent <= stored
        }
        return !known.precedes(value)
    }

    private func instant(_ cell: Cell, _ dates: ValueConverter.Dates) -> Instant? {
        cell.kind == .text ? ISO8601.instant(cell.bytes, zone: .utc) : dates.instant(cell)
    }

    /// A value with all the digits that were sent, of which the attribute stores some; nil for a type without such values.
    func whole(_ value: JSONValue, _ converter: ValueConverter, arena: inout ByteArena) throws(ValueFault) -> Cell? {
        guard dates != nil else { return nil }
        let instant = try converter.instant(value, arena: &arena)
        return .text(ISO8601.write(instant, digits: Self.wholeDigits, arena: &arena))
    }

    /// Nanoseconds.
    private static let wholeDigits = 9
}
