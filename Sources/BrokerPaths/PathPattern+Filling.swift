extension PathPattern {
    /// Returns the path with the parameters' values, percent-encoded (RFC 3986: all but letters, digits and `-._~`).
    ///
    /// - Parameter value: returns the value of the parameter of that name; nil when there is none.
    /// - Throws: ``PathPatternError`` with the names of the parameters whose value is missing or empty.
    package func path(_ value: (_ parameter: String) throws -> String?) throws -> String {
        var missing: [String] = []
        var path = text.utf8.first == UInt8(ascii: "/") ? "/" : ""
        for (position, tokens) in segments.enumerated() {
            if position > 0 { path += "/" }
            for token in tokens {
                switch token {
                case .literal(let bytes): path += String(decoding: bytes, as: UTF8.self)
                case .parameter(let name):
                    if let value = try value(name), !value.isEmpty {
                        path += Self.encoded(value)
                    } else {
                        missing.append(":\(name)")
                    }
                }
            }
        }
        if segments.count > 0, text.utf8.last == UInt8(ascii: "/") { path += "/" }
        guard missing.isEmpty else {
            throw PathPatternError(
                "\(text) needs a value for \(missing.joined(separator: ", ")), which may not be empty")
        }
        return path
    }

    private static func encoded(_ value: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in value.utf8 {
            if isUnreserved(byte) {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xF)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
