import Foundation
import TestSupport
import Testing

/// Inputs as programs write them: dialects of CSV, bad lines, formats without a name, pipes without an end.
@Suite(.timeLimit(.minutes(5))) struct InputDialectTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ arguments: [String], _ store: String = "a") throws -> Programs.Result {
        try programs.run("broker", ["submit", "--entity", "Item", "--store", "\(store).sqlite"] + arguments)
    }

    private func rows(_ sql: String, _ store: String = "a") throws -> [String] {
        try Database(programs.path("\(store).sqlite")).rows(sql)
    }

    @Test(arguments: [
        ("sep=;\nid;price\n1;1,5\n", ["--decimal", ","], "1|1.5"),
        ("# made by x\n# today\nid\tprice\n1\t2\n\t\n", [], "1|2"),
        ("Sales of today\nid|price\n1|'2'\n", ["--skip-lines", "1", "--quote", "'"], "1|2"),
        ("id,price\n1,NA\n", ["--null", "NA"], "1|NULL"),
        ("id,price\n1,\"a\\\"b\"\n;2,c\n", ["--escape", "\\", "--comment", ";"], "1|a\"b"),
        ("id,price,,\n1,x,,\n", [], "1|x"), ("id,price\n1,x,,\n", [], "1|x"), ("id,price\r1,x\r", [], "1|x"),
    ])
    func `dialects of CSV are read`(text: String, options: [String], expected: String) throws {
        try programs.write(text, to: "a.csv")
        let result = try submit(options + ["a.csv"])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(try rows("SELECT id, price FROM Item") == [expected])
    }

    @Test func `what is assumed about CSV is said once, and the command that goes on has its options`() throws {
        try programs.write("1,Ada,36.5\n2,Bob,41.5\n", to: "a.csv")
        let result = try submit(["--identity", "column_1", "a.csv"])
        #expect(result.status == 0)
        let notes = result.complaints.split(separator: "\n").filter { $0.contains("is read as a record") }
        #expect(notes.count == 1 && notes[0].contains("a.csv: the first line (1, Ada, 36.5)"), "\(result.complaints)")
        #expect(try rows("SELECT column_1, column_2, column_3 FROM Item") == ["1|Ada|36.5", "2|Bob|41.5"])
        try programs.write("3,Eve,1\n4\n", to: "b.csv")
        let failed = try submit(["--no-header", "b.csv"])
        #expect(failed.status == 1 && failed.complaints.contains("--no-header --skip 1 b.csv"), "\(failed.complaints)")
        let wrong = try submit(["--encoding", "NO-SUCH", "--quote", "ab", "a.csv"])
        #expect(wrong.status == 2 && wrong.complaints.contains("--encoding"), "\(wrong.complaints)")
    }

    @Test func `a header that is longer than a name is shortened, and the description has all of it`() throws {
        let question = "How satisfied are you with " + String(repeating: "the service and ", count: 16) + "all?"
        try programs.write("id,\"\(question)\"\n1,7\n", to: "a.csv")
        #expect(try submit(["a.csv"]).status == 0)
        let model = try String(contentsOfFile: programs.path("a.model.json"), encoding: .utf8)
        #expect(model.contains("\"description\": \"\(question): in all 1"), "\(model)")
        #expect(try rows("SELECT * FROM Item") == ["1|7"])
        let names = try rows("SELECT name FROM pragma_table_info('Item')")
        #expect(names[1].hasPrefix("How_satisfied_are_you_with_the_service") && names[1].utf8.count <= 120)
    }
}
