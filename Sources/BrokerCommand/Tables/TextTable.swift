import BrokerCommandLine

/// Rows in columns for people. The last column is cut so that a line fits the terminal, and is never padded.
struct TextTable {
    /// The side of the column on which a text is.
    enum Alignment {
        case left, right
    }

    private let alignments: [Alignment]
    private var rows: [[String]]

    init(_ header: [String], right: Set<Int> = []) {
        alignments = header.indices.map { right.contains($0) ? .right : .left }
        rows = [header.map { $0.uppercased() }]
    }

    /// - Parameter cells: as many as the header has.
    mutating func add(_ cells: [String]) { rows.append(cells.map(\.printable)) }

    var isEmpty: Bool { rows.count == 1 }

    /// - Parameter columns: of the terminal; nil cuts nothing.
    func lines(columns: Int?) -> [String] {
        let widths = alignments.indices.map { column in rows.map { Terminal.width(of: $0[column]) }.max() ?? 0 }
        return rows.map { cells in
            let line = cells.indices.map { column in
                let gap = String(repeating: " ", count: widths[column] - Terminal.width(of: cells[column]))
                let isLast = column == cells.count - 1
                return alignments[column] == .right ? gap + cells[column] : cells[column] + (isLast ? "" : gap)
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
