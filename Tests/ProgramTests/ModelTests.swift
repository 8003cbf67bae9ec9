import CSQLite
import Foundation
import Glibc
import TestSupport
import Testing

/// `broker model`, on models of Xcode's and several at once.
@Suite(.timeLimit(.minutes(5))) struct ModelCommandTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        try version(
            "Blog 2",
            """
            <entity name="Article">
                <attribute name="articleID" optional="YES" attributeType="Integer 64" defaultValueString="0"/>
                <attribute name="title" attributeType="String"/>
                <attribute name="cache" transient="YES" attributeType="String"/>
                <relationship name="author" optional="YES" maxCount="1" destinationEntity="Author"
                    inverseName="articles" inverseEntity="Author"/>
            </entity>
            <entity name="Author">
                <attribute name="login" attributeType="String"/>
                <relationship name="articles" optional="YES" toMany="YES" destinationEntity="Article"
                    inverseName="author" inverseEntity="Article"/>
                <uniquenessConstraints><uniquenessConstraint><constraint value="login"/></uniquenessConstraint>
                </uniquenessConstraints>
            </entity>
            """)
        try version("Blog", "<entity name=\"Old\"/>")
        try programs.write(
            "<plist version=\"1.0\"><dict><key>_XCCurrentVersionName</key><string>Blog 2.xcdatamodel</string></dict></plist>",
            to: "Blog.xcdatamodeld/.xccurrentversion")
    }

    private func version(_ name: String, _ elements: String) throws {
        let folder = "Blog.xcdatamodeld/\(name).xcdatamodel"
        try FileManager.default.createDirectory(atPath: programs.path(folder), withIntermediateDirectories: true)
        try programs.write("<model>\n\(elements)\n</model>", to: "\(folder)/contents")
    }

    @Test func `a Core Data model without identity brings a warning, until an override gives one`() throws {
        let warning =
            "broker: warning: nothing identifies the objects of Note, Tag, so each import adds its records again"
        try version(
            "Blog 2",
            """
            <entity name="Note"><attribute name="text" attributeType="String"/></entity>
            <entity name="Tag"><attribute name="word" attributeType="String"/></entity>
            <entity name="Base" isAbstract="YES"><attribute name="x" attributeType="String"/></entity>
            """)
        #expect(try model("check", "Blog.xcdatamodeld").complaints.contains(warning))
        let submit = ["submit", "--store", "app.sqlite", "--model", "Blog.xcdatamodeld", "--entity", "Note"]
        let result = try programs.run("broker", submit, input: #"{"text": "a"}"#)
        #expect(result.status == 0 && result.complaints.contains(warning), "\(result.complaints)")
        try programs.write(
            #"{"entities": {"Note": {"identity": "text"}, "Tag": {"identity": "word"}}}"#, to: "identities.json")
        let overridden = try model("check", "Blog.xcdatamodeld", "--model", "identities.json")
        #expect(overridden.status == 0 && !overridden.complaints.contains("warning"), "\(overridden.complaints)")
        // Written for Broker, it means it.
        try programs.write(#"{"entities": {"Note": {"attributes": {"text": "string"}}}}"#, to: "plain.json")
        #expect(try !model("check", "plain.json").complaints.contains("warning"))
    }

    private func model(_ arguments: String..., input: String = "") throws -> Programs.Result {
        try programs.run("broker", ["model"] + arguments, input: input)
    }

    @Test func `show prints the current version resolved, with the reasons beside each part`() throws {
        let result = try model("show", "Blog.xcdatamodeld")
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.complaints.isEmpty)
        for line in [
            #""description": "inferred: the identity is articleID: the usual name; "#
                + #"cache skipped: the attribute is transient: Core Data does not store it either""#,
            #""description": "inferred: the identity is login: a uniqueness constraint""#,
            #""key": ["articleID", "id"]"#,
        ] {
            #expect(result.output.contains(line), "\(result.output)")
        }
        let compact = try model("show", "--json", "Blog.xcdatamodeld")
        #expect(compact.output.split(separator: "\n").count == 1)
        let notes = try model("show", "--notes", "Blog.xcdatamodeld")
        #expect(
            notes.output.contains(
                "Blog.xcdatamodeld/Blog 2.xcdatamodel/contents: line 5, column 5 (/entities/Article/attributes/cache): "
                    + "skipped: "))
        let list = try model("show", "--notes", "--json", "Blog.xcdatamodeld")
        #expect(list.output.hasPrefix(#"[{"kind":"inferred","pointer":"/entities/Article","file":"Blog.xcdatamodeld/"#))
    }

    @Test func `the output of show and import is a model with the same meaning`() throws {
        let schema = try model("schema", "Blog.xcdatamodeld")
        #expect(schema.output.contains("CREATE TABLE"))
        for command in ["show", "import"] {
            let printed = try model(command, "Blog.xcdatamodeld").output
            // The printed model has the reasons in its descriptions, and SQL has these in comments.
            let again = try model("schema", "-", input: printed).output
            let comment = /\/\*.*?\*\//
            #expect(again.replacing(comment, with: "") == schema.output.replacing(comment, with: ""), "\(command)")
        }
    }

    @Test func `later models change earlier ones, from standard input too`() throws {
        let override = #"{"entities": {"Article": {"identity": "title", "attributes": {"title": {"maxLength": 9}}}}}"#
        let result = try model("show", "--json", "Blog.xcdatamodeld", "--model", "-", input: override)
        #expect(result.output.contains(#""identity":["title"]"#) && result.output.contains(#""maxLength":9"#))
        try programs.write(#"{"entities": {"Author": {"identity": []}, "Autor": null}}"#, to: "wrong.json")
        let wrong = try model("check", "--model", "Blog.xcdatamodeld", "--model", "wrong.json")
        #expect(wrong.status == 1)
        #expect(
            wrong.complaints.hasPrefix(
                "wrong.json: line 1, column 44 (/entities/Autor): there is no entity \"Autor\" to remove; "
                    + "did you mean \"Author\"? (protocol/models.md#entities)\n"))
        #expect(try model("check").status == 2)
    }

    @Test func `diagrams are drawn of any model`() throws {
        let mermaid = try model("diagram", "Blog.xcdatamodeld")
        #expect(
            mermaid.output.hasPrefix(
                "classDiagram\n    class E0[\"Article\"] {\n        articleID integer64 identity\n"))
        #expect(mermaid.output.contains("E0 \"0..*\" -- \"0..1\" E1 : author / articles"))
        #expect(try model("diagram", "model.json", "--format", "graphviz").output.hasPrefix("digraph model {"))
        #expect(try model("diagram", "model.json", "--format", "svg").status == 2)
    }

    @Test func `a server and a store take Core Data models with overrides`() throws {
        try programs.write(
            #"{"entities": {"Author": {"attributes": {"name": {"type": "string", "key": "full_name"}}}}}"#,
            to: "extra.json")
        let models = ["--model", "Blog.xcdatamodeld", "--model", "extra.json"]
        let record = #"{"id": 1, "title": "T", "author": {"login": "ada", "full_name": "Ada"}}"#
        let result = try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--entity", "Article"] + models, input: record)
        #expect(result.status == 0, "\(result.complaints)")
        let database = Database(programs.path("app.sqlite"))
        #expect(
            try database.rows("SELECT title, author, name FROM Article JOIN Author ON author = login") == ["T|ada|Ada"])
        // brokerd's first model is the one of the test's helper, which is the whole of another company.
        _ = try programs.startServer(models)
        let fetched = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Article"], input: record)
        #expect(fetched.status == 0, "\(fetched.complaints)")
        let both = Database(programs.path("store.sqlite"))
        #expect(try both.rows("SELECT count(*) FROM Author") == ["1"])
        #expect(try both.rows("SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `a file of 16 MiB is read, and no more than 16 MiB of a longer one`() throws {
        let longest = 16 << 20
        let text = Programs.model
        try programs.write(text + String(repeating: " ", count: longest - text.utf8.count), to: "longest.json")
        #expect(try model("check", "longest.json").status == 0)
        #expect(try programs.shell("echo >> longest.json").status == 0)
        let xml = "Huge.xcdatamodel"
        try FileManager.default.createDirectory(atPath: programs.path(xml), withIntermediateDirectories: true)
        #expect(try programs.shell("head -c \(longest + 1) /dev/zero > \(xml)/contents").status == 0)
        for (path, fault) in [
            ("longest.json", "more than 16 MiB"), (xml, "more than 16 MiB"), ("/dev/zero", "pipe or device"),
        ] {
            let refused = try model("check", path)
            #expect(refused.status == 1)
            #expect(refused.complaints.contains(fault), "\(refused.complaints)")
            #expect(refused.complaints.split(separator: "\n").count <= 2)
        }
        let start = try programs.run("brokerd", ["--model", "longest.json", "--store", "s", "--socket", "s.sock"])
        #expect(start.status == 1)
        #expect(start.complaints.contains("longest.json: the model has more than 16 MiB"))
        #expect(start.complaints.split(separator: "\n").count == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("s")))
    }

    @Test func `the model of a store is printed, also while a server has it open`() throws {
        let model = """
            {"evolve": ["columns"], "description": "All", "entities": {"A": {
              "identity": "id", "attributes": {"id": "integer64", "x": {"type": "string", "description": "why"}}}}}
            """
        try programs.write(model, to: "model.json")
        let server = try programs.startServer()
        defer { kill(server.processIdentifier, SIGKILL) }
        let shown = try programs.run("broker", ["model", "show", "--store", "store.sqlite"])
        #expect(shown.status == 0 && shown.complaints.isEmpty, "\(shown.complaints)")
        #expect(shown.output.contains(#""evolve": ["columns"]"#) && shown.output.contains(#""description": "why""#))
        try programs.write(shown.output, to: "again.json")
        for arguments in [[], ["--json"]] {
            let file = try programs.run("broker", ["model", "show", "again.json"] + arguments)
            let store = try programs.run("broker", ["model", "show", "--store", "store.sqlite"] + arguments)
            #expect(file.output == store.output)
        }
        let diff = try programs.run("broker", ["model", "diff", "--model", "again.json", "--store", "store.sqlite"])
        #expect(diff.status == 0 && diff.output.isEmpty)
        #expect(try programs.run("broker", ["model", "show", "--store", "missing"]).status == 1)
        for arguments in [[], ["model.json", "--store", "store.sqlite"], ["--notes", "--store", "store.sqlite"]] {
            #expect(try programs.run("broker", ["model", "show"] + arguments).status == 2)
        }
    }
}

