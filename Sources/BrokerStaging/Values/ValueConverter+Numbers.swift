import BrokerJSON
internal import Glibc

extension ValueConverter {
    @inline(__always)
    func integer(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Cell {
        if let number = value.int64, range.contains(number) { return .integer(number) }
        return .integer(try writtenInteger(value, in: range, arena: &arena))
    }

    /// Converts any value but a number that is written as an integer and fits.
    private func writtenInteger(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Int64 {
        switch value.kind {
        case .true: return 1
        case .false: return 0
        case .number, .string:
            let text = value.kind == .string ? text(of: value, arena: &arena) : value.bytes
            guard let number = NumberText(text) else { break }
            guard let integer = number.int64 else {
                if number.isWhole { throw outOfRange(value, range) }
                throw refusal(of: value, as: "a whole number", remedy: "decimal and double keep fractions")
            }
            guard range.contains(integer) else { throw outOfRange(value, range) }
            return integer
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "a whole number")
    }

    @inline(never) private func outOfRange(_ value: JSONValue, _ range: ClosedRange<Int64>) -> ValueFault {
        let remedy = (type == .integer64 ? "" : "integer64 holds more, and ") + Self.widerType(for: value)
        return ValueFault(
            reason: .inconvertible,
            message: "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(self.type.rawValue) holds "
                + "\(range.lowerBound) to \(range.upperBound); \(remedy)")
    }

    /// The type that holds a number of any size: decimal, unless the exponent is too large for it.
    private static func widerType(for value: JSONValue) -> String {
        var arena = ByteArena()
        let isDecimal = NumberText(value.bytes).map { DecimalText.normalise($0, arena: &arena) != nil } ?? true
        return isDecimal ? "decimal keeps every digit" : "string holds it as it is written"
    }

    func decimal(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        var written = value.bytes
        switch value.kind {
        case .true: return .text(Self.one)
        case .false: return .text(Self.zero)
        case .number where DecimalText.isNormal(jsonNumber: written): return .text(written)
        case .number: break
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written) else { throw refusal(of: value, as: "a number") }
        guard let text = DecimalText.normalise(number, arena: &arena) else {
            // Beyond its range a double would be infinite, or zero.
            let isInRange = number.double.map { $0.isFinite && $0 != 0 } ?? false
            throw ValueFault(
                reason: .inconvertible,
                message: "\(Self.shown(value)) has an exponent too large for attribute \"\(self.name)\": a decimal may "
                    + "have \(DecimalText.maximumExpandedDigits) digits when it is written out; "
                    + (isInRange ? "double holds it, rounded" : "string holds it as it is written"))
        }
        return .text(text)
    }

    /// A decimal as a whole number of units, each ten to the power of `-scale`.
    func decimal(_ value: JSONValue, scale: Int, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let written: UnsafeBufferPointer<UInt8>
        switch value.kind {
        case .true: written = Self.one
        case .false: written = Self.zero
        case .number: written = value.bytes
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written)?.scaled(by: scale) else { throw refusal(of: value, as: "a number") }
        if let units = number.int64 { return .integer(units) }
        let limit =
            number.isWhole
            ? "its values are whole numbers of 64 bits with \(scale) of the digits after the point"
            : "its \"scale\" allows \(scale) digits after the point"
        throw ValueFault(
            reason: .inconvertible,
            message: "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(limit); "
                + "\"storage\": \"text\" keeps every digit")
    }

    /// - Parameter largest: the greatest finite value of the type.
    func real(_ value: JSONValue, largest: Double, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let number: Double?
        var written = value.bytes
        switch value.kind {
        case .true: return .real(1)
        case .false: return .real(0)
        case .number: number = Double(fastJSONNumber: written)
        case .string:
            written = text(of: value, arena: &arena)
            guard let text = NumberText(written) else { throw refusal(of: value, as: "a number") }
            number = text.double
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number, number.magnitude <= largest || Float(number).isFinite else {
            throw ValueFault(
                reason: .inconvertible,
                message: "\(Self.shown(value)) is too large for attribute \"\(self.name)\": \(self.type.rawValue) ends "
                    + "at \(largest); \(Self.widerType(for: value))")
        }
        // A double holds each integer of 15 digits exactly.
        if written.count > 15 || number == 0, Self.isInexact(written, number) { arena.isInexact = true }
        return .real(number)
    }

    /// Whether the number loses information as a double: an integer becomes another number, or a number other than zero
    /// becomes 0. Rounding a fraction to the nearest double is no loss in this sense.
    ///
    /// An integer has neither fraction nor exponent. An integer that a program printed from a double is exact, whether
    /// with all digits of the double or with the fewest that read as it.
    @inline(never) private static func isInexact(_ written: UnsafeBufferPointer<UInt8>, _ double: Double) -> Bool {
        guard let number = NumberText(written) else { return false }
        if double == 0 { return (0..<number.digitCount).contains { number.digit($0) != 0 } }
        guard number.fraction.isEmpty, number.exponent == 0 else { return false }
        if let integer = number.int64 {
            // 2^63 as a double is out of range.
            if let exact = Int64(exactly: double), exact == integer { return false }
        } else if double.integerDigits.withUnsafeBufferPointer({ number.hasSameDigits(as: $0) }) {
            return false
        }
        var shortest = double.description
        return shortest.withUTF8 { text in NumberText(text).map { !number.hasSameValue(as: $0) } ?? true }
    }

    func boolean(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        switch value.kind {
        case .true: return .integer(1)
        case .false: return .integer(0)
        case .number:
            if let number = NumberText(value.bytes)?.int64, number == 0 || number == 1 { return .integer(number) }
        case .string:
            if let truth = Self.truth(of: text(of: value, arena: &arena)) { return .integer(truth ? 1 : 0) }
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "true or false", remedy: "yes, no, t, f, y, n, 1 and 0 will do as well")
    }

    private static func truth(of word: UnsafeBufferPointer<UInt8>) -> Bool? {
        switch word.count {
        case 1:
            switch word[0] {
            case UInt8(ascii: "1"), UInt8(ascii: "t"), UInt8(ascii: "T"), UInt8(ascii: "y"), UInt8(ascii: "Y"): true
            case UInt8(ascii: "0"), UInt8(ascii: "f"), UInt8(ascii: "F"), UInt8(ascii: "n"), UInt8(ascii: "N"): false
            default: nil
            }
        case 2: isWord(word, "no") ? false : nil
        case 3: isWord(word, "yes") ? true : nil
        case 4: isWord(word, "true") ? true : nil
        case 5: isWord(word, "false") ? false : nil
        default: nil
        }
    }

    private static func isWord(_ text: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        var cursor = TextCursor(text)
        return cursor.take(anyCase: word) && cursor.isAtEnd
    }

    private static let digits: StaticString = "01"
    private static var zero: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start, count: 1) }
    private static var one: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start + 1, count: 1) }
}

extension Double {
    /// All digits of a whole number, without the sign.
    fileprivate var integerDigits: [UInt8] {
        var buffer = [CChar](repeating: 0, count: 320)
        let count = withVaList([magnitude]) { vsnprintf(&buffer, buffer.count, "%.0f", $0) }
        return buffer.prefix(Int(count)).map { UInt8(bitPattern: $0) }
    }
}

extension NumberText {
    fileprivate func hasSameDigits(as other: UnsafeBufferPointer<UInt8>) -> Bool {
        integer.drop { $0 == UInt8(ascii: "0") }.elementsEqual(other)
    }

    /// Whether the values are equal without their signs.
    fileprivate func hasSameValue(as other: NumberText) -> Bool {
        let (own, others) = (normal, other.normal)
        return own.digits == others.digits && own.exponent == others.exponent
    }

    /// The digits without zeros at either end, and the power of ten of the last one.
    private var normal: (digits: [UInt8], exponent: Int) {
        var digits = (0..<digitCount).map { digit($0) }
        var exponent = exponent - fraction.count
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        return (Array(digits.drop { $0 == 0 }), digits.isEmpty ? 0 : exponent)
    }
}
