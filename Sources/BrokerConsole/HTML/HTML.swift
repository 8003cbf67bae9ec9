/// A piece of a page. Texts in a literal are markup; what is interpolated is ``escaped(_:)``, unless it is a piece itself.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    var text: String

    init(stringLiteral text: String) { self.text = text }

    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity * 2) }

        mutating func appendLiteral(_ literal: String) { text += literal }

        mutating func appendInterpolation(_ value: String) { text += escaped(value) }

        mutating func appendInterpolation(_ value: some BinaryInteger) { text += "\(value)" }

        mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }

        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }

        /// Nothing, where the condition does not hold.
        mutating func appendInterpolation(_ html: HTML, if condition: Bool) { if condition { text += html.text } }
    }

    static func += (one: inout HTML, other: HTML) { one.text += other.text }
}

/// Any text for an element or an attribute in quotes of a page.
///
/// Characters of markup become references. Controls (NUL among them), and characters that change the direction of what follows or
/// are not seen, become `\u{…}`, so that no value shows as another one.
func escaped(_ text: String) -> String {
    var result = ""
    result.reserveCapacity(text.utf8.count + 16)
    for scalar in text.unicodeScalars {
        switch scalar {
        case "&": result += "&amp;"
        case "<": result += "&lt;"
        case ">": result += "&gt;"
        case "\"": result += "&quot;"
        case "'": result += "&#39;"
        case "\n": result += "\n"
        default:
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse:
                result += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
    }
    return result
}

extension String {
    /// At most so many scalars, and an ellipsis for the rest.
    func cut(to count: Int) -> String {
        guard utf8.count > count, let end = unicodeScalars.index(startIndex, offsetBy: count, limitedBy: endIndex),
            end < endIndex
        else { return self }
        return String(self[..<end]) + "…"
    }
}

/// Rows under a caption, which scroll sideways where they do not fit.
struct Table {
    private let caption: String
    private let columns: [HTML]
    private let hasHead: Bool
    private var rows: [HTML] = []

    /// - Parameter columns: each with its name, and whether it has numbers. There is no head where none has a name.
    init(_ caption: String, _ columns: [(name: HTML, isNumber: Bool)]) {
        self.caption = caption
        hasHead = columns.contains { !$0.name.text.isEmpty }
        self.columns = columns.map { "<th scope=col\(" class=n", if: $0.isNumber)>\($0.name)</th>" }
    }

    /// - Parameter columns: their names, in which `#` at the beginning marks numbers.
    init(_ caption: String, _ columns: [String]) {
        self.init(caption, columns.map { ("\($0.hasPrefix("#") ? String($0.dropFirst()) : $0)", $0.hasPrefix("#")) })
    }

    /// - Parameter cells: the first names the row; those of columns with numbers, `numbers` of them after it, stand on the right.
    mutating func add(_ cells: [HTML]) {
        var row: HTML = "<tr><th scope=row>\(cells[0])</th>"
        for (cell, column) in zip(cells.dropFirst(), columns.dropFirst()) {
            row += column.text.contains("class=n") ? "<td class=n>\(cell)</td>" : "<td>\(cell)</td>"
        }
        rows.append("\(row)</tr>")
    }

    /// - Parameter none: stands there without rows.
    func html(none: String) -> HTML {
        let body: HTML = rows.isEmpty ? "<tr><td colspan=\(columns.count)>\(none)</td></tr>" : "\(rows)"
        let head: HTML = "<thead><tr>\(columns)</tr></thead>"
        return """
            <div class=scroll tabindex=0 role=region aria-label="\(caption)"><table><caption>\(caption)</caption>\
            \(head, if: hasHead)<tbody>\(body)</tbody></table></div>
            """
    }
}