/// `broker migrate`, with a server and without one.
@Suite(.timeLimit(.minutes(5))) struct MigrateCommandTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    /// Lacks the names of employees, and departments.
    private static let smaller = """
        {"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64", "level": "integer16"}}}}
        """
    private static let local = ["--store", "store.sqlite", "--model", "model.json"]

    /// A store of the first model, and the smaller one in its place.
    private func makeStore() throws {
        let result = try programs.run(
            "broker", ["submit", "--entity", "Employee"] + Self.local,
            input: #"[{"id": 1, "name": "Ada", "department": {"id": 7}}, {"id": 2, "name": "Grace"}]"#)
        #expect(result.status == 0, "\(result.complaints)")
    }

    /// A server with the first model, beside which the file of the model is another one already.
    private func startServer(_ arguments: [String] = []) throws -> Process {
        try makeStore()
        let server = try programs.startServer(arguments)
        try programs.write(Self.smaller, to: "model.json")
        return server
    }

    private func migrate(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["migrate", "--socket", "broker.sock"] + arguments)
    }

    private func migrateStore(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["migrate"] + Self.local + arguments)
    }

    private func contents() throws -> [String] {
        let database = Database(programs.path("store.sqlite"))
        return try database.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2")
            + database.rows("SELECT * FROM Employee") + database.rows("SELECT * FROM _broker_meta ORDER BY 1")
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) }

    private static let dropped = [
        "dropped: Employee.name is in the store, but not in the model", "  2 values are lost: 1: 'Ada'; 2: 'Grace'",
        "dropped: Employee.department is in the store, but not in the model", "  1 link is lost: 1: 7",
        "dropped: Department is in the store, but not in the model", "  1 object is lost: 7",
        "migrated: Employee.level is new",
    ]

    private func lines(_ result: Programs.Result) -> [String] {
        result.output.split(separator: "\n").map(String.init)
    }

    @Test func `a dry run lists everything that is refused, retained or dropped, and changes nothing`() throws {
        _ = try startServer()
        let before = try contents()
        let refused = try migrate(["--dry-run"])
        #expect(refused.status == 1 && refused.complaints.contains("3 of 4 changes are refused"))
        #expect(lines(refused).filter { $0.hasPrefix("refused: ") }.count == 3, "\(refused.output)")
        #expect(lines(refused).contains("  2 values would be lost by --drop: 1: 'Ada'; 2: 'Grace'"))
        let kept = try migrate(["--dry-run", "--keep"])
        #expect(kept.status == 0 && lines(kept).filter { $0.hasPrefix("kept: ") }.count == 3, "\(kept.output)")
        let dropped = try migrate(["--dry-run", "--drop"])
        #expect(dropped.status == 0 && lines(dropped) == Self.dropped + ["Nothing was changed."], "\(dropped.output)")
        let json = try migrate(["--dry-run", "--drop", "--json"])
        #expect(json.output.hasPrefix(#"{"opens":true,"migrated":false,"changes":[{"change":"dropped","#), "\(json)")
        #expect(json.output.contains(#""loss":{"kind":"values","count":2,"examples":["1: 'Ada'","2: 'Grace'"]}"#))
        #expect(try contents() == before)
        // Without a word about what is gone, nothing is done either.
        #expect(try migrate().status == 1)
        #expect(try contents() == before)
    }

    @Test func `what is dropped is what the dry run said, and no server refuses it afterwards`() throws {
        let server = try startServer()
        let refused = try migrate(["--drop"])
        #expect(refused.status == 1 && refused.complaints.contains("Give --yes"), "\(refused.complaints)")
        let database = Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT id, name, department FROM Employee") == ["1|Ada|7", "2|Grace|NULL"])
        let done = try migrate(["--drop", "--yes"])
        #expect(done.status == 0 && lines(done) == Self.dropped + ["The store fits the model now: 4 changes."])
        #expect(try database.rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
        #expect(try database.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'Department%'").isEmpty)
        let again = try migrate(["--drop", "--json"])
        #expect(again.output == #"{"opens":true,"migrated":true,"changes":[]}"# + "\n", "\(again.complaints)")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["ping", "--socket", "broker.sock"]).status == 0)
    }

    @Test func `what is retained is in use again with the earlier model, and a reload still refuses a loss`() throws {
        _ = try startServer()
        let kept = try migrate(["--keep"])
        #expect(
            kept.status == 0 && lines(kept).last == "The store fits the model now: 4 changes.", "\(kept.complaints)")
        let submitted = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--socket", "broker.sock"], input: #"{"id": 2, "level": 3}"#)
        #expect(submitted.status == 0)
        try programs.write(
            #"{"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64"}}}}"#, to: "model.json")
        let reloaded = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reloaded.status == 1 && reloaded.complaints.contains("Employee.level is in the store"))
        let both = Programs.model.replacing(#""name": "string"}"#, with: #""name": "string", "level": "integer16"}"#)
        try programs.write(both, to: "model.json")
        #expect(try migrate().status == 0)
        #expect(
            try Database(programs.path("store.sqlite")).rows("SELECT id, name, department FROM Employee")
                == ["1|Ada|7", "2|Grace|NULL"])
    }

    @Test func `the option of a server decides at a reload, and the command decides for itself`() throws {
        _ = try startServer(["--migrate", "drop"])
        let refused = try migrate()
        #expect(refused.status == 1 && refused.complaints.contains("3 of 4 changes are refused"), "\(refused)")
        let reloaded = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reloaded.status == 0 && reloaded.output.contains("dropped: Employee.name"), "\(reloaded)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `a terminal is asked, and nothing but yes is agreement`() throws {
        try makeStore()
        try programs.write(Self.smaller, to: "model.json")
        let broker = programs.executable("broker").path
        let command = "\(broker) migrate --store store.sqlite --model model.json --drop"
        for (answer, status) in [("n", 1 as Int32), ("", 1), ("y", 0)] {
            let asked = try programs.shell("script -qec '\(command)' /dev/null", input: answer + "\n")
            #expect(asked.status == status, "\(asked.output)")
            #expect(
                asked.output.contains(
                    "Drop Employee.name (2 values), Employee.department (1 link), Department (1 object)? [y/N]"))
            if status == 1 { #expect(asked.output.contains("Nothing was changed.")) }
        }
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `each part that the model no longer has is kept or dropped by its name, with a server and without`()
        throws
    {
        let server = try startServer()
        let some = ["--keep", "Employee.name", "--drop=Department"]
        let refused = try migrate(some)
        #expect(refused.status == 1 && refused.output.contains("refused: Employee.department is in"), "\(refused)")
        #expect(refused.output.contains("kept: Employee.name") && refused.output.contains("dropped: Department"))
        let none = try migrate(some + ["--drop", "Employee.department", "--drop", "Employee.level", "--yes"])
        #expect(none.status == 1 && none.output.contains("Employee.level was named, and is no part"), "\(none)")
        let local = try programs.run(
            "broker", ["model", "diff"] + Self.local + some + ["--drop", "Employee.department"])
        #expect(local.status == 0, "\(local)")
        let made = try migrate(some + ["--drop", "Employee.department", "--yes"])
        #expect(made.status == 0, "\(made)")
        let columns = "SELECT name FROM pragma_table_info('Employee') ORDER BY 1"
        #expect(try Database(programs.path("store.sqlite")).rows(columns) == ["id", "level", "name"])
        server.terminate()
        server.waitUntilExit()
        // Without a value, all: the rest.
        let all = try migrateStore(["--drop", "--yes"])
        #expect(all.status == 0 && all.output.contains("dropped: Employee.name was retained"), "\(all)")
        #expect(try Database(programs.path("store.sqlite")).rows(columns) == ["id", "level"])
    }

    @Test(arguments: [
        (["--keep", "--drop"], "takes no other"), (["--keep", "--drop", "A"], "takes no other"),
        (["--keep", "A", "--drop", "A"], "A cannot be both kept and dropped"),
        (["--drop", "A", "--migrate", "drop"], "--migrate"),
    ])
    func `options that contradict each other are refused before anything is read`(options: [String], fault: String)
        throws
    {
        let result = try migrateStore(options)
        #expect(result.status == 2 && result.complaints.contains(fault), "\(result)")
    }

    @Test func `a store is migrated without a server, but not beside one`() throws {
        let server = try startServer()
        let before = try contents()
        let refused = try migrateStore(["--drop", "--yes"])
        #expect(refused.status == 1 && refused.complaints.contains("belongs to"), "\(refused.complaints)")
        // To look is harmless.
        let beside = try migrateStore(["--drop", "--dry-run"])
        #expect(beside.status == 0 && lines(beside) == Self.dropped + ["Nothing was changed."])
        #expect(try contents() == before)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let closed = try bytes()
        #expect(try migrateStore(["--drop", "--dry-run"]).status == 0)
        #expect(try migrateStore(["--dry-run"]).status == 1)
        #expect(try bytes() == closed)
        #expect(try migrateStore(["--drop"]).complaints.contains("Give --yes"))
        let done = try migrateStore(["--drop", "--yes"])
        #expect(done.status == 0 && lines(done) == Self.dropped + ["The store fits the model now: 4 changes."])
        _ = try programs.startServer()
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `accepted jobs of a journal are applied with their model before a store is migrated`() throws {
        let server = try programs.startServer(["--journal"])
        let client = try RawClient(programs.path("broker.sock"))
        #expect(try client.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
        let job = #"{"notify": ["accepted"], "entity": "Employee", "json": {"id": 1, "name": "Ada"}}"#
        #expect(try client.ask(job).type == "accepted")
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        try programs.write(Self.smaller, to: "model.json")
        let refused = try migrateStore(["--keep"])
        #expect(refused.status == 1 && refused.complaints.contains("holds entries (1)"), "\(refused)")
        for (program, arguments) in [
            ("broker", ["fetch", "--entity", "Employee"]), ("brokerd", ["--socket", "broker.sock"]),
        ] {
            let without = try programs.run(program, arguments + Self.local + ["--migrate", "drop"])
            #expect(without.status == 1 && without.complaints.contains("Nothing was touched"), "\(without)")
        }
        try programs.write(Programs.model, to: "model.json")
        let next = try programs.startServer(["--journal"])
        kill(next.processIdentifier, SIGTERM)
        next.waitUntilExit()
        try programs.write(Self.smaller, to: "model.json")
        #expect(try migrateStore(["--keep"]).status == 0)
        let last = try programs.startServer(["--journal"])
        #expect(last.isRunning)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT id, name FROM Employee") == ["1|Ada"])
    }

    @Test func `a server that does not know the action is named as the cause, and nothing is done`() throws {
        let server = try OldServer(programs.path("broker.sock"))
        for arguments in [["--dry-run"], ["--drop", "--yes"]] {
            let result = try migrate(arguments)
            #expect(result.status == 1 && result.output.isEmpty)
            #expect(result.complaints.contains("The server is older than this command"), "\(result.complaints)")
        }
        #expect(server.actions == ["migrate true", "migrate true"], "it was asked for no change")
    }

    @Test func `wrong arguments, and a server that is not there, are reported by the exit status`() throws {
        #expect(try migrate(["--keep", "--drop"]).status == 2)
        #expect(try migrate(["--migrate", "drop"]).status == 2)
        let help = try migrate(["--help"]).output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("they take the place of --migrate, which is for the other commands"), "\(help)")
        #expect(try migrateStore(["--migrate", "drop"]).complaints.contains("--keep and --drop instead of --migrate"))
        #expect(try migrate(["--model", "model.json"]).status == 2)
        #expect(try migrate().status == 4)
        let missing = try migrateStore(["--drop"])
        #expect(missing.status == 1 && missing.complaints.contains("There is no store store.sqlite"), "\(missing)")
        #expect(try migrateStore(["--dry-run"]).status == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
    }
}

