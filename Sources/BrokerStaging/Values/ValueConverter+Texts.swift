import BrokerJSON

extension ValueConverter {
    func string(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        switch value.kind {
        case .string, .number, .true, .false: return .text(text(of: value, arena: &arena))
        case .null, .array, .object:
            throw refusal(of: value, as: "a string", remedy: "transformable keeps any JSON")
        }
    }

    func uri(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string else { throw refusal(of: value, as: "a URI") }
        let text = text(of: value, arena: &arena)
        guard !text.isEmpty, !WhiteSpace.orControlCharacter(isIn: text) else {
            throw refusal(
                of: value, as: "a URI", remedy: "it must not be empty or contain white space, which is written %20")
        }
        return .text(text)
    }

    /// Converts to upper case, as Foundation prints a UUID.
    func uuid(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string, let text = Self.uuid(text(of: value, arena: &arena), arena: &arena) else {
            throw refusal(of: value, as: "a UUID", remedy: "one has hexadecimal digits in groups of 8-4-4-4-12")
        }
        return .text(text)
    }

    private static func uuid(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8>? {
        let dash = UInt8(ascii: "-")
        guard text.count == 36, text[8] == dash, text[13] == dash, text[18] == dash, text[23] == dash else {
            return nil
        }
        // The 32 digits in four words.
        let (first, second) = (Bytes.word(text, at: 0), Bytes.halves(text, at: 9, 14))
        let (third, last) = (Bytes.halves(text, at: 19, 32), Bytes.word(text, at: 24))
        guard first.isHexadecimal, second.isHexadecimal, third.isHexadecimal, last.isHexadecimal else { return nil }
        guard first.hasLowerCase || second.hasLowerCase || third.hasLowerCase || last.hasLowerCase else { return text }
        let upper = arena.allocate(36)
        for index in 0..<36 { upper[index] = text[index] & (text[index] >= UInt8(ascii: "a") ? 0xDF : 0xFF) }
        return UnsafeBufferPointer(upper)
    }

    func binary(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string, let bytes = Base64.decode(text(of: value, arena: &arena), arena: &arena) else {
            throw refusal(
                of: value, as: "base64", remedy: "the standard alphabet (with + and /) is read, without line breaks")
        }
        return .blob(bytes)
    }
}

/// Eight bytes of a text. Sums of bytes below 128 do not carry into the next byte; the highest bit of each has the result of
/// the comparison.
extension UInt64 {
    private static let highest: UInt64 = 0x8080_8080_8080_8080

    @inline(__always)
    private func added(_ byte: UInt8) -> UInt64 { self &+ UInt64(byte) &* 0x0101_0101_0101_0101 }

    /// All bytes are hexadecimal digits.
    @inline(__always)
    fileprivate var isHexadecimal: Bool {
        let small = self | 0x2020_2020_2020_2020
        let isDigit = added(0x80 - UInt8(ascii: "0")) & ~added(0x7F - UInt8(ascii: "9"))
        let isLetter = small.added(0x80 - UInt8(ascii: "a")) & ~small.added(0x7F - UInt8(ascii: "f"))
        return self & Self.highest == 0 && (isDigit | isLetter) & Self.highest == Self.highest
    }

    /// - Precondition: all bytes are hexadecimal digits.
    @inline(__always)
    fileprivate var hasLowerCase: Bool { added(0x80 - UInt8(ascii: "a")) & Self.highest != 0 }
}
