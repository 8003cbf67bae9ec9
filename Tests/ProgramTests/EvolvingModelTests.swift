import Foundation
import Testing

/// A store whose model was inferred takes what comes later.
@Suite(.timeLimit(.minutes(5))) struct EvolvingModelTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ input: String, as entity: String = "Thing", _ arguments: [String] = []) throws
        -> Programs.Result
    {
        try programs.run(
            "broker", ["submit", "--entity", entity, "--store", "app.sqlite", "--json"] + arguments, input: input)
    }

    private var model: String {
        get throws { try String(contentsOfFile: programs.path("app.model.json"), encoding: .utf8) }
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("app.sqlite")).rows(sql) }

    private static let first = #"[{"id": 1, "price": 5, "note": null, "tags": null, "user": null}]"#
    private static let second = #"""
        [{"id": 2, "price": 2.5, "note": "n", "tags": [{"text": "t"}], "user": {"id": 7, "name": "u"}, "new": true}]
        """#

    @Test func `a second page with more in it is stored whole, and then both are unchanged`() throws {
        #expect(try submit(Self.first).status == 0)
        let second = try submit(Self.second)
        #expect(second.status == 0, "\(second.complaints)")
        #expect(!second.complaints.contains("does not name"), "\(second.complaints)")
        #expect(second.complaints.contains("which was extended"), "\(second.complaints)")
        #expect(try rows("SELECT id, price, note, user, new FROM Thing") == ["1|5.0|NULL|NULL|NULL", "2|2.5|n|7|1"])
        #expect(try rows("SELECT parent_id, position, text FROM Tag") == ["2|0|t"])
        for page in [Self.first, Self.second] {
            let again = try submit(page)
            #expect(again.output.contains(#""Thing":{"inserted":0,"updated":0,"unchanged":1"#), "\(again)")
            #expect(!again.complaints.contains("extended"), "\(again.complaints)")
        }
        #expect(try model.contains("\"new\""))
    }

    @Test func `whole numbers that no double holds become decimals with the first fraction`() throws {
        #expect(try submit(#"[{"id": 1, "v": 9007199254740993, "w": 5}]"#).status == 0)
        let second = try submit(#"[{"id": 2, "v": 1.5, "w": 2.5}]"#)
        #expect(second.status == 0, "\(second.complaints)")
        #expect(try rows("SELECT v, w FROM Thing ORDER BY id") == ["9007199254740993|5.0", "1.5|2.5"])
    }

    @Test func `another endpoint joins the store, and its users are those that are there`() throws {
        let user = #"{"id": 7, "login": "u", "url": "w", "kind": "User"}"#
        #expect(try submit(#"[{"id": 1, "user": \#(user)}]"#, as: "Issue").status == 0)
        let comments = try submit(#"[{"id": 9, "author": \#(user), "body": "b"}]"#, as: "Comment")
        #expect(comments.status == 0, "\(comments.complaints)")
        #expect(try rows("SELECT author, body FROM Comment") == ["7|b"])
        #expect(try rows("SELECT count(*) FROM User") == ["1"])
    }

    @Test func `an edited model is left as it is, unless additions are asked for`() throws {
        #expect(try submit(Self.first).status == 0)
        let edited = try model.replacingOccurrences(
            of: #""type": "integer64", "description": "in all 1"}"#, with: #""type": "integer64", "min": 0}"#)
        #expect(try edited != model)
        try programs.write(edited, to: "app.model.json")
        let second = try submit(#"[{"id": 2, "price": 7, "new": true}]"#)
        #expect(second.status == 0 && second.output.contains("\"new\""), "\(second)")
        #expect(try model == edited)
        let added = try submit(#"[{"id": 2, "price": 7, "new": true}]"#, ["--evolve"])
        #expect(added.status == 0, "\(added.complaints)")
        #expect(try rows("SELECT new FROM Thing WHERE id = 2") == ["1"])
        #expect(try model.contains(#""min": 0"#) && model.contains("\"new\""))
        let type = try submit(Self.second, ["--evolve"])
        #expect(type.status != 0, "an integer of an edited model does not become a fraction")
    }

    @Test func `a model that is not to be extended stays as it is`() throws {
        #expect(try submit(Self.first).status == 0)
        let before = try model
        let second = try submit(#"[{"id": 2, "new": true}]"#, ["--no-evolve"])
        #expect(second.status == 0 && second.output.contains("\"new\""), "\(second)")
        #expect(try model == before)
    }

    @Test func `a model file that is older than its store is not used`() throws {
        #expect(try submit(Self.first).status == 0)
        let before = try model
        #expect(try submit(Self.second).status == 0)
        // As after an end of the program between the store and the file.
        try programs.write(before, to: "app.model.json")
        let fetched = try programs.run("broker", ["fetch", "Thing", "--store", "app.sqlite"])
        #expect(fetched.status == 0 && fetched.output.contains("\"new\":true"), "\(fetched)")
        let again = try submit(Self.second)
        #expect(again.output.contains(#""Thing":{"inserted":0,"updated":0,"unchanged":1"#), "\(again)")
    }

    @Test func `options do not change what a store has, and say so`() throws {
        #expect(try submit(Self.first).status == 0)
        for (option, message) in [
            ("--identity", "is identified by id in the store"), ("--ignore", "has price in the store"),
        ] {
            let result = try submit(Self.first, as: "Thing", [option, "price"])
            #expect(result.status == 1 && result.complaints.contains(message), "\(result.complaints)")
        }
    }

    @Test func `a single record, a page of one and an array of one are read as the first page was`() throws {
        #expect(try submit(#"[{"name": "x", "lines": [{"a": 3}]}, {"name": "y", "lines": [{"a": 2}]}]"#).status == 0)
        for (page, count) in [
            (#"{"name": "q", "lines": [{"a": 5}, {"a": 6}]}"#, 3),
            (#"{"rows": [{"name": "r", "lines": []}], "next": "u"}"#, 4),
            (#"[{"name": "s", "lines": [{"a": 1}, {"a": 2}]}]"#, 5),
        ] {
            let result = try submit(page)
            #expect(result.status == 0, "\(result.complaints)")
            #expect(try rows("SELECT count(*) FROM Thing") == ["\(count)"])
        }
        #expect(try rows("SELECT name FROM pragma_table_info('Thing')") == ["name"])
    }

    @Test func `nulls alone change nothing, and records before a fault are stored`() throws {
        for _ in 0..<2 { #expect(try submit(#"[{"a": null}, {"a": null}]"#, as: "Null").status == 0) }
        let broken = try submit(#"[{"id": 7, "n": 1}, {"id": 8"#)
        #expect(
            broken.status == 1 && broken.complaints.contains("the record before it was sent"), "\(broken.complaints)")
        #expect(try rows("SELECT id FROM Thing") == ["7"])
    }

    @Test func `a model is extended only together with its store`() throws {
        for arguments in [["--evolve"], ["--identity", "id"]] {
            let result = try programs.run("broker", ["submit", "--entity", "Thing"] + arguments, input: Self.first)
            #expect(
                result.status == 2 && result.complaints.contains("give --store and --entity"), "\(result.complaints)")
        }
    }
}