/// A changed model: previewed, migrated by the server, and interrupted.
@Suite(.timeLimit(.minutes(5))) struct MigrationTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private static let changed = """
        {"entities": {
          "Worker": {
            "renamedFrom": "Employee", "identity": "id",
            "attributes": {"id": "integer64", "level": {"type": "integer16", "optional": false, "default": 3},
              "fullName": {"type": "string", "renamedFrom": "name"}},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64"}}
        }}
        """

    /// A store of the first model with some rows.
    private func makeStore() throws {
        let records = (1...3).map {
            "{\"id\": \($0), \"name\": \"n\($0)\", \"department\": {\"id\": 7, \"name\": \"d\"}}"
        }
        let result = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--store", "store.sqlite", "--model", "model.json"],
            input: "[\(records.joined(separator: ","))]")
        #expect(result.status == 0, "\(result.complaints)")
    }

    private func diff(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["model", "diff", "--model", "changed.json", "--store", "store.sqlite"] + arguments)
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) }

    @Test func `the parts that would be migrated, retained, dropped and refused are printed beforehand`() throws {
        try makeStore()
        try programs.write(Self.changed, to: "changed.json")
        let before = try bytes()
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter { !$0.hasPrefix(".") }
        for (options, status, gone) in [
            ([], 1 as Int32, "refused: Department.name is in the store, but not in the model (`broker migrate --keep`"),
            (["--keep"], 0, "kept: Department.name is in the store, but not in the model"),
            (["--drop"], 0, "dropped: Department.name is in the store, but not in the model"),
            (["--migrate", "refuse"], 1, "refused: Department.name is in the store, but not in the model"),
            (["--migrate", "keep"], 0, "kept: Department.name is in the store, but not in the model"),
            (["--migrate", "drop"], 0, "dropped: Department.name is in the store, but not in the model"),
        ] {
            let result = try diff(options)
            #expect(result.status == status)
            let lines = result.output.split(separator: "\n")
            #expect(lines.count == (gone.hasPrefix("kept") ? 4 : 5) && lines[2].hasPrefix(gone), "\(result.output)")
            #expect(lines[0] == "migrated: Employee is renamed to Worker")
            #expect(lines[1] == "migrated: Worker.name is renamed to fullName")
            #expect(lines.last == "migrated: Worker.level is new, and rows that are there take its default 3")
        }
        #expect(try diff(["--migrate", "keep", "--drop"]).status == 2)
        let json = try diff(["--json"]).output
        #expect(
            json.contains(#"{"opens":false,"changes":[{"change":"migrated","subject":"Worker","message":"Employee"#))
        #expect(try bytes() == before)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter {
                !$0.hasPrefix(".") && $0 != "changed.json"
            }.sorted() == names.filter { $0 != "changed.json" }.sorted())
        let same = try programs.run("broker", ["model", "diff", "--model", "model.json", "--store", "store.sqlite"])
        #expect(same.status == 0 && same.output.isEmpty)
        let missing = try programs.run("broker", ["model", "diff", "--model", "model.json", "--store", "missing"])
        #expect(missing.status == 1 && missing.complaints.contains("There is no store missing"))
    }

    @Test func `the server refuses a loss, and logs what a migration changed`() throws {
        try makeStore()
        let before = try bytes()
        try programs.write(Self.changed, to: "model.json")
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"])
        #expect(refused.status == 1 && refused.complaints.contains("Department.name is in the store"))
        #expect(try bytes() == before)
        try programs.write("", to: "log")
        let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
        try programs.write(Programs.model, to: "model.json")
        let server = try programs.startServer(complaints: log)
        try programs.write(Self.changed, to: "model.json")
        let kept = try programs.run("broker", ["migrate", "--keep", "--socket", "broker.sock"])
        #expect(kept.status == 0 && kept.output.contains("kept: Department.name"), "\(kept)")
        try expectMigrated(by: server)
        // The retained attribute stays, without an option.
        let fetched = try programs.run(
            "broker", ["fetch", "--entity", "Worker", "--store", "store.sqlite", "--model", "model.json", "--count"])
        #expect(fetched.status == 0 && fetched.output == "3\n", "\(fetched)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT name FROM Department") == ["d"])
    }

    /// Ends the server, whose log has the changes, and looks at the rows.
    private func expectMigrated(by server: Process) throws {
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8)
        for line in [
            "migrated: Employee is renamed to Worker.", "migrated: Worker.level is new", "kept: Department.name",
            "The store fits the model now: 4 changes in ",
        ] {
            #expect(lines.contains(line), "\(lines)")
        }
        let rows = try Database(programs.path("store.sqlite")).rows(
            "SELECT id, fullName, level, department FROM Worker")
        #expect(rows == ["1|n1|3|7", "2|n2|3|7", "3|n3|3|7"])
    }

    @Test func `an option of the start keeps or drops what is gone, and the log has what it changed`() throws {
        try makeStore()
        let before = try bytes()
        try programs.write(Self.changed, to: "model.json")
        let local = ["--store", "store.sqlite", "--model", "model.json"]
        for (policy, status, gone) in [
            ("refuse", 1 as Int32, "refused: Department.name"), ("keep", 0, "kept: Department.name"),
            ("drop", 0, "dropped: Department.name"),
        ] {
            let check = try programs.run("brokerd", local + ["--check", "--migrate", policy])
            #expect(check.status == status && check.output.contains(gone), "\(check)")
        }
        #expect(try bytes() == before)
        try programs.write("", to: "log")
        let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
        let server = try programs.startServer(["--migrate", "keep"], complaints: log)
        try expectMigrated(by: server)
        let dropped = try programs.run("broker", ["fetch", "--entity", "Department", "--migrate", "drop"] + local)
        #expect(dropped.status == 0 && dropped.complaints.contains("dropped: Department.name"), "\(dropped.complaints)")
        #expect(try programs.run("broker", ["fetch", "--entity", "Worker", "--migrate", "drop"]).status == 2)
    }

    /// Enough that copying them takes a while.
    private static let rows = 200_000

    @Test func `a migration that is killed has happened whole or not at all`() throws {
        var generator = SeededGenerator()
        try makeStore()
        let fill = """
            WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO Employee SELECT i, 'n' || i, 7 FROM n; PRAGMA wal_checkpoint(TRUNCATE);
            """
        #expect(try programs.shell("sqlite3 store.sqlite && mv store.sqlite old.sqlite", input: fill).status == 0)
        try programs.write(Self.changed, to: "model.json")
        var outcomes: [Bool] = []
        for _ in 0..<Cases.count(3, of: 10) {
            #expect(try programs.shell("rm -f store.sqlite* broker.sock; cp old.sqlite store.sqlite").status == 0)
            try programs.write("", to: "log")
            let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
            let server = try programs.startServer(["--migrate", "drop"], complaints: log, waitsUntilReady: false)
            // SQLite's WAL grows to some 6 MB at COMMIT. The server's log reports when the store is migrated.
            let limit = Int.random(in: 0...7_000_000, using: &generator)
            while server.isRunning, size("store.sqlite-wal") < limit, size("log") == 0 { sched_yield() }
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
            outcomes.append(try checkWholeness())
        }
        print("migrated before the kill: \(outcomes)")
    }

    /// - Returns: whether the store was migrated.
    private func checkWholeness() throws -> Bool {
        let database = Database(programs.path("store.sqlite"))
        let tables = try database.rows(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'")
        let isMigrated = tables.contains("Worker")
        #expect(Set(tables) == (isMigrated ? ["Worker", "Department"] : ["Employee", "Department"]), "\(tables)")
        let model = try database.rows("SELECT value FROM _broker_meta WHERE key = 'model'")
        #expect(model.first?.contains("fullName") == isMigrated)
        let rows =
            isMigrated
            ? "SELECT count(*), sum(id), count(fullName), sum(level), sum(department) FROM Worker"
            : "SELECT count(*), sum(id), count(name), 3 * count(*), sum(department) FROM Employee"
        let count = Self.rows
        #expect(try database.rows(rows) == ["\(count)|\(count * (count + 1) / 2)|\(count)|\(3 * count)|\(7 * count)"])
        #expect(try database.rows("PRAGMA integrity_check") == ["ok"])
        #expect(try database.rows("PRAGMA foreign_key_check").isEmpty)
        return isMigrated
    }

    private func size(_ name: String) -> Int {
        var status = stat()
        return stat(programs.path(name), &status) == 0 ? Int(status.st_size) : -1
    }
}

