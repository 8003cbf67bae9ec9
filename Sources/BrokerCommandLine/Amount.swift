/// A decimal number and the unit after it, as in `1.5G` and `30 s`.
struct Amount {
    /// The number without its point.
    private let digits: Int
    /// 1, 10, 100 and so on: the digits are this many times too large.
    private let divisor: Int
    /// As it was written; empty when there is none.
    let unit: String

    /// An integer, and a power of ten, hold any number of so many digits.
    private static let mostDigits = 18

    /// - Returns: nil when the text does not begin with a number, or with one of too many digits.
    init?(_ text: String) {
        let number = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), !parts.contains(where: \.isEmpty), number.count <= Self.mostDigits,
            let digits = Int(parts.joined())
        else { return nil }
        var divisor = 1
        for _ in parts.count == 2 ? parts[1] : "" { divisor *= 10 }
        self.digits = digits
        self.divisor = divisor
        unit = String(text.dropFirst(number.count).drop { $0 == " " })
    }

    /// The number of units of which each is so many; nil when it is not whole, or too large.
    func times(_ factor: Int) -> Int? {
        let (product, hasOverflow) = digits.multipliedReportingOverflow(by: factor)
        return hasOverflow || product % divisor != 0 ? nil : product / divisor
    }
}
