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
