import Foundation
import TestSupport
import Testing

/// The formats of `broker submit` and `broker sync` other than JSON.
@Suite(.timeLimit(.minutes(5))) struct InputFormatTests {
    private static let inputs: [(name: String, text: String, arguments: [String])] = [
        ("e.csv", "id,name,department.id,department.name\n1,\"Ada, \"\"L\"\"\",7,R&D\n2,,,\n", []),
        ("e.json", #"[{"id": 1, "name": "Ada, \"L\"", "department": {"id": 7, "name": "R&D"}}, {"id": 2}]"#, []),
        (
            "e.jsonl",
            "{\"id\": 1, \"name\": \"Ada, \\\"L\\\"\", \"department\": {\"id\": 7, \"name\": \"R&D\"}}\n{\"id\": 2}\n",
            []
        ),
        ("e.form", "id=1&name=Ada,+%22L%22&department[id]=7&department.name=R%26D\nid=2&name&department\n", []),
        (
            "e.xml",
            """
            <?xml version="1.0"?>
            <staff>
              <employee><id>1</id><name>Ada, "L"</name><department><id>7</id><name>R&amp;D</name></department></employee>
              <employee><id>2</id><name/></employee>
            </staff>
            """, ["--root", "staff.employee"]
        ),
    ]

    private static let expected = ["1|Ada, \"L\"|7|R&D", "2|NULL|NULL|NULL"]

    private func submit(_ programs: Programs, _ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"] + arguments)
    }

    private func stored(_ programs: Programs) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows(
            """
            SELECT Employee.id, Employee.name, department, Department.name FROM Employee
            LEFT JOIN Department ON department = Department.id ORDER BY Employee.id
            """)
    }

    @Test(arguments: ["", ".gz", ".lz4", ".zst"]) func `files of every format are submitted alike, packed or not`(
        packing: String
    ) throws {
        for input in Self.inputs {
            let programs = try Programs()
            _ = try programs.startServer()
            try programs.write(input.text, to: input.name)
            let packer = ["": "true", ".gz": "gzip", ".lz4": "lz4 -q -m", ".zst": "zstd -q"][packing] ?? ""
            try #require(try programs.shell("\(packer) \(input.name)").status == 0)
            let result = try submit(programs, input.arguments + [input.name + packing])
            #expect(result.status == 0, "\(input.name): \(result.complaints)")
            #expect(try stored(programs) == Self.expected, "\(input.name)")
        }
    }

    @Test func `the format of standard input, and its packing, are known by the first bytes`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let broker = programs.executable("broker").path + " submit --socket broker.sock --entity Employee"
        for (index, packer) in ["cat", "gzip -c", "lz4 -c"].enumerated() {
            try programs.write("id,name\n\(index),x\n", to: "piped")
            let result = try programs.shell("\(packer) piped | \(broker)")
            #expect(result.status == 0, "\(result.complaints)")
        }
        #expect(try stored(programs) == ["0|x|NULL|NULL", "1|x|NULL|NULL", "2|x|NULL|NULL"])
        // A type that is given is taken, whatever the name says.
        try programs.write("id=4", to: "form.csv")
        #expect(try submit(programs, ["--type", "form", "form.csv"]).status == 0)
        let wrong = try programs.shell("echo '<r/>' | \(broker) --type json")
        #expect(wrong.status == 1 && wrong.complaints.contains("--type xml"), "\(wrong.complaints)")
        let unknown = try submit(programs, ["--type", "yaml", "form.csv"])
        #expect(unknown.status == 2 && unknown.complaints.contains("ndjson"), "\(unknown.complaints)")
    }

    @Test(arguments: [
        ("e.csv", "id,name\n1,a\n2,b\n3\n4,d\n", [], "e.csv, line 4, column 1 (byte 16): this record has 1 field"),
        ("e.form", "id=1\nid=2\nid=%\nid=4\n", [], "e.form, line 3, column 4 (byte 13): a percent sign"),
        (
            "e.xml", "<r>\n<e><id>1</id></e>\n<e><id>2</id></e>\n<e></f>\n<e><id>4</id></e></r>", ["--root", "r.e"],
            "e.xml, line 4, column 8 (byte 47): this is not well-formed XML: Opening and ending tag mismatch"
        ),
        (
            "e.ndjson", "{\"id\": 1}\n{\"id\": 2}\n{\"id\" 3}\n{\"id\": 4}\n", [],
            "e.ndjson, line 3, column 7 (byte 26): expected a"
        ),
    ])
    func `records before a fault are committed, and the fault is reported with its position`(
        name: String, text: String, arguments: [String], message: String
    ) throws {
        for packer in ["true", "gzip"] {
            let programs = try Programs()
            _ = try programs.startServer()
            try programs.write(text, to: name)
            _ = try programs.shell("\(packer) \(name)")
            let file = packer == "gzip" ? name + ".gz" : name
            let result = try submit(programs, arguments + ["--batch-records", "1", file])
            #expect(result.status == 1)
            #expect(
                result.complaints.contains(message.replacingOccurrences(of: name, with: file))
                    && result.complaints.contains("the 2 records before it were sent, nothing after it"),
                "\(result.complaints)")
            #expect(result.complaints.contains("--skip 2"))
            #expect(result.output.contains("2 records in 2 jobs committed"))
            #expect(try stored(programs).count == 2)
        }
    }

    @Test func `a fault in a job is reported by the line of its record`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write("id,name\n1,\"a\nb\"\nx,c\n", to: "e.csv")
        let csv = try submit(programs, ["e.csv"])
        #expect(csv.complaints.contains("e.csv, line 4 (record 2): invalidValue"), "\(csv.complaints)")
        try programs.write("<r>\n<e\n a='1'><id>1</id></e>\n<e><id>x</id></e></r>", to: "e.xml")
        let xml = try submit(programs, ["--root", "r.e", "e.xml"])
        #expect(xml.complaints.contains("e.xml, line 4 (record 2): invalidValue"), "\(xml.complaints)")
    }
}

