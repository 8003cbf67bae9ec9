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
        guard text.count == 36 else { return nil }
        var hasLowerCase = false
        for index in 0..<36 {
            let byte = text[index]
            switch index {
            case 8, 13, 18, 23: guard byte == UInt8(ascii: "-") else { return nil }
            default:
                let isDigit = byte &- UInt8(ascii: "0") <= 9
                guard isDigit || (byte | 0x20) &- UInt8(ascii: "a") < 6 else { return nil }
                hasLowerCase = hasLowerCase || (!isDigit && byte & 0x20 != 0)
            }
        }
        guard hasLowerCase else { return text }
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
