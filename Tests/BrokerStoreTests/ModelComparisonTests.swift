import Testing

@testable import BrokerStore

/// A changed model may not change what is stored means, whether or not the columns' types agree.
@Suite(.timeLimit(.minutes(5))) struct ModelComparisonTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {
            "id": "integer64", "name": "string", "active": "boolean", "size": "integer32", "born": "date",
            "tag": "uuid", "price": "decimal", "rate": "float"},
            "relationships": {
              "home": {"entity": "Place"},
              "work": {"entity": "Place", "inverse": "workers"},
              "boss": {"entity": "Person", "inverse": "staff"},
              "staff": {"entity": "Person", "toMany": true, "inverse": "boss"},
              "friends": {"entity": "Person", "toMany": true, "inverse": "friends"},
              "seen": {"entity": "Place", "toMany": true},
              "spot": {"entity": "Spot"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}, "relationships": {
            "workers": {"entity": "Person", "toMany": true, "inverse": "work"}}},
          "Spot": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": "integer16"}}
        }}
        """

    /// A store in which every attribute has a value, and every relationship a link.
    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        let outcome = try store.outcome(
            """
            {"Person": {"id": 1, "name": "a", "active": true, "size": 3, "born": "2012-09-24",
              "tag": "0D3A4E4C-0000-0000-0000-000000000001", "price": 1.50, "rate": 0.1, "home": "p", "work": "p",
              "boss": 2, "friends": [2], "seen": ["p"], "spot": {"x": 1, "y": 2}}}
            """)
        #expect(outcome.rejected.isEmpty)
        return store
    }

    /// Opens the store with a part of the model replaced.
    ///
    /// - Returns: the reported differences; nil when the store was opened.
    private func change(_ part: String, to new: String) throws -> [String]? {
        #expect(Self.before.contains(part))
        let store = try store()
        do {
            try store.reopen(Self.before.replacing(part, with: new))
            // Later models are compared with the one in force now.
            #expect(try store.rows("SELECT value FROM _broker_meta WHERE key = 'model'") == [store.plan.model.text])
            return nil
        } catch let error as StoreError {
            #expect(error.code == .incompatible)
            let list = error.message.split(separator: "to without loss: ")[1].split(separator: ". Use the model")[0]
            return list.split(separator: "; ").map(String.init)
        }
    }

    @Test(arguments: [
        (#""name": "string""#, #""name": "date""#, "Person.name is string in the store, and date in the model"),
        (#""active": "boolean""#, #""active": "integer16""#, "Person.active is boolean in the store, and integer16"),
        (#""size": "integer32""#, #""size": "integer16""#, "Person.size is integer32 in the store, and integer16"),
        (#""tag": "uuid""#, #""tag": "uri""#, "Person.tag is uuid in the store, and uri"),
        (#""price": "decimal""#, #""price": "double""#, "Person.price is decimal in the store, and double"),
        (#""rate": "float""#, #""rate": "integer64""#, "Person.rate is float in the store, and integer64"),
        (#""born": "date""#, #""born": {"type": "date", "storage": "unix"}"#, "Person.born is stored as iso8601"),
        (#""born": "date","#, "", "Person.born is in the store, but not in the model"),
        (#""home": {"entity": "Place"},"#, "", "Person.home is in the store, but not in the model"),
        (#""home": {"entity": "Place"},"#, #""home": {"entity": "Person"},"#, "Person.home leads to Place"),
        (
            #""work": {"entity": "Place", "#, #""work": {"entity": "Place", "toMany": true, "#,
            "Person.work is to-one"
        ),
        (#""seen": {"entity": "Place", "toMany": true}"#, #""seen": {"entity": "Place"}"#, "Person.seen is to-many"),
        (#""seen": {"entity": "Place", "toMany": true},"#, "", "Person.seen is in the store, but not in the model"),
        (#""toMany": true, "inverse": "friends""#, #""toMany": true"#, "the inverse of Person.friends is friends"),
        (#""boss": {"entity": "Person", "inverse": "staff"}"#, #""boss": {"entity": "Person"}"#, "the inverse"),
        (#""identity": "id""#, #""identity": "size""#, "Person is identified by id in the store, and by size"),
        (
            #""identity": "id""#, #""identity": ["id", "size"]"#,
            "Person is identified by id in the store, and by id, size"
        ),
        (
            #""identity": ["x", "y"]"#, #""identity": ["y", "x"]"#,
            "Spot is identified by x, y in the store, and by y, x"
        ),
        (
            #""identity": "code","#, #""identity": "code", "identityOptional": true,"#,
            "the identity of Place is required"
        ),
    ])
    func `a change of meaning is refused`(part: String, new: String, message: String) throws {
        let inverse = part.contains(#""inverse": "staff""#)
        let all = inverse ? Self.before.replacing(#", "inverse": "boss""#, with: "") : Self.before
        let differences = try inverse ? changeAll(to: all.replacing(part, with: new)) : change(part, to: new)
        #expect(differences?.contains { $0.hasPrefix(message) } == true, "\(differences ?? ["opened"])")
    }

    private func changeAll(to model: String) throws -> [String]? { try change(Self.before, to: model) }

    @Test func `an entity that is gone is refused, with every relationship to it`() throws {
        let differences = try changeAll(
            to: """
                {"entities": {"Place": {"identity": "code", "attributes": {"code": "string"}}}}
                """)
        #expect(
            differences
                == ["Person", "Place.workers", "Spot"].map {
                    "\($0) is in the store, but not in the model (`broker migrate --keep` leaves it in the file, "
                        + "`broker migrate --drop` drops it, \"renamedFrom\" renames it)"
                })
    }

    @Test func `names are compared by their bytes, also where Swift's strings are equal`() throws {
        let store = try TestStore(#"{"entities": {"A": {"attributes": {"caf\u00e9": "string"}}}}"#)
        try store.apply(#"{"A": {"caf\u00e9": "x"}}"#)
        let error = try #require(throws: StoreError.self) {
            try store.reopen(#"{"entities": {"A": {"attributes": {"cafe\u0301": "string"}}}}"#)
        }
        #expect(error.message.contains("A.caf\u{e9} is in the store, but not in the model"))
    }

    @Test(arguments: [
        (#""size": "integer32""#, #""size": "integer64""#),
        (#""name": "string""#, #""name": {"type": "string", "key": ["n"], "default": "x", "transform": "trim"}"#),
        (#""name": "string""#, #""name": {"type": "string", "pattern": "^a", "maxLength": 9, "onInvalid": "null"}"#),
        (#""size": "integer32""#, #""size": {"type": "integer32", "min": 1, "max": 9, "enum": [1, 2]}"#),
        (#""born": "date""#, #""born": {"type": "date", "format": "yyyy", "timeZone": "+02:00"}"#),
        (#""home": {"entity": "Place"}"#, #""home": {"entity": "Place", "key": "h", "missing": "fail"}"#),
        (#""seen": {"entity": "Place", "#, #""seen": {"entity": "Place", "assignment": "replace", "key": "s", "#),
        (#""home": {"entity": "Place"}"#, #""home": {"entity": "Place", "deleteRule": "deny"}"#),
        (#""Person": {"identity""#, #""Person": {"root": "person", "identity""#),
        (#""name": "string""#, #""name": "string", "new": "date""#),
        (#""Spot": {"#, #""New": {"attributes": {"x": "string"}}, "Spot": {"#),
    ])
    func `settings that only concern incoming records, and new parts, may change`(part: String, new: String) throws {
        #expect(try change(part, to: new) == nil)
    }

    @Test func `a delete rule may change, and the table's foreign key says the new one`() throws {
        let store = try TestStore(Self.before)
        let work = #""workers": {"entity": "Person", "toMany": true"#
        try store.reopen(Self.before.replacing(work, with: work + #", "deleteRule": "cascade""#))
        #expect(
            store.store.migration.changes.map(\.text) == [
                "Person.work refers to Place.code ON DELETE SET NULL in the store, and to Place.code ON DELETE CASCADE "
                    + "in the model"
            ])
        #expect(
            try store.rows("SELECT on_delete FROM pragma_foreign_key_list('Person') WHERE \"from\" = 'work'")
                == ["CASCADE"])
    }

    @Test func `a to-one relationship may get a to-many inverse, and a to-many one if its table stays`() throws {
        let spots = #""Spot": {"identity": ["x", "y"], "#
        let visitors =
            spots + #""relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "spot"}}, "#
        #expect(
            try changeAll(
                to: Self.before.replacing(spots, with: visitors).replacing(
                    #""spot": {"entity": "Spot"}"#, with: #""spot": {"entity": "Spot", "inverse": "people"}"#)) == nil)
        let workers = #""workers": {"#
        let seen = #""seen": {"entity": "Place", "toMany": true"#
        for (inverse, isAllowed) in [(#""toMany": true, "#, true), ("", false)] {
            let differences = try changeAll(
                to: Self.before.replacing(seen, with: seen + #", "inverse": "seers""#).replacing(
                    workers, with: #""seers": {"entity": "Person", \#(inverse)"inverse": "seen"}, "# + workers))
            #expect((differences == nil) == isAllowed, "\(differences ?? [])")
        }
        let home = #""home": {"entity": "Place"}"#
        #expect(
            try changeAll(
                to: Self.before.replacing(home, with: #""home": {"entity": "Place", "inverse": "owner"}"#).replacing(
                    workers, with: #""owner": {"entity": "Person", "inverse": "home"}, "# + workers))
                == [
                    "the inverse of Person.home is none in the store, and owner in the model (keep it as it was, or give "
                        + "the new one another name)"
                ])
    }

    @Test func `an existing table is not used for a new entity`() throws {
        let store = try TestStore(Self.before)
        try store.execute("CREATE TABLE Extra (id INTEGER PRIMARY KEY)")
        let error = try #require(throws: StoreError.self) {
            try store.reopen(
                Self.before.replacing(
                    #""Spot": {"#, with: #""Extra": {"identity": "id", "attributes": {"id": "integer64"}}, "Spot": {"#))
        }
        #expect(error.message.contains("the table Extra is there already"))
    }

    @Test func `links of several columns are compared, too`() throws {
        let store = try TestStore(Self.before)
        try store.execute(
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '(\"x\", \"y\") ON UPDATE CASCADE ON "
                + "DELETE SET NULL', '(\"x\", \"y\") ON UPDATE CASCADE ON DELETE CASCADE') WHERE name = 'Person'")
        let error = try #require(throws: StoreError.self) { try store.reopen() }
        #expect(error.message.contains("Person.spot_x, spot_y refers to Spot.x, y ON DELETE CASCADE in the store"))
    }
}
