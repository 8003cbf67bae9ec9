internal import Glibc

/// Terminals, and the text that is highlighted on them.
package enum Terminal {
    /// Parameters of the control sequence SGR (ECMA-48, 8.3.117).
    package enum Style: String, Sendable {
        case error = "31"
        case warning = "33"
        case heading = "1"
    }

    /// The descriptor is a terminal on which a line can be drawn again.
    package static func isAnimated(_ descriptor: Int32) -> Bool {
        isatty(descriptor) == 1 && environment("TERM") != "dumb"
    }

    /// Users who set NO_COLOR to any text want none (no-color.org).
    private static func isStyled(_ descriptor: Int32) -> Bool {
        isAnimated(descriptor) && environment("NO_COLOR").isEmpty
    }

    /// - Parameter text: without characters that a terminal interprets.
    package static func styled(_ text: String, _ style: Style, on descriptor: Int32) -> String {
        isStyled(descriptor) ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m" : text
    }

    private static func environment(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
}