/// A database that another program made, fed in place by the server and by commands alone.
@Suite(.timeLimit(.minutes(5))) struct FeedingTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        try execute(
            """
            CREATE TABLE artist (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER DEFAULT 5);
            CREATE TABLE album (id INTEGER PRIMARY KEY, title TEXT, artist_id INTEGER NOT NULL REFERENCES artist ON DELETE CASCADE);
            CREATE INDEX by_title ON album (title);
            CREATE VIEW names AS SELECT name FROM artist;
            CREATE TRIGGER t AFTER DELETE ON album BEGIN DELETE FROM artist; END;
            INSERT INTO artist (id, name) VALUES (1, 'Abba'), (2, 'Blur');
            INSERT INTO album VALUES (1, 'Arrival', 1), (2, 'Parklife', 2);
            """)
        // The model is the database itself.
        #expect(try programs.shell("ln -sf store.sqlite model.json").status == 0)
    }

    private func execute(_ sql: String) throws {
        var handle: OpaquePointer?
        defer { sqlite3_close(handle) }
        try #require(sqlite3_open(programs.path("store.sqlite"), &handle) == SQLITE_OK)
        try #require(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("store.sqlite")).rows(sql) }

    private var objects: [String] {
        get throws {
            try rows("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT GLOB '_broker_*' ORDER BY rowid")
                + rows("PRAGMA application_id") + rows("PRAGMA user_version")
        }
    }

    @Test func `the server feeds a database in place, again and again`() throws {
        let before = try objects
        let records =
            #"[{"id": 3, "title": "13", "artist_id": 2}, {"id": 4, "title": "Dummy", "artist": {"id": 7, "name": "Portishead"}}]"#
        for round in 0..<2 {
            let server = try programs.startServer()
            func broker(_ arguments: [String], _ input: String = "") throws -> String {
                let result = try programs.run(
                    "broker", arguments.prefix(1) + ["--socket", "broker.sock"] + arguments.dropFirst(), input: input)
                #expect(result.status == 0, "\(result.complaints)")
                return result.output
            }
            let submitted = try broker(["submit", "--entity", "album", "--json"], records)
            let counts = round == 0 ? (2, 0, 1, 1) : (0, 2, 0, 2)
            #expect(
                submitted.contains(#""album":{"inserted":\#(counts.0),"updated":0,"unchanged":\#(counts.1),"#),
                "\(submitted)")
            #expect(
                submitted.contains(#""artist":{"inserted":\#(counts.2),"updated":0,"unchanged":\#(counts.3),"#),
                "\(submitted)")
            #expect(
                try broker(["fetch", "album", "--where", "artist_id.name == 'Blur'", "--sort=-id"])
                    == """
                    {"id":3,"title":"13","artist_id":2}
                    {"id":2,"title":"Parklife","artist_id":2}

                    """)
            if round == 1 {
                _ = try broker(
                    ["sync", "--entity", "album", "--where", "artist_id == 2"], #"[{"id": 3, "title": "Thirteen"}]"#)
                _ = try broker(["delete", "--entity", "artist", "7"])
            }
            // The second server finds the files of the first, which was killed.
            if round == 0 { kill(server.processIdentifier, SIGKILL) } else { server.terminate() }
            server.waitUntilExit()
            #expect(round == 0 || server.terminationStatus == 0)
        }
        #expect(try rows("SELECT * FROM album ORDER BY id") == ["1|Arrival|1", "3|Thirteen|2"])
        #expect(try rows("SELECT * FROM artist ORDER BY id") == ["1|Abba|5", "2|Blur|5"])
        #expect(try rows("PRAGMA foreign_key_check").isEmpty && rows("PRAGMA integrity_check") == ["ok"])
        #expect(try objects == before)
    }

    @Test func `a command alone feeds it, says what it did, and overrides adjust the model`() throws {
        try programs.write(
            #"{"entities": {"artist": {"attributes": {"name": {"type": "string", "optional": false, "key": "label", "transform": ["trim"]}}}}}"#,
            to: "overrides.json")
        let local = ["--store", "store.sqlite", "--model", "store.sqlite", "--model", "overrides.json"]
        let first = try programs.run(
            "broker", ["submit", "--entity", "artist"] + local, input: #"{"id": 8, "label": " Can "}"#)
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.complaints.contains("fed as it is") && first.complaints.contains("journal mode WAL"))
        #expect(first.complaints.contains("triggers in store.sqlite (1) do not fire"))
        #expect(try rows("SELECT * FROM artist WHERE id = 8") == ["8|Can|5"])
        let again = try programs.run(
            "broker", ["submit", "--entity", "artist", "--json"] + local, input: #"{"id": 8, "label": "Can"}"#)
        #expect(again.output.contains(#""unchanged":1"#) && !again.complaints.contains("fed as it is"))
    }

    @Test func `a database that does not fit stays byte for byte, and the server says how to feed it`() throws {
        try programs.write(Programs.model, to: "other.json")
        let bytes = { try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) }
        let before = try bytes()
        let refused = try programs.run(
            "brokerd", ["--model", "other.json", "--store", "store.sqlite", "--socket", "broker.sock"])
        #expect(refused.status == 1 && refused.output.isEmpty)
        #expect(refused.complaints.contains("there is no table Employee"), "\(refused.complaints)")
        #expect(refused.complaints.contains("broker model import"))
        #expect(try bytes() == before)
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter { !$0.hasPrefix(".") }
        #expect(names.sorted() == ["model.json", "other.json", "store.sqlite"])
        let result = try programs.run("broker", ["model", "diff", "--model", "other.json", "--store", "store.sqlite"])
        #expect(
            result.status == 1 && result.output.contains("refused: there is no table Department"), "\(result.output)")
    }
}
