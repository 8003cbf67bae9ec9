import Foundation
import Testing

/// External text writes only characters to a terminal.
@Suite(.timeLimit(.minutes(5))) struct TerminalOutputTests {
    private let programs: Programs
    private static let escape = "\u{1B}[2J\u{9B}31m\u{202E}\n"

    init() throws { programs = try Programs() }

    private func check(_ result: Programs.Result, quotes: String, line: Int = #line) {
        for text in [result.complaints, result.output] {
            let bad = text.unicodeScalars.filter {
                $0 != "\n" && ($0.value < 0x20 || (0x7F...0x9F).contains($0.value) || $0.value == 0x202E)
            }
            #expect(bad.isEmpty, "line \(line): \(text.debugDescription)")
            #expect(
                text.split(separator: "\n").allSatisfy { $0.hasPrefix("broker") || !text.hasPrefix("broker") },
                "line \(line): \(text.debugDescription)")
        }
        #expect((result.complaints + result.output).contains(quotes), "line \(line): \(result)")
    }

    @Test func `keys, headers, names of files and messages of the server are escaped`() throws {
        let store = ["--store", "app.sqlite", "--model", "model.json"]
        let escaped = #"\u{1B}[2J\u{9B}31m\u{202E}\u{A}"#
        let key = Self.escape.debugDescription.replacing("\\u{1B}", with: "\\u001b").replacing(
            "\\u{9B}", with: "\u{9B}"
        )
        .replacing("\\u{202E}", with: "\u{202E}")
        let unknown = try programs.run(
            "broker", ["submit", "--entity", "Employee"] + store, input: "{\"id\": 1, \(key): 2}")
        #expect(unknown.status == 0)
        check(unknown, quotes: escaped)
        try programs.write("id,\"x\(Self.escape)\"\n2,3\n", to: "e.csv")
        check(try programs.run("broker", ["submit", "--entity", "Employee", "e.csv"] + store), quotes: "x\(escaped)")
        check(
            try programs.run("broker", ["submit", "--entity", "Employee", "no\(Self.escape)file"] + store),
            quotes: "no\(escaped)file")
        check(
            try programs.run("broker", ["submit", "--entity", "E\(Self.escape)"] + store, input: "{\"id\": 1}"),
            quotes: "E\(escaped)")
        // A line of the output, not of the complaints.
        try programs.write(#"{"entities": {"E": {"attributes": {"text": "string"}}}}"#, to: "m\(Self.escape).json")
        check(try programs.run("broker", ["model", "check", "m\(Self.escape).json"]), quotes: "m\(escaped).json: good")
        check(try programs.run("broker", ["await", "a\(Self.escape)"] + store), quotes: "a\(escaped)")
        check(try programs.run("broker", ["stats", "--\(Self.escape)"]), quotes: #"\u{1B}[2J"#)
        check(
            try programs.run(
                "broker", ["submit", "--entity", "Employee"] + store, input: "{\"id\": \(key)}"), quotes: #"\u{1B}[2J"#)
    }

    @Test func `values in tables are escaped, and those in JSON and CSV are data`() throws {
        let store = ["--store", "app.sqlite", "--model", "model.json"]
        let input = "{\"id\": 1, \"name\": \"a\\u001b[2J\u{9B}b\"}"
        #expect(try programs.run("broker", ["submit", "--entity", "Employee"] + store, input: input).status == 0)
        check(
            try programs.run("broker", ["fetch", "Employee", "--format", "table"] + store),
            quotes: #"a\u{1B}[2J\u{9B}b"#)
        let csv = try programs.run("broker", ["fetch", "Employee", "--format", "csv"] + store)
        #expect(csv.output.contains("1,a\u{1B}[2J\u{9B}b"))
        let json = try programs.run("broker", ["fetch", "Employee", "--json"] + store)
        #expect(json.output.contains("\"a\\u001b[2J\u{9B}b\""), "\(json.output.debugDescription)")
    }
}
