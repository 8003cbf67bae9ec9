@testable import BrokerSchema
import Testing

@testable import BrokerStore

/// Hierarchies that change: a table, the kinds of its rows, what each kind requires, and views follow the model.
@Suite(.timeLimit(.minutes(5))) struct HierarchyMigrationTests {
    private static let alone = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"boss": {"entity": "Person"}}},
          "Club": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"members": {"entity": "Person", "toMany": true}}}}}
        """
    private static let family = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer16", "optional": false}, "grade": "string"},
            "relationships": {"boss": {"entity": "Employee", "inverse": "staff"},
              "staff": {"entity": "Employee", "toMany": true, "inverse": "boss"}, "seen": {"entity": "Person", "toMany": true}}},
          "Guest": {"parent": "Person", "attributes": {"grade": "string"}}}}
        """
    private static let people = """
        {"Person": [{"id": 1, "name": "a"}], "Employee": [{"id": 2, "name": "b", "salary": 5, "grade": "x", "seen": [1, 3]},
         {"id": 4, "salary": 6, "boss": 2}], "Guest": [{"id": 3, "name": "c", "grade": "y"}]}
        """

    private func store(_ model: String = family, _ records: String = people) throws -> TestStore {
        let store = try TestStore(model)
        #expect(try store.fault(records) == nil)
        return store
    }

    /// Opens the store with another model, and what it was made is what that model would have made.
    private func migrate(_ store: TestStore, to model: String, removal: RemovalPolicy = .refuse) throws -> [String] {
        try store.reopen(model, removal: removal)
        let changes = store.store.migration.changes.map { "\($0.verdict) \($0.text)" }
        let fresh = try TestStore(model)
        for sql in [
            "SELECT type, name FROM sqlite_schema ORDER BY 1, 2",
            "SELECT name, sql FROM sqlite_schema WHERE type = 'view' ORDER BY 1",
            "SELECT t.name, c.name, c.\"notnull\" FROM sqlite_schema t, pragma_table_info(t.name) c ORDER BY 1, 2",
            "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'CREATE UNIQUE%' ORDER BY 1",
        ] { #expect(try store.rows(sql) == fresh.rows(sql)) }
        #expect(try store.isSound())
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        return changes
    }

    private func refusal(_ store: TestStore, _ model: String, removal: RemovalPolicy = .refuse) throws -> String {
        let schema = try store.rows("SELECT sql FROM sqlite_schema ORDER BY name")
        let error = try #require(throws: StoreError.self) { try store.reopen(model, removal: removal) }
        #expect(error.code == .incompatible)
        #expect(try store.rows("SELECT sql FROM sqlite_schema ORDER BY name") == schema)
        return error.message
    }

    @Test func `an entity without a hierarchy gets subentities, and its rows have its concrete entity`() throws {
        let store = try store(
            Self.alone, #"{"Person": [{"id": 1, "name": "a", "boss": 2}], "Club": [{"id": 1, "members": [1, 2]}]}"#)
        let model = Self.alone.replacing(
            #""Club": {"#,
            with: #"""
                "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer16", "optional": false}}},
                "Manager": {"parent": "Employee", "attributes": {"title": "string"}}, "Club": {
                """#)
        #expect(try migrate(store, to: model) == ["migrated Employee is new", "migrated Manager is new"])
        #expect(
            try store.rows("SELECT id, name, boss, salary, _entity FROM Person ORDER BY id") == [
                "1|a|2|NULL|Person", "2|NULL|NULL|NULL|Person",
            ])
        #expect(try store.changes(#"{"Manager": {"id": 2, "salary": 3, "title": "t"}}"#) == "Manager ~1")
        #expect(throws: StoreError.self) { try store.execute("UPDATE Person SET salary = NULL WHERE id = 2") }
        // And below one that is in a hierarchy already.
        let more = model.replacing(
            #""Manager": {"#,
            with:
                #""Chief": {"parent": "Manager", "attributes": {"car": {"type": "string", "default": "c", "optional": false}}}, "Manager": {"#
        )
        #expect(try migrate(store, to: more) == ["migrated Chief is new"])
        #expect(try store.changes(#"{"Chief": {"id": 2}}"#) == "Chief ~1")
        #expect(try store.rows("SELECT id, title, car FROM Chief") == ["2|t|c"])
        #expect(try store.rows("SELECT destination FROM Club_members ORDER BY 1") == ["1", "2"])
    }

    @Test func `an abstract entity above one without a hierarchy takes over its table`() throws {
        for table in ["", #""table": "Person", "#] {
            let store = try store(
                Self.alone, #"{"Person": [{"id": 1, "name": "a", "boss": 2}], "Club": [{"id": 1, "members": [1, 2]}]}"#)
            let model = Self.alone.replacing(
                #""Person": {"identity": "id", "attributes": {"id": "integer64", "#,
                with: #"""
                    "Being": {\#(table)"abstract": true, "identity": "id", "attributes": {"id": "integer64"}},
                    "Person": {\#(table.isEmpty ? "" : #""table": "people", "#)"parent": "Being", "attributes": {
                    """#)
            let changes = try migrate(store, to: model)
            #expect(
                changes.first?.hasPrefix("migrated Person inherits from nothing in the store, and from Being") == true)
            let (name, view) = table.isEmpty ? ("Being", "Person") : ("Person", "people")
            #expect(
                try store.rows("SELECT id, name, boss, _entity FROM \(name) ORDER BY id") == [
                    "1|a|2|Person", "2|NULL|NULL|Person",
                ])
            #expect(try store.rows("SELECT id, name FROM \(view) ORDER BY id") == ["1|a", "2|NULL"])
            #expect(
                try store.rows("SELECT \"table\" FROM pragma_foreign_key_list('Club_members') ORDER BY 1")
                    == ["Club", name].sorted())
            #expect(try store.fault(#"{"Being": {"id": 9}}"#)?.code == .unmappable)
            #expect(try store.changes(#"{"Person": {"id": 1, "name": "b"}}"#) == "Person ~1")
        }
    }

    @Test func `two entities without a hierarchy do not get one, and none leaves its hierarchy`() throws {
        let two =
            #"{"entities": {"Cat": {"identity": "id", "attributes": {"id": "integer64"}}, "Dog": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        let store = try store(two, #"{"Cat": {"id": 1}, "Dog": {"id": 1}}"#)
        let message = try refusal(
            store,
            #"{"entities": {"Pet": {"identity": "id", "attributes": {"id": "integer64"}}, "Cat": {"parent": "Pet"}, "Dog": {"parent": "Pet"}}}"#
        )
        #expect(
            message.contains(
                "Dog lies in the table Dog in the store, and in one table with Cat in the model; the rows of two tables "
                    + "are not put together"))
        let other = try self.store()
        let left = try refusal(
            other,
            Self.family.replacing(
                #""Guest": {"parent": "Person", "attributes": {"grade""#,
                with: #""Guest": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "grade""#))
        #expect(
            left.contains("Guest lies in the table Person with others in the store, and in a table of its own, Guest"))
        // An identity of its own beside the store's key is another way to be found.
        let keyed = try refusal(
            store, two.replacing(#""Dog": {"#, with: #""Pet": {"abstract": true}, "Dog": {"parent": "Pet", "#))
        #expect(keyed.contains("the identity of Dog is its whole table's"))
    }

    @Test func `new and tightened attributes take defaults in rows of their concrete entities alone`() throws {
        let store = try store()
        let model = Self.family.replacing(
            #""optional": false}, "grade": "string"}"#,
            with: #""optional": false}, "grade": {"type": "string", "default": "g", "optional": false}, "#
                + #""rank": {"type": "integer16", "default": 7}, "must": {"type": "string", "default": "m", "optional": false}}"#
        )
        #expect(
            try migrate(store, to: model) == [
                "migrated Employee.grade is optional in the store, and required in the model, and rows without it take its default \"g\"",
                "migrated Employee.rank is new, and rows that are there take its default 7",
                "migrated Employee.must is new, and rows that are there take its default \"m\"",
            ])
        #expect(
            try store.rows("SELECT id, grade, rank, must FROM Person ORDER BY id") == [
                "1|NULL|NULL|NULL", "2|x|7|m", "3|y|NULL|NULL", "4|g|7|m",
            ])
        #expect(throws: StoreError.self) { try store.execute("UPDATE Person SET must = NULL WHERE id = 2") }
        // An optional one is added to the existing table, and filled by concrete entity there, too.
        let more = model.replacing(#""rank": {"#, with: #""size": {"type": "integer16", "default": 1}, "rank": {"#)
        #expect(try migrate(store, to: more).count == 1)
        #expect(try store.rows("SELECT id, size FROM Person ORDER BY id") == ["1|NULL", "2|1", "3|NULL", "4|1"])
        // Required to optional, and wider, takes the condition away.
        let loose = more.replacing(
            #""salary": {"type": "integer16", "optional": false}"#, with: #""salary": "integer32""#)
        #expect(
            try migrate(store, to: loose) == [
                "migrated Employee.salary is integer16 in the store, and integer32 in the model",
                "migrated Employee.salary is required in the store, and optional in the model",
            ])
        try store.execute("UPDATE Person SET salary = NULL WHERE id = 2")
        let strict = loose.replacing(
            #""salary": "integer32""#, with: #""salary": {"type": "integer32", "optional": false}"#)
        #expect(
            try refusal(store, strict).contains("Employee.salary is optional in the store, and required in the model"))
        let must = loose.replacing(
            #""salary": "integer32""#, with: #""salary": "integer32", "x": {"type": "date", "optional": false}"#)
        #expect(try refusal(store, must).contains("Employee.x is new and required, but there may be rows without it"))
    }

    @Test func `renamed entities, attributes and relationships take rows, views and conditions with them`() throws {
        let store = try store()
        let model = """
            {"entities": {
              "Human": {"renamedFrom": "Person", "identity": "id", "attributes": {"id": "integer64",
                "label": {"type": "string", "renamedFrom": "name"}}},
              "Worker": {"renamedFrom": "Employee", "parent": "Human",
                "attributes": {"pay": {"type": "integer16", "optional": false, "renamedFrom": "salary"}, "grade": "string"},
                "relationships": {"head": {"entity": "Worker", "inverse": "staff", "renamedFrom": "boss"},
                  "staff": {"entity": "Worker", "toMany": true, "inverse": "head"},
                  "met": {"entity": "Human", "toMany": true, "renamedFrom": "seen"}}},
              "Guest": {"parent": "Human", "attributes": {"grade": "string"}}}}
            """
        #expect(
            try migrate(store, to: model) == [
                "migrated Person is renamed to Human", "migrated Human.name is renamed to label",
                "migrated Employee is renamed to Worker", "migrated Worker.salary is renamed to pay",
                "migrated Worker.boss is renamed to head", "migrated Worker.seen is renamed to met",
            ])
        #expect(
            try store.rows("SELECT id, label, pay, grade, head, _entity FROM Human ORDER BY id") == [
                "1|a|NULL|NULL|NULL|Human", "2|b|5|x|NULL|Worker", "3|c|NULL|y|NULL|Guest", "4|NULL|6|NULL|2|Worker",
            ])
        #expect(try store.rows("SELECT id, label, pay FROM Worker ORDER BY id") == ["2|b|5", "4|NULL|6"])
        #expect(try store.rows("SELECT source, destination FROM Worker_met ORDER BY 2") == ["2|1", "2|3"])
        #expect(throws: StoreError.self) { try store.execute("UPDATE Human SET pay = NULL WHERE id = 2") }
        #expect(try store.changes(#"{"Worker": {"id": 2, "pay": 5}}"#) == "Worker =1")
    }

    @Test func `exchanged names of entities need no condition`() throws {
        let plain =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}, "B": {"parent": "A"}, "C": {"parent": "A"}}}"#
        let store = try store(plain, #"{"A": {"id": 1}, "B": {"id": 2}, "C": {"id": 3}}"#)
        let renamed = plain.replacing(#""B": {"#, with: #""D": {"renamedFrom": "B", "#)
            .replacing(#""C": {"#, with: #""E": {"renamedFrom": "C", "#)
        #expect(try migrate(store, to: renamed).count == 2)
        #expect(try store.rows("SELECT id, _entity FROM A ORDER BY id") == ["1|A", "2|D", "3|E"])
    }

    @Test func `a column follows when relatives begin or cease to share it`() throws {
        let store = try store()
        let divided = Self.family.replacing(
            #""Guest": {"parent""#,
            with: #""Robot": {"parent": "Person", "attributes": {"grade": "integer16"}}, "Guest": {"parent""#)
        #expect(
            try migrate(store, to: divided) == [
                "migrated Employee.grade is the column grade in the store, and Employee_grade in the model",
                "migrated Guest.grade is the column grade in the store, and Guest_grade in the model",
                "migrated Robot is new",
            ])
        #expect(
            try store.rows("SELECT id, Employee_grade, Guest_grade, Robot_grade FROM Person ORDER BY id") == [
                "1|NULL|NULL|NULL", "2|x|NULL|NULL", "3|NULL|y|NULL", "4|NULL|NULL|NULL",
            ])
        #expect(try store.rows("SELECT id, grade FROM Guest") == ["3|y"])
        // And together again, when the other has another name.
        let shared = divided.replacing(
            #"{"grade": "integer16"}"#, with: #"{"level": {"type": "integer16", "renamedFrom": "grade"}}"#)
        try store.apply(#"{"Robot": {"id": 9, "grade": 3}}"#)
        #expect(try migrate(store, to: shared).count == 3)
        #expect(
            try store.rows("SELECT id, grade, level FROM Person ORDER BY id") == [
                "1|NULL|NULL", "2|x|NULL", "3|y|NULL", "4|NULL|NULL", "9|NULL|3",
            ])
        // One column, one entity: its name alone changes.
        let one =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}, "B": {"parent": "A", "attributes": {"x": "string"}}, "C": {"parent": "A"}}}"#
        let small = try self.store(one, #"{"B": {"id": 1, "x": "v"}}"#)
        #expect(
            try migrate(
                small,
                to: one.replacing(#""C": {"parent": "A""#, with: #""C": {"parent": "A", "attributes": {"x": "date"}"#))
                == [
                    "migrated B.x is the column x in the store, and B_x in the model", "migrated C.x is new",
                ])
        #expect(try small.rows("SELECT id, B_x, C_x FROM A") == ["1|v|NULL"])
    }

    @Test func `an attribute goes up to the parent, and down to the only one that has had it`() throws {
        let store = try store()
        let up = Self.family.replacing(#", "grade": "string"}"#, with: "}").replacing(
            #", "attributes": {"grade": "string"}"#, with: ""
        )
        .replacing(#""name": "string"}"#, with: #""name": "string", "grade": {"type": "string", "default": "p"}}"#)
        #expect(
            try migrate(store, to: up) == [
                "migrated Person.grade is new, and rows that are there take its default \"p\""
            ])
        #expect(try store.rows("SELECT id, grade FROM Person ORDER BY id") == ["1|p", "2|x", "3|y", "4|NULL"])
        // Back again: entities that lose the attribute are reported.
        let message = try refusal(store, Self.family)
        #expect(message.contains("Person.grade is in the store, but not in the model"))
        #expect(
            try migrate(store, to: Self.family, removal: .drop) == [
                "dropped Person.grade is in the store, but not in the model"
            ])
        #expect(try store.rows("SELECT id, grade FROM Person ORDER BY id") == ["1|NULL", "2|x", "3|y", "4|NULL"])
    }

    @Test func `an entity with objects cannot be removed, and one without is dropped or retained`() throws {
        let without = Self.family.replacing(
            #","# + "\n  " + #""Guest": {"parent": "Person", "attributes": {"grade": "string"}}"#, with: "")
        #expect(without != Self.family)
        for removal in RemovalPolicy.allCases {
            let message = try refusal(store(), without, removal: removal)
            #expect(message.contains("Guest is in the store, but not in the model, and the store has objects of it"))
        }
        let dropped = try store()
        try dropped.execute("DELETE FROM Employee_seen; DELETE FROM Person WHERE _entity = 'Guest'")
        #expect(try refusal(dropped, without).contains("`broker migrate --keep` leaves it in the file"))
        #expect(
            try migrate(dropped, to: without, removal: .drop) == ["dropped Guest is in the store, but not in the model"]
        )

        let retaining = try store()
        try retaining.execute("DELETE FROM Employee_seen; DELETE FROM Person WHERE _entity = 'Guest'")
        try retaining.reopen(without, removal: .keep)
        #expect(retaining.store.migration.changes.map(\.text) == ["Guest is in the store, but not in the model"])
        #expect(
            try retaining.changes(#"{"Employee": {"id": 2, "salary": 8}, "Person": {"id": 5}}"#)
                == "Employee ~1, Person +1")
        try retaining.reopen(without)
        #expect(retaining.store.migration.changes.isEmpty)
        try retaining.reopen(Self.family)
        #expect(retaining.store.migration.changes.map(\.text) == ["Guest was retained, and is used again"])
        #expect(try retaining.changes(#"{"Guest": {"id": 5, "grade": "g"}}"#) == "Guest ~1")
        #expect(try retaining.rows("SELECT key FROM _broker_meta WHERE key = 'heldModel'") == [])
    }

    @Test func `an attribute that a subentity loses is retained with its values, and can be used again`() throws {
        let store = try store()
        let before = try store.rows("SELECT * FROM Person ORDER BY id")
        let after = Self.family.replacing(#", "grade": "string"}"#, with: "}").replacing(
            #", "seen": {"entity": "Person", "toMany": true}"#, with: ""
        )
        .replacing(#""boss": {"entity": "Employee", "inverse": "staff"},"#, with: "")
        .replacing(#""staff": {"entity": "Employee", "toMany": true, "inverse": "boss"}"#, with: "")
        try store.reopen(after, removal: .keep)
        #expect(
            store.store.migration.changes.map { "\($0.verdict) \($0.subject)" } == [
                "kept Employee.grade", "kept Employee.boss", "kept Employee.staff", "kept Employee.seen",
            ])
        #expect(
            try store.rows("SELECT value ->> '$.entities.Employee.parent' FROM _broker_meta WHERE key = 'heldModel'")
                == ["Person"])
        #expect(
            try store.changes(#"{"Employee": {"id": 4, "salary": 6}, "Guest": {"id": 3, "grade": "y"}}"#)
                == "Employee =1, Guest =1")
        try store.reopen(after)
        #expect(store.store.migration.changes.isEmpty)
        try store.reopen(Self.family)
        #expect(try store.rows("SELECT * FROM Person ORDER BY id") == before)
        #expect(try store.rows("SELECT source, destination FROM Employee_seen ORDER BY 2") == ["2|1", "2|3"])
        #expect(try store.isSound())
        // A part cannot be retained if columns in force would get other names because of it.
        let clash = Self.family.replacing(
            #"{"parent": "Person", "attributes": {"grade": "string"}}"#,
            with:
                #"{"parent": "Person", "attributes": {"grade": "string"}}, "Robot": {"parent": "Person", "attributes": {"seat": "string"}}"#
        )
        try store.reopen(clash)
        let robot = clash.replacing(#"{"seat": "string"}"#, with: #"{"grade": "integer16"}"#).replacing(
            #", "grade": "string"}"#, with: "}"
        ).replacing(
            #""Guest": {"parent": "Person", "attributes": {"grade": "string"}}"#,
            with: #""Guest": {"parent": "Person"}"#)
        #expect(
            try refusal(store, robot, removal: .keep).contains(
                "what is retained from earlier models does not fit the model"))
    }

    @Test func `an entity with objects of exactly that entity cannot become abstract`() throws {
        let abstract = Self.family.replacing(
            #""Person": {"identity""#, with: #""Person": {"abstract": true, "identity""#)
        #expect(
            try refusal(store(), abstract).contains(
                "Person is abstract in the model, and the store has objects that are nothing more"))
        let store = try store(Self.family, #"{"Guest": {"id": 1}}"#)
        #expect(try migrate(store, to: abstract) == [])
    }

    @Test func `links to many go with their table, and not into two or from two`() throws {
        let store = try store()
        let up = Self.family.replacing(#", "seen": {"entity": "Person", "toMany": true}"#, with: "")
            .replacing(
                #""name": "string"}"#,
                with: #""name": "string"}, "relationships": {"seen": {"entity": "Person", "toMany": true}}"#)
        #expect(try migrate(store, to: up) == ["migrated Person.seen is new"])
        #expect(try store.rows("SELECT source, destination FROM Person_seen ORDER BY 2") == ["2|1", "2|3"])
        let down = Self.family.replacing(
            #"{"parent": "Person", "attributes": {"grade": "string"}}"#,
            with:
                #"{"parent": "Person", "attributes": {"grade": "string"}, "relationships": {"seen": {"entity": "Person", "toMany": true}}}"#
        )
        #expect(
            try refusal(store, down, removal: .drop).contains(
                "seen is one relationship in the store, and several in the model"))
    }

    @Test func `views, entity columns and conditions are no changes by others, and missing views are made`() throws {
        let store = try store()
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        try store.execute("DROP VIEW Guest")
        try store.reopen()
        #expect(try store.rows("SELECT id, grade FROM Guest") == ["3|y"])
        try store.execute("CREATE TABLE Robot (x)")
        let message = try refusal(
            store, Self.family.replacing(#""Guest": {"#, with: #""Robot": {"parent": "Person"}, "Guest": {"#))
        #expect(message.contains("Robot is there already, and not the model's that made the store"))
    }
}
