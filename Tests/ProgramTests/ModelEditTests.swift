import Foundation
import TestSupport
import Testing

/// `broker model set-key`, `rename` and the like: the model's file and the store change together, or not at all.
@Suite(.timeLimit(.minutes(5))) struct ModelEditTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        try programs.write(
            #"""
            {"id":1,"code":"a","nick":"x","amount":5,"friend":{"id":2,"code":"b"}}
            {"id":2,"code":"b","amount":7}
            """#, to: "people.ndjson")
        #expect(try submit("people.ndjson").status == 0)
    }

    private func submit(_ file: String, _ arguments: String...) throws -> Programs.Result {
        try programs.run("broker", ["submit", "--entity", "Person", "--store", "app.sqlite", file] + arguments)
    }

    private func edit(_ command: String, _ arguments: String...) throws -> Programs.Result {
        try programs.run("broker", ["model", command, "--store", "app.sqlite"] + arguments)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("app.sqlite")).rows(sql) }

    private var model: String {
        get throws { try String(contentsOfFile: programs.path("app.model.json"), encoding: .utf8) }
    }

    @Test func `an edit changes the file and the store, and the next load follows it`() throws {
        for arguments in [
            ["set-key", "Person", "code"], ["rename", "Person.nick", "nickname"],
            ["retype", "Person.amount", "decimal"],
            ["describe", "Person.amount", "as sent"], ["ignore", "Person", "trace.id"],
        ] {
            let result = try programs.run(
                "broker", ["model", arguments[0], "--store", "app.sqlite"] + arguments.dropFirst())
            #expect(result.status == 0, "\(arguments): \(result)")
        }
        #expect(
            try rows("SELECT code, nickname, amount, friend FROM Person ORDER BY code") == ["a|x|5|2", "b|NULL|7|NULL"])
        #expect(try model.contains(#""description": "as sent""#))
        try programs.write(#"{"code":"a","nick":"y","amount":5.25,"trace":{"id":9}}"#, to: "more.ndjson")
        let result = try submit("more.ndjson", "--json")
        #expect(result.status == 0 && result.output.contains(#""Person":{"inserted":0,"updated":1"#), "\(result)")
        #expect(try rows("SELECT nickname, amount, _extra FROM Person WHERE code = 'a'") == ["y|5.25|NULL"])
        let renamed = try edit("rename", "Person", "Human")
        #expect(renamed.status == 0, "\(renamed)")
        #expect(try rows("SELECT count(*) FROM Human") == ["2"])
    }

    @Test func `what inference said of a type goes with the type`() throws {
        try programs.write(#"{"id":1,"day":"2024-01-02"}"#, to: "days.ndjson")
        #expect(try programs.run("broker", ["submit", "Day", "--store", "d.sqlite", "days.ndjson"]).status == 0)
        let file = programs.path("d.model.json")
        #expect(try String(contentsOfFile: file, encoding: .utf8).contains("all texts are days"))
        let result = try programs.run("broker", ["model", "retype", "--store", "d.sqlite", "Day.day", "string"])
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(result.status == 0 && text.contains("in all 1") && !text.contains("all texts are days"), "\(text)")
    }

    @Test func `a renamed identity is known to the next load`() throws {
        #expect(try edit("rename", "Person.id", "number").status == 0)
        let result = try submit("people.ndjson", "--json")
        #expect(result.status == 0 && result.output.contains(#""Person":{"inserted":0,"updated":0"#), "\(result)")
        #expect(try rows("SELECT number FROM Person ORDER BY 1") == ["1", "2"])
    }

    @Test(arguments: [
        (["set-key", "Person", "nick"], "where 1 row has none"),
        (["retype", "Person.code", "integer64"], "Put into _extra Person.code (2 values)? No terminal"),
        (["retype", "Person.id", "boolean"], "keep the type"),
        (["drop", "Person.amont"], "did you mean \"amount\"?"), (["drop", "Person.amount"], "Give --yes"),
        (["rename", "Person.nick", "a.b"], "a name with a dot"),
        (["retype", "Person.amount", "deciml"], "did you mean \"decimal\"?"),
        (["promote", "Person", "nothing"], "_extra of Person has no nothing"),
        (["describe", "Persn", "x"], "did you mean \"Person\"?"),
        (["flatten", "Person.amount"], "does not lead to one object"),
        (["split", "Person.frend"], "has a key below frend"),
        (["split", "Person.friend"], "No attribute of Person has a key below friend"),
    ])
    func `an edit that cannot be made changes nothing`(arguments: [String], message: String) throws {
        let (before, schema) = (try model, try rows("SELECT sql FROM sqlite_schema"))
        let result = try programs.run(
            "broker", ["model", arguments[0], "--store", "app.sqlite"] + arguments.dropFirst())
        #expect(result.status == 1 && (result.complaints + result.output).contains(message), "\(result)")
        #expect(try model == before && rows("SELECT sql FROM sqlite_schema") == schema)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.path("")).allSatisfy { !$0.contains("before") }
        )
    }

    @Test func `an object becomes columns of its row, and columns an object, and the same records change nothing`()
        throws
    {
        try programs.write(
            #"""
            {"id":1,"to":{"city":"x","zip":"1"},"friend":{"id":2,"code":"b"}}
            {"id":3,"to":{"city":"y"}}
            """#, to: "more.ndjson")
        #expect(try submit("more.ndjson").status == 0)
        func expectUnchanged() throws {
            let result = try submit("more.ndjson", "--json")
            #expect(
                result.status == 0 && !result.output.contains(#""updated":1"#)
                    && !result.output.contains(#""inserted":1"#))
        }
        let split = try edit("split", "Person.to", "--entity", "Place")
        #expect(split.status == 0 && split.output.contains("migrated: Place is new"), "\(split)")
        #expect(try rows("SELECT parent_id, city, zip FROM Place ORDER BY 1") == ["1|x|1", "3|y|NULL"])
        try expectUnchanged()
        let flat = try edit("flatten", "Person.to")
        #expect(flat.status == 0 && flat.output.contains("migrated: Place goes"), "\(flat)")
        #expect(
            try rows("SELECT id, to_city, to_zip FROM Person WHERE to_city IS NOT NULL ORDER BY 1") == [
                "1|x|1", "3|y|NULL",
            ])
        #expect(try rows("SELECT name FROM sqlite_schema WHERE name = 'Place'") == [])
        try expectUnchanged()
        #expect(try edit("flatten", "Person.friend").status == 0)
        #expect(try rows("SELECT friend_id, friend_code FROM Person WHERE id = 1") == ["2|b"])
        try expectUnchanged()
    }

    @Test func `what is dropped is in a copy that is named, and does not come again`() throws {
        let tried = try edit("drop", "Person.amount", "--dry-run")
        #expect(tried.status == 0 && tried.output.contains("2 values are lost"), "\(tried)")
        #expect(try rows("SELECT count(amount) FROM Person") == ["2"])
        let result = try edit("drop", "Person.amount", "--yes")
        #expect(result.status == 0, "\(result)")
        let copy = try #require(result.complaints.firstMatch(of: /the store as it was is (\S+)\.\n/)?.1)
        #expect(try Database(programs.path(String(copy))).rows("SELECT sum(amount) FROM Person") == ["12"])
        #expect(try submit("people.ndjson").status == 0)
        #expect(try rows("SELECT count(*) FROM pragma_table_info('Person') WHERE name = 'amount'") == ["0"])
    }

    @Test func `a type that holds less keeps the other values in _extra, and back`() throws {
        let tried = try edit("retype", "Person.code", "integer64", "--dry-run")
        #expect(tried.status == 0 && tried.output.contains("2 values go to _extra: 1: 'a'; 2: 'b'"), "\(tried)")
        let result = try edit("retype", "Person.code", "integer64", "--yes")
        #expect(result.status == 0, "\(result)")
        #expect(
            try rows("SELECT code, _extra FROM Person ORDER BY id") == [#"NULL|{"code":"a"}"#, #"NULL|{"code":"b"}"#])
        let copy = try #require(result.complaints.firstMatch(of: /the store as it was is (\S+)\.\n/)?.1)
        #expect(try Database(programs.path(String(copy))).rows("SELECT code FROM Person ORDER BY id") == ["a", "b"])
        #expect(try edit("retype", "Person.code", "string").status == 0)
        #expect(try rows("SELECT code, _extra FROM Person ORDER BY id") == ["a|NULL", "b|NULL"])
    }

    @Test func `keys of _extra become attributes, by a command and at the end of a load`() throws {
        try programs.write(#"{"id":1,"rank":7,"who":{"name":"n"},"amount":"much","tags":["a"]}"#, to: "more.ndjson")
        #expect(try submit("more.ndjson", "--no-evolve").status == 0)
        #expect(
            try rows("SELECT amount, _extra ->> '$.amount', _extra ->> '$.who.name' FROM Person WHERE id = 1") == [
                "NULL|much|n"
            ])
        #expect(try edit("promote", "Person", "who_name").status == 0)
        #expect(
            try rows("SELECT who_name, _extra FROM Person WHERE id = 1") == [
                #"n|{"amount":"much","rank":7,"tags":["a"]}"#
            ])
        #expect(try edit("retype", "Person.amount", "string").status == 0)
        #expect(try rows("SELECT amount, _extra FROM Person WHERE id = 1") == [#"much|{"rank":7,"tags":["a"]}"#])
        #expect(try edit("promote", "Person").status == 0)
        #expect(try rows("SELECT rank, tags, _extra FROM Person WHERE id = 1") == [#"7|["a"]|NULL"#])
    }
}

/// The same with a server, which reads its model's file again.
@Suite(.timeLimit(.minutes(5))) struct ServedModelTests {
    private let programs: Programs
    private static let records = """
        {"id": 1, "name": "Ada", "nick": "A", "department": {"id": 7, "name": "d"}}
        {"id": 2, "name": "9", "department": {"id": 8, "name": "d"}}
        """

    init() throws { programs = try Programs() }

    private func start(evolves: Bool, _ arguments: String...) throws -> Process {
        let evolve = evolves ? #""evolve": ["columns"], "# : ""
        try programs.write(
            Programs.model.replacing(#"{"entities""#, with: #"{\#(evolve)"entities""#)
                .replacing(#""identity": "id", "attr"#, with: #""identity": "id", "extra": true, "attr"#),
            to: "model.json")
        let server = try programs.startServer(arguments)
        let submitted = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--socket", "broker.sock"], input: Self.records)
        #expect(submitted.status == 0, "\(submitted)")
        return server
    }

    private func edit(_ arguments: String...) throws -> Programs.Result {
        try programs.run("broker", ["model"] + arguments + ["--socket", "broker.sock"])
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("store.sqlite")).rows(sql) }

    private var model: String {
        get throws { try String(contentsOfFile: programs.path("model.json"), encoding: .utf8) }
    }

    @Test func `an edit changes the server's file, and the server reads it again`() throws {
        let server = try start(evolves: false)
        let before = try model
        for (arguments, message) in [
            (["rename", "Employee.name", "fullName", "--dry-run"], "Nothing was changed."),
            (
                ["set-key", "Department", "name"],
                "Department (name) is the identity in the model, but not in the store"
            ),
            (["promote", "Employee", "nothing"], "_extra of Employee has no nothing"),
            (["retype", "Employee.name", "integer64"], "Give --yes"),
        ] {
            let result = try programs.run("broker", ["model"] + arguments + ["--socket", "broker.sock"])
            #expect((result.output + result.complaints).contains(message), "\(result)")
            #expect(try model == before)
        }
        #expect(try edit("promote", "Employee", "nick").status == 0)
        #expect(try edit("rename", "Employee.name", "fullName").status == 0)
        let retyped = try edit("retype", "Employee.fullName", "integer64", "--yes")
        let copy = try #require(retyped.complaints.firstMatch(of: /the store as it was is (\S+)\.\n/)?.1)
        #expect(try Database(String(copy)).rows("SELECT fullName FROM Employee ORDER BY id") == ["Ada", "9"])
        #expect(
            try rows("SELECT fullName, nick, _extra FROM Employee ORDER BY id") == [
                #"NULL|A|{"name":"Ada"}"#, "9|NULL|NULL",
            ])
        let again = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--socket", "broker.sock", "--json"], input: Self.records)
        #expect(
            again.status == 0 && again.output.contains(#""Employee":{"inserted":0,"updated":0,"unchanged":2"#),
            "\(again)")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(try programs.startServer().isRunning)
    }

    @Test func `a server whose model evolves promotes the keys of _extra at a reload, and at no refused one`() throws {
        let server = try start(evolves: true)
        let before = try model
        let tried = try programs.run("broker", ["migrate", "--dry-run", "--socket", "broker.sock"])
        #expect(tried.status == 0 && tried.output.contains("migrated: Employee.nick is new"), "\(tried)")
        #expect(try model == before)
        let smaller = before.replacing(#", "name": "string"}"#, with: "}")
        try programs.write(smaller, to: "model.json")
        let refused = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(refused.status == 1 && refused.complaints.contains("Employee.name is in the store"), "\(refused)")
        #expect(try model == smaller)
        try programs.write(before, to: "model.json")
        let reloaded = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reloaded.status == 0 && reloaded.output.contains("Employee.nick is new"), "\(reloaded)")
        #expect(try rows("SELECT nick, _extra FROM Employee ORDER BY id") == ["A|NULL", "NULL|NULL"])
        #expect(try rows("SELECT changes FROM _broker_migrations") == [#"["migrated: Employee.nick is new"]"#])
        #expect(try model.contains(#""nick""#))
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(try programs.startServer().isRunning)
    }

    @Test func `several files are named, and not changed`() throws {
        try programs.write(#"{"description": "more"}"#, to: "more.json")
        _ = try start(evolves: true, "--model", "more.json")
        let result = try edit("rename", "Employee.name", "fullName")
        #expect(result.status == 2 && result.complaints.contains("has 2 files"), "\(result)")
        #expect(try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"]).status == 0)
        #expect(try rows("SELECT count(*) FROM Employee WHERE _extra IS NOT NULL") == ["1"])
    }
}
