internal import CGlibc
internal import Foundation
internal import Glibc
internal import Synchronization

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

    /// Writes to standard error in one call; an error of the write cannot be reported anywhere.
    package static func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
    }

    private static func environment(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
}

/// The width of terminals, and of texts on them.
extension Terminal {
    /// The size of the terminal; nil when the descriptor is no terminal, or it does not say.
    package static func size(of descriptor: Int32) -> (rows: Int, columns: Int)? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return (Int(size.ws_row), Int(size.ws_col))
    }

    package static func columns(of descriptor: Int32) -> Int? { size(of: descriptor)?.columns }

    /// Columns that a text without control characters takes: 2 for a wide character, 0 for a combining one.
    package static func width(of text: some StringProtocol) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        // The thread's locale says what `wcwidth` knows; the process has that of C.
        let before = characters.locale.map { uselocale($0) }
        defer { if let before { uselocale(before) } }
        return text.unicodeScalars.reduce(0) { $0 + max(0, Int(broker_character_width($1.value))) }
    }

    private static let characters = Characters()

    // Immutable, and any thread may use a locale.
    private struct Characters: @unchecked Sendable {
        /// Nil where the system lacks it: then only ASCII has a width.
        let locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nil)
    }
}

/// The last line of standard error on a terminal, which is drawn again and again to say what is being done.
package enum TerminalLine {
    private static let isDrawn = Atomic(false)

    /// Standard error is a terminal on which it can be drawn.
    package static var isShown: Bool { Terminal.isAnimated(STDERR_FILENO) }

    /// Draws the line in the place of the one before. No longer than the terminal is wide: a wrapped line cannot be removed any
    /// more.
    package static func draw(_ line: String) {
        guard isShown else { return }
        isDrawn.store(true, ordering: .relaxed)
        Terminal.write("\r\u{1B}[K" + line)
    }

    /// Removes it, so that something else can be written.
    package static func clear() {
        if isDrawn.exchange(false, ordering: .relaxed) { Terminal.write("\r\u{1B}[K") }
    }
}

extension Terminal {
    /// A message as it is written to the descriptor: in lines that fit, if that is a terminal.
    package static func wrapped(_ line: String, on descriptor: Int32) -> String {
        columns(of: descriptor).map { wrapped(line, columns: $0, command: CommandLine.arguments[0]) } ?? line
    }

    /// A message in lines that are no wider, divided between words; all but the first are indented.
    ///
    /// - Parameter command: the text from there on stays as it is, so that it can be copied.
    package static func wrapped(_ line: String, columns: Int, command: String) -> String {
        guard width(of: line) > columns else { return line }
        let end = line.range(of: ": \(command) ", options: .backwards)?.lowerBound ?? line.endIndex
        var text = ""
        var width = 0
        let words = line[..<end].split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        let last = end < line.endIndex ? String(line[end...].dropFirst(2)) : nil
        for (index, word) in words.enumerated() {
            let word = index == words.count - 1 && last != nil ? word + ":" : word
            let needed = Self.width(of: word)
            if index > 0, width + 1 + needed > columns {
                text += "\n  " + word
                width = 2 + needed
            } else {
                text += (index > 0 ? " " : "") + word
                width += (index > 0 ? 1 : 0) + needed
            }
        }
        guard let last else { return text }
        return text + (width + 1 + Self.width(of: last) > columns ? "\n" : " ") + last
    }
}

/// A question before something that cannot be undone.
package enum Confirmation {
    /// A person reads standard error, and answers on standard input. A script is not asked: its command says what it wants.
    package static var isPossible: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks, and waits for the answer. Characters of the question that a terminal interprets are escaped.
    package static func agrees(to question: String) -> Bool {
        Terminal.write(Terminal.wrapped("\(question) [y/N] ".printable, on: STDERR_FILENO))
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}
