import Foundation
import Synchronization
import TestSupport
import Testing

/// What identifies records without a model: a guess, which a later input may contradict, or a person's word.
@Suite(.timeLimit(.minutes(5))) struct IdentityTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ options: [String], _ records: String) throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--entity", "Thing", "--store", "s.sqlite", "--json"] + options, input: records)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("s.sqlite")).rows(sql) }

    private static let page =
        #"[{"id": 1, "a": "x", "n": 1}, {"id": 2, "a": "y", "n": 2}, {"id": 3, "a": "z", "n": 3}]"#

    @Test func `records with one id and other values are not loaded, and what is there stays`() throws {
        #expect(try submit([], Self.page).status == 0)
        let twice = try submit([], #"[{"id": 1, "a": "p", "n": 1}, {"id": 1, "a": "q", "n": 1}]"#)
        #expect(twice.status == 3 && twice.complaints.contains("1 record of this input repeats the id"), "\(twice)")
        #expect(twice.complaints.contains("--identity id, once") && twice.complaints.contains("--append"), "\(twice)")
        #expect(try rows("SELECT id, a FROM Thing") == ["1|x", "2|y", "3|z"])
        // A version says which is later, and equal ones replace nothing.
        let versions =
            #"[{"id": 1, "a": "p", "updated_at": "2012-09-24"}, {"id": 1, "a": "q", "updated_at": "2012-09-25"}]"#
        #expect(try submit([], versions).status == 0)
        #expect(try submit([], #"[{"id": 2, "a": "y"}, {"id": 2, "a": "y"}]"#).status == 0)
        #expect(try rows("SELECT id, a FROM Thing") == ["1|q", "2|y", "3|z"])
    }

    @Test func `ids that restart in the next input are not loaded, unless a person says that they identify`() throws {
        #expect(try submit([], Self.page).status == 0)
        let other = #"[{"id": 1, "a": "p", "n": 7}, {"id": 2, "a": "q", "n": 8}, {"id": 3, "a": "r", "n": 9}]"#
        let restarted = try submit([], other)
        #expect(restarted.status == 3, "\(restarted)")
        #expect(
            restarted.complaints.contains(
                "3 of the first 3 records have the id of stored objects, and hardly any other"),
            "\(restarted)")
        #expect(try rows("SELECT a FROM Thing") == ["x", "y", "z"])
        // Most of an object stays as it was in a later version.
        let changed = try submit([], Self.page.replacing("\"n\": ", with: "\"n\": 1"))
        #expect(changed.status == 0, "\(changed)")
        #expect(try submit(["--identity", "id"], other).status == 0)
        #expect(try rows("SELECT a FROM Thing") == ["p", "q", "r"])
        #expect(try submit([], Self.page).status == 0, "it is no guess any more")
    }

    @Test func `pages whose ids restart are not loaded after the first one`() throws {
        let server = try PageServer { request in
            request.target == "/1"
                ? PageServer.response(200, ["Link: </2>; rel=\"next\""], Self.page)
                : PageServer.response(200, [], Self.page.replacing("x", with: "p"))
        }
        defer { server.stop() }
        let result = try programs.run(
            "broker", ["load", "--store", "s.sqlite", "--entity", "Thing", server.url("/1")])
        #expect(result.status == 3 && result.complaints.contains("repeats the id of an earlier one"), "\(result)")
        #expect(try rows("SELECT a FROM Thing") == ["x", "y", "z"])
    }

    @Test func `records that their content identifies are there once, and others are added`() throws {
        let records = #"[{"a": 1.50, "b": {"c": "x"}}, {"a": 1.5, "b": {"c": "x"}}]"#
        let first = try submit(["--identity", "content"], records)
        #expect(first.output.contains(#""inserted":2"#), "\(first)")
        let again = try submit([], #"[{"b":{"c":"x"},"a":1.50},{"a":2}]"#)
        #expect(again.output.contains(#""inserted":1,"updated":0,"unchanged":1"#), "\(again)")
        #expect(try rows("SELECT count(DISTINCT _content) FROM Thing") == ["3"])
        let other = try submit(["--identity", "a"], records)
        #expect(other.status == 1 && other.complaints.contains("identified by _content in the store"), "\(other)")
    }

    @Test func `records are added again where a person says so`() throws {
        for options in [["--append"], [], ["--identity", "none"]] {
            let result = try submit(options, Self.page)
            #expect(result.output.contains(#""inserted":3"#), "\(result)")
        }
        let both = try submit(["--append", "--identity", "id"], Self.page)
        #expect(both.status == 2 && both.complaints.contains("contradict each other"), "\(both)")
        let content = try submit(["--identity", "content"], Self.page)
        #expect(content.status == 1 && content.complaints.contains("has no identity in the store"), "\(content)")
    }

    @Test func `keys with dots are columns, and are written, asked for and fetched as they are`() throws {
        let records =
            #"[{"http.status": 200, "meta": {"uid": "a"}, "": 1}, {"http.status": 500, "meta": {"uid": "b"}}]"#
        let first = try submit(["--identity", "meta.uid,http.status"], records)
        #expect(first.status == 0 && !first.output.contains("unknownKey"), "\(first)")
        #expect(try rows("SELECT http_status, meta_uid FROM Thing") == ["200|a", "500|b"])
        #expect(try submit([], records).output.contains(#""unchanged":2"#))
        let fetch = ["fetch", "Thing", "--store", "s.sqlite", "--where", "http_status == 500"]
        #expect(try programs.run("broker", fetch).output.contains(#"{"http.status":500,"meta":{"uid":"b"}"#))
        #expect(try programs.run("broker", fetch + ["--csv"]).output.contains("http.status"))
        let table = try programs.run("broker", ["fetch", "Thing", "--store", "s.sqlite", "--csv"])
        try table.output.write(toFile: programs.path("table.csv"), atomically: false, encoding: .utf8)
        let read = try programs.run(
            "broker", ["submit", "--entity", "Thing", "--store", "s.sqlite", "--json", "table.csv"])
        #expect(read.output.contains(#""unchanged":2"#) && !read.output.contains("unknownKey"), "\(read)")
        let shown = try programs.run("broker", ["model", "show", "--store", "s.sqlite"])
        #expect(
            shown.output.contains(#""key": [["http.status"]]"#) && shown.output.contains(#""key": "meta.uid""#),
            "\(shown)")
    }
}
