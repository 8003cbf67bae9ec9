import Foundation
import Testing

/// Records without a model: one is inferred, printed, written beside the store, and used again.
@Suite(.timeLimit(.minutes(5))) struct InferredModelTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private static let records = #"""
        {"statuses": [
          {"id": 1, "created_at": "Mon Sep 24 03:35:21 +0000 2012", "text": "a", "user": {"id": 7, "name": "n"}, "n": null},
          {"id": 2, "created_at": "Mon Sep 24 03:35:22 +0000 2012", "text": "b", "user": {"id": 7, "name": "n"}, "n": 3}
        ], "count": 2}
        """#

    private func submit(_ arguments: [String], input: String = "") throws -> Programs.Result {
        try programs.run("broker", ["submit", "--entity", "Status", "--store", "app.sqlite"] + arguments, input: input)
    }

    @Test(arguments: [false, true])
    func `a submission without a model infers one, says so, and uses it the next time`(fromFile: Bool) throws {
        try programs.write(Self.records, to: "twitter.json")
        let (arguments, input) = fromFile ? (["twitter.json"], "") : ([], Self.records)
        let first = try submit(arguments, input: input)
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.complaints.contains("inferred from 2 records and written to app.model.json"))
        #expect(first.complaints.contains("the records are taken from /statuses"))
        let database = try Database(programs.path("app.sqlite"))
        #expect(
            try database.rows("SELECT id, created_at, text, \"user\", n FROM Status ORDER BY id") == [
                "1|2012-09-24T03:35:21.000Z|a|7|NULL", "2|2012-09-24T03:35:22.000Z|b|7|3",
            ])
        let model = try String(contentsOfFile: programs.path("app.model.json"), encoding: .utf8)
        let second = try submit(arguments + ["--json"], input: input)
        #expect(second.status == 0 && second.complaints.contains("the model is app.model.json, beside the store"))
        #expect(second.output.contains(#""Status":{"inserted":0,"updated":0,"unchanged":2"#), "\(second.output)")
        #expect(try String(contentsOfFile: programs.path("app.model.json"), encoding: .utf8) == model)
        let fetched = try programs.run("broker", ["fetch", "--entity", "User", "--store", "app.sqlite"])
        #expect(fetched.status == 0 && fetched.output == "{\"id\":7,\"name\":\"n\"}\n", "\(fetched)")
    }

    @Test func `import prints the model that a submission would infer`() throws {
        try programs.write(Self.records, to: "twitter.json")
        _ = try submit(["twitter.json"])
        let imported = try programs.run("broker", ["model", "import", "--entity", "Status", "twitter.json"])
        #expect(imported.status == 0)
        #expect(try imported.output == String(contentsOfFile: programs.path("app.model.json"), encoding: .utf8))
        #expect(imported.output.contains(#""description": "missing or null in 1 of 2""#), "\(imported.output)")
        let both = try programs.run("broker", ["model", "import", "--root", "statuses", "twitter.json"])
        #expect(both.status == 2 && both.complaints.contains("--entity"), "\(both.complaints)")
    }

    @Test func `an existing database is a model, for import and for another store`() throws {
        let sql = """
            CREATE TABLE city (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL);
            CREATE TABLE person (id INTEGER PRIMARY KEY, city_id INTEGER REFERENCES city, email TEXT UNIQUE);
            """
        #expect(try programs.shell("sqlite3 existing.sqlite", input: sql).status == 0)
        let bytes = try Data(contentsOf: URL(filePath: programs.path("existing.sqlite")))
        let imported = try programs.run("broker", ["model", "import", "existing.sqlite"])
        #expect(imported.status == 0 && imported.output.contains(#""maxLength": 20"#), "\(imported)")
        try programs.write(imported.output, to: "imported.json")
        for model in ["existing.sqlite", "imported.json"] {
            let result = try programs.run(
                "broker", ["submit", "--entity", "person", "--store", "new.sqlite", "--model", model],
                input: #"[{"id": 1, "city": {"id": 2, "name": "x"}, "email": "e"}]"#)
            #expect(result.status == 0, "\(result.complaints)")
        }
        let database = try Database(programs.path("new.sqlite"))
        #expect(
            try database.rows("SELECT p.id, city_id, name FROM person p JOIN city c ON c.id = city_id") == ["1|2|x"])
        #expect(try Data(contentsOf: URL(filePath: programs.path("existing.sqlite"))) == bytes)
    }

    @Test func `a store that was copied without its model is used with the one that it holds`() throws {
        try programs.write(Self.records, to: "twitter.json")
        #expect(try submit(["twitter.json"]).status == 0)
        #expect(try programs.shell("mkdir copy && cp app.sqlite copy/new.sqlite").status == 0)
        let store = ["--store", "copy/new.sqlite"]
        let again = try programs.run("broker", ["submit", "--entity", "Status", "--json", "twitter.json"] + store)
        #expect(
            again.status == 0 && again.complaints.contains("the model is the one in the store"), "\(again.complaints)")
        #expect(again.output.contains(#""Status":{"inserted":0,"updated":0,"unchanged":2"#), "\(again.output)")
        for (command, input) in [
            (["fetch", "User"], ""), (["stats"], ""), (["delete", "--entity", "User", "8"], ""),
            (["sync", "--entity", "User"], #"[{"id": 7, "name": "n"}]"#),
            (["relate", "--entity", "Status", "--object", "1", "--relationship", "user", "--to", "7"], ""),
        ] {
            let result = try programs.run("broker", command + store, input: input)
            #expect(result.status == 0, "\(command): \(result.complaints)")
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.path("copy")).sorted()
                == ["new.sqlite", "new.sqlite.lock"])
    }

    @Test func `a database of another program that was fed is used with the model that it holds`() throws {
        let sql = "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT);"
        #expect(try programs.shell("sqlite3 fed.sqlite", input: sql).status == 0)
        let fed = ["submit", "--entity", "city", "--store", "fed.sqlite"]
        #expect(try programs.run("broker", fed + ["--model", "fed.sqlite"], input: #"{"id": 1}"#).status == 0)
        let again = try programs.run("broker", fed, input: #"{"id": 1, "name": "x"}"#)
        #expect(again.status == 0, "\(again.complaints)")
        #expect(try Database(programs.path("fed.sqlite")).rows("SELECT name FROM city") == ["x"])
    }

    @Test(arguments: ["no database", ""])
    func `no file is written before the store is open`(contents: String) throws {
        // A folder, and a file that is no database.
        if contents.isEmpty {
            #expect(try programs.shell("mkdir app.sqlite").status == 0)
        } else {
            try programs.write(String(repeating: contents, count: 99), to: "app.sqlite")
        }
        let result = try submit([], input: Self.records)
        #expect(result.status == 1 && result.complaints.contains("The store "), "\(result.complaints)")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter { !$0.hasPrefix(".") }.sorted()
                == ["app.sqlite", "model.json"])
    }

    @Test func `a record with more keys than a model can name is refused, and none is lost`() throws {
        let input = "{\((0..<2_001).map { "\"k\($0)\": 1" }.joined(separator: ","))}"
        let result = try submit([], input: input)
        #expect(result.status == 1 && result.complaints.contains("No model can be inferred"), "\(result.complaints)")
        #expect(!FileManager.default.fileExists(atPath: programs.path("app.sqlite")))
        try programs.write(input, to: "keyed.json")
        let imported = try programs.run("broker", ["model", "import", "--entity", "Status", "keyed.json"])
        #expect(imported.status == 1 && imported.output.isEmpty, "\(imported.complaints)")
    }

    @Test func `the values of a dictionary are records, identified by their keys`() throws {
        let keyed = (0..<1_264).map { "\"k\($0)\": {\"name\": \"n\($0)\"}" }
        let input = "{\(keyed.joined(separator: ","))}"
        #expect(try submit(["--json"], input: input).output.contains(#""Status":{"inserted":1264,"#))
        let again = try submit(["--json"], input: input)
        #expect(again.output.contains(#""Status":{"inserted":0,"updated":0,"unchanged":1264"#), "\(again)")
        let fetched = try programs.run(
            "broker", ["fetch", "Status", "--store", "app.sqlite", "--where", "key == 'k7'"])
        #expect(fetched.output == "{\"key\":\"k7\",\"name\":\"n7\"}\n", "\(fetched)")
        // Two keys alone would be no dictionary.
        let page = try submit(["--json"], input: #"{"k1": {"name": "x"}, "new": {"name": "y"}}"#)
        #expect(page.output.contains(#""Status":{"inserted":1,"updated":1,"unchanged":0"#), "\(page)")
        #expect(
            try Database(programs.path("app.sqlite")).rows("SELECT name FROM Status WHERE key IN ('k1', 'new')") == [
                "x", "y",
            ])
    }

    @Test func `lines of an order that is sent three times are there once`() throws {
        let order = #"[{"id": 1, "lines": [{"text": "a", "count": 2}, {"text": "a", "count": 1}]}]"#
        for _ in 0..<3 { #expect(try submit([], input: order).status == 0) }
        let database = try Database(programs.path("app.sqlite"))
        #expect(try database.rows("SELECT parent_id, position, text, count FROM Line") == ["1|0|a|2", "1|1|a|1"])
        let shorter = try submit(["--json"], input: #"[{"id": 1, "lines": [{"text": "a", "count": 3}]}]"#)
        #expect(shorter.output.contains(#""Line":{"inserted":0,"updated":1,"unchanged":0,"deleted":1"#), "\(shorter)")
    }

    @Test func `--identity names what identifies, and what it names must be there`() throws {
        let records =
            #"[{"id": 1, "code": "a", "user": {"login": "x", "rank": 1}}, {"id": 2, "code": "b", "user": {"login": "y", "rank": 2}}]"#
        let first = try submit(["--identity", "code", "--identity", "User=login"], input: records)
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.complaints.contains("Status: identified by code (as --identity says)"), "\(first.complaints)")
        #expect(first.complaints.contains("User: identified by login"), "\(first.complaints)")
        let again = try submit(["--json"], input: records)
        #expect(again.output.contains(#""Status":{"inserted":0,"updated":0,"unchanged":2"#), "\(again)")
        for (option, message) in [("Other=x", "there is no entity Other"), ("nothing", "there is no such key")] {
            let result = try programs.run(
                "broker", ["submit", "--entity", "Status", "--store", "new.sqlite", "--identity", option],
                input: records)
            #expect(result.status == 1 && result.complaints.contains(message), "\(result.complaints)")
        }
        #expect(!FileManager.default.fileExists(atPath: programs.path("new.sqlite")))
    }

    @Test func `a key that cannot identify is refused with the reason`() throws {
        let records =
            #"[{"id": 1, "on": true, "f": 1.5, "list": [1], "some": 1, "null": 1, "empty": "", "o": {"a": 1}, "mixed": 1},"#
            + #" {"id": 2, "on": false, "f": 2.5, "list": [2], "null": null, "empty": "x", "o": {"a": 2}, "mixed": "b"}]"#
        for (key, reason) in [
            ("on", "its values are booleans; whole numbers or texts identify. There are id, o.a."),
            ("f", "its values are no whole numbers"), ("list", "objects or lists"),
            ("some", "missing or null in 1 of 2"),
            ("null", "missing or null in 1 of 2"), ("empty", "1 of its values are empty"), ("o", "it is an object"),
            ("mixed", "of several kinds"), ("none", "there is no such key"),
        ] {
            let result = try submit(["--identity", key], input: records)
            #expect(
                result.status == 1 && result.complaints.contains("\(key) cannot identify objects of Status: ")
                    && result.complaints.contains(reason),
                "\(key): \(result.complaints)")
        }
    }

    @Test func `distinct values and big integers identify, and repetitions are counted`() throws {
        let records =
            #"[{"key": {"id": 1}, "big": 18446744073709551615, "x": 1}, {"key": {"id": 2}, "big": 2, "x": 1}]"#
        for (number, (key, reason)) in [
            ("key.id", "(as --identity says)"), ("big", "(as --identity says)"),
            ("x", "(as --identity says; 1 of 2 repeat an earlier one, and replace it)"),
        ].enumerated() {
            let store = "s\(number).sqlite"
            let command = ["submit", "--entity", "Status", "--store", store, "--identity", key]
            let result = try programs.run("broker", command, input: records)
            #expect(result.status == 0 && result.complaints.contains(reason), "\(key): \(result.complaints)")
            let again = try programs.run(
                "broker", ["submit", "--entity", "Status", "--store", store, "--json"], input: records)
            #expect(again.output.contains(#""inserted":0"#), "\(again)")
        }
    }

    @Test func `many records with other keys each are not one record with many keys`() throws {
        let records = (0..<2_000).map { #"{"id": \#($0), "k\#($0)": 1}"# }.joined(separator: "\n")
        let result = try submit([], input: records)
        #expect(
            result.status == 1 && result.complaints.contains(" records have more than 1900 different keys together"),
            "\(result.complaints)")
    }

    @Test func `a store without identity gets the one that --identity names`() throws {
        let records = #"[{"host": "a", "load": 1.5}, {"host": "b", "load": 2.5}]"#
        #expect(try submit(["--identity", "load"], input: records).status == 1)
        let first = try submit([], input: records)
        #expect(first.complaints.contains("nothing identifies its objects, so each run adds its records again"))
        let second = try submit(["--identity", "host", "--json"], input: #"[{"host": "a", "load": 1.5}]"#)
        #expect(second.status == 0, "\(second.complaints)")
        #expect(second.output.contains(#""Status":{"inserted":0,"updated":0,"unchanged":1"#), "\(second)")
    }

    @Test func `records with many keys of plain values are inferred whole`() throws {
        let members = (0..<700).map { "\"k\($0)\": \($0)" }.joined(separator: ",")
        let result = try submit([], input: "{\"id\": 1,\(members)}")
        #expect(result.status == 0 && !result.complaints.contains("does not name"), "\(result.complaints)")
        #expect(try Database(programs.path("app.sqlite")).rows("SELECT k0, k699 FROM Status") == ["0|699"])
    }

    @Test func `an input from which no model can be inferred makes no file`() throws {
        for (input, message) in [
            ("", "no record to infer one from"), ("[1, 2]", "no record"), ("[[{\"id\": 1}]]", "arrays in an array"),
            ("[{", "never closed"),
        ] {
            let result = try submit([], input: input)
            #expect(result.status == 1, "\(result)")
            #expect(result.complaints.contains(message), "\(result.complaints)")
        }
        #expect(!FileManager.default.fileExists(atPath: programs.path("app.model.json")))
        #expect(!FileManager.default.fileExists(atPath: programs.path("app.sqlite")))
        let fetched = try programs.run("broker", ["fetch", "--entity", "User", "--store", "app.sqlite"])
        #expect(fetched.status == 2 && fetched.complaints.contains("app.model.json"))
    }
}
