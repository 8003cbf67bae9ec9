import BrokerJSON

/// A decimal number as parts of its text, not yet computed, so that no digit is lost.
///
/// It reads JSON numbers and, because they occur in strings, also a leading `+`, superfluous leading zeros and a point
/// with digits on one side only. Valid while the text is.
struct NumberText {
    /// Limit on exponents: no number needs more, and sums with it cannot overflow.
    private static let largestExponent = 1_000_000_000

    /// Without a leading `+`.
    let text: UnsafeBufferPointer<UInt8>
    let isNegative: Bool
    /// Digits before the point; may be empty when ``fraction`` is not.
    let integer: UnsafeBufferPointer<UInt8>
    /// Digits after the point.
    let fraction: UnsafeBufferPointer<UInt8>
    private(set) var exponent: Int

    /// Returns nil when the text is no number.
    init?(_ written: UnsafeBufferPointer<UInt8>) {
        text = written.first == UInt8(ascii: "+") ? UnsafeBufferPointer(rebasing: written.dropFirst()) : written
        isNegative = text.first == UInt8(ascii: "-")
        // A sign after the plus would be a second sign.
        guard text.count == written.count || !isNegative else { return nil }
        let integerStart = isNegative ? 1 : 0
        let integerEnd = Self.endOfDigits(text, from: integerStart)
        var end = integerEnd
        var fractionStart = integerEnd
        if end < text.count, text[end] == UInt8(ascii: ".") {
            fractionStart = end + 1
            end = Self.endOfDigits(text, from: fractionStart)
        }
        integer = UnsafeBufferPointer(rebasing: text[integerStart..<integerEnd])
        fraction = UnsafeBufferPointer(rebasing: text[fractionStart..<end])
        guard integer.count + fraction.count > 0 else { return nil }
        if end == text.count {
            exponent = 0
        } else {
            guard let exponent = Self.exponent(UnsafeBufferPointer(rebasing: text[end...])) else { return nil }
            self.exponent = exponent
        }
    }

    /// The number times ten to the power of a small number.
    func scaled(by power: Int) -> NumberText {
        var scaled = self
        scaled.exponent += power
        return scaled
    }

    var digitCount: Int { integer.count + fraction.count }

    /// Returns the value of a digit, counted from the first one without regard to the point.
    func digit(_ index: Int) -> UInt8 {
        (index < integer.count ? integer[index] : fraction[index - integer.count]) &- UInt8(ascii: "0")
    }

    /// The exact value; nil when it is not whole or does not fit.
    var int64: Int64? { isWhole ? wholeMagnitude.flatMap(signed) : nil }

    /// The digits before the point after the exponent is applied; nil when they do not fit.
    var wholeMagnitude: UInt64? {
        let wholeCount = integer.count + exponent
        var magnitude: UInt64 = 0
        for index in 0..<max(0, min(wholeCount, digitCount)) {
            guard Self.append(digit(index), to: &magnitude) else { return nil }
        }
        guard magnitude != 0, wholeCount > digitCount else { return magnitude }
        for _ in digitCount..<wholeCount {
            guard Self.append(0, to: &magnitude) else { return nil }
        }
        return magnitude
    }

    /// Only zeros follow the point.
    var isWhole: Bool {
        let wholeCount = integer.count + exponent
        return wholeCount >= digitCount || (max(wholeCount, 0)..<digitCount).allSatisfy { digit($0) == 0 }
    }

    /// The part before the point, with the sign, whatever the exponent; nil when it does not fit.
    var wholePart: Int? {
        var magnitude: UInt64 = 0
        for digit in integer {
            guard Self.append(digit &- UInt8(ascii: "0"), to: &magnitude) else { return nil }
        }
        return signed(magnitude).map(Int.init)
    }

    /// The nearest double; nil when no finite one is near.
    var double: Double? { Double(fastJSONNumber: text) }

    private func signed(_ magnitude: UInt64) -> Int64? {
        guard magnitude <= UInt64(Int64.max) + (isNegative ? 1 : 0) else { return nil }
        return Int64(truncatingIfNeeded: isNegative ? 0 &- magnitude : magnitude)
    }

    private static func append(_ digit: UInt8, to magnitude: inout UInt64) -> Bool {
        let (tens, isTooLarge) = magnitude.multipliedReportingOverflow(by: 10)
        let (sum, isStillTooLarge) = tens.addingReportingOverflow(UInt64(digit))
        magnitude = sum
        return !isTooLarge && !isStillTooLarge
    }

    private static func endOfDigits(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var end = start
        while end < text.count, text[end] &- UInt8(ascii: "0") <= 9 { end += 1 }
        return end
    }

    /// Reads `e`, an optional sign, and digits up to the end.
    private static func exponent(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard text[0] | 0x20 == UInt8(ascii: "e"), text.count > 1 else { return nil }
        let isNegative = text[1] == UInt8(ascii: "-")
        let start = isNegative || text[1] == UInt8(ascii: "+") ? 2 : 1
        guard start < text.count, endOfDigits(text, from: start) == text.count else { return nil }
        var value = 0
        for index in start..<text.count {
            value = min(value * 10 + Int(text[index] &- UInt8(ascii: "0")), largestExponent)
        }
        return isNegative ? -value : value
    }
}
