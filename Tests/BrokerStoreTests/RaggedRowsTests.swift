import BrokerModel
import TestSupport
import Testing

/// Records that bring different keys are merged by one statement, which must do what each of them says and no more.
@Suite(.timeLimit(.minutes(5))) struct RaggedRowsTests {
    private static let model = """
        {"entities": {
          "Thing": {"identity": "id", "unique": [["code"]], "indexes": [["level"], ["note", "level"]],
            "attributes": {
              "id": "integer64", "name": {"type": "string", "optional": false}, "code": "string",
              "level": {"type": "integer32", "default": 7}, "score": {"type": "double", "optional": false, "default": 0.5},
              "active": "boolean", "note": "string", "price": "decimal", "data": "binary",
              "at": {"type": "date", "storage": "coreData"}},
            "relationships": {"place": {"entity": "Place"}, "owner": {"entity": "Owner"}}},
          "Place": {"identity": ["land", "town"], "attributes": {"land": "string", "town": "integer32", "size": "double"}},
          "Owner": {"attributes": {"name": "string"}}
        }}
        """

    private static let sql = """
        SELECT t.id, t.name, t.code, t.level, t.score, typeof(t.score), t.active, t.note, t.price, hex(t.data), t.at,
            t.place_land, t.place_town, (SELECT name FROM Owner WHERE _pk = t.owner) FROM Thing AS t ORDER BY t.id
        """

    private struct RandomThings {
        var generator: SeededGenerator

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

        /// - Parameter known: of these objects a record may bring anything; a new one needs its name.
        mutating func record(_ id: Int, isKnown: Bool) -> String {
            let values = [
                ("name", ["\"a\"", "\"\""]), ("code", ["\"c\(id)\"", "null"]), ("level", ["1", "7", "null"]),
                ("score", ["0.5", "2", "-0.0"]), ("active", ["true", "false", "null"]),
                ("note", ["\"n\"", "null", "\"\\u00e9\\n\""]), ("price", ["1.50", "1.5", "null"]),
                ("data", ["\"AAA=\"", "\"\"", "null"]), ("at", ["0", "\"2011-12-22T02:24:51Z\"", "null"]),
                ("place", [#"{"land": "x", "town": 1}"#, #"{"land": "y", "town": 2, "size": 1}"#, "null"]),
                ("owner", [#"{"name": "o"}"#, "null"]),
            ]
            var members = ["\"id\": \(id)"]
            for (key, choices) in values where !isKnown && key == "name" || chance(40) {
                members.append("\"\(key)\": \(choices.randomElement(using: &generator)!)")
            }
            return "{\(members.shuffled(using: &generator).joined(separator: ", "))}"
        }
    }

    @Test func `many ragged records in one job become what each of them becomes alone`() throws {
        var random = RandomThings(generator: SeededGenerator(for: "ragged records"))
        for _ in 0..<10 {
            let together = try TestStore(Self.model)
            let alone = try TestStore(Self.model)
            var known = Set<Int>()
            for _ in 0..<6 {
                let ids = (0..<40).shuffled(using: &random.generator).prefix(25)
                let records = ids.map { random.record($0, isKnown: known.contains($0)) }
                known.formUnion(ids)
                let counts = try together.outcome(#"{"Thing": [\#(records.joined(separator: ","))]}"#)
                    .changes.first { $0.entity == "Thing" }!.counts
                var expected = ChangeCounts()
                for record in records {
                    let one = try alone.outcome(#"{"Thing": \#(record)}"#).changes.first { $0.entity == "Thing" }!
                        .counts
                    expected.inserted += one.inserted
                    expected.updated += one.updated
                    expected.unchanged += one.unchanged
                }
                #expect(counts == expected)
                #expect(try together.rows(Self.sql) == alone.rows(Self.sql))
            }
        }
    }

    @Test func `a ragged record that lacks what is required changes an object, and makes none`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"id": 1, "name": "a"}, {"id": 3, "name": "c", "note": "n"}]}"#)
        let fault = try test.fault(#"{"Thing": [{"id": 1, "note": "x"}, {"id": 2, "level": 1}, {"id": 3}]}"#)
        #expect(fault?.code == .missingValue)
        #expect(fault?.path == "/Thing/1")
        #expect(try test.rows("SELECT id, name, note FROM Thing ORDER BY id") == ["1|a|NULL", "3|c|n"])
        let outcome = try test.outcome(#"{"Thing": [{"id": 1, "note": "x"}, {"id": 2, "level": 1}, {"id": 3}]}"#, .skip)
        #expect(outcome.described == ["Thing +0 ~1 =1 !1"])
        #expect(try test.rows("SELECT id, name, note FROM Thing ORDER BY id") == ["1|a|x", "3|c|n"])
    }

    @Test func `a unique attribute that a ragged record lacks does not conflict`() throws {
        let test = try TestStore(
            """
            {"entities": {"T": {"identity": "id", "unique": [["code"]], "attributes": {
              "id": "integer64", "code": {"type": "string", "optional": false}, "n": "integer32"}}}}
            """)
        try test.apply(#"{"T": [{"id": 1, "code": ""}, {"id": 2, "code": "b"}, {"id": 3, "code": "c"}]}"#)
        #expect(
            try test.changes(#"{"T": [{"id": 2, "n": 1}, {"id": 3, "n": 2, "code": "d"}, {"id": 1}]}"#)
                == ["T +0 ~2 =1 !0"])
        #expect(try test.rows("SELECT id, code, n FROM T ORDER BY id") == ["1||NULL", "2|b|1", "3|d|2"])
    }

    @Test func `ragged records may have more columns than a function has arguments`() throws {
        let names = (0..<400).map { "a\($0)" }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let test = try TestStore(
            #"{"entities": {"Wide": {"identity": "id", "attributes": {"id": "integer64", \#(attributes)}}}}"#)
        func job(_ value: Int) -> String {
            let records = names.indices.map { #"{"id": \#($0), "\#(names[$0])": \#(value), "a7": 3}"# }
            return #"{"Wide": [\#(records.joined(separator: ","))]}"#
        }
        #expect(try test.changes(job(1)) == ["Wide +400 ~0 =0 !0"])
        #expect(try test.changes(job(1)) == ["Wide +0 ~0 =400 !0"])
        // That of number 7 is the same key twice, of which the last counts.
        #expect(try test.changes(job(2)) == ["Wide +0 ~399 =1 !0"])
        #expect(try test.rows("SELECT a399, a7, a0 FROM Wide WHERE id = 399") == ["2|3|NULL"])
    }

    @Test func `objects exchange unique values and links also where each record brings other keys`() throws {
        let test = try TestStore(Self.model)
        try test.apply(
            #"{"Thing": [{"id": 1, "name": "a", "code": "x"}, {"id": 2, "name": "b", "code": "y", "place": {"land": "l", "town": 1}}]}"#
        )
        #expect(
            try test.changes(
                #"{"Thing": [{"id": 1, "code": "y", "place": {"land": "l", "town": 1}}, {"id": 2, "code": "x", "place": null, "note": "n"}]}"#
            ) == ["Place +0 ~0 =1 !0", "Thing +0 ~2 =0 !0"])
        #expect(
            try test.rows("SELECT id, code, place_land, place_town, note FROM Thing ORDER BY id")
                == ["1|y|l|1|NULL", "2|x|NULL|NULL|n"])
    }

    @Test func `ragged records of a hierarchy take the defaults of what they become`() throws {
        let test = try TestStore(
            """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
              "Staff": {"parent": "Person", "attributes": {"rank": {"type": "integer32", "default": 3}, "pay": "decimal"}}
            }}
            """)
        try test.apply(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3}]}"#)
        #expect(
            try test.changes(
                #"{"Staff": [{"id": 1, "pay": 5}, {"id": 2, "rank": 9}, {"id": 3}, {"id": 4, "name": "d"}]}"#)
                == ["Staff +1 ~3 =0 !0"])
        #expect(
            try test.rows("SELECT id, _entity, name, rank, pay FROM Person ORDER BY id")
                == ["1|Staff|a|3|5", "2|Staff|b|9|NULL", "3|Staff|NULL|3|NULL", "4|Staff|d|3|NULL"])
        #expect(try test.changes(#"{"Staff": [{"id": 2, "pay": 1}, {"id": 3, "rank": 3}]}"#) == ["Staff +0 ~1 =1 !0"])
        #expect(try test.rows("SELECT rank FROM Person WHERE id = 2") == ["9"])
    }
}
