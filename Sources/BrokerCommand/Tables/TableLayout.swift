import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerWire

/// The widths of a table's columns, chosen by the first rows.
///
/// On a terminal, wide columns are cut first, numbers last; columns that still have no room are omitted from the right.
struct TableLayout {
    /// Columns of the terminal between two of the table.
    private static let gap = 2
    /// The width of a column where no terminal limits it.
    private static let widest = 60

    struct Column {
        let name: String
        var width: Int
        let isNumber: Bool

        /// The width to which it may be cut before others are omitted.
        var leastWidth: Int { min(width, isNumber ? 20 : 8) }
    }

    private(set) var columns: [Column]
    let omitted: [String]
    /// Nothing limits the width of a line, so a value may be wider than those of the first rows.
    private let isUnlimited: Bool

    init(_ names: [String], _ rows: [[FetchedCell?]], terminal: Int?) {
        let widest = terminal ?? Self.widest
        isUnlimited = terminal == nil
        var columns = names.enumerated().map { place, name in
            let cells = rows.compactMap { $0[place] }.filter { !$0.isNull }
            return Column(
                name: name,
                width: cells.reduce(max(1, Self.width(name, widest))) { max($0, Self.width($1.text, widest)) },
                isNumber: !cells.isEmpty && cells.allSatisfy { $0.kind == .number })
        }
        var omitted: [String] = []
        if let terminal {
            while columns.count > 1, Self.total(columns.map(\.leastWidth)) > terminal {
                omitted.insert(columns.removeLast().name, at: 0)
            }
            // The widest column that may be cut is, one by one, until all have room.
            while Self.total(columns.map(\.width)) > terminal,
                let place = columns.indices.filter({ columns[$0].width > columns[$0].leastWidth }).max(by: {
                    columns[$0].width < columns[$1].width
                })
            {
                columns[place].width -= 1
            }
            for place in columns.indices { columns[place].width = min(columns[place].width, terminal) }
        }
        self.columns = columns
        self.omitted = omitted
    }

    private static func total(_ widths: [Int]) -> Int { widths.reduce(0, +) + gap * (widths.count - 1) }

    private static func width(_ text: String, _ most: Int) -> Int { TableText(text, columns: most).width }

    var header: String { line(columns.map { TableText($0.name, columns: $0.width) }) }

    func line(_ cells: [FetchedCell?]) -> String {
        line(zip(columns, cells).map { TableText($1?.text ?? "", columns: isUnlimited ? Self.widest : $0.width) })
    }

    private func line(_ texts: [TableText]) -> String {
        var line = ""
        var pending = 0
        for (column, text) in zip(columns, texts) {
            let padding = max(0, column.width - text.width)
            // Spaces are written before the next text only, so that no line ends with some.
            pending += column.isNumber ? padding : 0
            if !text.shown.isEmpty {
                line += String(repeating: " ", count: pending) + text.shown
                pending = 0
            }
            pending += (column.isNumber ? 0 : padding) + Self.gap
        }
        return line
    }
}

/// A text in a cell of a table: no wider than the column, with characters escaped that a terminal interprets.
struct TableText {
    let shown: String
    let width: Int

    init(_ text: String, columns: Int) {
        // The rest is cut, so it need not be escaped. A character may have many combining ones.
        let scalars = text.unicodeScalars
        let end = scalars.index(scalars.startIndex, offsetBy: 8 * columns + 8, limitedBy: scalars.endIndex)
        let beginning = String(scalars[..<(end ?? scalars.endIndex)]).printable
        let isWhole = end == nil || end == scalars.endIndex
        let width = Terminal.width(of: beginning)
        if isWhole, width <= columns {
            (shown, self.width) = (beginning, width)
        } else {
            let cut = Self.fitting(beginning, columns)
            (shown, self.width) = columns > 0 ? (cut.text + "…", cut.width + 1) : ("", 0)
        }
    }

    /// The first characters for which there is room beside `…`.
    private static func fitting(_ text: String, _ columns: Int) -> (text: String, width: Int) {
        var (fitting, width) = ("", 0)
        for character in text {
            let next = Terminal.width(of: String(character))
            guard width + next < columns else { break }
            fitting.append(character)
            width += next
        }
        return (fitting, width)
    }
}

struct FetchedCell {
    /// The path of its keys, joined by points.
    let name: String
    /// The content of a string, the JSON of an array; null is empty.
    let text: String
    let kind: JSONValue.Kind

    /// Whether nothing is lost without it.
    var isNull: Bool { kind == .null }

    private init(_ name: String, _ value: JSONValue) {
        self.name = name
        kind = value.kind
        text = value.isNull ? "" : String(decoding: value.bytes, as: UTF8.self)
    }

    /// The values of an object: those of nested objects by their paths. `_extra`, whose keys may be any, is one, as JSON.
    static func cells(of object: JSONValue) -> [FetchedCell] { cells(of: object, "") }

    private static func cells(of object: JSONValue, _ path: String) -> [FetchedCell] {
        object.members.flatMap { key, value in
            let name = path + String(decoding: key.bytes, as: UTF8.self)
            let isNested = value.kind == .object && !key.bytes.elementsEqual(Attribute.extraName.utf8)
            return isNested ? cells(of: value, name + ".") : [FetchedCell(name, value)]
        }
    }

    /// The values of an object whose names were selected: an object among them is JSON.
    static func selectedCells(of object: JSONValue) -> [FetchedCell] {
        object.members.map { key, value in FetchedCell(String(decoding: key.bytes, as: UTF8.self), value) }
    }

    var csv: String { text.csvField(isQuoted: text.isEmpty && !isNull) }
}

/// Rows in columns for people. The last column is cut so that a line fits the terminal, and is never padded.
struct TextTable {
    private var rows: [[String]]
    /// The columns whose texts are on the right.
    private let right: Set<Int>

    init(_ header: [String], right: Set<Int> = []) {
        rows = [header.map { $0.uppercased() }]
        self.right = right
    }

    mutating func add(_ cells: [String]) { rows.append(cells.map(\.printable)) }

    var isEmpty: Bool { rows.count == 1 }

    func lines(columns: Int?) -> [String] {
        let widths = rows[0].indices.map { column in rows.map { Terminal.width(of: $0[column]) }.max() ?? 0 }
        return rows.map { cells in
            let line = cells.indices.map { column in
                let gap = String(repeating: " ", count: widths[column] - Terminal.width(of: cells[column]))
                let isLast = column == cells.count - 1
                return right.contains(column) ? gap + cells[column] : cells[column] + (isLast ? "" : gap)
            }.joined(separator: "  ")
            return columns.map { TableText(line, columns: $0).shown } ?? line
        }
    }

    /// Words after a name of that width, in as many lines as they need.
    static func wrapped(_ words: [String], after indent: Int, columns: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in words.map(\.printable) {
            let longer = line.isEmpty ? word : line + " " + word
            if line.isEmpty || indent + Terminal.width(of: longer) <= columns {
                line = longer
            } else {
                lines.append(line)
                line = word
            }
        }
        return (lines + (line.isEmpty ? [] : [line])).enumerated().map { index, line in
            index == 0 ? line : String(repeating: " ", count: indent) + line
        }
    }
}
