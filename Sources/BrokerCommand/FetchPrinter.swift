import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON

/// Prints fetched objects, part by part.
struct FetchPrinter {
    private let format: FetchFormat
    /// Objects so far.
    private(set) var count = 0
    /// For a table or CSV: the columns of the first part.
    private var columns: FetchedColumns?

    init(_ format: FetchFormat) { self.format = format }

    /// - Parameter objects: an array.
    mutating func add(_ objects: RawJSON) throws {
        let document = try JSONDocument(fast: JSONText(copying: objects.bytes))
        try withExtendedLifetime(document) {
            let elements = Array(document.root.elements)
            switch format {
            case .json: try printJSON(elements)
            case .ndjson: try StandardOutput.write(elements.flatMap { $0.jsonText + [UInt8(ascii: "\n")] })
            case .csv, .table: try printRows(elements)
            }
            count += elements.count
        }
    }

    mutating func end() throws(CommandFailure) {
        if format == .json { try Program.write(count == 0 ? "[]" : "\n]") }
        if format == .table { Program.complain("\(count) object\(count == 1 ? "" : "s")") }
    }

    private func printJSON(_ elements: [JSONValue]) throws(CommandFailure) {
        var text: [UInt8] = []
        for (position, element) in elements.enumerated() {
            text += Array((count + position == 0 ? "[\n" : ",\n").utf8) + element.jsonText
        }
        try StandardOutput.write(text)
    }

    private mutating func printRows(_ elements: [JSONValue]) throws(CommandFailure) {
        let rows = elements.map(FetchedColumns.cells)
        let isFirst = columns == nil
        let columns = columns ?? FetchedColumns(rows, isTable: format == .table)
        self.columns = columns
        guard !columns.names.isEmpty else { return }
        var lines = isFirst ? [columns.header] : []
        lines += rows.map(columns.line)
        try StandardOutput.write(Array(lines.map { $0 + (format == .csv ? "\r\n" : "\n") }.joined().utf8))
    }
}

/// Objects as rows: a column for each path of keys, in the order in which they come first.
struct FetchedColumns {
    /// Characters of a cell of a table; what is longer is cut.
    private static let longestCell = 60

    let names: [String]
    /// The widths of a table; nil for CSV.
    private let widths: [Int]?

    init(_ rows: [[(name: String, text: String)]], isTable: Bool) {
        var names: [String] = []
        // By bytes: two names that differ in Unicode form only are two.
        var places: [[UInt8]: Int] = [:]
        var widths: [Int] = []
        for (name, text) in rows.joined() {
            let place = places[Array(name.utf8)] ?? names.count
            if place == names.count {
                names.append(name)
                places[Array(name.utf8)] = place
                widths.append(Self.shown(name).unicodeScalars.count)
            }
            if isTable { widths[place] = max(widths[place], Self.shown(text).unicodeScalars.count) }
        }
        self.names = names
        self.widths = isTable ? widths : nil
    }

    /// An object's values by their paths: nested objects are taken apart, arrays are JSON, null is empty.
    static func cells(of object: JSONValue) -> [(name: String, text: String)] { cells(of: object, "") }

    private static func cells(of object: JSONValue, _ path: String) -> [(name: String, text: String)] {
        object.members.flatMap { key, value -> [(name: String, text: String)] in
            let name = path + String(decoding: key.bytes, as: UTF8.self)
            switch value.kind {
            case .object: return cells(of: value, name + ".")
            case .null: return [(name, "")]
            default: return [(name, String(decoding: value.bytes, as: UTF8.self))]
            }
        }
    }

    var header: String { line(names) }

    func line(_ cells: [(name: String, text: String)]) -> String {
        var texts = Array(repeating: "", count: names.count)
        var next = 0
        for (name, text) in cells {
            // They nearly always come in the columns' order.
            let isNext = next < names.count && names[next].utf8.elementsEqual(name.utf8)
            guard let place = isNext ? next : names.firstIndex(where: { $0.utf8.elementsEqual(name.utf8) }) else {
                continue
            }
            texts[place] = text
            next = place + 1
        }
        return line(texts)
    }

    private func line(_ texts: [String]) -> String {
        guard let widths else { return texts.map(Self.csv).joined(separator: ",") }
        var line = ""
        for (position, text) in texts.enumerated() {
            let shown = Self.shown(text)
            line += shown
            guard position + 1 < texts.count else { break }
            line += String(repeating: " ", count: max(0, widths[position] - shown.unicodeScalars.count) + 2)
        }
        return line
    }

    /// As a field of CSV (RFC 4180).
    private static func csv(_ text: String) -> String {
        guard text.utf8.contains(where: { #",""#.utf8.contains($0) || $0 == 0x0A || $0 == 0x0D }) else { return text }
        var quoted = "\"".unicodeScalars
        for scalar in text.unicodeScalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        quoted.append("\"")
        return String(quoted)
    }

    /// As a cell of a table: short, with characters escaped that a terminal interprets.
    private static func shown(_ text: String) -> String {
        // The removed part need not be escaped.
        let beginning = String(String.UnicodeScalarView(text.unicodeScalars.prefix(longestCell + 1))).printable
        guard beginning.unicodeScalars.count > longestCell else { return beginning }
        return String(String.UnicodeScalarView(beginning.unicodeScalars.prefix(longestCell - 1))) + "…"
    }
}
