internal import CTape

/// Copies a string's content, with its escapes replaced.
enum Unescaping {
    /// - Parameter target: has room for as many bytes as the content; unescaping never lengthens.
    /// - Returns: the bytes written.
    /// - Throws: a bad escape: one that RFC 8259 does not know, or a surrogate without its partner.
    static func copy(
        _ text: UnsafePointer<UInt8>, from start: Int, to end: Int, into target: UnsafeMutablePointer<UInt8>
    ) throws(TapeFault) -> Int {
        var count = 0
        var offset = start
        while offset < end {
            guard text[offset] == UInt8(ascii: "\\") else {
                target[count] = text[offset]
                count += 1
                offset += 1
                continue
            }
            if let byte = simple(text[offset + 1]) {
                target[count] = byte
                count += 1
                offset += 2
                continue
            }
            guard let (scalar, size) = scalar(text, offset, end) else {
                throw TapeFault(BROKER_JSON_BAD_ESCAPE, at: offset)
            }
            for byte in UTF8.encode(scalar)! {
                target[count] = byte
                count += 1
            }
            offset += size
        }
        return count
    }

    private static func simple(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): byte
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: nil
        }
    }

    /// The scalar of `\uXXXX`, or of a pair of them, and the bytes that it has in the text; nil when there is none.
    private static func scalar(
        _ text: UnsafePointer<UInt8>, _ offset: Int, _ end: Int
    ) -> (scalar: Unicode.Scalar, size: Int)? {
        guard let unit = unit(text, offset, end) else { return nil }
        if let scalar = Unicode.Scalar(unit) { return (scalar, 6) }
        guard unit < 0xDC00, let low = self.unit(text, offset + 6, end), (0xDC00...0xDFFF).contains(low) else {
            return nil
        }
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + low - 0xDC00).map { ($0, 12) }
    }

    private static func unit(_ text: UnsafePointer<UInt8>, _ offset: Int, _ end: Int) -> UInt32? {
        guard end - offset >= 6, text[offset] == UInt8(ascii: "\\"), text[offset + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var value: UInt32 = 0
        for index in offset + 2..<offset + 6 {
            let digit: UInt8
            switch text[index] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = text[index] - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = text[index] - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = text[index] - UInt8(ascii: "A") + 10
            default: return nil
            }
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}
