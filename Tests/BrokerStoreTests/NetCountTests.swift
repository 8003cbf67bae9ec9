import TestSupport
import Testing

@testable import BrokerStore

/// Counts compare the end of a job with its beginning, however many operations and objects it has.
@Suite(.timeLimit(.minutes(5))) struct NetCountTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "text": "string", "size": "double", "wide": "float"},
            "relationships": {
              "tags": {"entity": "T", "toMany": true, "inverse": "bearers"},
              "list": {"entity": "T", "toMany": true, "ordered": true, "assignment": "replace"},
              "boss": {"entity": "E"}}},
          "T": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "bearers": {"entity": "E", "toMany": true, "inverse": "tags"}}}
        }}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.apply(
            #"{"E": [{"id": 1, "text": "a", "size": 5, "wide": 2, "tags": [7], "list": [7, 8]}, {"id": 2}], "T": [{"id": 9}]}"#
        )
    }

    private func relate(_ object: Int, _ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "E", "object": \#(object), "relationship": "\#(relationship)", "json": \#(json)}"#
    }

    private func process(_ entity: String, _ json: String) -> String {
        #"{"entity": "\#(entity)", "json": \#(json)}"#
    }

    private func delete(_ entity: String, _ objects: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": \#(objects)}"#
    }

    @Test func `a link of a link table that is made and ended changes nothing`() throws {
        #expect(
            try store.run([relate(2, "tags", "[7]"), relate(2, "tags", "null")].joined(separator: ", ")) == "E =1, T =1"
        )
        #expect(
            try store.run([relate(1, "tags", "null"), relate(1, "tags", "[7]")].joined(separator: ", ")) == "E =1, T =1"
        )
        #expect(
            try store.run([relate(1, "tags", "null"), relate(1, "tags", "[7, 8]")].joined(separator: ", "))
                == "E ~1, T =2")
    }

    @Test func `a link that one side's record makes and the other side's ends changes neither`() throws {
        let end = #"{"op": "relate", "entity": "T", "object": 9, "relationship": "bearers", "json": null}"#
        #expect(try store.run([relate(1, "tags", "[9]"), end].joined(separator: ", ")) == "E =1, T =1")
        #expect(try store.run([relate(1, "tags", "[9]"), delete("T", "[9]")].joined(separator: ", ")) == "E =1, T -1")
    }

    @Test func `an object whose own records change back a link, while others add one, is updated`() throws {
        let operations = [
            relate(2, "tags", "[7]"), relate(2, "tags", "null"), process("T", #"{"id": 9, "bearers": [2]}"#),
        ]
        #expect(try store.run(operations.joined(separator: ", ")) == "E ~1, T ~1 =1")
    }

    @Test func `other links change an object whose record names links, whatever made or ended them`() throws {
        // Another object's record, in one step and in two; a deletion.
        #expect(
            try store.run(
                [process("E", #"{"id": 1, "tags": []}"#), process("T", #"{"id": 9, "bearers": [1]}"#)]
                    .joined(separator: ", ")) == "E ~1, T ~1")
        #expect(
            try store.run(
                [relate(2, "tags", "[]"), process("T", #"{"id": 9, "bearers": [2]}"#)]
                    .joined(separator: ", ")) == "E ~1, T ~1")
        #expect(
            try store.run([process("T", #"{"id": 9, "bearers": []}"#), delete("E", "[2]")].joined(separator: ", "))
                == "E -1, T ~1")
    }

    @Test func `ended links change an object of which owned objects are deleted, too`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "E": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "tags": {"entity": "T", "toMany": true, "assignment": "replace"},
                "parts": {"entity": "P", "toMany": true, "owned": true}}},
              "T": {"identity": "id", "attributes": {"id": "integer64"}}, "P": {"attributes": {"size": "integer64"}}}}
            """)
        try store.apply(#"{"E": {"id": 1, "tags": [7], "parts": [{"size": 1}, {"size": 2}]}}"#)
        #expect(try store.run(process("E", #"{"id": 1, "tags": [], "parts": [{"size": 1}]}"#)) == "E ~1, P =1 -1")
    }

    @Test func `entities count whose objects were made and deleted`() throws {
        let made = [process("E", #"{"id": 1}"#), process("T", #"{"id": 12}"#), delete("T", "[12]")]
        #expect(try store.outcome(ofOperations: made.joined(separator: ", ")).changes.map(\.entity) == ["E", "T"])
        let store = try self.interpreting()
        #expect(try store.outcome(ofOperations: made.joined(separator: ", ")).changes.map(\.entity) == ["E", "T"])
    }

    private func interpreting() throws -> TestStore {
        var options = StoreOptions()
        options.interpretsAll = true
        return try TestStore(Self.model, options: options)
    }

    @Test func `an object is listed by the key that it has at the end`() throws {
        func rename(_ old: Int, _ new: Int) -> String {
            #"{"op": "process", "entity": "E", "object": \#(old), "json": {"id": \#(new)}}"#
        }
        func keys(_ operations: String...) throws -> String {
            let outcome = try store.outcome(ofOperations: operations.joined(separator: ", "))
            return String(decoding: try #require(outcome.keys), as: UTF8.self)
        }
        #expect(
            try keys(process("E", #"{"id": 3}"#), rename(3, 4)) == #"{"E":{"inserted":[4],"updated":[],"deleted":[]}}"#)
        #expect(try keys(rename(4, 5), rename(5, 6)) == #"{"E":{"inserted":[],"updated":[6],"deleted":[]}}"#)
        #expect(try keys(rename(6, 7), delete("E", "[7]")) == #"{"E":{"inserted":[],"updated":[],"deleted":[7]}}"#)
    }

    @Test func `the records that a sync ignores after another operation count no object`() throws {
        let sync = #"{"op": "sync", "entity": "E", "json": [{"id": 2, "text": "b"}], "actions": ["insert"]}"#
        #expect(try store.run([delete("T", "[9]"), sync].joined(separator: ", ")) == "T -1")
    }

    @Test func `what an attempt to merge has done and undone counts nothing`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Desk": {"identity": "id", "attributes": {"id": "integer64", "label": {"type": "string", "optional": false}},
                "relationships": {"room": {"entity": "Room", "inverse": "desks"}}},
              "Room": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "desks": {"entity": "Desk", "toMany": true, "inverse": "room"}}}}}
            """)
        try store.apply(#"{"Desk": {"id": 3, "label": "a"}}"#)
        // The key inserts a desk without a label, which fails, and then the room is merged without the desk.
        let both = [delete("Desk", "[3]"), process("Room", #"{"id": 1, "desks": [3]}"#)].joined(separator: ", ")
        #expect(try store.run(both, .skip) == "Desk -1 !1, Room +1")
    }

    @Test func `an object with the former key of one that the same job inserted and renamed is inserted, too`() throws {
        let rename = #"{"op": "process", "entity": "E", "object": 3, "json": {"id": 4}}"#
        let both = [process("E", #"{"id": 3}"#), rename, process("E", #"{"id": 3}"#)].joined(separator: ", ")
        #expect(try store.run(both) == "E +2")
        #expect(try store.rows("SELECT id FROM E ORDER BY id") == ["1", "2", "3", "4"])
        let stored = [process("E", #"{"id": 3}"#), rename.replacing("4", with: "5"), process("E", #"{"id": 3}"#)]
        #expect(try store.run(stored.joined(separator: ", ")) == "E +1 ~1")
    }

    @Test func `an order that is changed and changed back changes nothing`() throws {
        let back = [relate(1, "list", "[8, 7]"), relate(1, "list", "[7, 8]")].joined(separator: ", ")
        #expect(try store.run(back) == "E =1, T =2")
        #expect(
            try store.run([relate(1, "list", "[7, 8]"), relate(1, "list", "[8, 7]")].joined(separator: ", "))
                == "E ~1, T =2")
    }

    @Test func `an object that is deleted and made again as it was is unchanged, whole numbers of a double included`()
        throws
    {
        let again = [
            delete("E", "[1]"),
            process("E", #"{"id": 1, "text": "a", "size": 5, "wide": 2.0, "tags": [7], "list": [7, 8]}"#),
        ].joined(separator: ", ")
        #expect(try store.run(again) == "E =1, T =2")
        #expect(try store.rows("SELECT id, size, wide FROM E WHERE id = 1") == ["1|5.0|2.0"])
        let other = [delete("E", "[1]"), process("E", #"{"id": 1, "text": "a", "size": 5.5, "wide": 2}"#)]
        #expect(try store.run(other.joined(separator: ", ")) == "E ~1")
    }

    @Test(arguments: [1, Cases.count(4_000, of: 30_000)])
    func `an object that a first operation changes and a later one changes back is unchanged`(count: Int) throws {
        func records(_ text: String, _ more: String = "") -> String {
            "[" + (0..<count).map { #"{"id": \#($0 + 100), "text": "\#(text)"\#(more)}"# }.joined(separator: ", ") + "]"
        }
        try store.run(process("E", records("a", #", "tags": [7]"#)))
        // Text, a link in a column, a link in a table, and a deleted object.
        let first = process("E", records("b", #", "boss": 2, "tags": [8]"#))
        let back = [
            process("E", records("a")), #"{"op": "delete", "entity": "E", "objects": [2]}"#,
            process("E", #"{"id": 2}"#), #"{"op": "delete", "entity": "T", "objects": [8]}"#,
        ]
        let nothing = #"{"op": "delete", "entity": "E", "objects": []}"#
        let all = ([first, nothing] + back).joined(separator: ", ")
        #expect(try store.run(all) == "E =\(count + 1), T -1")
        #expect(try store.run(([first, nothing] + back.prefix(1)).joined(separator: ", ")) == "E ~\(count) =1, T +1")
    }

    @Test(arguments: [1, Cases.count(4_000, of: 30_000)])
    func `a sync whose deletion undoes what its records changed counts its objects as unchanged`(count: Int) throws {
        let numbers = (0..<count).map { $0 + 100 }
        try store.run(process("E", "[" + numbers.map { #"{"id": \#($0), "text": "a"}"# }.joined(separator: ", ") + "]"))
        let records = numbers.map { #"{"id": \#($0), "text": "a", "boss": 2, "tags": [7]}"# }.joined(separator: ", ")
        // The records link to 2, which the predicate selects, which is named as a boss alone, and which hangs from 1.
        let sync = #"{"op": "sync", "entity": "E", "json": [\#(records)], "where": "id == 1"}"#
        #expect(try store.run(sync) == "E ~\(count) =1 -1, T =1")
        let back =
            #"{"op": "sync", "entity": "E", "json": [\#(records)], "where": "id == 50"}, {"op": "delete", "entity": "E", "objects": [2]}, {"op": "delete", "entity": "T", "objects": [7]}"#
        #expect(try store.run(back) == "E ~\(count) -1, T -1")
    }

    @Test func `an object whose unique value another object had meanwhile is unchanged if it ends as it began`() throws
    {
        let store = try TestStore(
            """
            {"entities": {"U": {"identity": "id", "unique": [["v"]],
              "attributes": {"id": "integer64", "v": "integer64", "text": "string"}}}}
            """)
        try store.apply(#"{"U": [{"id": 1, "v": 1}, {"id": 2, "v": 2}]}"#)
        func change(_ id: Int, _ json: String) -> String { #"{"entity": "U", "object": \#(id), "json": \#(json)}"# }
        let exchange = [change(2, #"{"v": 1}"#), change(1, #"{"v": 1}"#), change(2, #"{"v": 2}"#)]
        #expect(try store.run(exchange.joined(separator: ", ")) == "U =2")
        let merge = #"{"entity": "U", "json": [{"id": 2, "v": 1}]}"#
        #expect(try store.run(([merge] + exchange.dropFirst()).joined(separator: ", ")) == "U =2")
        let text = [
            merge, change(1, #"{"text": "x"}"#), change(1, #"{"text": null}"#), change(2, #"{"v": 2}"#),
        ]
        #expect(try store.run(text.joined(separator: ", ")) == "U =2")
        #expect(try store.run((text + [change(1, #"{"v": 3}"#)]).joined(separator: ", ")) == "U ~1 =1")
        #expect(try store.rows("SELECT * FROM U ORDER BY id") == ["1|3|NULL", "2|2|NULL"])
    }
}
