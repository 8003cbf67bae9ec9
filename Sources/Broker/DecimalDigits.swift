/// The significant digits of a number as JSON writes it, and the power of ten that the last of them counts.
struct DecimalDigits {
    /// Digits that every `Decimal` of Foundation can hold: its integer has 128 bits.
    static let foundationCount = 38
    private static let foundationExponents = -128...127

    /// Significant digits: without zeros at either end.
    let count: Int
    /// The power of ten of the last significant digit; nil when it does not fit an `Int`.
    private let exponent: Int?

    init(_ number: String) {
        var digits = 0
        var significant = 0
        var fraction = 0
        var isFraction = false
        var rest = number.utf8[...]
        scan: while let byte = rest.first {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if byte != UInt8(ascii: "0") || digits > 0 { digits += 1 }
                if byte != UInt8(ascii: "0") { significant = digits }
                if isFraction { fraction += 1 }
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"): break scan
            default: break
            }
            rest = rest.dropFirst()
        }
        count = significant
        let written = rest.isEmpty ? 0 : Int(String(Substring(rest.dropFirst())))
        exponent = written.flatMap { written in
            let (sum, overflows) = written.subtractingReportingOverflow(fraction - (digits - significant))
            return overflows ? nil : sum
        }
    }

    /// A `Decimal` of Foundation holds the number without a loss. Zero has no digits, so its exponent does not matter.
    var isExactInFoundation: Bool {
        count == 0 || (count <= Self.foundationCount && exponent.map(Self.foundationExponents.contains) ?? false)
    }
}
