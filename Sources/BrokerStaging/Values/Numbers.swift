internal import BrokerFastJSON

/// A decimal number as parts of its text, not yet computed, so that no digit is lost.
///
/// It reads JSON numbers and, because they occur in strings, also a leading `+`, superfluous leading zeros and a point
/// with digits on one side only. Valid while the text is.
package struct NumberText {
    /// Limit on exponents: no number needs more, and sums with it cannot overflow.
    private static let largestExponent = 1_000_000_000

    /// Without a leading `+`.
    let text: UnsafeBufferPointer<UInt8>
    let isNegative: Bool
    /// Digits before the point; may be empty when ``fraction`` is not.
    package let integer: UnsafeBufferPointer<UInt8>
    /// Digits after the point.
    package let fraction: UnsafeBufferPointer<UInt8>
    private(set) var exponent: Int

    /// Returns nil when the text is no number.
    package init?(_ written: UnsafeBufferPointer<UInt8>) {
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

    /// Whether the text that it was read from is a number in JSON's notation.
    package func isJSON(_ written: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = integer.first, first != UInt8(ascii: "0") || integer.count == 1 else { return false }
        // No plus, and no point without a fraction.
        return text.count == written.count && (!fraction.isEmpty || !written.contains(UInt8(ascii: ".")))
    }

    /// Whether the text that it was read from has a plus, or zeros before its first digit.
    func isPadded(_ written: UnsafeBufferPointer<UInt8>) -> Bool {
        text.count != written.count || integer.count > 1 && integer[0] == UInt8(ascii: "0")
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

/// An exact decimal in its stored form: an optional minus, digits, and optionally a point and digits.
///
/// No exponent, no plus, no superfluous leading zeros, no minus before zero. Zeros at the end of the fraction are
/// retained. Compares by value: 1.5 equals 1.50. Valid while the bytes are.
package struct DecimalText: Comparable {
    /// Limit on the digits of an expanded exponent: more than any intended number has, few enough to store.
    static let maximumExpandedDigits = 1000

    let bytes: UnsafeBufferPointer<UInt8>
    private let isNegative: Bool
    private let integer: UnsafeBufferPointer<UInt8>
    private let fraction: UnsafeBufferPointer<UInt8>

    /// - Precondition: the text has the form above.
    init(normal bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        isNegative = bytes.first == UInt8(ascii: "-")
        let digits = bytes.dropFirst(isNegative ? 1 : 0)
        let point = digits.firstIndex(of: UInt8(ascii: ".")) ?? digits.endIndex
        integer = UnsafeBufferPointer(rebasing: digits[..<point])
        fraction = UnsafeBufferPointer(rebasing: digits[point...].dropFirst())
    }

    /// Whether a JSON number is in normal form: it has no exponent and is surely not a negative zero.
    static func isNormal(jsonNumber text: UnsafeBufferPointer<UInt8>) -> Bool {
        if text[0] == UInt8(ascii: "-"), text[1] == UInt8(ascii: "0") { return false }
        for byte in text where byte | 0x20 == UInt8(ascii: "e") { return false }
        return true
    }

    /// Returns the number in normal form; nil when its exponent needs more than ``maximumExpandedDigits`` digits.
    static func normalise(_ number: NumberText, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8>? {
        let count = number.digitCount
        let firstNonzero = (0..<count).first { number.digit($0) != 0 }
        let isZero = firstNonzero == nil
        let point = number.integer.count + number.exponent  // counted in digits from the front
        // A zero before the point is written once.
        let integerStart = min(max(point, 0), firstNonzero ?? max(point, 0))
        let integerCount = max(point, 0) - integerStart
        let fractionCount = max(count - point, 0)
        if number.exponent != 0, integerCount + fractionCount > maximumExpandedDigits { return nil }

        let isNegative = number.isNegative && !isZero
        let pointCount = fractionCount > 0 ? 1 : 0
        let space = arena.allocate((isNegative ? 1 : 0) + max(integerCount, 1) + pointCount + fractionCount)
        var end = 0
        func append(_ byte: UInt8) {
            space[end] = byte
            end += 1
        }
        func appendDigits(_ range: Range<Int>) {
            for index in range {
                append(UInt8(ascii: "0") + (index >= 0 && index < count ? number.digit(index) : 0))
            }
        }
        if isNegative { append(UInt8(ascii: "-")) }
        if integerCount == 0 { append(UInt8(ascii: "0")) }
        appendDigits(integerStart..<integerStart + integerCount)
        if pointCount > 0 { append(UInt8(ascii: ".")) }
        appendDigits(point..<point + fractionCount)
        return UnsafeBufferPointer(space)
    }

    package static func == (left: DecimalText, right: DecimalText) -> Bool { left.ordered(against: right) == 0 }
    package static func < (left: DecimalText, right: DecimalText) -> Bool { left.ordered(against: right) < 0 }

    /// Returns a negative number when this one is less, a positive one when it is greater.
    private func ordered(against other: DecimalText) -> Int {
        guard isNegative == other.isNegative else { return isNegative ? -1 : 1 }
        let byMagnitude = magnitudeOrdered(against: other)
        return isNegative ? -byMagnitude : byMagnitude
    }

    private func magnitudeOrdered(against other: DecimalText) -> Int {
        guard integer.count == other.integer.count else { return integer.count - other.integer.count }
        for index in 0..<integer.count where integer[index] != other.integer[index] {
            return Int(integer[index]) - Int(other.integer[index])
        }
        for index in 0..<max(fraction.count, other.fraction.count) {
            let own = index < fraction.count ? fraction[index] : UInt8(ascii: "0")
            let others = index < other.fraction.count ? other.fraction[index] : UInt8(ascii: "0")
            guard own == others else { return Int(own) - Int(others) }
        }
        return 0
    }
}

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
