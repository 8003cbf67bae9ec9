import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Counts compare the end of a job with its beginning, however many operations and objects it has.
@Suite(.timeLimit(.minutes(5))) struct NetCountTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "text": "string", "size": "double", "wide": "float"},
            "relationships": {"tags": {"entity": "T", "toMany": true, "inverse": "bearers"},
              "list": {"entity": "T", "toMany": true, "ordered": true, "assignment": "replace"}, "boss": {"entity": "E"}}},
          "T": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "bearers": {"entity": "E", "toMany": true, "inverse": "tags"}}},
          "U": {"identity": "id", "unique": [["v"]], "attributes": {"id": "integer64", "v": "integer64", "text": "string"}},
          "Desk": {"identity": "id", "attributes": {"id": "integer64", "label": {"type": "string", "optional": false}},
            "relationships": {"room": {"entity": "Room", "inverse": "desks"}}},
          "Room": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "desks": {"entity": "Desk", "toMany": true, "inverse": "room"}}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(
            Self.model,
            having: #"""
                {"E": [{"id": 1, "text": "a", "size": 5, "wide": 2, "tags": [7], "list": [7, 8]}, {"id": 2}], "T": [{"id": 9}],
                 "U": [{"id": 1, "v": 1}, {"id": 2, "v": 2}]}
                """#)
    }

    private static func relate(_ object: Int, _ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "E", "object": \#(object), "relationship": "\#(relationship)", "json": \#(json)}"#
    }
    private static func process(_ entity: String, _ json: String) -> String {
        #"{"entity": "\#(entity)", "json": \#(json)}"#
    }
    private static func delete(_ entity: String, _ objects: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": \#(objects)}"#
    }
    private static func rename(_ old: Int, _ new: Int) -> String { change("E", old, #"{"id": \#(new)}"#) }
    private static func change(_ entity: String, _ id: Int, _ json: String) -> String {
        #"{"entity": "\#(entity)", "object": \#(id), "json": \#(json)}"#
    }

    @Test(
        arguments: Claim.list(
            #"""
            # a link of a link table that is made and ended, or ended and made, changes nothing
            \#(relate(2, "tags", "[7]")), \#(relate(2, "tags", "null")) => E =1, T =1
            \#(relate(1, "tags", "null")), \#(relate(1, "tags", "[7]")) => E =1, T =1
            \#(relate(1, "tags", "null")), \#(relate(1, "tags", "[7, 8]")) => E ~1, T =2
            # a link that one side's record makes and the other side's ends changes neither
            \#(relate(1, "tags", "[9]")), {"op": "relate", "entity": "T", "object": 9, "relationship": "bearers", "json": null} => E =1, T =1
            \#(relate(1, "tags", "[9]")), \#(delete("T", "[9]")) => E =1, T -1
            # an object whose own records change back a link, while others add one, is updated
            \#(relate(2, "tags", "[7]")), \#(relate(2, "tags", "null")), \#(process("T", #"{"id": 9, "bearers": [2]}"#)) => E ~1, T ~1 =1
            # other links change an object whose record names links, whatever made or ended them
            \#(process("E", #"{"id": 1, "tags": []}"#)), \#(process("T", #"{"id": 9, "bearers": [1]}"#)) => E ~1, T ~1
            \#(relate(2, "tags", "[]")), \#(process("T", #"{"id": 9, "bearers": [2]}"#)) => E ~1, T ~1
            \#(process("T", #"{"id": 9, "bearers": []}"#)), \#(delete("E", "[2]")) => E -1, T ~1
            # an object is listed by the key that it has at the end
            keys \#(process("E", #"{"id": 3}"#)), \#(rename(3, 4)) => {"E":{"inserted":[4],"updated":[],"deleted":[]}}
            keys \#(rename(4, 5)), \#(rename(5, 6)) => {"E":{"inserted":[],"updated":[6],"deleted":[]}}
            keys \#(rename(6, 7)), \#(delete("E", "[7]")) => {"E":{"inserted":[],"updated":[],"deleted":[7]}}
            # the records that a sync ignores after another operation count no object
            \#(delete("T", "[9]")), {"op": "sync", "entity": "E", "json": [{"id": 2, "text": "b"}], "actions": ["insert"]} => T -1
            # a key that inserts what cannot be counts nothing else
            {"Desk": {"id": 3, "label": "a"}}
            skip \#(delete("Desk", "[3]")), \#(process("Room", #"{"id": 1, "desks": [3]}"#))
              => Desk -1 !1, Room +1; missingValue /1/json/desks/0
            # an object with the former key of one that the same job inserted and renamed is inserted, too
            \#(process("E", #"{"id": 3}"#)), \#(rename(3, 4)), \#(process("E", #"{"id": 3}"#)) => E +2
            SELECT id FROM E ORDER BY id :: 1, 2, 3, 4
            \#(process("E", #"{"id": 3}"#)), \#(rename(3, 5)), \#(process("E", #"{"id": 3}"#)) => E +1 ~1
            # a renamed object that is deleted, and its first key, is one object
            \#(process("E", #"{"id": 30, "text": "a"}"#))
            \#(rename(30, 31)), \#(delete("E", "[31]")), \#(process("E", #"{"id": 30, "text": "a"}"#)) => E =1
            keys \#(rename(30, 31)), \#(delete("E", "[31]")), \#(process("E", #"{"id": 30}"#)) => {"E":{"inserted":[],"updated":[30],"deleted":[]}}
            \#(rename(30, 31)), \#(delete("E", "[31]")), \#(process("E", #"{"id": 32}"#)) => E +1 -1
            # an order that is changed and changed back changes nothing
            \#(relate(1, "list", "[8, 7]")), \#(relate(1, "list", "[7, 8]")) => E =1, T =2
            \#(relate(1, "list", "[7, 8]")), \#(relate(1, "list", "[8, 7]")) => E ~1, T =2
            # an object that is deleted and made again as it was is unchanged, whole numbers of a double included
            \#(delete("E", "[1]")), {"entity": "E", "json": {"id": 1, "text": "a", "size": 5, "wide": 2.0, "tags": [7], "list": [7, 8]}}
              => E =1, T =2
            SELECT id, size, wide FROM E WHERE id = 1 :: 1|5.0|2.0
            \#(delete("E", "[1]")), {"entity": "E", "json": {"id": 1, "text": "a", "size": 5.5, "wide": 2}} => E ~1
            # an object whose unique value another object had meanwhile is unchanged if it ends as it began
            \#(change("U", 2, #"{"v": 1}"#)), \#(change("U", 1, #"{"v": 1}"#)), \#(change("U", 2, #"{"v": 2}"#)) => U =2
            \#(process("U", #"{"id": 2, "v": 1}"#)), \#(change("U", 1, #"{"v": 1}"#)), \#(change("U", 2, #"{"v": 2}"#)) => U =2
            \#(process("U", #"{"id": 2, "v": 1}"#)), \#(change("U", 1, #"{"text": "x"}"#)), \#(change("U", 1, #"{"text": null}"#)),
              \#(change("U", 2, #"{"v": 2}"#)) => U =2
            \#(process("U", #"{"id": 2, "v": 1}"#)), \#(change("U", 2, #"{"v": 2}"#)), \#(change("U", 1, #"{"v": 3}"#)) => U ~1 =1
            SELECT * FROM U ORDER BY id :: 1|3|NULL, 2|2|NULL
            """#))
    func `net counts`(claim: Claim) throws { try claim.check(store) }

    @Test func `ended links change an object of which owned objects are deleted, too`() throws {
        let store = try TestStore(
            """
            {"entities": {"T": {"identity": "id", "attributes": {"id": "integer64"}}, "P": {"attributes": {"size": "integer64"}},
              "E": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "tags": {"entity": "T", "toMany": true, "assignment": "replace"},
                "parts": {"entity": "P", "toMany": true, "owned": true}}}}}
            """, having: #"{"E": {"id": 1, "tags": [7], "parts": [{"size": 1}, {"size": 2}]}}"#)
        #expect(try store.run(Self.process("E", #"{"id": 1, "tags": [], "parts": [{"size": 1}]}"#)) == "E ~1, P =1 -1")
    }

    @Test(arguments: [false, true])
    func `entities count whose objects were made and deleted`(interpretsAll: Bool) throws {
        var options = StoreOptions()
        options.interpretsAll = interpretsAll
        let store = try TestStore(Self.model, options: options)
        let operations = [
            Self.process("E", #"{"id": 1}"#), Self.process("T", #"{"id": 12}"#), Self.delete("T", "[12]"),
        ]
        let outcome = try store.outcome(ofOperations: operations.joined(separator: ", "))
        #expect(outcome.changes.map(\.entity) == ["E", "T"])
    }

    @Test
    func `record by record, an object without attributes is made, and a part of a sync names an identity for good`()
        throws
    {
        var options = StoreOptions()
        options.interpretsAll = true
        let store = try TestStore(
            """
            {"entities": {"A": {"attributes": {}},
              "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string"}}}}
            """, options: options)
        #expect(try store.run(Self.process("A", "{}")) == "A +1")
        let part = { (codes: String, isLast: Bool) in
            #"{"op": "sync", "entity": "Card", "json": \#(codes), "part": {"id": "p", "last": \#(isLast)}}"#
        }
        try store.run(Self.process("Card", #"[{"code": "a"}, {"code": "b"}]"#))
        try store.run(part(#"[{"code": "a"}]"#, false))
        // It gets another row, whose key is another one.
        try store.run(Self.delete("Card", "[1]"))
        try store.run(Self.process("Card", #"{"code": "a"}"#))
        #expect(try store.run(part("[]", true)) == "Card -1")
        #expect(try store.rows("SELECT code FROM Card") == ["a"])
    }

    @Test func `a step that is applied record by record is counted by its reason, and another is not`()
        throws
    {
        let store = try TestStore(
            #"{"entities": {"E": {"identity": "id", "attributes": {"id": "integer64", "code": "string"}, "unique": [["code"]]}}}"#
        )
        try store.run(Self.process("E", #"[{"id": 1, "code": "a"}, {"id": 2, "code": "b"}]"#))
        #expect(store.store.takeInterpretations().isEmpty || TestStore.interpretsAll)
        // They exchange their values, which sets cannot.
        try store.run(Self.process("E", #"[{"id": 1, "code": "b"}, {"id": 2, "code": "a"}]"#))
        #expect(store.store.takeInterpretations().values.reduce(0, +) == 1 || TestStore.interpretsAll)
        #expect(store.store.takeInterpretations().isEmpty)
    }

    @Test(arguments: [1, Cases.count(4_000, of: 30_000)])
    func `an object that a first operation changes and a later one changes back is unchanged`(count: Int) throws {
        func records(_ text: String, _ more: String = "") -> String {
            Self.process(
                "E",
                "[\((0..<count).map { #"{"id": \#($0 + 100), "text": "\#(text)"\#(more)}"# }.joined(separator: ", "))]")
        }
        try store.run(records("a", #", "tags": [7]"#))
        // Text, a link in a column, a link in a table, and a deleted object.
        let first = [records("b", #", "boss": 2, "tags": [8]"#), Self.delete("E", "[]"), records("a")]
        let back = [Self.delete("E", "[2]"), Self.process("E", #"{"id": 2}"#), Self.delete("T", "[8]")]
        #expect(try store.run((first + back).joined(separator: ", ")) == "E =\(count + 1), T -1")
        #expect(try store.run(first.joined(separator: ", ")) == "E ~\(count) =1, T +1")
    }

    @Test(arguments: [1, Cases.count(4_000, of: 30_000)])
    func `a sync whose deletion undoes what its records changed counts its objects as unchanged`(count: Int) throws {
        let numbers = (0..<count).map { $0 + 100 }
        try store.apply(payload("E", numbers.map { #"{"id": \#($0), "text": "a"}"# }))
        let records = numbers.map { #"{"id": \#($0), "text": "a", "boss": 2, "tags": [7]}"# }.joined(separator: ", ")
        // The records link to 2, which the predicate selects, which is named as a boss alone, and which hangs from 1.
        let sync = { (id: Int) in #"{"op": "sync", "entity": "E", "json": [\#(records)], "where": "id == \#(id)"}"# }
        #expect(try store.run(sync(1)) == "E ~\(count) =1 -1, T =1")
        let back = [sync(50), Self.delete("E", "[2]"), Self.delete("T", "[7]")].joined(separator: ", ")
        #expect(try store.run(back) == "E ~\(count) -1, T -1")
    }
}

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
            "bees": {"entity": "Bee", "toMany": true, "inverse": "nests", "assignment": "replace"}}}}}
        """

    private static func relate(_ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "Bee", "object": 1, "relationship": "\#(relationship)", "json": \#(json)}"#
    }

    private static func process(_ json: String) -> String { #"{"entity": "Bee", "object": 1, "json": \#(json)}"# }

    @Test(
        arguments: Claim.list(
            #"""
            # a one-to-one link that both sides name is there on both sides
            \#(relate("ant", #"{"no": 2, "bee": "b"}"#)) => Ant +1, Bee ~1
            bees :: 1|b|NULL|NULL|2|NULL, 2|c|NULL|NULL|NULL|NULL
            SELECT no, bee FROM Ant :: 2|1
            \#(relate("ant", #"{"no": 2, "bee": {"name": "b", "text": "t"}}"#)) => Ant =1, Bee ~1
            bees :: 1|b|t|NULL|2|NULL, 2|c|NULL|NULL|NULL|NULL
            # links that replace are united over both names; a bare key names c, and no record of it
            {"Bee": {"name": "b", "nests": [1, 2]}}
            \#(relate("nests", #"[{"no": 3, "bees": ["b", "c"]}, {"no": 4, "bees": [{"name": "b"}]}]"#)) => Bee ~1 =1, Nest +2
            SELECT source, destination FROM Bee_nests ORDER BY 1, 2 :: 1|3, 1|4, 2|3
            # an object can be linked to itself by its other name
            \#(relate("boss", #""b""#))
            bees :: 1|b|NULL|NULL|NULL|1, 2|c|NULL|NULL|NULL|NULL
            \#(process(#"{"team": ["b", "c"], "text": "x"}"#))
            bees :: 1|b|x|NULL|NULL|1, 2|c|NULL|NULL|NULL|1
            # a record's nested value has the later word whichever name it uses
            \#(process(#"{"text": "outer", "ant": {"no": 1, "bee": {"name": "b", "text": "inner"}}}"#))
            bees :: 1|b|inner|NULL|1|NULL, 2|c|NULL|NULL|NULL|NULL
            # the identity that a record gives names the object inside that record, and the old one does not
            \#(process(#"{"name": "n", "ant": {"no": 1, "bee": {"name": "n", "text": "t"}}}"#)) => Ant +1, Bee ~1
            bees :: 1|n|t|NULL|1|NULL, 2|c|NULL|NULL|NULL|NULL
            \#(process(#"{"name": "m", "team": ["n", "m"]}"#)) => Bee +1 ~1
            bees :: 1|m|t|NULL|1|1, 2|c|NULL|NULL|NULL|NULL, 3|n|NULL|NULL|NULL|1
            # a record is compared with what the other name brought: the outer one is newer
            {"Bee": {"name": "b", "at": 2}}
            \#(process(#"{"at": 4, "text": "a", "team": [{"name": "b", "at": 3, "text": "b"}]}"#))
            bees :: 1|b|a|4|NULL|1, 2|c|NULL|NULL|NULL|NULL
            # a record is compared with what the other name brought: the inner one is newer
            {"Bee": {"name": "b", "at": 2}}
            \#(process(#"{"at": 3, "text": "a", "team": [{"name": "b", "at": 4, "text": "b"}]}"#))
            bees :: 1|b|b|4|NULL|1, 2|c|NULL|NULL|NULL|NULL
            # a record is compared with what the other name brought: none is newer
            {"Bee": {"name": "b", "at": 2}}
            \#(process(#"{"at": 2, "text": "a", "team": [{"name": "b", "at": 2, "text": "b"}]}"#))
            bees :: 1|b|NULL|2|NULL|NULL, 2|c|NULL|NULL|NULL|NULL
            # null instead of an identity leaves the identity of the named object
            \#(process(#"{"name": null, "text": "t"}"#)) => Bee ~1
            bees :: 1|b|t|NULL|NULL|NULL, 2|c|NULL|NULL|NULL|NULL
            {"entity": "Ant", "json": {"no": 4}}, {"entity": "Ant", "object": 4, "json": {"no": null, "bee": "b"}} => Ant +1, Bee ~1
            SELECT no, bee FROM Ant :: 4|1
            """#))
    func `two names`(claim: Claim) throws {
        let store = try TestStore(Self.model, having: #"{"Bee": [{"name": "b"}, {"name": "c"}]}"#)
        try claim.check(store, ["bees": "SELECT _pk, name, text, at, ant, boss FROM Bee ORDER BY 1"])
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
                "attributes": {"a": "string", "b": "string", "text": "string"}, "relationships": {
                "boss": {"entity": "Bee", "inverse": "team"}, "team": {"entity": "Bee", "toMany": true, "inverse": "boss"}}}}}
            """, having: #"{"Bee": [{"a": "a", "b": "b"}, {"a": "c", "b": "x"}]}"#)
        let bees = "SELECT _pk, a, b, text, boss FROM Bee ORDER BY 1"
        #expect(try store.run(Self.process(record)) == (identity == ["a", "b"] ? "Bee =1" : "Bee ~1"))
        #expect(try store.rows(bees) == [row, "2|c|x|NULL|NULL"])
        // The whole identity names the object inside its own record, too.
        let named = #"{"a": "\#(identity[0])", "b": "\#(identity[1])", "text": "t"}"#
        #expect(try store.run(Self.process(record.dropLast() + #", "team": [\#(named)]}"#)) == "Bee ~1")
        #expect(try store.rows(bees) == [row.replacing("NULL|NULL", with: "t|1"), "2|c|x|NULL|NULL"])
        // Another object has that identity.
        let taken = #"{"a": "c", "b": \#(identity[1] == "x" ? "null" : #""x""#)}"#
        #expect(throws: Fault.self) { try store.run(Self.process(taken)) }
        #expect(try store.rows(bees)[1] == "2|c|x|NULL|NULL")
    }
}

/// The `keys` of an outcome: what was inserted and updated, by identity.
@Suite(.timeLimit(.minutes(5))) struct StoreKeysTests {
    private static let model = company.replacing(
        #"{"entities": {"#,
        with: #"""
            {"entities": {
              "Blob": {"identity": "b", "attributes": {"b": "binary"}},
              "Flag": {"identity": ["on", "n"], "attributes": {"on": "boolean", "n": "double"}},
              "Real": {"identity": "r", "attributes": {"r": {"type": "double", "max": 10}}, "relationships": {
                "next": {"entity": "Real"}}},
            """#)

    @Test(
        arguments: Claim.list(
            #"""
            # keys list the inserted and updated objects, and not the unchanged ones
            {"Department": [{"id": 10}, {"id": 11, "name": "x"}]}
            keys {"Department": [{"id": 3}, {"id": 10, "name": "y"}, {"id": 11, "name": "x"}, {"id": 12}]}
              => {"Department":{"inserted":[3,12],"updated":[10],"deleted":[]}}
            # a compound key is an object, a row without identity is its row key, a text is escaped
            keys {"Seat": {"row": "A", "number": 4}, "Note": [{"text": "x"}, {"text": "y"}], "Item": {"code": "a\"\u0001"}}
              => {"Item":{"inserted":["a\"\u0001"],"updated":[],"deleted":[]},"Note":{"inserted":[1,2],"updated":[],"deleted":[]},"Seat":{"inserted":[{"row":"A","number":4}],"updated":[],"deleted":[]}}
            # objects that changed without being in the payload have their keys, too
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}], "Department": {"id": 10, "employees": [2, 1]}}
            keys {"Employee": {"id": 1, "desk": 51}, "Department": {"id": 10, "employees": null}}
              => {"Department":{"inserted":[],"updated":[],"deleted":[]},"Desk":{"inserted":[],"updated":[51,50],"deleted":[]},"Employee":{"inserted":[],"updated":[1,2],"deleted":[]}}
            # binary keys are base64, booleans are words, and zero has one form
            keys {"Blob": {"b": "AAEP"}, "Flag": [{"on": false, "n": -0.0}, {"on": true, "n": 0}]}
              => {"Blob":{"inserted":["AAEP"],"updated":[],"deleted":[]},"Flag":{"inserted":[{"on":false,"n":0.0},{"on":true,"n":0.0}],"updated":[],"deleted":[]}}
            {"Real": [{"r": 0.0}, {"r": -0.0, "next": -0.0}]} => Real +1
            {"Real": {"r": 0, "next": -0.0}} => Real =1
            # a bare key is held to its attribute's limits
            {"Real": {"r": 1, "next": 11}} => validationFailed /Real/next
            """#))
    func keys(claim: Claim) throws { try claim.check(TestStore(Self.model)) }

    @Test func `an outcome without keys was not asked for them`() throws {
        let outcome = try TestStore(company).outcome(#"{"Desk": {"id": 1}}"#)
        #expect(outcome.keys == nil)
        #expect(
            String(decoding: outcome.members, as: UTF8.self)
                == #""changes":{"Desk":{"inserted":1,"updated":0,"unchanged":0,"deleted":0,"rejected":0}},"#
                + #""rejected":[],"warnings":[]"#)
    }
}

/// Jobs that are tried, and jobs that may delete only so many objects.
@Suite(.timeLimit(.minutes(5))) struct DryRunTests {
    private static let model = """
        {"entities": {
          "Land": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
              "towns": {"entity": "Town", "toMany": true, "inverse": "land", "deleteRule": "cascade"}}},
          "Town": {"identity": "id", "attributes": {"id": "string"}, "relationships": {
              "land": {"entity": "Land", "inverse": "towns"}}},
          "Port": {"parent": "Town", "attributes": {"depth": "integer64"}}, "Note": {"attributes": {"text": "string"}}}}
        """

    private static let sync = #"{"op": "sync", "entity": "Land", "json": [{"id": 1, "name": "b"}, {"id": 30}]}"#

    /// 20 lands with three towns each, one of them a port.
    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(
            payload(
                "Land",
                (1...20).map { #"{"id": \#($0), "name": "a", "towns": [{"id": "a\#($0)"}, {"id": "b\#($0)"}]}"# }))
        try test.apply(payload("Port", (1...20).map { #"{"id": "p\#($0)", "land": \#($0)}"# }))
        return test
    }

    private func rows(_ test: TestStore) throws -> [String] {
        try ["Land", "Town", "Note", "_broker_jobs", "_broker_feed"].flatMap {
            try test.rows("SELECT '\($0)', * FROM \($0) ORDER BY 2")
        }
    }

    private func job(
        _ test: TestStore, _ operations: String, isDryRun: Bool = false, _ limit: DeletionLimit? = nil
    ) throws -> StoreJob {
        try test.job(operations: operations, wantsKeys: false).with(isDryRun: isDryRun, limit)
    }

    @Test(arguments: [sync, #"{"entity": "Note", "json": [{}, {}]}, \#(sync)"#])
    func `a dry run says what the job would do, and leaves nothing`(_ operations: String) throws {
        let test = try store()
        let before = try rows(test)
        let tried = try test.outcome(of: job(test, operations, isDryRun: true)).summary
        #expect(try rows(test) == before)
        #expect(try test.outcome(of: job(test, operations)).summary == tried)
        #expect(tried.contains("Land +1 ~1 -19") && tried.contains("Port -19"))
    }

    @Test func `the examples are ten keys of each entity and change at most, whatever is counted`() throws {
        let test = try store()
        for operations in [Self.sync, "\(Self.sync), \(Self.sync)"] {
            let outcome = try test.outcome(of: job(test, operations, isDryRun: true))
            let text = String(decoding: try #require(outcome.examples), as: UTF8.self)
            #expect(
                text.contains(#""Land":{"inserted":[30],"updated":[1],"deleted":[2,3,4,5,6,7,8,9,10,11]}"#), "\(text)")
            let ports = try #require(text.firstMatch(of: #/"Port":\{"deleted":\[([^\]]*)\]\}/#)?.output.1)
            #expect(ports.split(separator: ",").count == 10)
            #expect(outcome.keys == nil)
        }
    }

    @Test func `a dry run that fails leaves its id free, and one whose id is committed is a duplicate`() throws {
        let test = try TestStore(Self.model)
        func apply(_ payload: String, isDryRun: Bool = true) throws -> JobOutcome {
            try test.apply(test.job(payload, id: "a").with(isDryRun: isDryRun))
        }
        #expect(try apply(#"{"Land": {"id": "x"}}"#).fault != nil)
        #expect(try test.store.outcome(ofJob: "a") == nil)
        #expect(try apply(#"{"Land": {"id": 1}}"#).outcome != nil)
        #expect(try test.store.outcome(ofJob: "a") == nil)
        #expect(try apply(#"{"Land": {"id": 2}}"#, isDryRun: false).outcome != nil)
        #expect(try apply(#"{"Land": {"id": 2}}"#).earlier != nil)
        #expect(try apply(#"{"Land": {"id": 3}}"#).isConflict)
        #expect(try test.rows("SELECT id FROM Land") == ["2"])
    }

    @Test func `a dry run has a position in the journal, and row keys go on as if it had not been`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        let note = #"{"entity": "Note", "json": {}}"#
        try test.apply(job(test, note, isDryRun: true))
        #expect(test.store.history?.position == 1)
        try test.apply(job(test, note))
        #expect(try test.rows("SELECT _pk FROM Note") == ["1"])
        #expect(try test.rows("SELECT sequence FROM _broker_jobs") == ["2"])
    }

    // MARK: - Limits of deletions

    private func fault(_ test: TestStore, _ limit: DeletionLimit, _ operations: String = sync) throws -> String? {
        let fault = try test.apply(job(test, operations, isDryRun: true, limit)).fault
        #expect(fault == nil || fault?.code == .tooManyDeletions)
        return fault?.message
    }

    @Test func `what delete rules delete counts for the limit of all objects`() throws {
        let test = try store()
        #expect(try fault(test, .objects(76)) == nil)
        let message = try #require(try fault(test, .objects(75)))
        #expect(message.contains("19 Land, 19 Port, 38 Town, 76 objects in all, and its `maximumDeletions` is 75"))
        let before = try rows(test).filter { !$0.hasPrefix("_broker") }
        #expect(try test.apply(job(test, Self.sync, .objects(0))).fault != nil)
        #expect(try rows(test).filter { !$0.hasPrefix("_broker") } == before)
        // An object that is deleted and made again is not deleted.
        let again = #"{"op": "delete", "entity": "Port", "objects": ["p1"]}, {"entity": "Port", "json": {"id": "p1"}}"#
        #expect(try fault(test, .objects(0), again) == nil)
    }

    @Test func `a share is of the objects that an entity with its subentities had before the job`() throws {
        let test = try store()
        // 19 of 20 lands, and 57 of 60 towns, ports among them.
        #expect(try fault(test, .share(thousandthsOfPercent: 95_000)) == nil)
        let message = try #require(try fault(test, .share(thousandthsOfPercent: 94_999)))
        #expect(
            message.contains("19 of 20 Land, 57 of 60 Town, and its `maximumDeletions` is 94.999% of"), "\(message)")
        let port = #"{"op": "delete", "entity": "Port", "objects": ["p1", "p2", "p3"]}"#
        #expect(try fault(test, .share(thousandthsOfPercent: 5_000), port) == nil)
        #expect(try fault(test, .share(thousandthsOfPercent: 4_000), port) != nil)
    }

    @Test(arguments: [("57", true), ("56", false), (#""95%""#, true), (#""94.999%""#, false), ("0", false)])
    func `the model limits the deletions of a hierarchy for each job, whatever its sender allows`(
        limit: String, mayDelete: Bool
    ) throws {
        let test = try store()
        let model = Self.model.replacing(#""Town": {"#, with: #""Town": {"maximumDeletions": \#(limit), "#)
        #expect(model != Self.model)
        try test.reopen(model)
        let end = try test.apply(job(test, Self.sync, .objects(1_000)))
        #expect((end.fault == nil) == mayDelete, "\(end)")
        guard !mayDelete else { return }
        let limited = limit.replacing("\"", with: "")
        #expect(
            end.fault?.message.contains("delete 57 of 60 Town, and the model lets a job delete \(limited) (") == true)
        #expect(try test.rows("SELECT count(*) FROM Land") == ["20"])
        #expect(try test.apply(job(test, #"{"entity": "Note", "json": {}}"#)).fault == nil)
    }
}

/// Jobs whose sender may not delete objects (the role `insert`).
@Suite(.timeLimit(.minutes(5))) struct InsertRoleTests {
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "tombstone": "gone == true", "attributes": {
            "id": "integer64", "gone": "boolean", "note": "string"}, "relationships": {
            "lines": {"entity": "Line", "toMany": true, "owned": true}, "stamp": {"entity": "Stamp", "owned": true}}},
          "Line": {"identity": "n", "tombstone": "n == 99", "attributes": {"n": "integer64", "text": "string"}, "relationships": {
            "parts": {"entity": "Part", "toMany": true, "owned": true},
            "photo": {"entity": "Photo", "deleteRule": "cascade", "inverse": "line"}}},
          "Part": {"attributes": {"size": "integer64"}}, "Stamp": {"attributes": {"by": "string"}},
          "Photo": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "line": {"entity": "Line", "inverse": "photo", "missing": "ignore"}}},
          "Animal": {"identity": "id", "abstract": true, "attributes": {"id": "integer64"}},
          "Dog": {"parent": "Animal", "attributes": {"name": "string"}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(
            Self.model,
            having: #"""
                {"Order": [
                  {"id": 1, "note": "a", "stamp": {"by": "x"}, "lines": [{"n": 1, "text": "t", "parts": [{"size": 1}, {"size": 2}]}, {"n": 2}]},
                  {"id": 2, "lines": [{"n": 1, "photo": {"id": 5}}]}], "Dog": {"id": 1, "name": "Rex"}}
                """#)
    }

    /// The code and the message of the fault, or the changes without what is unchanged or rejected.
    ///
    /// - Parameter wantsKeys: without them, deletions may be counted alone.
    private func insert(
        _ operations: String, _ policy: InvalidRecordPolicy = .fail, isDryRun: Bool = false, wantsKeys: Bool = false
    ) throws -> String {
        let job = try store.job(operations: operations, policy, wantsKeys: wantsKeys).with(
            isDryRun: isDryRun, mayDelete: false)
        let end = try store.apply(job)
        if let fault = end.fault { return "\(fault.code.rawValue): \(fault.message)" }
        return try #require(end.outcome).changes.filter { $0.counts.hasChanges }.map {
            "\($0.entity) +\($0.counts.inserted) ~\($0.counts.updated) -\($0.counts.deleted)"
        }.joined(separator: ", ")
    }

    private var rows: [String] {
        get throws {
            try ["\"Order\"", "Line", "Part", "Stamp", "Photo", "Dog"].flatMap {
                try store.rows("SELECT * FROM \($0) ORDER BY 1, 2")
            }
        }
    }

    @Test(arguments: [
        (#"{"op": "delete", "entity": "Line", "objects": [{"parent_id": 1, "n": 1}]}"#, "1 Line, 2 Part"),
        (#"{"op": "delete", "entity": "Line", "where": "n == 2"}"#, "1 Line"),
        (#"{"op": "delete", "entity": "Stamp", "where": "TRUEPREDICATE"}"#, "1 Stamp"),
        (#"{"op": "sync", "entity": "Line", "json": []}"#, "1 Photo, 2 Part, 3 Line"),
        (#"{"op": "delete", "entity": "Order", "objects": [1]}"#, "1 Order"),
        (#"{"op": "delete", "entity": "Order", "objects": [1]}, {"entity": "Order", "json": {"id": 1}}"#, "1 Order"),
        (#"{"entity": "Order", "json": [{"id": 1, "gone": true}, {"id": 1, "note": "a"}]}"#, "1 Order"),
        (#"{"op": "sync", "entity": "Order", "json": [{"id": 1}]}, {"entity": "Order", "json": {"id": 2}}"#, "1 Order"),
        (#"{"op": "delete", "entity": "Dog", "where": "id == 1"}, {"entity": "Dog", "json": {"id": 1}}"#, "1 Dog"),
        (#"{"entity": "Line", "object": {"parent_id": 1, "n": 2}, "json": {"n": 99}}"#, "1 Line"),
        (#"{"entity": "Order", "json": {"id": 2, "lines": []}}"#, "1 Photo"),
        (#"{"entity": "Order", "json": {"id": 2, "lines": []}}, {"entity": "Photo", "json": {"id": 5}}"#, "1 Photo"),
        (
            #"{"entity": "Order", "json": {"id": 1, "note": "b"}}, {"op": "delete", "entity": "Order", "objects": [1]}, {"entity": "Order", "json": {"id": 1}}"#,
            "1 Order"
        ),
    ])
    func `each other deletion is unauthorized, also of what is made again`(operations: String, deleted: String) throws {
        let before = try rows
        for (isDryRun, wantsKeys) in [(true, false), (true, true), (false, false), (false, true)] {
            let answer = try insert(operations, isDryRun: isDryRun, wantsKeys: wantsKeys)
            #expect(answer.hasPrefix("unauthorized: The job would delete "), "\(operations): \(answer)")
            for part in deleted.split(separator: ", ") { #expect(answer.contains(part), "\(operations): \(answer)") }
        }
        #expect(try rows == before)
        // Another sender may.
        #expect(throws: Never.self) { try store.run(operations) }
        #expect(try store.isSound())
    }

    @Test(arguments: [
        #"{"entity": "Order", "json": {"id": 1, "lines": [{"n": 2}]}}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": null, "stamp": null}}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": [{"n": 1, "parts": []}, {"n": 3}]}}"#,
        #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [{"n": 7}]}"#,
        #"{"entity": "Order", "json": [{"id": 1, "lines": []}, {"id": 1, "lines": [{"n": 1}]}]}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": []}}, {"entity": "Order", "json": {"id": 1, "lines": [{"n": 1}]}}"#,
    ])
    func `owned objects go with the value of their owner`(operations: String) throws {
        for (policy, wantsKeys) in [(InvalidRecordPolicy.fail, true), (.skip, false), (.skip, true), (.fail, false)] {
            for isDryRun in [true, false] where isDryRun || policy == .fail && !wantsKeys {
                let answer = try insert(operations, policy, isDryRun: isDryRun, wantsKeys: wantsKeys)
                #expect(!answer.hasPrefix("unauthorized") && !answer.isEmpty, "\(answer)")
            }
        }
        #expect(try store.rows("SELECT count(*) FROM \"Order\"") == ["2"])
        #expect(try store.isSound())
    }

    @Test(arguments: [
        (
            #"{"entity": "Order", "json": {"id": 9}}, {"op": "delete", "entity": "Order", "objects": [9]}, {"entity": "Dog", "json": {"id": 2}}"#,
            "Dog +1 ~0 -0"
        ),
        (#"{"op": "delete", "entity": "Order", "objects": [77]}"#, ""),
        (#"{"op": "sync", "entity": "Order", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}"#, "Order +1 ~0 -0"),
    ])
    func `an object that the job itself made may go`(operations: String, changes: String) throws {
        #expect(try insert(operations) == changes)
    }
}
