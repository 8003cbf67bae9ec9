import BrokerModel
import Testing
import TestSupport

@testable import BrokerSchema
@testable import BrokerStore

/// A model that widens: a part without values changes freely, and types hold more.
@Suite(.timeLimit(.minutes(5))) struct WideningTests {
    // MARK: - Without values

    private static let sparse = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "none": "string"},
            "relationships": {"home": {"entity": "Place"}, "empty": {"entity": "Place"},
              "many": {"entity": "Place", "toMany": true},
              "boss": {"entity": "Person", "inverse": "staff"},
              "staff": {"entity": "Person", "toMany": true, "inverse": "boss"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}
        }}
        """

    private func sparseStore() throws -> TestStore {
        let store = try TestStore(Self.sparse)
        try store.apply(#"{"Person": [{"id": 1, "name": "a", "home": "x"}, {"id": 2}]}"#)
        return store
    }

    @Test(arguments: [
        (#", "none": "string"}"#, "}"),
        (#""none": "string""#, #""none": "boolean""#),
        (#""none": "string""#, #""other": {"type": "date", "renamedFrom": "none"}"#),
        (#", "none": "string"},"#, #"},"#),
        (
            #", "none": "string"},\#n    "relationships": {"#, #"}, "relationships": {"none": {"entity": "Place"}, "#
        ),
        (#""empty": {"entity": "Place"},"#, ""),
        (#""empty": {"entity": "Place"}"#, #""empty": {"entity": "Person"}"#),
        (#""empty": {"entity": "Place"}"#, #""empty": {"entity": "Person", "toMany": true}"#),
        (#""many": {"entity": "Place", "toMany": true}"#, #""many": {"entity": "Person", "toMany": true}"#),
        (#""many": {"entity": "Place", "toMany": true}"#, #""many": {"entity": "Place"}"#),
        (
            #""many": {"entity": "Place", "toMany": true}"#,
            #""many": {"entity": "Place", "toMany": true, "ordered": true}"#
        ),
        (#""boss": {"entity": "Person", "inverse": "staff"}"#, #""boss": {"entity": "Person"}"#),
        (#"{"entity": "Person", "toMany": true, "inverse": "boss"}"#, #"{"entity": "Person", "inverse": "boss"}"#),
    ])
    func `a part without values changes freely`(part: String, new: String) throws {
        var after = Self.sparse.replacing(part, with: new)
        if new == #""boss": {"entity": "Person"}"# { after = after.replacing(#", "inverse": "boss""#, with: "") }
        #expect(after != Self.sparse)
        for removal in [RemovalPolicy.refuse, .keep] {
            let store = try sparseStore()
            #expect(try store.refusal(after, removal) == nil)
            #expect(try store.rows("SELECT id, name, home FROM Person ORDER BY id") == ["1|a|x", "2|NULL|NULL"])
            #expect(try store.isSound())
            #expect(!store.store.migration.changes.isEmpty)
            try store.reopen()
            #expect(store.store.migration.changes.isEmpty)
            #expect(
                try store.changes(#"{"Person": {"id": 1, "name": "a", "home": "x"}}"#).first == "Person +0 ~0 =1 !0")
        }
    }

    @Test func `each migration is recorded with its changes, after the job before it`() throws {
        let store = try sparseStore()
        #expect(try store.rows("SELECT count(*) FROM _broker_migrations") == ["0"])
        try store.reopen(Self.sparse.replacing(#""none": "string""#, with: #""none": "boolean", "more": "string""#))
        try store.apply(#"{"Person": [{"id": 3}]}"#)
        try store.reopen(Self.sparse.replacing(#", "none": "string"}"#, with: #", "more": "string"}"#))
        try store.reopen(Self.sparse.replacing(#", "none": "string"}"#, with: #", "more": "string"}"#))
        let rows = try store.rows(
            "SELECT \"after\", json_array_length(changes), changes FROM _broker_migrations ORDER BY number")
        #expect(rows.count == 2 && rows[0].hasPrefix("1|3|") && rows[1].hasPrefix("2|1|"), "\(rows)")
        #expect(rows[0].contains("migrated: Person.more is new"), "\(rows)")
        #expect(
            try store.rows("SELECT count(*) FROM _broker_migrations WHERE time LIKE '20__-__-__T__:__:__.___Z'") == [
                "2"
            ])
    }

    @Test func `one value is enough for a refusal`() throws {
        for record in [
            #"{"id": 2, "none": "y"}"#, #"{"id": 2, "empty": "x"}"#, #"{"id": 2, "many": ["x"]}"#,
            #"{"id": 2, "boss": 1}"#,
        ] {
            let store = try sparseStore()
            try store.apply(#"{"Person": \#(record)}"#)
            let after = """
                {"entities": {
                  "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "none": "boolean"},
                    "relationships": {"home": {"entity": "Place"}}},
                  "Place": {"identity": "code", "attributes": {"code": "string"}}}}
                """
            let message = try #require(try store.refusal(after))
            // A pair has one set of links.
            #expect(message.split(separator: "; ").count == (record.contains("boss") ? 3 : 2), "\(message)")
        }
    }

    @Test func `a retained part without values does not obstruct a new one of its name`() throws {
        let store = try sparseStore()
        let without = Self.sparse.replacing(#", "none": "string"}"#, with: "}")
        try store.reopen(without, removal: .keep)
        #expect(try store.rows("SELECT \"none\" FROM Person") == ["NULL", "NULL"])
        #expect(try store.refusal(Self.sparse.replacing(#""none": "string""#, with: #""none": "date""#)) == nil)
        #expect(try store.isSound())
    }

    @Test func `a part of a hierarchy is without values when no relative's row has one`() throws {
        let model = """
            {"entities": {
              "Animal": {"identity": "id", "attributes": {"id": "integer64", "size": "string"}},
              "Dog": {"parent": "Animal", "attributes": {"breed": "string"}},
              "Cat": {"parent": "Animal", "attributes": {"breed": "integer16"}}}}
            """
        let store = try TestStore(model)
        try store.apply(#"{"Cat": {"id": 1, "breed": 3}}"#)
        let after = model.replacing(#""size": "string""#, with: #""size": "date""#)
            .replacing(#""breed": "string""#, with: #""breed": "boolean""#)
        #expect(try store.refusal(after) == nil)
        #expect(try store.changes(#"{"Dog": {"id": 2, "breed": true, "size": "2012-09-24"}}"#) == ["Dog +1 ~0 =0 !0"])
        #expect(try store.changes(#"{"Cat": {"id": 1, "breed": 3}}"#) == ["Cat +0 ~0 =1 !0"])
        #expect(try store.refusal(after.replacing(#""breed": "integer16""#, with: #""breed": "date""#)) != nil)
    }

    // MARK: - Types

    @Test(arguments: [
        ("integer16", "decimal", "[5, -3]", ["5", "-3"]),
        (
            "integer64", "decimal", "[9223372036854775807, -9223372036854775808]",
            ["9223372036854775807", "-9223372036854775808"]
        ),
        ("integer64", "double", "[9007199254740992, 1]", ["9007199254740992.0", "1.0"]),
        ("float", "double", "[0.1, 1.5]", ["0.1", "1.5"]),
        ("double", "decimal", "[0.1, 1e-7, 1.5e300]", ["0.1", "0.0000001", "15" + String(repeating: "0", count: 299)]),
        ("integer32", "string", "[1, 0]", ["1", "0"]),
        ("decimal", "string", "[1.50, -7]", ["1.50", "-7"]),
        ("double", "string", "[1.5, 0.1]", ["1.5", "0.1"]),
        ("boolean", "string", "[true, false]", ["true", "false"]),
        ("calendarDate", "string", #"["1985-12-10"]"#, ["1985-12-10"]),
        (
            "date", "string", #"["2012-09-24T03:35:21.000Z", "1969-12-31T23:59:59.999Z"]"#,
            ["2012-09-24T03:35:21.000Z", "1969-12-31T23:59:59.999Z"]
        ),
        (
            "uuid", "string", #"["0D3A4E4C-0000-0000-0000-0000000000FF", null]"#,
            ["0D3A4E4C-0000-0000-0000-0000000000FF", "NULL"]
        ),
        ("uri", "string", #"["http://x.y/é", "urn:z"]"#, ["http://x.y/é", "urn:z"]),
        ("string", "transformable", #"["a\"\\\n", ""]"#, [#""a\"\\\n""#, #""""#]),
        ("integer16", "transformable", "[5]", ["5"]),
        ("decimal", "transformable", "[1.50]", ["1.50"]),
        ("boolean", "transformable", "[true, null]", ["true", "NULL"]),
        ("binary", "transformable", #"["aGk="]"#, [#""aGk=""#]),
        ("date", "transformable", #"["2012-09-24T03:35:21.000Z"]"#, [#""2012-09-24T03:35:21.000Z""#]),
    ])
    func `a wider type takes the values, and the same records change nothing`(
        old: String, new: String, values: String, stored: [String]
    ) throws {
        func model(_ type: String) -> String {
            #"{"entities": {"A": {"identity": "id", "modified": "m", "attributes": {"id": "integer64", "#
                + #""v": "\#(type)", "m": "integer32"}}}}"#
        }
        let store = try TestStore(model(old))
        let list = elements(of: values)
        let records = list.enumerated().map { #"{"id": \#($0), "v": \#($1), "m": 1}"# }.joined(separator: ", ")
        #expect(try store.fault(#"{"A": [\#(records)]}"#) == nil)
        try store.reopen(model(new).replacing(#""m": "integer32""#, with: #""m": "decimal""#))
        #expect(try store.rows("SELECT v FROM A ORDER BY id") == stored)
        #expect(
            store.store.migration.changes.map(\.text) == [
                "A.v is \(old) in the store, and \(new) in the model",
                "A.m is integer32 in the store, and decimal in the model",
            ])
        #expect(try store.changes(#"{"A": [\#(records.replacing(#""m": 1"#, with: #""m": 2"#))]}"#).count == 1)
        #expect(try store.rows("SELECT v FROM A ORDER BY id") == stored)
        let again = try store.changes(#"{"A": [\#(records.replacing(#""m": 1"#, with: #""m": 2"#))]}"#)
        #expect(again == ["A +0 ~0 =\(list.count) !0"])
        #expect(try store.isSound())
    }

    @Test func `a day becomes the instant at which it begins in the time zone`() throws {
        func model(_ type: String) -> String {
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "v": {"type": \#(type)}}}}}"#
        }
        for storage in ["iso8601", "unix", "coreData"] {
            let store = try TestStore(model(#""calendarDate""#))
            try store.apply(#"{"A": [{"id": 1, "v": "1985-12-10"}, {"id": 2}]}"#)
            try store.reopen(model(#""date", "timeZone": "Europe/Berlin", "storage": "\#(storage)""#))
            #expect(
                try store.changes(#"{"A": [{"id": 1, "v": "1985-12-09T23:00:00Z"}, {"id": 2}]}"#)
                    == ["A +0 ~0 =2 !0"])
        }
    }

    @Test func `a date becomes the text of its format`() throws {
        let model =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "#
            + #""v": {"type": "date", "format": "yyyy/MM/dd", "storage": "unix"}}}}}"#
        let store = try TestStore(model)
        try store.apply(#"{"A": {"id": 1, "v": "2012/09/24"}}"#)
        try store.reopen(#"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "v": "string"}}}}"#)
        #expect(try store.changes(#"{"A": {"id": 1, "v": "2012/09/24"}}"#) == ["A +0 ~0 =1 !0"])
    }

    @Test func `a whole number that no double holds for certain is refused`() throws {
        for number in [Int64.max, Int64.min, 1 << 53 + 1, -(1 << 53) - 1] {
            let model = #"{"entities": {"A": {"attributes": {"v": "integer64"}}}}"#
            let store = try TestStore(model)
            try store.apply(#"{"A": [{"v": 1}, {"v": \#(number)}]}"#)
            let message = try #require(try store.refusal(model.replacing("integer64", with: "double")))
            #expect(message.contains("which does not hold \(number) (make it decimal)"))
            #expect(try store.refusal(model.replacing("integer64", with: "decimal")) == nil)
            #expect(try store.rows("SELECT v FROM A") == ["1", "\(number)"])
        }
    }
}

/// The elements of a JSON array, as they are written.
private func elements(of text: String) -> [String] {
    // No test value has a comma.
    text.dropFirst().dropLast().split(separator: ", ").map(String.init)
}
