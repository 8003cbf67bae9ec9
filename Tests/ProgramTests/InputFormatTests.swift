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

    @Test(arguments: ["", ".gz", ".lz4"]) func `files of every format are submitted alike, packed or not`(
        packing: String
    ) throws {
        for input in Self.inputs {
            let programs = try Programs()
            _ = try programs.startServer()
            try programs.write(input.text, to: input.name)
            let packer = ["": "true", ".gz": "gzip", ".lz4": "lz4 -q -m"][packing] ?? ""
            try #require(try programs.shell("\(packer) \(input.name)").status == 0)
            let result = try submit(programs, input.arguments + [input.name + packing])
            #expect(result.status == 0, "\(input.name): \(result.complaints)")
            #expect(try stored(programs) == Self.expected, "\(input.name)")
        }
    }

    @Test func `standard input needs a type, and its packing is known by the first bytes`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let broker = programs.executable("broker").path + " submit --socket broker.sock --entity Employee"
        for (index, packer) in ["cat", "gzip -c", "lz4 -c"].enumerated() {
            try programs.write("id,name\n\(index),x\n", to: "piped")
            let result = try programs.shell("\(packer) piped | \(broker) --type csv")
            #expect(result.status == 0, "\(result.complaints)")
        }
        #expect(try stored(programs) == ["0|x|NULL|NULL", "1|x|NULL|NULL", "2|x|NULL|NULL"])
        // A type that is given is taken, whatever the name says.
        try programs.write("id=4", to: "form.csv")
        #expect(try submit(programs, ["--type", "form", "form.csv"]).status == 0)
        let untyped = try programs.shell("echo '<r/>' | \(broker)")
        #expect(untyped.status == 1 && untyped.complaints.contains("--type xml"), "\(untyped.complaints)")
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

    @Test func `a truncated packed file is reported, and the complete records before its end are committed`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        var generator = SeededGenerator()
        let rows = (1...20_000).map { "\($0),\(UInt64.random(in: 0...UInt64.max, using: &generator))\n" }
        try programs.write("id,name\n" + rows.joined(), to: "e.csv")
        _ = try programs.shell("gzip e.csv && head -c 200000 e.csv.gz > cut.csv.gz")
        let result = try submit(programs, ["cut.csv.gz"])
        #expect(result.status == 1)
        #expect(result.complaints.contains("the gzip data ends in the middle (200000 bytes of the file were read)"))
        let count = try #require(
            Int(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee")[0]))
        #expect((1_000..<20_000).contains(count))
        #expect(result.complaints.contains("cut.csv.gz, line \(count + 2), column "), "\(result.complaints)")
        #expect(result.complaints.contains("the \(count) records before it were sent"))
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

    @Test func `a sync reads every format, and deletes nothing after a fault`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let sync = ["sync", "--socket", "broker.sock", "--entity", "Employee"]
        try programs.write("id\n1\n2\n3\n", to: "all.csv")
        #expect(try programs.run("broker", sync + ["all.csv"]).status == 0)
        try programs.write("id,name\n1,a\n2\n", to: "broken.csv")
        let broken = try programs.run("broker", sync + ["broken.csv"])
        #expect(broken.status == 1 && broken.complaints.contains("broken.csv, line 3"), "\(broken.complaints)")
        #expect(try stored(programs).count == 3)
        try programs.write("<r><e><id>2</id></e></r>", to: "some.xml")
        let some = try programs.run("broker", sync + ["--root", "r.e", "some.xml"])
        #expect(some.status == 0, "\(some.complaints)")
        #expect(try stored(programs) == ["2|NULL|NULL|NULL"])
    }

    @Test func `entities that a document declares are refused before anything is sent`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let entities = (1...9).map { "<!ENTITY e\($0) \"&e\($0 - 1);&e\($0 - 1);&e\($0 - 1);\">" }.joined()
        let laughs = "<!DOCTYPE r [<!ENTITY e0 \"ha\">\(entities)]><r><e><id>1</id><name>&e9;</name></e></r>"
        let file = "<!DOCTYPE r [<!ENTITY e SYSTEM \"file:///etc/hostname\">]><r><e><id>1</id><name>&e;</name></e></r>"
        for text in [laughs, file] {
            try programs.write(text, to: "e.xml")
            let result = try submit(programs, ["--root", "r.e", "e.xml"])
            #expect(result.status == 1)
            #expect(result.complaints.contains("the document declares an entity"), "\(result.complaints)")
            #expect(result.complaints.contains("nothing of it was sent"))
        }
    }
}
