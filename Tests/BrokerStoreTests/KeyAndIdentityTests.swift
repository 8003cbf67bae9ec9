import BrokerModel
import Testing

@testable import BrokerStore

/// An operation that names its object by `_pk` while its `json` names the same object by its optional identity.
@Suite(.timeLimit(.minutes(5))) struct KeyAndIdentityTests {
    private static let model = """
        {"entities": {
          "Bee": {"identity": "name", "identityOptional": true, "modified": "at",
            "attributes": {"name": "string", "text": "string", "at": "integer64"}, "relationships": {
              "ant": {"entity": "Ant", "inverse": "bee"}, "boss": {"entity": "Bee", "inverse": "team"},
              "team": {"entity": "Bee", "toMany": true, "inverse": "boss"},
              "nests": {"entity": "Nest", "toMany": true, "inverse": "bees", "assignment": "replace"}}},
          "Ant": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
            "bee": {"entity": "Bee", "inverse": "ant"}}},
          "Nest": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
            "bees": {"entity": "Bee", "toMany": true, "inverse": "nests", "assignment": "replace"}}}
        }}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.apply(#"{"Bee": [{"name": "b"}, {"name": "c"}]}"#)
    }

    private func bees() throws -> [String] {
        try store.rows("SELECT _pk, name, text, at, ant, boss FROM Bee ORDER BY 1")
    }

    private func relate(_ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "Bee", "object": 1, "relationship": "\#(relationship)", "json": \#(json)}"#
    }

    private func process(_ json: String) -> String { #"{"entity": "Bee", "object": 1, "json": \#(json)}"# }

    @Test func `a one-to-one link that both sides name is there on both sides`() throws {
        #expect(try store.run(relate("ant", #"{"no": 2, "bee": "b"}"#)) == "Ant +1, Bee ~1")
        #expect(try bees() == ["1|b|NULL|NULL|2|NULL", "2|c|NULL|NULL|NULL|NULL"])
        #expect(try store.rows("SELECT no, bee FROM Ant") == ["2|1"])
        #expect(try store.run(relate("ant", #"{"no": 2, "bee": {"name": "b", "text": "t"}}"#)) == "Ant =1, Bee ~1")
        #expect(try bees()[0] == "1|b|t|NULL|2|NULL")
    }

    @Test func `links that replace are united over both names`() throws {
        try store.apply(#"{"Bee": {"name": "b", "nests": [1, 2]}}"#)
        #expect(
            try store.run(relate("nests", #"[{"no": 3, "bees": ["b", "c"]}, {"no": 4, "bees": [{"name": "b"}]}]"#))
                == "Bee ~1 =1, Nest +2", "a bare key names c, and no record of it")
        #expect(
            try store.rows("SELECT source, destination FROM Bee_nests ORDER BY 1, 2") == ["1|3", "1|4", "2|3"])
    }

    @Test func `an object can be linked to itself by its other name`() throws {
        try store.run(relate("boss", #""b""#))
        #expect(try bees()[0] == "1|b|NULL|NULL|NULL|1")
        try store.run(process(#"{"team": ["b", "c"], "text": "x"}"#))
        #expect(try bees() == ["1|b|x|NULL|NULL|1", "2|c|NULL|NULL|NULL|1"])
    }

    @Test func `a record's nested value has the later word whichever name it uses`() throws {
        try store.run(process(#"{"text": "outer", "ant": {"no": 1, "bee": {"name": "b", "text": "inner"}}}"#))
        #expect(try bees()[0] == "1|b|inner|NULL|1|NULL")
    }

    @Test func `the identity that a record gives names the object inside that record, and the old one does not`() throws
    {
        #expect(
            try store.run(process(#"{"name": "n", "ant": {"no": 1, "bee": {"name": "n", "text": "t"}}}"#))
                == "Ant +1, Bee ~1")
        #expect(try bees()[0] == "1|n|t|NULL|1|NULL")
        #expect(try store.run(process(#"{"name": "m", "team": ["n", "m"]}"#)) == "Bee +1 ~1")
        #expect(
            try bees() == ["1|m|t|NULL|1|1", "2|c|NULL|NULL|NULL|NULL", "3|n|NULL|NULL|NULL|1"])
    }

    @Test(arguments: [(4, 3, "1|b|a|4|NULL|NULL"), (3, 4, "1|b|b|4|NULL|NULL"), (2, 2, "1|b|NULL|2|NULL|NULL")])
    func `a record is compared with what the other name brought`(outer: Int, inner: Int, row: String) throws {
        try store.apply(#"{"Bee": {"name": "b", "at": 2}}"#)
        try store.run(
            process(#"{"at": \#(outer), "text": "a", "team": [{"name": "b", "at": \#(inner), "text": "b"}]}"#))
        let boss = inner > outer || outer > 2 ? "1" : "NULL"
        #expect(try bees()[0] == row.dropLast(4) + boss)
    }

    @Test func `null instead of an identity leaves the identity of the named object`() throws {
        #expect(try store.run(process(#"{"name": null, "text": "t"}"#)) == "Bee ~1")
        #expect(try bees()[0] == "1|b|t|NULL|NULL|NULL")
        #expect(
            try store.run(
                #"{"entity": "Ant", "json": {"no": 4}}, {"entity": "Ant", "object": 4, "json": {"no": null, "bee": "b"}}"#
            ) == "Ant +1, Bee ~1")
        #expect(try store.rows("SELECT no, bee FROM Ant") == ["4|1"])
    }

    @Test(arguments: [
        (#"{"b": "x"}"#, "1|a|x|NULL|NULL", ["a", "x"]), (#"{"a": null, "b": "x"}"#, "1|a|x|NULL|NULL", ["a", "x"]),
        (#"{"a": "y", "b": null}"#, "1|y|b|NULL|NULL", ["y", "b"]), (#"{"b": "b"}"#, "1|a|b|NULL|NULL", ["a", "b"]),
        (#"{"a": null, "b": null}"#, "1|a|b|NULL|NULL", ["a", "b"]),
    ])
    func `a record with a part of an optional identity leaves the object's other parts`(
        record: String, row: String, identity: [String]
    ) throws {
        let store = try TestStore(
            """
            {"entities": {"Bee": {"identity": ["a", "b"], "identityOptional": true,
                "attributes": {"a": "string", "b": "string", "text": "string"},
                "relationships": {"boss": {"entity": "Bee", "inverse": "team"},
                    "team": {"entity": "Bee", "toMany": true, "inverse": "boss"}}}}}
            """)
        let bees = "SELECT _pk, a, b, text, boss FROM Bee ORDER BY 1"
        try store.apply(#"{"Bee": [{"a": "a", "b": "b"}, {"a": "c", "b": "x"}]}"#)
        let changes = try store.run(process(record))
        #expect(changes == (identity == ["a", "b"] ? "Bee =1" : "Bee ~1"))
        #expect(try store.rows(bees) == [row, "2|c|x|NULL|NULL"])
        // The whole identity names the object inside its own record, too.
        let named = #"{"a": "\#(identity[0])", "b": "\#(identity[1])", "text": "t"}"#
        let nested = record.dropLast() + #", "team": [\#(named)]}"#
        #expect(try store.run(process(String(nested))) == "Bee ~1")
        #expect(try store.rows(bees) == [row.replacing("NULL|NULL", with: "t|1"), "2|c|x|NULL|NULL"])
        // Another object has that identity.
        let taken = #"{"a": "c", "b": "\#(identity[1] == "x" ? "null" : "x")"}"#.replacing("\"null\"", with: "null")
        #expect(throws: Fault.self) { try store.run(process(taken)) }
        #expect(try store.rows(bees)[1] == "2|c|x|NULL|NULL")
    }
}
