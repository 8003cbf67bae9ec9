import BrokerCommandLine
import BrokerJSON

/// The widths of a table's columns, chosen by the first rows.
///
/// On a terminal, wide columns are cut first, numbers last; columns that still have no room are omitted from the right.
struct TableLayout {
    /// Columns of the terminal between two of the table.
    private static let gap = 2
    /// The width to which a column may be cut before others are omitted.
    fileprivate static let narrowest = (text: 8, number: 20)
    /// The width of a column where no terminal limits it.
    private static let widest = 60

    struct Column {
        let name: String
        var width: Int
        let isNumber: Bool
    }

    /// The columns that have room.
    private(set) var columns: [Column]
    /// The names of the others.
    let omitted: [String]
    /// Nothing limits the width of a line, so a value may be wider than those of the first rows.
    private let isUnlimited: Bool

    /// - Parameter terminal: the width of the terminal; nil for none.
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
            Self.fit(&columns, terminal)
        }
        self.columns = columns
        self.omitted = omitted
    }

    /// Cuts the widest columns to the greatest width with which all have room.
    private static func fit(_ columns: inout [Column], _ terminal: Int) {
        guard total(columns.map(\.width)) > terminal else { return }
        func widths(_ most: Int) -> [Int] { columns.map { max($0.leastWidth, min($0.width, most)) } }
        var (fits, exceeds) = (1, terminal + 1)
        while exceeds - fits > 1 {
            let middle = (fits + exceeds) / 2
            if total(widths(middle)) <= terminal { fits = middle } else { exceeds = middle }
        }
        var cut = widths(fits)
        var rest = terminal - total(cut)
        for place in columns.indices where rest > 0 && cut[place] < columns[place].width {
            cut[place] += 1
            rest -= 1
        }
        for place in columns.indices { columns[place].width = min(cut[place], terminal) }
    }

    private static func total(_ widths: [Int]) -> Int { widths.reduce(0, +) + gap * (widths.count - 1) }

    private static func width(_ text: String, _ most: Int) -> Int { TableText(text, columns: most).width }

    /// The names; of those that would read alike when they are cut, the ends.
    var header: String {
        let texts = columns.map { TableText($0.name, columns: $0.width) }
        let counts = texts.reduce(into: [:]) { $0[$1.shown, default: 0] += 1 }
        return line(
            zip(columns, texts).map { column, text in
                counts[text.shown] == 1 ? text : TableText(endOf: column.name, columns: column.width)
            })
    }

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

extension TableLayout.Column {
    fileprivate var leastWidth: Int {
        isNumber ? min(width, TableLayout.narrowest.number) : min(width, TableLayout.narrowest.text)
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
        let beginning = String(String.UnicodeScalarView(scalars[..<(end ?? scalars.endIndex)])).printable
        let isWhole = end == nil || end == scalars.endIndex
        let width = Terminal.width(of: beginning)
        guard !isWhole || width > columns else {
            shown = beginning
            self.width = width
            return
        }
        var cut = ""
        var cutWidth = 0
        for character in beginning {
            let next = Terminal.width(of: String(character))
            guard cutWidth + next < columns else { break }
            cut.append(character)
            cutWidth += next
        }
        shown = columns > 0 ? cut + "…" : ""
        self.width = columns > 0 ? cutWidth + 1 : 0
    }

    /// The end of a text that is too wide, with `…` before it.
    init(endOf text: String, columns: Int) {
        let whole = text.printable
        let wholeWidth = Terminal.width(of: whole)
        guard wholeWidth > columns else {
            shown = whole
            width = wholeWidth
            return
        }
        var end: [Character] = []
        var endWidth = 0
        for character in whole.reversed() {
            let next = Terminal.width(of: String(character))
            guard endWidth + next < columns else { break }
            end.append(character)
            endWidth += next
        }
        shown = columns > 0 ? "…" + String(end.reversed()) : ""
        width = columns > 0 ? endWidth + 1 : 0
    }
}
