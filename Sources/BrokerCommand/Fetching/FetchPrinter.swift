import ArgumentParser
import Broker
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import Glibc

struct FetchPrinter {
    private let format: FetchFormat
    /// The names of the values if they were selected, otherwise none.
    private let selection: [String]
    /// Paths of values whose columns come first.
    private let leading: [String]
    /// Paths of values that have columns, also where no object has them.
    private let lasting: [String]
    /// What is counted.
    private let noun: String
    private(set) var count = 0
    /// For a table or CSV: of the first part, or the selected ones.
    private var columns: FetchedColumns?
    private var layout: TableLayout?

    init(
        _ format: FetchFormat, selection: [String], leading: [String], lasting: [String] = [], noun: String = "object"
    ) {
        self.lasting = lasting
        self.noun = noun
        self.format = format
        self.selection = selection
        self.leading = leading
    }

    mutating func add(_ objects: RawJSON) throws {
        try JSONDocument(fast: JSONText(copying: objects.bytes)).withRoot { root in
            let elements = Array(root.elements)
            defer { count += elements.count }
            switch format {
            case .json: try StandardOutput.write(json(elements))
            case .ndjson: try StandardOutput.write(elements.flatMap { $0.jsonText + [UInt8(ascii: "\n")] })
            case .csv, .table: try StandardOutput.write(Array(lines(elements).utf8))
            case .vertical: try StandardOutput.write(Array(vertical(elements).utf8))
            }
        }
    }

    /// - Throws: when not all values have a column of the CSV.
    mutating func end() throws(CommandFailure) {
        switch format {
        case .json: try Program.write(count == 0 ? "[]" : "\n]")
        case .csv where columns == nil && !selection.isEmpty:
            try StandardOutput.write(Array(lines([]).utf8))
        case .table, .vertical: Program.report(Program.counted(count, noun))
        case .csv, .ndjson: break
        }
        if let omitted = layout?.omitted, !omitted.isEmpty {
            Program.report(
                "No room for: \(Self.listed(omitted)). See all with -x"
                    + (noun == "object" ? ", or choose with --select." : "."))
        }
        guard let missing = columns?.missing, !missing.isEmpty else { return }
        let message =
            "Some objects have values that the first ones lack, and they have no column: \(Self.listed(missing)). "
            + "Name the columns with --select, or print --ndjson."
        guard format == .table else { throw CommandFailure(message) }
        Program.report(message)
    }

    private static func listed(_ names: [String]) -> String {
        let most = 10
        return names.prefix(most).joined(separator: ", ") + (names.count > most ? ", … (\(names.count))" : "")
    }

    private func cells(of object: JSONValue) -> [FetchedCell] {
        selection.isEmpty ? FetchedCell.cells(of: object) : FetchedCell.selectedCells(of: object)
    }

    // MARK: - Forms

    private func json(_ elements: [JSONValue]) -> [UInt8] {
        var text: [UInt8] = []
        for (position, element) in elements.enumerated() {
            text += Array((count + position == 0 ? "[\n" : ",\n").utf8) + element.jsonText
        }
        return text
    }

    /// Lines of a table or of CSV; the first ones begin with the header.
    private mutating func lines(_ elements: [JSONValue]) -> String {
        // The columns are those of objects that exist.
        guard !elements.isEmpty || !selection.isEmpty else { return "" }
        let rows = elements.map(cells)
        let isFirst = columns == nil
        var columns =
            columns
            ?? (selection.isEmpty
                ? FetchedColumns(of: rows, leading: leading, lasting: lasting) : FetchedColumns(names: selection))
        let lines = rows.map { columns.line($0) }
        self.columns = columns
        guard !columns.names.isEmpty else { return "" }
        if format == .csv {
            let header = isFirst ? [columns.names.map { $0.csvField() }.joined(separator: ",")] : []
            return (header + lines.map { $0.map { $0?.csv ?? "" }.joined(separator: ",") })
                .map { $0 + "\r\n" }.joined()
        }
        let layout =
            self.layout ?? TableLayout(columns.names, lines, terminal: Terminal.columns(of: STDOUT_FILENO))
        self.layout = layout
        let header = Terminal.styled(layout.header, .heading, on: STDOUT_FILENO)
        return ((isFirst ? [header] : []) + lines.map(layout.line)).map { $0 + "\n" }.joined()
    }

