/// A pattern of resource paths such as `/articles/:articleID`, as in RestKit's path matcher and router.
///
/// In both directions: a matching path gives the values of the parameters, and values fill the pattern to a path. A
/// parameter is a colon and a name of letters, digits and `_`; it matches at least one character, and no slash. Other
/// text matches itself: `/feeds/:name.json`. Slashes at either end do not count, and neither do a query (`?page=2`) or
/// a fragment (`#top`) after a path.
package struct PathPattern: Sendable {
    enum Token: Sendable, Equatable {
        case literal([UInt8])
        case parameter(String)
    }

    /// The text of the pattern.
    package let text: String
    /// By segment, between slashes; a segment has at least one token.
    let segments: [[Token]]

    /// - Throws: ``PathPatternError`` when a parameter has no name, is directly followed by another, or occurs twice.
    package init(_ text: String) throws(PathPatternError) {
        self.text = text
        var segments: [[Token]] = []
        for segment in Self.segments(of: text.utf8[...]) { segments.append(try Self.tokens(of: segment, in: text)) }
        self.segments = segments
        var names: Set<String> = []
        for name in parameters where !names.insert(name).inserted {
            throw PathPatternError("the parameter \":\(name)\" occurs twice in \"\(text)\"; give each its own name")
        }
    }

    /// The names of the parameters, in order.
    package var parameters: [String] {
        segments.joined().compactMap { token in
            if case .parameter(let name) = token { name } else { nil }
        }
    }

    private static func tokens(of segment: Substring.UTF8View, in text: String) throws(PathPatternError) -> [Token] {
        var tokens: [Token] = []
        var rest = segment
        while let first = rest.first {
            guard first == colon else {
                let literal = rest.prefix { $0 != colon }
                tokens.append(.literal(Array(literal)))
                rest = rest[literal.endIndex...]
                continue
            }
            let name = rest.dropFirst().prefix { isNamePart($0) }
            guard !name.isEmpty else {
                throw PathPatternError("a colon in \"\(text)\" has no name after it; write \"/articles/:articleID\"")
            }
            if case .parameter(let other)? = tokens.last {
                throw PathPatternError(
                    "\":\(other)\" and \":\(Substring(name))\" touch in \"\(text)\", and the end of the first is "
                        + "unknown; put something between them")
            }
            tokens.append(.parameter(String(Substring(name))))
            rest = rest[name.endIndex...]
        }
        return tokens
    }

    private static let colon = UInt8(ascii: ":")

    private static func isNamePart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    static func segments(of path: Substring.UTF8View) -> [Substring.UTF8View] {
        let slash = UInt8(ascii: "/")
        var path = path
        while path.first == slash { path = path.dropFirst() }
        while path.last == slash { path = path.dropLast() }
        return path.isEmpty ? [] : path.split(separator: slash, omittingEmptySubsequences: false)
    }
}

/// A fault of a pattern, as a sentence without its end.
package struct PathPatternError: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
