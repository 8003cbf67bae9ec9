internal import BrokerSchema
internal import BrokerStaging

extension Cell {
    /// The value as an SQL literal, whatever bytes it has.
    var literal: String {
        switch kind {
        case .integer: integer == .min ? "(-9223372036854775807 - 1)" : "\(integer)"
        // Swift writes the shortest text that reads as the same number, always with a point or an exponent.
        case .real: "\(real)"
        case .text: "CAST(x'\(hexadecimal)' AS TEXT)"
        case .blob: "x'\(hexadecimal)'"
        case .null, .absent, .object: "NULL"
        }
    }

    private var hexadecimal: String {
        let digits = Array("0123456789ABCDEF".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension StagingPlan {
    /// Returns the default of an attribute as an SQL literal; nil without a default.
    func defaultLiteral(entity: Int, attribute: Int) -> String? {
        defaultCell(entity: entity, attribute: attribute)?.literal
    }
}
