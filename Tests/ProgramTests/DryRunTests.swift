import Foundation
import Testing

/// `--dry-run` and `--max-delete`, as a user at a shell gives them.
@Suite(.timeLimit(.minutes(5))) struct DryRunTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func broker(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + ["--store", "app.sqlite"], input: input)
    }

    private func count() throws -> [String] {
        try Database(programs.path("app.sqlite")).rows("SELECT count(*) FROM Row")
    }

    @Test func `a dry run makes no store, and neither changes nor migrates one`() throws {
        let submit = ["submit", "--entity", "Row"]
        let empty = try broker(submit + ["--dry-run"], #"[{"id": 1}, {"id": 2}]"#)
        #expect(empty.status == 0, "\(empty.complaints)")
        #expect(empty.output.contains("Row inserted: 1, 2\n"))
        #expect(empty.output.hasSuffix("2 records in 1 job tried; nothing was written\n"))
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder)
        #expect(!names.contains { $0.hasPrefix("app.") }, "\(names)")

        #expect(try broker(submit, #"[{"id": 1}, {"id": 2}]"#).status == 0)
        let wider = try broker(submit + ["--dry-run", "--json"], #"[{"id": 2, "name": "b"}, {"id": 3}]"#)
        #expect(wider.status == 0, "\(wider.complaints)")
        #expect(
            wider.output.contains(#""dryRun":true,"examples":{"Row":{"inserted":[3],"updated":[2]}}"#),
            "\(wider.output)")
        #expect(wider.complaints.contains("uses a copy"))
        #expect(try Database(programs.path("app.sqlite")).rows("SELECT name FROM pragma_table_info('Row')") == ["id"])
        #expect(try count() == ["2"])
    }

    @Test func `a sync that deletes too much fails, and its dry run says what it would delete`() throws {
        let rows = (1...20).map { #"{"id": \#($0)}"# }.joined(separator: "\n")
        #expect(try broker(["submit", "--entity", "Row"], rows).status == 0)
        let sync = ["sync", "--entity", "Row"]
        let tried = try broker(sync + ["--dry-run"], #"[{"id": 1}]"#)
        #expect(tried.output.contains("Row deleted: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 9 more\n"), "\(tried.output)")
        let refused = try broker(sync + ["--max-delete", "50%"], #"[{"id": 1}]"#)
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("tooManyDeletions") && refused.complaints.contains("--max-delete"))
        #expect(try count() == ["20"])
        #expect(try broker(sync + ["--max-delete", "101%"], "[]").status == 2)
        let large = try broker(sync + ["--dry-run", "--batch-bytes", "5"], rows)
        #expect(large.status == 1 && large.complaints.contains("does not fit one job"))
        #expect(try broker(sync + ["--max-delete", "19"], #"[{"id": 1}]"#).status == 0)
        #expect(try count() == ["1"])
    }
}
