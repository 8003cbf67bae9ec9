import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// The views for people and tools that read the file with SQL.
@Suite(.timeLimit(.minutes(5))) struct ReadableViewTests {
    private static let model = """
        {"entities": {
          "Employee": {"identity": "id", "attributes": {"id": "integer64", "salary": "decimal", "active": "boolean",
            "unix": {"type": "date", "storage": "unix"}, "apple": {"type": "date", "storage": "coreData"}},
            "relationships": {"department": {"entity": "Department"}, "room": {"entity": "Room"},
              "boss": {"entity": "Employee"}, "country": {"entity": "Country"}}},
          "Department": {"attributes": {"Title": "string", "name": "string"}},
          "Room": {"identity": ["house", "number"],
            "attributes": {"house": "string", "number": "integer16", "label": "string"}},
          "Country": {"identity": "name", "attributes": {"name": "string"}},
          "Animal": {"identity": "id", "attributes": {"id": "integer64"}},
          "Dog": {"parent": "Animal", "attributes": {"price": "decimal"},
            "relationships": {"owner": {"entity": "Department"}}}
        }}
        """
    private static let names = """
        SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE '%\\_readable' ESCAPE '\\' ORDER BY name
        """

    @Test func `decimals are numbers, dates are texts, and links have names`() throws {
        let store = try TestStore(Self.model)
        try store.apply(
            """
            {"Employee": [{"id": 1, "salary": 9000, "active": true, "country": "NZ"},
              {"id": 2, "salary": "12500.50", "unix": "2011-12-22T02:24:51Z", "apple": "2011-12-22T02:24:51.25Z",
               "department": {"name": "Works"}, "room": {"house": "A", "number": 3, "label": "Attic"}, "boss": 1}],
             "Dog": [{"id": 1, "price": "100.5", "owner": {"name": "Zoo"}}], "Animal": [{"id": 2}]}
            """)
        #expect(try store.rows("SELECT id FROM Employee_readable WHERE salary > 9000") == ["2"])
        #expect(try store.rows("SELECT max(salary), sum(active) FROM Employee_readable") == ["12500.5|1"])
        #expect(
            try store.rows("SELECT * FROM Employee_readable WHERE id = 2") == [
                "2|12500.5|NULL|2011-12-22T02:24:51Z|2011-12-22T02:24:51.250Z|1|A|3|1|NULL|Works|Attic"
            ])
        #expect(
            try store.rows("SELECT name FROM pragma_table_info('Employee_readable')").suffix(3)
                == ["country", "department_name", "room_label"])
        #expect(try store.rows("SELECT * FROM Animal_readable") == ["1|100.5|2|Dog|Zoo", "2|NULL|NULL|Animal|NULL"])
        #expect(try store.rows("SELECT * FROM Dog_readable") == ["1|100.5|2|Dog|Zoo"])
        #expect(
            try store.rows("SELECT sequence, state, ended FROM _broker_jobs_readable")
                == ["1|completed|1970-01-01T00:00:00.000Z"])
    }

    @Test func `a view of another program stays, and so does a table of the model`() throws {
        let store = try TestStore(Self.model)
        try store.execute("DROP VIEW Dog_readable; CREATE VIEW dog_readable AS SELECT 7 AS x")
        try store.reopen()
        #expect(try store.rows("SELECT * FROM Dog_readable") == ["7"])
        #expect(store.store.migration.notes.count == 1)
        #expect(store.store.migration.notes[0].contains("a table or view dog_readable that Broker did not make"))
        let taken = Self.model.replacing(
            #""Dog": {"#, with: #""Room_readable": {"attributes": {"x": "string"}}, "Dog": {"#)
        try store.reopen(taken)
        #expect(try store.rows("SELECT x FROM Room_readable") == [])
        #expect(!(try store.rows(Self.names)).contains("Room_readable"))
        #expect(try store.rows(Self.names).contains("Room_readable_readable"))
    }

    @Test func `a large model has none, because each connection would read them`() throws {
        let attributes = (0..<1_000).map { "\"a\($0)\": \"boolean\"" }.joined(separator: ", ")
        let entities = (0..<6).map { "\"E\($0)\": {\"attributes\": {\(attributes)}}" }.joined(separator: ", ")
        let store = try TestStore("{\"entities\": {\(entities)}}")
        #expect(try store.rows(Self.names) == ["_broker_jobs_readable"])
        #expect(store.store.migration.notes.map { $0.contains("has 6000 attributes and relationships") } == [true])
    }

    @Test func `the views follow the model`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Employee": [{"id": 1, "department": {"name": "Works"}}], "Dog": [{"id": 1}]}"#)
        let renamed = Self.model.replacing("Employee", with: "Person")
            .replacing(#""Person": {"identity""#, with: #""Person": {"renamedFrom": "Employee", "identity""#)
            .replacing(#""salary": "decimal""#, with: #""pay": {"type": "decimal", "renamedFrom": "salary"}"#)
        try store.reopen(renamed)
        #expect(try store.rows("SELECT id, pay, department_name FROM Person_readable") == ["1|NULL|Works"])
        let dropped = renamed.replacing(#", "country": {"entity": "Country"}"#, with: "")
            .replacing(#""Country": {"identity": "name", "attributes": {"name": "string"}},"#, with: "")
            .replacing(#""Title": "string", "name": "string""#, with: #""Title": "string""#)
        try store.reopen(dropped, removal: .drop)
        #expect(
            try store.rows(Self.names) == [
                "Animal_readable", "Department_readable", "Dog_readable", "Person_readable", "Room_readable",
                "_broker_jobs_readable",
            ])
        #expect(try store.rows("SELECT department_Title FROM Person_readable") == ["NULL"])
        #expect(try store.isSound())
        let sql = "SELECT sql FROM sqlite_schema ORDER BY rowid"
        let before = try store.rows(sql)
        try store.reopen()
        #expect(try store.rows(sql) == before)
    }
}
