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
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
