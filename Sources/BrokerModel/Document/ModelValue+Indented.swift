internal import BrokerJSON

extension ModelValue {
    /// JSON for people: one line for each member; short values share a line.
    package var indentedJSON: String {
        var text = ""
        write(to: &text, indentation: 0)
        return text
    }

    private static let longestLine = 100

    private func write(to text: inout String, indentation: Int) {
        let inner = String(repeating: "  ", count: indentation + 1)
        let outer = String(repeating: "  ", count: indentation)
        guard !isShort(at: indentation) else { return text += line }
        func list(_ open: String, _ close: String, _ items: [(inout String) -> Void]) {
            text += open + "\n"
            for (index, item) in items.enumerated() {
                text += inner
                item(&text)
                text += index < items.count - 1 ? ",\n" : "\n"
            }
            text += outer + close
        }
        switch content {
        case .object(let members):
            list(
                "{", "}",
                members.map { member in
                    { text in
                        text += Self.quoted(member.key) + ": "
                        member.value.write(to: &text, indentation: indentation + 1)
                    }
                })
        case .array(let elements):
            list(
                "[", "]",
                elements.map { element in
                    { text in element.write(to: &text, indentation: indentation + 1) }
                })
        default: text += line
        }
    }

    /// Objects of entities and above always have lines of their own.
    private func isShort(at indentation: Int) -> Bool {
        switch content {
        case .object(let members):
            members.isEmpty || indentation > 3 && 2 * indentation + line.utf8.count <= Self.longestLine
        case .array(let elements):
            elements.isEmpty || 2 * indentation + line.utf8.count <= Self.longestLine
        default: true
        }
    }

    /// On one line, with a space after each comma and colon.
    private var line: String {
        switch content {
        case .object(let members):
            "{" + members.map { Self.quoted($0.key) + ": " + $0.value.line }.joined(separator: ", ") + "}"
        case .array(let elements): "[" + elements.map(\.line).joined(separator: ", ") + "]"
        case .number(let text): text
        case .string(let string): Self.quoted(string)
        case .bool(let bool): bool ? "true" : "false"
        case .null: "null"
        }
    }

    private static func quoted(_ string: String) -> String {
        var writer = JSONWriter()
        writer.string(string)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
