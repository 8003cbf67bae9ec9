/// Base64 by RFC 4648: the standard alphabet, padding optional, no other characters.
///
/// Unused bits of the last character must be zero, so that each value has one text.
enum Base64 {
    private static let notInAlphabet: UInt8 = 0xFF

    /// Returns the bytes; nil when the text is not base64.
    static func decode(_ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8>? {
        guard let count = unpaddedCount(text) else { return nil }
        let space = arena.allocate(count / 4 * 3 + max(count % 4 - 1, 0))
        guard decode(text, count: count, into: space) else {
            arena.giveBack(space.count)
            return nil
        }
        return UnsafeBufferPointer(space)
    }

    private static func decode(
        _ text: UnsafeBufferPointer<UInt8>, count: Int, into space: UnsafeMutableBufferPointer<UInt8>
    ) -> Bool {
        var unknown: UInt8 = 0
        func sextet(_ index: Int) -> UInt32 {
            let value = value(of: text[index])
            unknown |= value
            return UInt32(value)
        }
        var index = 0
        var end = 0
        while index + 4 <= count {
            let bits = sextet(index) << 18 | sextet(index + 1) << 12 | sextet(index + 2) << 6 | sextet(index + 3)
            space[end] = UInt8(truncatingIfNeeded: bits >> 16)
            space[end + 1] = UInt8(truncatingIfNeeded: bits >> 8)
            space[end + 2] = UInt8(truncatingIfNeeded: bits)
            index += 4
            end += 3
        }
        var spare: UInt32 = 0
        switch count - index {
        case 2:
            let bits = sextet(index) << 6 | sextet(index + 1)
            space[end] = UInt8(truncatingIfNeeded: bits >> 4)
            spare = bits & 0xF
        case 3:
            let bits = sextet(index) << 12 | sextet(index + 1) << 6 | sextet(index + 2)
            space[end] = UInt8(truncatingIfNeeded: bits >> 10)
            space[end + 1] = UInt8(truncatingIfNeeded: bits >> 2)
            spare = bits & 0x3
        default: break
        }
        return unknown & 0xC0 == 0 && spare == 0
    }

    /// Returns the number of characters before the padding; nil when the padding is wrong or the rest cannot be whole
    /// bytes.
    private static func unpaddedCount(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        var count = text.count
        while count > 0, text.count - count < 2, text[count - 1] == UInt8(ascii: "=") { count -= 1 }
        guard count % 4 != 1 else { return nil }
        return count == text.count || text.count % 4 == 0 ? count : nil
    }

    @inline(__always) private static func value(of character: UInt8) -> UInt8 {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: notInAlphabet
        }
    }
}

extension Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// Returns the bytes in the standard alphabet, padded.
    static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let count = min(3, bytes.count - index)
            var bits = UInt32(bytes[index]) << 16
            if count > 1 { bits |= UInt32(bytes[index + 1]) << 8 }
            if count > 2 { bits |= UInt32(bytes[index + 2]) }
            for sextet in 0..<4 {
                let value = Int(bits >> UInt32(18 - 6 * sextet)) & 0x3F
                text.append(sextet <= count ? alphabet[value] : UInt8(ascii: "="))
            }
            index += 3
        }
        return text
    }
}
