import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// The comments and declared types in CREATE TABLE, which readers of the file see.
@Suite(.timeLimit(.minutes(5))) struct SchemaCommentTests {
    private static let model = """
        {"entities": {
          "Employee": {"description": "Who works */ here", "identity": "id", "attributes": {"id": "integer64",
            "salary": {"type": "decimal", "description": "a year"}, "active": "boolean", "hired": "calendarDate"},
            "relationships": {"department": {"entity": "Department", "inverse": "staff"},
              "projects": {"entity": "Project", "toMany": true, "inverse": "members"}}},
          "Department": {"attributes": {"name": "string"}, "relationships": {
            "staff": {"entity": "Employee", "toMany": true, "inverse": "department", "ordered": true}}},
          "Project": {"identity": "code", "attributes": {"code": "string"}, "relationships": {
            "members": {"entity": "Employee", "toMany": true, "inverse": "projects"}}},
          "Thing": {"attributes": {"at": "date"}},
          "Lamp": {"parent": "Thing", "attributes": {"watts": "double"}}
        }}
        """

    private func comments(_ table: String, in store: TestStore) throws -> [String] {
        try store.rows("SELECT sql FROM sqlite_schema WHERE name = '\(table)'")[0]
            .matches(of: #//\* (.*?) \*//#).map { String($0.1) }
    }

    @Test func `the schema says what tables and columns hold`() throws {
        let store = try TestStore(Self.model)
        #expect(
            try comments("Employee", in: store) == [
                "objects of the entity Employee: Who works * / here", "integer64; identity",
                #"decimal as text: compare with CAST("salary" AS REAL), or use Employee_readable; a year"#,
                "boolean: 0 or 1", "day like 2011-12-22", "_pk of Department",
                "position in Department.staff, with gaps",
            ])
        #expect(
            try comments("Department", in: store)
                == ["objects of the entity Department", "row number of the server's", "string"])
        #expect(
            try comments("Employee_projects", in: store) == [
                "join table of Employee.projects and Project.members", "id of Employee", "code of Project",
            ])
        #expect(
            try comments("Thing", in: store) == [
                "objects of the entities Thing, Lamp", "row number of the server's",
                "time in UTC like 2011-12-22T02:24:51.000Z", "double; only of Lamp", "entity of the object",
            ])
    }

    @Test(arguments: [
        "*/ DROP", "*/", "a\n-- b\r\u{0}c", "/*/*/*/", "**//", "/", "*", "\u{202E}*/", "\u{2028}x", "",
        String(repeating: "*/", count: 5_000), String(repeating: "e\u{301}", count: 5_000),
    ])
    func `no text ends a comment or its line, or makes it long`(content: String) throws {
        let comment = SQLComment(content).text
        let inner = comment.dropFirst(2).dropLast(2).unicodeScalars
        #expect(comment.hasPrefix("/* ") && comment.hasSuffix(" */"))
        #expect(!String(inner).contains("*/") && !String(inner).contains("/*"))
        #expect(!inner.contains { $0.value < 0x20 || [0x85, 0x2028, 0x2029, 0x202E].contains($0.value) })
        #expect(inner.count <= 2 * SQLComment.longest + 3)
        let store = try TestStore(Self.model)
        #expect(try store.rows("SELECT 1 \(comment), 2") == ["1|2"])
    }

    @Test func `each declared type has the affinity of what is stored`() throws {
        let types = ["decimal", "calendarDate", "uuid", "uri", "transformable", "boolean", "binary", "float", "date"]
        let attributes = types.map { "\"\($0)\": \"\($0)\"" }.joined(separator: ", ")
        let plan = try stagingPlan(
            """
            {"entities": {"T": {"attributes": {\(attributes), "unix": {"type": "date", "storage": "unix"},
              "coreData": {"type": "date", "storage": "coreData"}}}}}
            """)
        for column in Schema(plan.model).tables[0].columns {
            #expect(Affinity(declaredType: column.type.declared) == column.type.storage.affinity, "\(column.name)")
        }
    }

    @Test func `comments survive new names and new columns`() throws {
        let store = try TestStore(Self.model)
        try store.reopen(
            Self.model.replacing(#""Project": {"#, with: #""Task": {"renamedFrom": "Project", "#)
                .replacing(#""entity": "Project""#, with: #""entity": "Task""#)
                .replacing(#""code": "string""#, with: #""code": "string", "title": "string", "due": "date""#))
        #expect(
            try comments("Task", in: store)
                == [
                    "objects of the entity Project", "string; identity", "string",
                    "time in UTC like 2011-12-22T02:24:51.000Z",
                ])
        #expect(try store.rows("SELECT code, title, due FROM Task") == [])
        #expect(try store.isSound())
    }

    @Test func `the entities' tables are made before Broker's own`() throws {
        let names = try TestStore(Self.model).rows(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE '%\\_readable' ESCAPE '\\' "
                + "ORDER BY rowid")
        let first = try #require(names.firstIndex { $0.hasPrefix("_broker_") })
        #expect(names[first...].allSatisfy { $0.hasPrefix("_broker_") })
        #expect(first == 6)
    }
}
