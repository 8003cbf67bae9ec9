import BrokerModel

/// The constraints of an attribute, converted to its type.
struct ValueLimits: Sendable {
    enum Bounds: Sendable {
        case none
        case integer(ClosedRange<Int64>)
        case real(ClosedRange<Double>)
        case decimal(minimum: OwnedCell?, maximum: OwnedCell?)
        /// Checked before the date is stored, because storing may round it.
        case date(ClosedRange<Instant>)
    }

    /// Any limit is set.
    var isLimiting = false
    var bounds = Bounds.none
    /// Limit in Unicode scalars on a text; nil without one.
    var lengths: ClosedRange<Int>?
    var pattern: RegularExpression?
    /// The allowed values; empty without a limit.
    var allowed: [OwnedCell] = []
    /// Texts are decimals: equal when their values are.
    var comparesDecimals = false

    /// The limit that a cell breaks.
    enum Breach: Equatable {
        case bounds
        case length
        /// The pattern does not match, or the match was not tried.
        case pattern(RegularExpression.Verdict)
        case notListed
    }

    /// Instructions of a pattern that are free, because the text's own bytes pay for them.
    private static let freeInstructions = 64

    func breach(by cell: Cell, budget: inout WorkBudget) -> Breach? {
        if !isWithinBounds(cell) { return .bounds }
        if cell.kind == .text {
            if let lengths, !lengths.contains(Self.scalarCount(cell.bytes)) { return .length }
            if let pattern {
                let verdict = pattern.verdict(
                    on: cell.bytes, wholeText: false, freeInstructions: Self.freeInstructions, budget: &budget)
                guard verdict == .matches else { return .pattern(verdict) }
            }
        }
        let isAllowed =
            allowed.isEmpty || allowed.contains { Cell.order(cell, $0.cell, isDecimal: comparesDecimals) == 0 }
        return isAllowed ? nil : .notListed
    }

    private func isWithinBounds(_ cell: Cell) -> Bool {
        switch bounds {
        case .none, .date: return true
        case .integer(let range): return range.contains(cell.integer)
        case .real(let range): return range.contains(cell.real)
        case .decimal(let minimum, let maximum):
            let value = DecimalText(normal: cell.bytes)
            if let minimum, value < DecimalText(normal: minimum.cell.bytes) { return false }
            if let maximum, value > DecimalText(normal: maximum.cell.bytes) { return false }
            return true
        }
    }

    /// Every byte of UTF-8 that does not continue a sequence begins a scalar.
    static func scalarCount(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        var count = 0
        for byte in text where byte & 0xC0 != 0x80 { count += 1 }
        return count
    }
}
