import Foundation
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
                    + "did you mean \"Author\"?\n"))
        #expect(try model("check").status == 2)
    }

    @Test func `a hundred faults are listed, each with its line and column in the XML`() throws {
        let attributes = (0..<100).map { "<attribute name=\"a\($0)\" attributeType=\"Sting\"/>" }
        try version("Blog 2", "<entity name=\"A\">\n\(attributes.joined(separator: "\n"))\n</entity>")
        let result = try model("check", "Blog.xcdatamodeld")
        #expect(result.status == 1)
        let lines = result.complaints.split(separator: "\n")
        #expect(lines.count == 101)
        for (index, line) in lines.dropLast().enumerated() {
            #expect(
                line.hasPrefix(
                    "Blog.xcdatamodeld/Blog 2.xcdatamodel/contents: line \(index + 3), column 1 "
                        + "(/entities/A/attributes/a\(index)): \"Sting\" is no attribute type of Core Data's"))
        }
        let json = try model("check", "--json", "Blog.xcdatamodeld")
        #expect(json.output.components(separatedBy: "\"file\":\"Blog.xcdatamodeld").count == 101)
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
        let database = try Database(programs.path("app.sqlite"))
        #expect(
            try database.rows("SELECT title, author, name FROM Article JOIN Author ON author = login") == ["T|ada|Ada"])
        // brokerd's first model is the one of the test's helper, which is the whole of another company.
        _ = try programs.startServer(models)
        let fetched = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Article"], input: record)
        #expect(fetched.status == 0, "\(fetched.complaints)")
        let both = try Database(programs.path("store.sqlite"))
        #expect(try both.rows("SELECT count(*) FROM Author") == ["1"])
        #expect(try both.rows("SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `a missing model is reported in one line`() throws {
        for (name, line) in [
            ("Nix.xcdatamodeld", "broker: Nix.xcdatamodeld: there is no such model; check the path\n"),
            ("nix.json", "broker: nix.json cannot be read: No such file or directory.\n"),
        ] {
            let result = try model("show", name)
            #expect(result.status == 1)
            #expect(result.complaints == line)
        }
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
            {"inferred": "v1", "description": "All", "entities": {"A": {
              "identity": "id", "attributes": {"id": "integer64", "x": {"type": "string", "description": "why"}}}}}
            """
        try programs.write(model, to: "model.json")
        let server = try programs.startServer()
        defer { kill(server.processIdentifier, SIGKILL) }
        let shown = try programs.run("broker", ["model", "show", "--store", "store.sqlite"])
        #expect(shown.status == 0 && shown.complaints.isEmpty, "\(shown.complaints)")
        #expect(shown.output.contains(#""inferred": "v1""#) && shown.output.contains(#""description": "why""#))
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
