internal import Glibc

/// A question before something that cannot be undone.
package enum Confirmation {
    /// A person reads standard error, and answers on standard input. A script is not asked: its command says what it wants.
    package static var isPossible: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks, and waits for the answer. Characters of the question that a terminal interprets are escaped.
    package static func agrees(to question: String) -> Bool {
        let bytes = Array("\(question) [y/N] ".printable.utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}
