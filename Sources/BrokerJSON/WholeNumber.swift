extension Int64 {
    /// The value of a JSON number that is whole and fits, in any notation: `5`, `5.0`, `50e-1`. JSON Schema's `integer`
    /// is the same set of numbers.
    public init?(wholeNumber text: UnsafeBufferPointer<UInt8>) {
        if let number = Int64(decimalDigits: text) {
            self = number
            return
        }
        var digits: [UInt8] = []
        var scale = 0
        var index = text.first == UInt8(ascii: "-") ? 1 : 0
        var isFraction = false
        while index < text.count, text[index] | 0x20 != UInt8(ascii: "e") {
            if text[index] == UInt8(ascii: ".") {
                isFraction = true
            } else {
                // Leading zeros have no value, and there may be many.
                if !(digits.isEmpty && text[index] == UInt8(ascii: "0")) { digits.append(text[index]) }
                if isFraction { scale -= 1 }
            }
            index += 1
        }
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            scale += 1
        }
        guard !digits.isEmpty else {
            self = 0
            return
        }
        if index < text.count {
            guard let exponent = Self.exponent(text[(index + 1)...]) else { return nil }
            scale += exponent
        }
        // The largest magnitude has 19 digits.
        guard scale >= 0, digits.count + scale <= 19 else { return nil }
        let sign = text.first == UInt8(ascii: "-") ? [UInt8(ascii: "-")] : []
        let written = sign + digits + Array(repeating: UInt8(ascii: "0"), count: scale)
        guard let number = written.withUnsafeBufferPointer({ Int64(decimalDigits: $0) }) else { return nil }
        self = number
    }

    /// An exponent of up to nine digits; nil for a larger one.
    private static func exponent(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Int? {
        let isNegative = text.first == UInt8(ascii: "-")
        let digits = text.drop { !(0x30...0x39).contains($0) }.drop { $0 == 0x30 }
        guard digits.count <= 9 else { return nil }
        let magnitude = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return isNegative ? -magnitude : magnitude
    }
}

extension JSONValue {
    /// The value of a number that is whole and fits; nil otherwise.
    public var wholeNumber: Int64? { kind == .number ? Int64(wholeNumber: bytes) : nil }
}
