extension JSONValue {
    /// A copy of the value as a JSON text.
    public var jsonText: [UInt8] {
        var writer = JSONWriter(capacity: bytes.count + 2)
        writer.value(self)
        return writer.bytes
    }

    /// The string in quotes, shortened for messages; no more of it is decoded than that.
    package var quotedBriefly: String {
        String(decoding: bytes.prefix(4 * String.longestQuote + 1), as: UTF8.self).quotedBriefly
    }
}

extension JSONValue.Kind {
    /// The kind as in a sentence: "an array", "null".
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

extension String {
    /// The maximum characters of a client's text that a message quotes.
    package static let longestQuote = 64

    /// The text in quotes, shortened for messages: a client's text may have megabytes.
    package var quotedBriefly: String { "\"\(briefly)\"" }

    /// The text, shortened for messages.
    package var briefly: String {
        guard utf8.count > Self.longestQuote else { return self }
        let first = unicodeScalars.prefix(Self.longestQuote)
        return first.endIndex == unicodeScalars.endIndex ? self : String(String.UnicodeScalarView(first)) + "…"
    }
}
