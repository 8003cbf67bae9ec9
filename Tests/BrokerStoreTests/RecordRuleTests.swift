import BrokerModel
import Foundation
import Testing

@testable import BrokerStore

/// Rules of records that the protocol states: the order of keys, what a sync names, and decimals in predicates.
@Suite(.timeLimit(.minutes(5))) struct RecordRuleTests {
    // MARK: - The order of keys

    private static let selfLinks = """
        {"entities": {"E": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
          "fancies": {"entity": "E", "toMany": true, "inverse": "fans", "ordered": true},
          "fans": {"entity": "E", "toMany": true, "inverse": "fancies", "ordered": true},
          "parent": {"entity": "E", "inverse": "children"},
          "children": {"entity": "E", "toMany": true, "inverse": "parent", "ordered": true},
          "next": {"entity": "E", "inverse": "last"}, "last": {"entity": "E", "inverse": "next"}}}}}
        """

    @Test(
        arguments: [
            (#""fancies": [1], "fans": null"#, [String]()), (#""fans": null, "fancies": [1]"#, ["1|1"]),
            (#""fancies": [1, 1, 2], "fans": null"#, ["1|2"]), (#""fans": [1, 2], "fancies": null"#, ["2|1"]),
            (#""fancies": null, "fans": [1]"#, ["1|1"]),
            (#""fancies": [{"id": 1, "fancies": [1]}], "fans": null"#, []),
        ], [#"{"id": 1}"#, #"{"id": 1, "fancies": [1]}"#])
    func `A later null of a record ends what its earlier key linked in a link table`(
        keys: (record: String, links: [String]), stored: String
    ) throws {
        let store = try TestStore(Self.selfLinks)
        try store.apply(#"{"E": \#(stored)}"#)
        try store.apply(#"{"E": {"id": 1, \#(keys.record)}}"#)
        #expect(try store.rows("SELECT source, destination FROM E_fancies ORDER BY 1, 2") == keys.links)
        #expect(try store.rows("SELECT 1 FROM E_fancies WHERE position IS NULL OR inverse_position IS NULL").isEmpty)
    }

    @Test(
        arguments: [
            (#""parent": 1, "children": null"#, "NULL"), (#""children": null, "parent": 1"#, "1"),
            (#""children": [1], "parent": null"#, "NULL"), (#""parent": null, "children": [1]"#, "1"),
        ], [#"{"id": 1}"#, #"{"id": 1, "parent": 1}"#])
    func `The later of two keys of a record decides a link in a column`(
        keys: (record: String, parent: String), stored: String
    ) throws {
        let store = try TestStore(Self.selfLinks)
        try store.apply(#"{"E": \#(stored)}"#)
        try store.apply(#"{"E": {"id": 1, \#(keys.record)}}"#)
        #expect(try store.rows("SELECT parent FROM E") == [keys.parent])
    }

    @Test(arguments: [(#""next": 1, "last": null"#, "NULL|NULL"), (#""last": null, "next": 1"#, "1|1")])
    func `The later of two keys of a record decides a one-to-one link`(record: String, links: String) throws {
        let store = try TestStore(Self.selfLinks)
        try store.apply(#"{"E": {"id": 1, \#(record)}}"#)
        #expect(try store.rows("SELECT next, last FROM E") == [links])
    }

    // MARK: - What a sync names

    private static let tree = """
        {"entities": {
          "C": {"identity": "id", "modified": "at", "tombstone": "gone == YES",
            "attributes": {"id": "integer64", "at": "integer64", "gone": "boolean"}, "relationships": {
              "replies": {"entity": "C", "toMany": true, "inverse": "to"}, "to": {"entity": "C", "inverse": "replies"},
              "by": {"entity": "U"}}},
          "U": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"said": {"entity": "C", "toMany": true}}},
          "K": {"identity": "name", "identityOptional": true, "modified": "at",
            "attributes": {"name": "string", "at": "integer64"}, "relationships": {
              "under": {"entity": "K", "toMany": true}}}
        }}
        """

    @Test func `A sync that is sent twice deletes nothing`() throws {
        let store = try TestStore(Self.tree)
        let sync = """
            {"op": "sync", "entity": "C", "json": [{"id": 1, "at": 5, "replies": [
              {"id": 2, "at": 5, "replies": [3, {"id": 4}], "by": {"id": 1, "said": [5, {"id": 6}]}}]}]}
            """
        try store.apply(#"{"C": [{"id": 6}, {"id": 7}]}"#)
        let known =
            #"{"entity": "C", "json": {"id": 1, "at": 5, "replies": [{"id": 2, "at": 5, "replies": [3, {"id": 4}]}]}}"#
        _ = try store.run(known)
        _ = try store.run(#"{"entity": "C", "json": {"id": 5}}"#)
        #expect(try store.run(sync) == "C =5 -1, U +1")
        #expect(try store.rows("SELECT id FROM C ORDER BY 1") == ["1", "2", "3", "4", "5", "6"])
    }

    @Test func `A sync does not name what its tombstones hold`() throws {
        let store = try TestStore(Self.tree)
        try store.apply(
            #"{"C": [{"id": 1, "at": 1, "replies": [{"id": 2}, {"id": 3}]}, {"id": 4, "at": 9}, {"id": 5}]}"#)
        let sync =
            #"{"op": "sync", "entity": "C", "json": [{"id": 1, "at": 2, "gone": true, "replies": [2, {"id": 3}]}, {"id": 4, "at": 8, "gone": true}]}"#
        _ = try store.run(sync)
        #expect(try store.rows("SELECT id FROM C ORDER BY 1") == ["4"])
    }

    @Test func `A sync names by an optional identity, too`() throws {
        let store = try TestStore(Self.tree)
        try store.apply(#"{"K": [{"name": "a", "at": 1, "under": [{"name": "b"}]}, {"name": "c"}]}"#)
        _ = try store.run(#"{"op": "sync", "entity": "K", "json": [{"name": "a", "at": 1, "under": ["b"]}]}"#)
        #expect(try store.rows("SELECT name FROM K ORDER BY 1") == ["a", "b"])
    }

    @Test func `A sync of which a record is rejected deletes nothing`() throws {
        let store = try TestStore(Self.tree)
        try store.apply(#"{"C": [{"id": 1}, {"id": 2}]}"#)
        let sync = #"{"op": "sync", "entity": "C", "json": [{"id": 3, "at": "?", "replies": [1]}]}"#
        let outcome = try store.outcome(ofOperations: sync, .skip)
        #expect(outcome.warnings.map(\.code) == [.deletionSkipped])
        #expect(try store.rows("SELECT id FROM C ORDER BY 1") == ["1", "2"])
    }

    // MARK: - Decimals in predicates

    @Test(arguments: [
        "price == 1.50", "price = '1.5'", "price IN {7, 1.500}", "price BETWEEN {1.50, 1.5}", "price <= 1.50",
        "NOT (price != 1.500)", "price == other", "price >= other AND price <= other", "of == 2.0", "of IN {2.00, 9}",
        "of.no == 2.00", "of.price == price",
    ])
    func `Decimals are compared by value`(predicate: String) throws {
        let store = try TestStore(
            """
            {"entities": {
              "P": {"identity": "id", "attributes": {"id": "integer64", "price": "decimal", "other": "decimal"},
                "relationships": {"of": {"entity": "D"}}},
              "D": {"identity": "no", "attributes": {"no": "decimal", "price": "decimal"}}
            }}
            """)
        try store.apply(
            #"{"D": {"no": 2, "price": "001.500"}, "P": [{"id": 1, "price": 1.5, "other": "1.50", "of": 2}, {"id": 2, "price": 1.51, "other": 1.5}]}"#
        )
        #expect(try store.run(#"{"op": "delete", "entity": "P", "where": "\#(predicate)"}"#) == "P -1")
        #expect(try store.rows("SELECT id FROM P") == ["2"])
    }

    @Test(arguments: ["price == 1.50", "price IN {1.500}"])
    func `A tombstone compares decimals by value`(predicate: String) throws {
        let store = try TestStore(
            #"{"entities": {"P": {"identity": "id", "tombstone": "\#(predicate)", "attributes": {"id": "integer64", "price": "decimal"}}}}"#
        )
        try store.apply(#"{"P": [{"id": 1, "price": 2}, {"id": 2, "price": 2}]}"#)
        try store.apply(#"{"P": [{"id": 1, "price": "01.5000"}, {"id": 2, "price": 1.51}]}"#)
        #expect(try store.rows("SELECT id FROM P") == ["2"])
    }

    // MARK: - The model's schema

    @Test func `The model's schema says of tombstone and modified what the server takes`() throws {
        let model =
            #"{"entities": {"P": {"identity": "id", "modified": "at", "tombstone": "gone == YES", "attributes": {"id": "integer64", "at": "integer64", "gone": "boolean"}}}}"#
        _ = try TestStore(model)
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../protocol")
        let schema = try String(contentsOf: folder.appending(path: "model.schema.json"), encoding: .utf8)
        let line = try #require(
            schema.split(separator: "\n").first { $0.contains("A predicate on the record's own attributes") })
        #expect(line.contains("with modified only if it is newer") && !line.contains("without modified"))
    }
}
