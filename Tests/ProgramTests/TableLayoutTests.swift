import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import Testing

@testable import BrokerCommand

/// The tables of `broker fetch`.
@Suite(.timeLimit(.minutes(5))) struct TableLayoutTests {
    private func table(_ json: String, terminal: Int?) throws -> (lines: [String], omitted: [String]) {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            let rows = document.root.elements.map(FetchedCell.cells)
            var columns = FetchedColumns(of: rows)
            let lines = rows.map { columns.line($0) }
            let layout = TableLayout(columns.names, lines, terminal: terminal)
            return ([layout.header] + lines.map(layout.line), layout.omitted)
        }
    }

    @Test func `numbers are at the right, and wide and combining characters count by their columns`() throws {
        let (lines, _) = try table(
            #"[{"id": 1, "name": "李小龍", "n": 1.5}, {"id": 12, "name": "e\u0301", "n": null}, {"id": 3, "name": "x", "n": -10}]"#,
            terminal: 80)
        #expect(lines == ["id  name      n", " 1  李小龍  1.5", "12  e\u{301}", " 3  x       -10"])
    }

    @Test func `a table is never wider than the terminal`() throws {
        let row = (0..<12).map { #""column\#($0)": "\#(String(repeating: $0 % 2 == 0 ? "ab" : "李", count: 3 * $0))""# }
        let json = "[{\(row.joined(separator: ","))}, {\"number\": 12345678901234567890123}]"
        for terminal in [1, 2, 7, 30, 79, 80, 137, 138, 200, 400] {
            let (lines, omitted) = try table(json, terminal: terminal)
            for line in lines { #expect(Terminal.width(of: line) <= terminal, "\(terminal): \(line)") }
            #expect(omitted.isEmpty == (terminal >= 138), "\(terminal): \(omitted)")
        }
        let (lines, _) = try table(
            #"[{"id": 7, "text": "0123456789", "more": "0123456789012345678901234"}]"#, terminal: 30)
        #expect(lines[1] == " 7  0123456789  01234567890123…" || Terminal.width(of: lines[1]) == 30, "\(lines)")
        #expect(lines[1].contains("0123456789  "), "a column with room is not cut")
    }

    @Test func `heads that would read alike keep their ends`() throws {
        let names = ["actor.display_login", "actor.display_name", "repo.url"]
        let row = names.map { "\"\($0)\": \"\(String(repeating: "x", count: 30))\"" }.joined(separator: ",")
        let (lines, _) = try table("[{\(row)}]", terminal: 30)
        #expect(lines[0] == "…ay_login  …lay_name  repo.url")
        for terminal in 1...60 {
            for line in try table("[{\(row)}]", terminal: terminal).lines {
                #expect(Terminal.width(of: line) <= terminal, "\(line)")
            }
        }
        #expect(TableText(endOf: "日本語", columns: 4).shown == "…語")
    }

    @Test func `the columns of leading paths come first, in the order of the paths`() throws {
        let json = #"[{"a": 1, "b": {"x": 2, "id": 3}, "bc": 4, "id": 5}]"#
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        withExtendedLifetime(document) {
            let rows = document.root.elements.map(FetchedCell.cells)
            let columns = FetchedColumns(of: rows, leading: ["id", "b.id", "b", "none"])
            #expect(columns.names == ["id", "b.id", "b.x", "a", "bc"])
        }
    }

    @Test func `a value that is wider than the first ones is cut on a terminal alone`() throws {
        let document = try JSONDocument(parsing: JSONText(copying: Array(#"[{"n": 12}, {"n": 200000}]"#.utf8)))
        withExtendedLifetime(document) {
            let lines = document.root.elements.map { FetchedCell.cells(of: $0).map(Optional.some) }
            let first = [lines[0]]
            #expect(TableLayout(["n"], first, terminal: nil).line(lines[1]) == "200000")
            #expect(TableLayout(["n"], first, terminal: 80).line(lines[1]) == "2…")
        }
    }

    @Test func `a terminal gets no control characters, whatever is cut`() throws {
        let text = String(repeating: "\u{1B}[2J\n\u{9B}\u{202E}", count: 100)
        let escaped = text.unicodeScalars.map {
            $0.value < 0x20 ? "\\u00\(String($0.value + 0x100, radix: 16).suffix(2))" : String($0)
        }
        for terminal in [1, 2, 9, 10, 60] {
            let (lines, _) = try table(#"[{"a": "\#(escaped.joined())"}]"#, terminal: terminal)
            #expect(
                lines.joined().unicodeScalars.allSatisfy {
                    $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && $0.value != 0x202E
                })
        }
    }

    @Test func `a nested object that is null in some rows has the columns of its values alone`() throws {
        let (lines, _) = try table(#"[{"id": 1, "d": null}, {"id": 2, "d": {"x": 1, "y": "z"}}]"#, terminal: nil)
        #expect(lines == ["id  d.x  d.y", " 1", " 2    1  z"])
        let rest = try JSONDocument(parsing: JSONText(copying: Array(#"{"id": 3, "late": 4, "none": null}"#.utf8)))
        withExtendedLifetime(rest) {
            var columns = FetchedColumns(names: ["id"])
            #expect(columns.line(FetchedCell.cells(of: rest.root)).map { $0?.text } == ["3"])
            #expect(columns.missing == ["late"], "what has no column is reported")
        }
    }
}
