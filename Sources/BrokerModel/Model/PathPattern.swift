/// A pattern of resource paths such as `/articles/:articleID`, as in RestKit's path matcher.
///
/// A parameter is a colon and a name of letters, digits and `_`; it matches at least one character, and no slash. Other
/// text matches itself: `/feeds/:name.json`. Slashes at either end do not count, and neither do a query (`?page=2`) or
/// a fragment (`#top`) after a path.
package struct PathPattern: Sendable {
    private enum Token: Sendable {
        case literal([UInt8])
        case parameter(String)
    }

    package let text: String
    /// By segment, between slashes; a segment has at least one token.
    private let segments: [[Token]]

    /// - Throws: ``PathPatternError`` when a parameter has no name, is directly followed by another, or occurs twice.
    package init(_ text: String) throws(PathPatternError) {
        self.text = text
        var segments: [[Token]] = []
        for segment in Self.segments(of: text.utf8[...]) { segments.append(try Self.tokens(of: segment, in: text)) }
        self.segments = segments
        var names: Set<String> = []
        for case .parameter(let name) in segments.joined() where !names.insert(name).inserted {
            throw PathPatternError("the parameter \":\(name)\" occurs twice in \"\(text)\"; give each its own name")
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
        let character = Character(UnicodeScalar(byte))
        return character == "_" || character.isASCII && (character.isLetter || character.isNumber)
    }

    private static func segments(of path: Substring.UTF8View) -> [Substring.UTF8View] {
        let slash = UInt8(ascii: "/")
        var path = path
        while path.first == slash { path = path.dropFirst() }
        while path.last == slash { path = path.dropLast() }
        return path.isEmpty ? [] : path.split(separator: slash, omittingEmptySubsequences: false)
    }
}

extension PathPattern {
    /// A path without its query and its fragment, split into segments once for any number of patterns.
    package struct SplitPath: Sendable {
        fileprivate let segments: [Substring.UTF8View]

        package init(_ path: String) {
            let end = path.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? path.utf8.endIndex
            segments = PathPattern.segments(of: path.utf8[..<end])
        }
    }

    /// The parameters' values, without percent-encoding, in the order of the pattern; nil when the path does not match.
    ///
    /// Takes linear time in the path; a path with another number of segments takes constant time.
    package func match(_ path: SplitPath) -> [(name: String, value: String)]? {
        guard path.segments.count == segments.count else { return nil }
        var values: [(name: String, value: String)] = []
        for (tokens, segment) in zip(segments, path.segments) {
            guard Self.match(segment, tokens, &values) else { return nil }
        }
        return values
    }

    /// Each parameter ends at the first occurrence of the text after it; the text at the segment's end must match
    /// there.
    private static func match(
        _ segment: Substring.UTF8View, _ tokens: [Token], _ values: inout [(name: String, value: String)]
    ) -> Bool {
        var rest = segment
        for (position, token) in tokens.enumerated() {
            let isLast = position == tokens.count - 1
            switch token {
            case .literal(let bytes):
                guard rest.starts(with: bytes) else { return false }
                rest = rest.dropFirst(bytes.count)
            case .parameter(let name):
                var count = rest.count
                if !isLast, case .literal(let behind) = tokens[position + 1] {
                    let isAtEnd = position + 2 == tokens.count
                    guard let found = isAtEnd ? beginning(ofSuffix: behind, rest) : beginning(of: behind, rest) else {
                        return false
                    }
                    count = found
                }
                guard count > 0 else { return false }
                values.append((name, decoded(rest.prefix(count))))
                rest = rest.dropFirst(count)
            }
        }
        return rest.isEmpty
    }

    private static func beginning(ofSuffix suffix: [UInt8], _ text: Substring.UTF8View) -> Int? {
        let start = text.count - suffix.count
        return start > 0 && text.suffix(suffix.count).elementsEqual(suffix) ? start : nil
    }

    /// At least one byte later. A pattern's literals are short, so testing every position is linear in the text.
    private static func beginning(of literal: [UInt8], _ text: Substring.UTF8View) -> Int? {
        var rest = text.dropFirst()
        var count = 1
        while rest.count >= literal.count {
            if rest.starts(with: literal) { return count }
            rest = rest.dropFirst()
            count += 1
        }
        return nil
    }

    /// `%41` is `A`; a percent sign without two hexadecimal digits is itself.
    private static func decoded(_ text: Substring.UTF8View) -> String {
        let bytes = Array(text)
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = hexadecimal(bytes[index + 1]),
                let low = hexadecimal(bytes[index + 2])
            {
                decoded.append(high << 4 | low)
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: decoded, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

/// A fault of a pattern, as a sentence without its end.
package struct PathPatternError: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