/// Files that the programs read at their start, and files of a command that a signal ends.
@Suite(.timeLimit(.minutes(5))) struct CommandReaderTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func makePipe(_ name: String) { mkfifo(programs.path(name), 0o600) }

    @Test func `a pipe as a model, contents or configuration is refused`() throws {
        makePipe("pipe")
        try FileManager.default.createDirectory(
            atPath: programs.path("m.xcdatamodel"), withIntermediateDirectories: true)
        makePipe("m.xcdatamodel/contents")
        try FileManager.default.createDirectory(
            atPath: programs.path("n.xcdatamodeld/1.xcdatamodel"), withIntermediateDirectories: true)
        makePipe("n.xcdatamodeld/.xccurrentversion")
        for model in ["pipe", "m.xcdatamodel", "n.xcdatamodeld"] {
            for (program, arguments) in [
                ("broker", ["model", "check", model]),
                ("brokerd", ["--check", "--store", "s.sqlite", "--model", model]),
                ("broker", ["fetch", "Employee", "--store", "s.sqlite", "--model", model]),
            ] {
                let result = try programs.run(program, arguments)
                #expect(result.status != 0 && result.complaints.contains("it is a pipe or device"), "\(result)")
            }
        }
        let configured = try programs.run("brokerd", ["--config", "pipe"])
        #expect(configured.status == 2 && configured.complaints.contains("it is a pipe or device"), "\(configured)")
    }

    @Test func `a reload with a pipe in the model's place is refused, and the server goes on`() throws {
        _ = try programs.startServer()
        try FileManager.default.removeItem(atPath: programs.path("model.json"))
        makePipe("model.json")
        let reload = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reload.status == 1 && reload.complaints.contains("it is a pipe or device"), "\(reload)")
        let submitted = try programs.shell(
            "echo '{\"id\": 1}' | '\(programs.executable("broker").path)' submit --socket broker.sock --entity Employee"
        )
        #expect(submitted.status == 0, "\(submitted)")
    }

    @Test(arguments: [SIGINT, SIGTERM]) func `a dry run that a signal ends leaves no copy of the store`(signal: Int32)
        throws
    {
        let made = try programs.shell(
            "echo '{\"id\": 1}' | '\(programs.executable("broker").path)' submit --store s.sqlite --model model.json "
                + "--entity Employee")
        try #require(made.status == 0, "\(made)")
        try programs.write(
            Programs.model.replacing(#""name": "string""#, with: #""name": "string", "x": "string""#), to: "other.json")
        let temporary = programs.path("tmp")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let run = Process()
        let (input, complaints) = (Pipe(), Pipe())
        run.executableURL = programs.executable("broker")
        run.arguments = ["submit", "--store", "s.sqlite", "--model", "other.json", "--entity", "Employee", "--dry-run"]
        run.currentDirectoryURL = URL(fileURLWithPath: programs.folder)
        run.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": temporary]) { $1 }
        run.standardInput = input
        run.standardError = complaints
        run.standardOutput = FileHandle.nullDevice
        try run.run()
        // It says so as soon as there is a copy.
        var text = ""
        while !text.contains("a copy of the store") {
            let data = complaints.fileHandleForReading.availableData
            try #require(!data.isEmpty, "\(text)")
            text += String(decoding: data, as: UTF8.self)
        }
        kill(run.processIdentifier, signal)
        run.waitUntilExit()
        #expect(run.terminationStatus == 128 + signal)
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary) == [])
        // An end of the input would end the command, too.
        withExtendedLifetime((input, complaints)) {}
    }
}

