internal import BrokerModel

/// A fault of the arguments, as swift-argument-parser reports it.
enum UsageFault {
    private static let mark = "- "
    private static let heading = "Please provide one of the following:"

    /// The message on one line. Of the values that an option takes, the one that was probably meant is named.
    static func line(_ message: String) -> String {
        let lines = message.split(whereSeparator: \.isNewline).map { $0.trimmingPrefix { $0 == " " } }
        let values = lines.filter { $0.hasPrefix(mark) }.map { String($0.dropFirst(mark.count)) }
        let text = lines.filter { !$0.hasPrefix(mark) }.joined(separator: " ")
        guard !values.isEmpty, text.hasSuffix(heading) else { return text + values.map { " \(mark)\($0)" }.joined() }
        let given = text.firstMatch(of: /The value '(.*?)' is invalid/).map { String($0.1) } ?? ""
        return text.dropLast(heading.count) + "It is one of \(values.joined(separator: ", "))"
            + NearMiss.ending(given, among: values)
    }
}
