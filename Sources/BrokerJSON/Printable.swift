extension String {
    /// The text for a terminal or a log line, without characters that either of them interprets.
    ///
    /// Control characters (newlines, tabs and escape sequences among them), format characters (bidirectional controls,
    /// zero-width characters) and the separators U+2028 and U+2029 become `\u{…}` with the scalar's hexadecimal value.
    /// All other characters stay, including quotes and backslashes: use ``quotedForLog`` where a text must not be
    /// mistaken for another.
    package var printable: String { escaping { $0.isInterpreted } }

    /// One token of a log line, for any text.
    ///
    /// A text of ASCII letters, digits and `-_.,:;/@+%#~*` stays as it is. Any other text is in quotes; quotes and
    /// backslashes in it have a backslash before them, and the characters that ``printable`` replaces are replaced.
    package var quotedForLog: String {
        if !isEmpty, utf8.allSatisfy(\.isPlainInLog) { return self }
        return "\"\(escaping { $0 == "\"" || $0 == "\\" || $0.isInterpreted })\""
    }

    /// A JSON text for a log, without characters that a terminal interprets: they become JSON's own escapes.
    package var printableJSON: String {
        guard unicodeScalars.contains(where: \.isInterpreted) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            guard scalar.isInterpreted else { return text.unicodeScalars.append(scalar) }
            for unit in String(scalar).utf16 {
                text += "\\u" + unit.hexadecimalText
            }
        }
    }

    private func escaping(_ isEscaped: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isEscaped) else { return self }
        var text = ""
        text.reserveCapacity(utf8.count + 16)
        for scalar in unicodeScalars {
            if !isEscaped(scalar) {
                text.unicodeScalars.append(scalar)
            } else if scalar.isInterpreted {
                text += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            } else {
                text += "\\"
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// A terminal or a log viewer interprets it instead of showing it.
    fileprivate var isInterpreted: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
        default: false
        }
    }
}

extension UInt8 {
    fileprivate var isPlainInLog: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-_.,:;/@+%#~*".utf8.contains(self)
        }
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

extension FixedWidthInteger where Self: UnsignedInteger {
    /// All hexadecimal digits of the type, in lower case.
    package var hexadecimalText: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: Self.bitWidth / 4 - digits.utf8.count) + digits
    }
}

extension BinaryInteger {
    /// Returns the number in decimal with commas, for people: 16,777,215.
    package var grouped: String {
        var digits = Substring(String(magnitude))
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.append(digits.suffix(3))
            digits = digits.dropLast(3)
        }
        groups.append(digits)
        return (self < 0 ? "-" : "") + groups.reversed().joined(separator: ",")
    }
}

/// A destination of texts that escapes what clients and files contain, in its own form.
///
/// A log handler that writes JSON is one: a text that is quoted before it is in a JSON string is quoted twice.
package protocol EscapingItself {}