/// `broker submit` with whole payloads: `--path`, `--mapping`, or key paths alone.
@Suite(.timeLimit(.minutes(5))) struct PayloadCommandTests {
    private static let model = """
        {"entities": {
           "Article": {"identity": "articleID", "attributes": {"articleID": "integer64", "title": "string"}},
           "Animal": {"abstract": true, "identity": "name", "attributes": {"name": "string"}},
           "Cat": {"parent": "Animal"}, "Dog": {"parent": "Animal"}},
         "mappings": {
           "article": {"entity": "Article", "attributes": {"headline": "title"}},
           "animal": {"select": {"key": "kind", "cases": {"cat": "cat", "dog": "dog"}, "otherwise": null}},
           "cat": {"entity": "Cat"}, "dog": {"entity": "Dog"}},
         "routes": [{"path": "/articles/:articleID", "mapping": "article"}, {"keyPath": "animals", "mapping": "animal"},
                    {"keyPath": "error", "error": true}]}
        """

    private let programs: Programs

    init() throws {
        programs = try Programs()
        try programs.write(Self.model, to: "payloads.json")
    }

    private func submit(_ arguments: [String], _ input: String) throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "payloads.json"] + arguments, input: input)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("app.sqlite")).rows(sql) }

    @Test func `a payload is read by its path, by a mapping, or by its keys`() throws {
        let byPath = try submit(["--path", "/articles/5"], #"{"headline": "Five"}"#)
        #expect(byPath.status == 0, "\(byPath.complaints)")
        #expect(byPath.output.contains("Article"))
        #expect(
            try submit(["--mapping", "article"], #"[{"articleID": 6, "headline": "Six"}, {"articleID": 7}]"#).status
                == 0)
        let byKeys = try submit(
            [],
            #"{"animals": [{"kind": "cat", "name": "Tom"}, {"kind": "dog", "name": "Rex"}, {"kind": "cow", "name": "Bo"}]}"#
        )
        #expect(byKeys.status == 0, "\(byKeys.complaints)")
        #expect(try rows("SELECT articleID, title FROM Article ORDER BY 1") == ["5|Five", "6|Six", "7|NULL"])
        #expect(try rows("SELECT name, _entity FROM Animal ORDER BY 1") == ["Rex|Dog", "Tom|Cat"])
        #expect(try rows("SELECT name FROM Cat") == ["Tom"])
    }

    @Test func `a mixed list is cut into jobs like any other`() throws {
        let lines = (0..<250).map { #"{"kind": "\#($0 % 2 == 0 ? "cat" : "dog")", "name": "n\#($0)"}"# }.joined(
            separator: "\n")
        let result = try submit(["--mapping", "animal", "--batch-records", "100"], lines)
        #expect(result.output.contains("250 records in 3 jobs committed"), "\(result.output) \(result.complaints)")
        #expect(try rows("SELECT _entity, count(*) FROM Animal GROUP BY 1") == ["Cat|125", "Dog|125"])
    }

    @Test func `a fault of a payload is reported, and the command fails`() throws {
        let remote = try submit([], #"{"error": "try again later"}"#)
        #expect(remote.status == 1)
        #expect(remote.complaints.contains("try again later"), "\(remote.complaints)")
        let unknown = try submit(["--path", "/nowhere"], #"{"x": 1}"#)
        #expect(unknown.status == 1)
        #expect(
            unknown.complaints.contains("No route fits this payload with the path \"/nowhere\""),
            "\(unknown.complaints)")
        #expect(try submit(["--mapping", "artcle"], "{}").complaints.contains("no mapping \"artcle\""))
        let both = try submit(["--mapping", "article", "--entity", "Article"], "{}")
        #expect(both.status == 2)
        #expect(both.complaints.contains("give one of them"), "\(both.complaints)")
    }
}

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
        let database = Database(programs.path("app.sqlite"))
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
        let database = Database(programs.path("new.sqlite"))
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
        let database = Database(programs.path("app.sqlite"))
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
            ("on", "its values are booleans; whole numbers or texts identify. There are id, mixed, o.a."),
            ("f", "its values are no whole numbers"), ("list", "objects or lists"),
            ("some", "missing or null in 1 of 2"),
            ("null", "missing or null in 1 of 2"), ("empty", "1 of its values are empty"), ("o", "it is an object"),
            ("other", "there is no such key"),
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
            ("", "no record to infer one from"), ("[]", "no record"), ("[[{\"id\": 1}]]", "arrays in an array"),
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

/// A store whose model was inferred takes what comes later.
@Suite(.timeLimit(.minutes(5))) struct EvolvingModelTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ input: String, _ arguments: [String] = [], as entity: String = "Thing") throws
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
        let second = try submit(Self.second, ["--widen"])
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
        let second = try submit(#"[{"id": 2, "v": 1.5, "w": 2.5}]"#, ["--widen"])
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

    @Test func `an edit does not end the evolution, and types change only when that is asked`() throws {
        #expect(try submit(Self.first).status == 0)
        let edited = try model.replacingOccurrences(
            of: #""type": "integer64", "description": "in all 1"}"#, with: #""type": "integer64", "min": 0}"#)
        #expect(try edited != model)
        try programs.write(edited, to: "app.model.json")
        let second = try submit(Self.second)
        #expect(
            second.status == 0 && second.output.contains(#""code":"extraValue","entity":"Thing","key":"price""#),
            "\(second)")
        #expect(try rows("SELECT price, note, new, _extra FROM Thing WHERE id = 2") == [#"NULL|n|1|{"price":2.5}"#])
        #expect(try model.contains(#""min": 0"#) && model.contains("\"new\""))
        #expect(try submit(Self.second, ["--widen"]).status == 0)
        #expect(try rows("SELECT price, _extra FROM Thing ORDER BY id") == ["5.0|NULL", "2.5|NULL"])
    }

    @Test func `a model that does not evolve gets additions when they are asked for`() throws {
        #expect(try submit(Self.first).status == 0)
        let fixed = try model.replacingOccurrences(of: #"  "evolve": ["columns"],"#, with: "")
            .replacingOccurrences(of: #"      "extra": true,"#, with: "")
        try programs.write(fixed, to: "app.model.json")
        let second = try submit(#"[{"id": 2, "new": true}]"#)
        #expect(second.status == 0 && second.output.contains(#""code":"unknownKey""#), "\(second)")
        #expect(try model == fixed)
        #expect(try submit(#"[{"id": 2, "new": true}]"#, ["--evolve"]).status == 0)
        #expect(try rows("SELECT new FROM Thing WHERE id = 2") == ["1"])
        #expect(try submit(#"[{"id": 2, "price": 1.5, "more": [1]}]"#, ["--extra"]).status == 0)
        #expect(try rows("SELECT _extra FROM Thing WHERE id = 2") == [#"{"more":[1],"price":1.5}"#])
    }

    @Test func `a model that is not to be extended stays as it is`() throws {
        #expect(try submit(Self.first).status == 0)
        let before = try model
        let second = try submit(#"[{"id": 2, "new": true}]"#, ["--no-evolve"])
        #expect(second.status == 0 && second.output.contains("\"new\""), "\(second)")
        #expect(try model == before)
    }

    @Test func `keys after the sampled part of an input become attributes at its end`() throws {
        let text = String(repeating: "x", count: 1 << 20)
        var input = (0..<65).map { #"{"id": \#($0), "text": "\#(text)"}"# }.joined(separator: "\n")
        input += "\n" + #"{"id": 1, "late": "2020-01-02", "who": {"name": "n"}, "rows": [{"a": 1}], "text": 7}"#
        let result = try submit(input)
        #expect(result.status == 0 && result.output.contains("extraKey"), "\(result.complaints)")
        #expect(result.complaints.contains("which was a guess, and 1 record of this input replaced others"))
        #expect(
            try rows("SELECT late, who_name, rows, _extra FROM Thing WHERE id = 1") == [#"2020-01-02|n|[{"a":1}]|NULL"#]
        )
        #expect(try model.contains(#""late": {"type": "calendarDate""#))
    }

    @Test func `an extended model that cannot be written is not given to the store`() throws {
        #expect(try submit(Self.first).status == 0)
        #expect(try programs.shell("rm app.model.json && mkdir app.model.json").status == 0)
        let result = try submit(Self.second)
        #expect(result.status == 1, "\(result)")
        #expect(try rows("SELECT count(*) FROM pragma_table_info('Thing') WHERE name = 'new'") == ["0"])
    }

    @Test func `options do not change what a store has, and say so`() throws {
        #expect(try submit(Self.first).status == 0)
        for (option, message) in [
            ("--identity", "is identified by id in the store"), ("--ignore", "has price in the store"),
        ] {
            let result = try submit(Self.first, [option, "price"])
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
        #expect(try rows("SELECT name FROM pragma_table_info('Thing')") == ["_pk", "name", "_extra"])
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
