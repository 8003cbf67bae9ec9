import Testing

@testable import BrokerStore

/// Texts of a fed database that are values of other types: JSON and days.
@Suite(.timeLimit(.minutes(5))) struct FedTextTests {
    private func database() throws -> FedDatabase {
        let database = try FedDatabase(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, tags TEXT DEFAULT '[]', born DATE);
            INSERT INTO t VALUES (1, '["a", {"b": 1}]', '1985-12-10'), (2, NULL, NULL);
            """)
        try database.open()
        return database
    }

    @Test func `JSON and days are fed as such`() throws {
        let database = try database()
        let records = #"[{"id": 2, "tags": [1,  {"x": null}], "born": "2012-02-29"}, {"id": 3}]"#
        #expect(try database.process("t", records) == ["t +1 ~1 =0 -0 !0"])
        #expect(
            try database.rows("SELECT id, tags, born, typeof(born) FROM t ORDER BY id") == [
                #"1|["a", {"b": 1}]|1985-12-10|text"#, #"2|[1,{"x":null}]|2012-02-29|text"#, "3|[]|NULL|null",
            ])
        #expect(try database.process("t", records) == ["t +0 ~0 =2 -0 !0"])
        #expect(throws: (any Error).self) { try database.process("t", #"[{"id": 3, "born": "2012-02-29T00:00:00Z"}]"#) }
    }
}
