extension JSONValue {
    /// The value as JSON text of its own.
    package var jsonText: [UInt8] {
        var writer = JSONWriter(capacity: bytes.count + 2)
        writer.value(self)
        return writer.bytes
    }

    /// A string in quotes and no longer than a message bears; no more of it is decoded than that.
    package var quotedBriefly: String {
        String(decoding: bytes.prefix(4 * String.longestQuote + 1), as: UTF8.self).quotedBriefly
    }
}

extension JSONValue.Kind {
    /// As it stands in a sentence: "an array", "null".
    package var phrase: String {
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
    package var asPointerToken: String {
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
    /// Characters of what was sent that a message quotes.
    package static let longestQuote = 64

    /// In quotes and no longer than a message bears: what was sent may be megabytes.
    package var quotedBriefly: String { "\"\(briefly)\"" }

    /// No longer than a message bears.
    package var briefly: String {
        guard utf8.count > Self.longestQuote else { return self }
        let first = unicodeScalars.prefix(Self.longestQuote)
        return first.endIndex == unicodeScalars.endIndex ? self : String(String.UnicodeScalarView(first)) + "…"
    }
}
