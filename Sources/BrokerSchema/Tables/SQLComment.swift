/// A comment in SQL. No text can end it, break its line, or make a statement long.
struct SQLComment {
    /// Unicode scalars of a comment. A table of 2,000 columns stays a statement of few megabytes.
    static let longest = 300

    let text: String

    init(_ content: String) {
        var scalars = String.UnicodeScalarView()
        var count = 0
        var isAfterSpace = true
        for scalar in content.unicodeScalars {
            let isSpace = scalar.properties.isWhitespace || Self.isUnprintable(scalar)
            if isSpace, isAfterSpace { continue }
            guard count < Self.longest else {
                scalars.append("…")
                break
            }
            // Neither the end of a comment nor the beginning of another one, which some tools nest.
            let isEnd = scalars.last == "*" && scalar == "/" || scalars.last == "/" && scalar == "*"
            if isEnd { scalars.append(" ") }
            scalars.append(isSpace ? " " : scalar)
            count += 1
            isAfterSpace = isSpace
        }
        text = "/* \(String(scalars)) */"
    }

    /// Characters that end a line, end the text for SQLite, or change the order of what follows on a screen.
    private static func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control || scalar.properties.isBidiControl
    }
}
