internal import CGlibc
internal import Glibc

/// The width of terminals, and of texts on them.
extension Terminal {
    /// Columns of the terminal; nil when the descriptor is no terminal, or it does not say.
    package static func columns(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Columns that a text without control characters takes: 2 for a wide character, 0 for a combining one.
    package static func width(of text: some StringProtocol) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        // The thread's locale says what `wcwidth` knows; the process has that of C.
        let before = characters.locale.map { uselocale($0) }
        defer { if let before { uselocale(before) } }
        return text.unicodeScalars.reduce(0) { $0 + max(0, Int(broker_character_width($1.value))) }
    }

    private static let characters = Characters()

    private struct Characters: @unchecked Sendable {
        /// Immutable. Nil where the system lacks it: then only ASCII has a width.
        let locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nil)
    }
}
