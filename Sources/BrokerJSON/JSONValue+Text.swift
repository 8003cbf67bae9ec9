extension JSONValue {
    /// The value as JSON text of its own.
    public var jsonText: [UInt8] {
        var writer = JSONWriter(capacity: bytes.count + 2)
        writer.value(self)
        return writer.bytes
    }
}

extension JSONValue.Kind {
    /// As it stands in a sentence: "an array", "null".
    public var phrase: String {
        switch self {
        case .null: "null"
        case .false: "false"
        case .true: "true"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension String {
    /// As one token of a JSON Pointer (RFC 6901, section 3).
    public var asPointerToken: String {
        guard utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return self }
        var token = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "~": token += "~0"
            case "/": token += "~1"
            default: token.unicodeScalars.append(scalar)
            }
        }
        return token
    }
}
