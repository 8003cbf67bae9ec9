/// The JSON number of a decimal that is stored as a whole number of units, each ten to the power of `-scale`.
enum ScaledDecimal {
    /// The digits, with as many after the point as the scale says.
    static func text(_ units: Int64, scale: Int) -> [UInt8] {
        var digits = Array(String(units.magnitude).utf8)
        if digits.count <= scale {
            digits.insert(contentsOf: [UInt8](repeating: UInt8(ascii: "0"), count: scale + 1 - digits.count), at: 0)
        }
        if scale > 0 { digits.insert(UInt8(ascii: "."), at: digits.count - scale) }
        return units < 0 ? [UInt8(ascii: "-")] + digits : digits
    }
}