    /// A line with the object's number, and one for each value.
    private func vertical(_ elements: [JSONValue]) -> String {
        var text = ""
        for (position, element) in elements.enumerated() {
            let cells = cells(of: element).map { (name: $0.name.printable, text: $0.text.printable) }
            let width = cells.reduce(0) { max($0, Terminal.width(of: $1.name)) }
            text += "-[ \(count + position + 1) ]-\n"
            for (name, value) in cells {
                let padding = value.isEmpty ? 0 : width - Terminal.width(of: name) + 2
                text += name + String(repeating: " ", count: padding) + value + "\n"
            }
        }
        return text
    }
}

enum FetchFormat: String, CaseIterable {
    case json, ndjson, csv, table, vertical
}

struct FetchFormatOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive)
    var form: FetchFormat?

    var chosen: FetchFormat { form ?? (isatty(STDOUT_FILENO) == 1 ? .table : .ndjson) }
}

extension FetchFormat: EnumerableFlag {
    static func name(for value: FetchFormat) -> NameSpecification {
        value == .vertical ? [.customShort("x"), .customLong("vertical")] : .customLong(value.rawValue)
    }

    static func help(for value: FetchFormat) -> ArgumentHelp? {
        switch value {
        case .json: "Print one JSON array."
        case .ndjson: "Print an object on each line, as JSON: the default without a terminal."
        case .csv: "Print CSV with a header."
        case .table: "Print a table: the default on a terminal, and then no wider than it, with … where values are cut."
        case .vertical: "Print an attribute on each line, whole."
        }
    }
}

/// The columns of a table or of CSV: the paths of the values of some objects, in the order in which they are found.
struct FetchedColumns {
    let names: [String]
    /// By the bytes of the name: two names that differ in Unicode form only are two.
    private let places: [[UInt8]: Int]
    /// Names of values that have no column; as many as a message lists.
    private(set) var missing: [String] = []
    private static let mostMissing = 10

    init(names: [String]) {
        self.names = names
        places = Dictionary(names.enumerated().map { (Array($1.utf8), $0) }, uniquingKeysWith: { first, _ in first })
    }

    init(of rows: [[FetchedCell]], leading: [String] = [], lasting: [String] = []) {
        var names: [String] = []
        var known: Set<[UInt8]> = []
        /// The beginnings of paths: a nested object that is null in some rows needs no column.
        var outer: Set<[UInt8]> = []
        var withValue: Set<[UInt8]> = []
        for cell in rows.joined() {
            let name = Array(cell.name.utf8)
            if !cell.isNull { withValue.insert(name) }
            guard known.insert(name).inserted else { continue }
            names.append(cell.name)
            for (place, byte) in name.enumerated() where byte == UInt8(ascii: ".") {
                outer.insert(Array(name[..<place]))
            }
        }
        names = names.filter { outer.isDisjoint(with: [Array($0.utf8)]) || withValue.contains(Array($0.utf8)) }
        names += lasting.filter { !known.contains(Array($0.utf8)) }
        let ranks = names.map { name in
            leading.firstIndex { name.utf8.elementsEqual($0.utf8) || name.utf8.starts(with: "\($0).".utf8) }
                ?? leading.count
        }
        self.init(names: names.indices.sorted { (ranks[$0], $0) < (ranks[$1], $1) }.map { names[$0] })
    }

    /// The values in the order of the columns; nil where the object has none.
    mutating func line(_ cells: [FetchedCell]) -> [FetchedCell?] {
        var line: [FetchedCell?] = Array(repeating: nil, count: names.count)
        var next = 0
        for cell in cells {
            // They nearly always come in the columns' order.
            let isNext = next < names.count && names[next].utf8.elementsEqual(cell.name.utf8)
            guard let place = isNext ? next : places[Array(cell.name.utf8)] else {
                addMissing(cell)
                continue
            }
            line[place] = cell
            next = place + 1
        }
        return line
    }

    private mutating func addMissing(_ cell: FetchedCell) {
        guard !cell.isNull, missing.count < Self.mostMissing,
            !missing.contains(where: { $0.utf8.elementsEqual(cell.name.utf8) })
        else { return }
        missing.append(cell.name)
    }
}
