import CSQLite
import Foundation
import Testing

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
