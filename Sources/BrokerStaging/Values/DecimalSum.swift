/// The exact sum of two decimal numbers.
enum DecimalSum {
    /// Returns the sum as a JSON number without an exponent, with as many digits after the point as the longer fraction has; nil
    /// when an exponent needs more than ``DecimalText/maximumExpandedDigits`` digits.
    static func text(_ one: NumberText, _ other: NumberText) -> [UInt8]? {
        guard let places = places(of: one, other) else { return nil }
        let (first, second) = (digits(of: one, places), digits(of: other, places))
        let isNegative: Bool
        var sum: [UInt8]
        if one.isNegative == other.isNegative {
            (isNegative, sum) = (one.isNegative, added(first, second))
        } else if second.reversed().lexicographicallyPrecedes(first.reversed()) {
            (isNegative, sum) = (one.isNegative, subtracted(second, from: first))
        } else {
            (isNegative, sum) = (other.isNegative, subtracted(first, from: second))
        }
        let fraction = -places.lowerBound
        while sum.count > fraction + 1, sum.last == 0 { sum.removeLast() }
        let isZero = sum.allSatisfy { $0 == 0 }
        var text = isNegative && !isZero ? [UInt8(ascii: "-")] : []
        for (position, digit) in sum.enumerated().reversed() {
            text.append(UInt8(ascii: "0") + digit)
            if position == fraction, fraction > 0 { text.append(UInt8(ascii: ".")) }
        }
        return text
    }

    /// The powers of ten of all digits, and one more for the carry.
    private static func places(of one: NumberText, _ other: NumberText) -> Range<Int>? {
        var places = 0..<1
        for number in [one, other] {
            let point = number.integer.count + number.exponent
            let (lowest, highest) = (min(point - number.digitCount, 0), max(point, 0))
            if number.exponent != 0, highest - lowest > DecimalText.maximumExpandedDigits { return nil }
            places = min(places.lowerBound, lowest)..<max(places.upperBound, highest + 1)
        }
        return places
    }

    /// The digits at these places, the lowest first.
    private static func digits(of number: NumberText, _ places: Range<Int>) -> [UInt8] {
        let point = number.integer.count + number.exponent
        return places.map { place in
            let index = point - 1 - place
            return index >= 0 && index < number.digitCount ? number.digit(index) : 0
        }
    }

    private static func added(_ one: [UInt8], _ other: [UInt8]) -> [UInt8] {
        var carry: UInt8 = 0
        return zip(one, other).map { first, second in
            let sum = first + second + carry
            carry = sum / 10
            return sum % 10
        }
    }

    /// - Precondition: the difference is not negative.
    private static func subtracted(_ one: [UInt8], from other: [UInt8]) -> [UInt8] {
        var borrow: UInt8 = 0
        return zip(one, other).map { less, more in
            let difference = 10 + more - less - borrow
            borrow = difference < 10 ? 1 : 0
            return difference % 10
        }
    }
}
