import BrokerSchema
import BrokerModel
import Testing

@testable import BrokerStore

/// Names that SQL or SQLite gives a meaning are names like any other.
@Suite(.timeLimit(.minutes(5))) struct StrangeNameTests {
    @Test(arguments: ["Excluded", "excluded", "old", "_broker", "select", "temp", "main", "a\"b", "x.y"])
    func `a table of any name is updated`(table: String) throws {
        let name = table.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"")
        let store = try TestStore(
            #"{"entities": {"Thing": {"table": "\#(name)", "identity": "id", "attributes": {"id": "integer64", "n": "integer64", "excluded": "string"}}}}"#
        )
        try store.apply(#"{"Thing": [{"id": 1, "n": 1}, {"id": 2, "n": 2}]}"#)
        #expect(
            try store.changes(#"{"Thing": [{"id": 1, "n": 5}, {"id": 2, "n": 2, "excluded": "y"}]}"#) == [
                "Thing +0 ~2 =0 !0"
            ])
        #expect(try store.rows("SELECT n, excluded FROM \(quoted(table)) ORDER BY id") == ["5|NULL", "2|y"])
    }

    @Test(arguments: ["rowid", "oid", "_rowid_", "ROWID"])
    func `attributes and links may have the names of SQLite's row numbers`(name: String) throws {
        let store = try TestStore(
            """
            {"entities": {
              "E": {"identity": "key", "attributes": {"key": "string"}, "relationships": {
                "\(name)": {"entity": "D", "inverse": "es"}}},
              "D": {"identity": "key", "attributes": {"key": "string", "\(name)": "string"}, "relationships": {
                "es": {"entity": "E", "toMany": true, "inverse": "\(name)", "assignment": "replace"},
                "twin": {"entity": "D", "inverse": "twin"}}}
            }}
            """)
        try store.apply(#"{"D": [{"key": "d", "es": ["a", "b"], "twin": "x"}, {"key": "y", "\#(name)": "a"}]}"#)
        try store.apply(#"{"D": [{"key": "d", "es": ["b"], "twin": "y"}]}"#)
        #expect(try store.rows("SELECT key, \(quoted(name)) FROM E ORDER BY 1") == ["a|NULL", "b|d"])
        #expect(try store.rows("SELECT key, twin FROM D ORDER BY 1") == ["d|y", "x|NULL", "y|d"])
        let keys = try #require(try store.keys(#"{"D": [{"key": "x", "twin": "d"}]}"#))
        #expect([#""d""#, #""x""#, #""y""#].allSatisfy { keys.contains($0) }, "\(keys)")
    }

    @Test func `an entity may have SQLite's 2,000 columns, and a model with more is refused`() throws {
        func model(_ count: Int, identity: String) -> String {
            let attributes = (0..<count).map { #""a\#($0)": "integer64""# }.joined(separator: ", ")
            return #"{"entities": {"Wide": {\#(identity)"attributes": {\#(attributes)}}}}"#
        }
        func record(_ value: Int) -> String {
            #"{"Wide": [{\#((1..<2_000).map { "\"a\($0)\": \(value)" }.joined(separator: ", ")), "a0": 1}]}"#
        }
        let store = try TestStore(model(2_000, identity: #""identity": "a0", "#))
        #expect(try store.changes(record(1)) == ["Wide +1 ~0 =0 !0"])
        #expect(try store.changes(record(1)) == ["Wide +0 ~0 =1 !0"])
        #expect(try store.changes(record(2)) == ["Wide +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT a1999 FROM Wide") == ["2"])
        #expect(throws: ModelError.self) { try TestStore(model(2_001, identity: #""identity": "a0", "#)) }
        // With the key of the store's own one less.
        #expect(throws: ModelError.self) { try TestStore(model(2_000, identity: "")) }
        _ = try TestStore(model(1_999, identity: ""))
    }

    @Test func `names that differ in Unicode's form only are different attributes`() throws {
        let store = try TestStore(
            #"{"entities": {"E": {"identity": "id", "unique": [["e\u0301"]], "attributes": {"id": "integer64", "\u00e9": "string", "e\u0301": "string"}}}}"#
        )
        try store.apply(#"{"E": {"id": 1, "\u00e9": "one", "e\u0301": "two"}}"#)
        #expect(try store.rows("SELECT \"\u{e9}\", \"e\u{301}\" FROM E") == ["one|two"])
        #expect(try store.fault(#"{"E": {"id": 2, "e\u0301": "two"}}"#)?.code == .constraintViolation)
    }
}
