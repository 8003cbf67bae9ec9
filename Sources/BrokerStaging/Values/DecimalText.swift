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
