import ArgumentParser
import Broker
import BrokerCommandLine
import BrokerJSON
package import BrokerSQLite
import Foundation

struct QueryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Prints the rows of an SQL query: as a table on a terminal, as NDJSON otherwise.",
        discussion: """
            The statement is SQLite's, and only reads: the file is opened read-only, also while a server has it open. The \
            tables and columns are those of the model (protocol/database.md). Values are as they are stored; a BLOB is \
            printed in base64.
            For example: broker query --store app.sqlite 'SELECT country, count(*) FROM Customer GROUP BY 1'
            Or: broker query --store app.sqlite --csv - < report.sql
            """)

    @Option(help: .value("file", "The SQLite database: a store, also that of a server."), completion: .file())
    var store: String

    @OptionGroup var format: FetchFormatOptions

    @Argument(help: .value("sql", "One statement; - reads it from standard input."))
    var sql: String

    /// Bytes of rows that are printed at once.
    private static let mostBytes = 256 << 10

    func run() async throws {
        let text = sql == "-" ? String(decoding: try JSONText.file("-").bytes, as: UTF8.self) : sql
        let query = try ReadOnlyQuery(text, path: store)
        let names = Self.distinct(query.columns)
        var printer = FetchPrinter(format.chosen, selection: names, leading: [], noun: "row")
        var hasRow = true
        while hasRow {
            var writer = JSONWriter()
            try writer.array { writer in
                while writer.count < Self.mostBytes {
                    hasRow = try query.step()
                    guard hasRow else { return }
                    writer.object { writer in
                        for (column, name) in names.enumerated() {
                            writer.key(name)
                            Self.write(query.value(column), to: &writer)
                        }
                    }
                }
            }
            try printer.add(RawJSON(checked: writer.bytes, depth: 2))
            guard StandardOutput.hasReader else { return }
        }
        try printer.end()
    }

    /// `id`, `id_2` where the statement has two columns of a name.
    static func distinct(_ names: [String]) -> [String] {
        var taken: Set<String> = []
        return names.map { name in
            var (distinct, number) = (name, 1)
            while !taken.insert(distinct).inserted {
                number += 1
                distinct = "\(name)_\(number)"
            }
            return distinct
        }
    }

    private static func write(_ value: ReadOnlyQuery.Value, to writer: inout JSONWriter) {
        switch value {
        case .null: writer.null()
        case .integer(let number): writer.integer(number)
        // JSON has no number for it.
        case .real(let number) where !number.isFinite: writer.string(number > 0 ? "Infinity" : "-Infinity")
        case .real(let number): writer.double(number)
        case .text(let text): writer.string(text)
        case .blob(let bytes): writer.string(Data(bytes).base64EncodedString())
        }
    }
}

extension ReadOnlyQuery.Fault: ExplainedError {
    package var message: String { description }
}
