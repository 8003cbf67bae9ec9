internal import Glibc

/// The help of a command, as swift-argument-parser writes it: it breaks every line but that of the usage.
enum HelpText {
    private static let beginning = "USAGE: "

    /// The help with its usage broken between arguments, for a terminal or for 80 columns.
    static func wrapped(_ help: String, columns: Int = Terminal.columns(of: STDOUT_FILENO) ?? 80) -> String {
        help.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.hasPrefix(beginning) && $0.count > columns ? wrappedUsage($0, columns) : String($0) }
            .joined(separator: "\n")
    }

    private static func wrappedUsage(_ line: Substring, _ columns: Int) -> String {
        var lines = [""]
        for argument in arguments(of: line) {
            let isFirst = lines[lines.count - 1].allSatisfy { $0 == " " }
            if !isFirst, lines[lines.count - 1].count + 1 + argument.count > columns {
                lines.append(String(repeating: " ", count: beginning.count) + argument)
            } else {
                lines[lines.count - 1] += (isFirst ? "" : " ") + argument
            }
        }
        return lines.joined(separator: "\n")
    }

    /// The words of a usage; what brackets enclose is one.
    private static func arguments(of line: Substring) -> [String] {
        var arguments: [String] = []
        var depth = 0
        for word in line.split(separator: " ") {
            if depth > 0 { arguments[arguments.count - 1] += " \(word)" } else { arguments.append(String(word)) }
            depth += word.count { $0 == "[" } - word.count { $0 == "]" }
        }
        return arguments
    }
}
