import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStaging
@testable import BrokerStore

/// The column `_extra`: what the model does not name, and what its attributes cannot hold.
@Suite(.timeLimit(.minutes(5))) struct ExtraTests {
    private static let model = """
        {"entities": {
          "Item": {"identity": "id", "extra": true, "ignore": ["skipped"], "attributes": {
            "id": "integer64", "amount": {"type": "integer64", "max": 100}, "day": {"type": "calendarDate", "key": ["day", "d"]},
            "ratio": "double", "at": "date", "lat": {"type": "double", "key": "geo.lat"},
            "street": {"type": "string", "key": "geo.address.street"},
            "soft": {"type": "integer64", "onInvalid": "skip"},
            "firm": {"type": "integer64", "optional": false, "default": 1}}, "relationships": {
            "owner": {"entity": "Person"}, "next": {"entity": "Item"}}},
          "Person": {"identity": "name", "extra": true, "modified": "age", "tombstone": "gone == true", "attributes": {
            "name": "string", "age": "integer64", "gone": "boolean", "size": "integer64"}},
          "Line": {"extra": true, "attributes": {"text": "string"}},
          "Plain": {"identity": "id", "attributes": {"id": "integer64"}}},
         "mappings": {"item": {"entity": "Item", "attributes": {"number": "id", "sum": "amount"}}}}
        """
    private static let queries = [
        "items": "SELECT id, amount, _extra FROM Item ORDER BY id", "places": "SELECT lat, street, _extra FROM Item",
        "people": "SELECT name, age, size, _extra FROM Person ORDER BY 1", "lines": "SELECT text, _extra FROM Line",
        "extra": "SELECT _extra FROM Item ORDER BY id",
    ]

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    @Test(
        arguments: Claim.list(
            #"""
            # a key that the model does not name is stored under its key, whatever its value is
            warnings {"Item": {"id": 1, "a": 1.50, "b": {"c": [1, "x"]}, "d\"": true}} => extraKey Item.a 1, extraKey Item.b 1, extraKey Item.d" 1
            extra :: {"a":1.50,"b":{"c":[1,"x"]},"d\"":true}
            {"Item": {"id": 1, "a": 1.50}} => Item =1
            {"Item": {"id": 1, "a": 2}} => Item ~1
            extra :: {"a":2,"b":{"c":[1,"x"]},"d\"":true}
            {"Item": {"id": 1, "b": null}} => Item ~1
            {"Item": {"id": 1, "b": null, "amount": 5}} => Item ~1
            {"Item": {"id": 1, "a": null, "d\"": null}} => Item ~1
            items :: 1|5|NULL
            # keys of objects on key paths are stored there
            {"Item": {"id": 1, "geo": {"lat": 1, "alt": 5, "address": {"no": 7}}}}
            places :: 1.0|NULL|{"geo":{"address":{"no":7},"alt":5}}
            {"Item": {"id": 1, "geo": {"alt": null, "address": {"street": "Elm", "no": 8}}}}
            places :: 1.0|Elm|{"geo":{"address":{"no":8}}}
            # keys with dots and empty keys are keys
            {"Item": {"id": 1, "geo": {"address": {"no": null}}, "http.status": 200, "": 0, "@x": 1}}
            extra :: {"":0,"@x":1,"http.status":200}
            # ignored keys are not stored
            {"Item": {"id": 2, "skipped": 1}}
            SELECT _extra FROM Item WHERE id = 2 :: NULL
            # the last of duplicate keys counts
            {"Item": {"id": 2, "z": 1, "z": 2}}
            SELECT _extra FROM Item WHERE id = 2 :: {"z":2}
            """#))
    func `unknown keys`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test(
        arguments: Claim.list(
            #"""
            # a value that the attribute cannot hold is stored under its key, and the attribute is null
            warnings {"Item": {"id": 1, "amount": "a lot"}} => extraValue Item.amount 1
            items :: 1|NULL|{"amount":"a lot"}
            {"Item": {"id": 1, "amount": "a lot"}} => Item =1
            # until it gets one that it holds, or null
            {"Item": {"id": 1, "amount": "a lot"}}
            {"Item": {"id": 1, "day": "2020-01-02"}}
            items :: 1|NULL|{"amount":"a lot"}
            {"Item": {"id": 1, "amount": 7}} => Item ~1
            items :: 1|7|NULL
            {"Item": {"id": 1, "amount": 101}}
            items :: 1|NULL|{"amount":101}
            {"Item": {"id": 1, "amount": null}} => Item ~1
            items :: 1|NULL|NULL
            # with the first of its keys, whichever brought it
            {"Item": {"id": 1, "d": "soon"}}
            items :: 1|NULL|{"day":"soon"}
            {"Item": {"id": 1, "d": "2020-01-03"}}
            items :: 1|NULL|NULL
            # numbers that a double does not hold exactly, and dates with more digits
            {"Item": {"id": 1, "ratio": 9007199254740993, "at": "2020-01-01T00:00:00.123456Z"}}
            SELECT ratio, at, _extra FROM Item :: NULL|NULL|{"at":"2020-01-01T00:00:00.123456Z","ratio":9007199254740993}
            {"Item": {"id": 1, "ratio": 0.1, "at": "2020-01-01T00:00:00.123Z"}}
            SELECT ratio, at, _extra FROM Item :: 0.1|2020-01-01T00:00:00.123Z|NULL
            # texts of numbers whose numbers lack something of them
            {"Item": {"id": 1, "ratio": "00.5", "amount": "007"}}
            items :: 1|NULL|{"amount":"007","ratio":"00.5"}
            {"Item": {"id": 1, "ratio": "0.50", "amount": "+7"}}
            SELECT ratio, amount, _extra FROM Item :: 0.5|NULL|{"amount":"+7"}
            {"Item": {"id": 1, "ratio": "0.1", "amount": " "}}
            {"Item": {"id": 1, "amount": "0"}}
            items :: 1|0|NULL
            # a value in the place of an object on key paths
            warnings {"Item": {"id": 1, "geo": "home"}} => extraValue Item.lat 1, extraValue Item.street 1
            places :: NULL|NULL|{"geo":"home"}
            {"Item": {"id": 1, "geo": {"lat": 4}}}
            places :: 4.0|NULL|NULL
            # an attribute's own policy comes first
            warnings {"Item": {"id": 1, "soft": "x"}} => ignoredValue Item.soft 1
            items :: 1|NULL|NULL
            # identities, and what decides about a record, are never stored there; nor required values
            {"Item": {"id": "x"}} => invalidValue /Item/id
            {"Item": {"id": "001"}} => invalidValue /Item/id
            {"Item": {"id": 1, "next": "02"}} => invalidValue /Item/next
            {"Item": {"id": 1, "firm": "x"}} => invalidValue /Item/firm
            {"Item": {"id": 1, "firm": "07"}} => invalidValue /Item/firm
            {"Person": {"name": "Ann", "age": "old"}} => invalidValue /Person/age
            {"Person": {"name": "Ann", "gone": "perhaps"}} => invalidValue /Person/gone
            {"Item": {"id": 1, "owner": ["x"]}} => invalidValue /Item/owner
            """#))
    func `values that do not fit`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test(
        arguments: Claim.list(
            #"""
            # several records of one object take effect in their order
            {"Item": [{"id": 1, "amount": "x", "a": 1}, {"id": 1, "amount": 3}, {"id": 2}, {"id": 2, "b": 1}, {"id": 2, "b": 2}]}
            items :: 1|3|{"a":1}, 2|NULL|{"b":2}
            {"Item": [{"id": 1, "amount": 4}, {"id": 1, "amount": "y"}]}
            items :: 1|NULL|{"a":1,"amount":"y"}, 2|NULL|{"b":2}
            # equal values, too
            {"Item": [{"id": 1, "c": 5}, {"id": 1, "c": 5}, {"id": 2, "b": null, "c": 1}, {"id": 2, "c": null}]}
            items :: 1|NULL|{"c":5}, 2|NULL|NULL
            # in several collections and operations
            {"Item": [{"id": 1, "owner": {"name": "Ann", "size": "x", "a": 1}}], "Person": [{"name": "Ann", "size": 2}]}
            people :: Ann|NULL|2|{"a":1}
            # nested records have their own
            {"Item": {"id": 1, "owner": {"name": "Ann", "size": "M", "pet": "cat"}}}
            people :: Ann|NULL|NULL|{"pet":"cat","size":"M"}
            # a record that is not newer changes nothing there
            {"Person": {"name": "Ann", "pet": "cat"}}
            {"Person": {"name": "Ann", "age": 5, "size": 3}}
            {"Person": {"name": "Ann", "age": 5, "pet": "dog", "size": "L"}} => Person =1
            people :: Ann|5|3|{"pet":"cat"}
            {"Person": {"name": "Ann", "gone": true, "age": 6}}
            people ::
            # records without identity
            {"Line": [{"text": "a", "n": 1}, {"text": "b"}, {"text": [1], "n": 2}]}
            lines :: a|{"n":1}, b|NULL, NULL|{"n":2,"text":[1]}
            # also those of which the model names no key
            {"Line": {"n": 3}}
            lines :: NULL|{"n":3}
            {"Item": {"b": 1}} => missingIdentity /Item
            # what a fetch prints is read again
            {"Item": {"id": 3, "_extra": {"a": 1, "amount": "x"}, "amount": null}}
            SELECT amount, _extra FROM Item WHERE id = 3 :: NULL|{"a":1,"amount":"x"}
            {"Item": {"id": 3, "_extra": "{\"b\": 2}"}}
            SELECT amount, _extra FROM Item WHERE id = 3 :: NULL|{"a":1,"amount":"x","b":2}
            {"Item": {"id": 3, "b": null, "_extra": null}}
            {"Item": {"id": 3, "_extra": 7}}
            SELECT amount, _extra FROM Item WHERE id = 3 :: NULL|{"_extra":7,"a":1,"amount":"x"}
            """#))
    func `several records`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test(arguments: [false, true])
    func `an object has 2,000 extra values, and no record adds more`(interprets: Bool) throws {
        var options = StoreOptions()
        options.interpretsAll = interprets
        let store = try TestStore(Self.model, options: options)
        let keys = { (range: Range<Int>) in range.map { #""k\#($0)": 1"# }.joined(separator: ", ") }
        #expect(try store.fault(#"{"Item": {"id": 1, \#(keys(0..<2_001))}}"#)?.code == .validationFailed)
        #expect(try store.changes(#"{"Item": {"id": 1, \#(keys(0..<2_000))}}"#) == "Item +1")
        let fault = try #require(try store.fault(#"{"Item": {"id": 1, "more": 1}}"#))
        #expect(fault.code == .constraintViolation && fault.message.contains("fewer keys"), "\(fault)")
        #expect(try store.changes(#"{"Item": {"id": 1, "k7": 2, "amount": 3}}"#) == "Item ~1")
        let skipped = try store.outcome(#"{"Item": [{"id": 1, "more": 1}, {"id": 2, "more": 1}]}"#, .skip)
        #expect(skipped.rejections.count == 1)
        #expect(try store.rows("SELECT id, amount FROM Item ORDER BY id") == ["1|3", "2|NULL"])
    }

    @Test func `a changed model takes the values that its attributes can hold, and leaves the others`() throws {
        let model = { (attributes: String) in
            #"""
            {"entities": {
              "Item": {"identity": "id", "extra": true, "attributes": {"id": "integer64", "n": "integer16"\#(attributes)}},
              "Line": {"extra": true, "attributes": {"text": "string"\#(attributes)}}, "Animal": {"extra": true, "attributes": {"a": "string"}},
              "Dog": {"parent": "Animal", "attributes": {"b": "string"\#(attributes)}}}}
            """#
        }
        let store = try TestStore(model(""))
        try store.apply(
            """
            {"Item": [{"id": 1, "tag": 5, "n": 70000, "geo": {"lat": 1.5, "x": 1}}, {"id": 2, "tag": "five"}, {"id": 3}],
             "Line": [{"text": "a", "tag": 1}, {"text": "b", "rest": 2}], "Dog": {"a": "d", "tag": 3}, "Animal": {"a": "e", "tag": 4}}
            """)
        let added = #", "tag": "integer64", "lat": {"type": "double", "key": "geo.lat"}"#
        try store.reopen(model(added).replacing("integer16", with: "integer64"))
        #expect(
            try store.rows("SELECT id, n, tag, lat, _extra FROM Item ORDER BY 1") == [
                #"1|70000|5|1.5|{"geo":{"x":1}}"#, #"2|NULL|NULL|NULL|{"tag":"five"}"#, "3|NULL|NULL|NULL|NULL",
            ])
        #expect(try store.rows("SELECT text, tag, _extra FROM Line ORDER BY 1") == ["a|1|NULL", #"b|NULL|{"rest":2}"#])
        #expect(try store.rows("SELECT a, tag, _extra FROM Animal ORDER BY 1") == ["d|3|NULL", #"e|NULL|{"tag":4}"#])
        #expect(
            store.store.migration.notes.contains("Item.tag took 1 value from _extra."), "\(store.store.migration.notes)"
        )
        try store.reopen(model(added.replacing("integer64", with: "string")).replacing("integer16", with: "integer64"))
        #expect(try store.rows("SELECT id, tag FROM Item WHERE _extra IS NULL ORDER BY 1") == ["2|five", "3|NULL"])
        // A value that another object has stays, too.
        let unique = try TestStore(
            model("").replacing(#""Item": {"identity""#, with: #""Item": {"unique": [["n"]], "identity""#))
        try unique.apply(#"{"Item": [{"id": 1, "tag": 5}, {"id": 2, "tag": 5}, {"id": 3, "tag": 6}]}"#)
        try unique.reopen(
            model(#", "tag": {"type": "integer64", "unique": true}"#).replacing(
                #""Item": {"identity""#, with: #""Item": {"unique": [["n"]], "identity""#))
        #expect(
            try unique.rows("SELECT id, tag, _extra FROM Item ORDER BY 1") == [
                "1|5|NULL", #"2|NULL|{"tag":5}"#, "3|6|NULL",
            ])
        // Without the column its values would be lost.
        let refusal = try store.refusal(model("").replacing(#""extra": true, "#, with: ""))
        #expect(refusal?.contains("_extra") ?? false, "\(refusal ?? "none")")
    }

    @Test func `sets, batches and the interpreter store the same, and what is sent last is in a column or in _extra`()
        throws
    {
        var options = StoreOptions()
        options.synchronous = .off
        let (sets, batches) = (try TestStore(Self.model, options: options), try TestStore(Self.model, options: options))
        options.interpretsAll = true
        let interpreter = try TestStore(Self.model, options: options)
        var random = RandomItems(generator: SeededGenerator(for: "extra values"))
        var last: [Int: [String: String]] = [:]
        for _ in 0..<Cases.count(60, of: 600) {
            let jobs = (0..<3).map { _ in random.job() }
            for (_, records) in jobs {
                for record in records { last[record.id, default: [:]].merge(record.values) { $1 } }
            }
            for (text, _) in jobs {
                _ = try sets.apply(text)
                _ = try interpreter.apply(text)
            }
            if try batches.applyBatch(jobs.map { try batches.job($0.text) }) == nil {
                for (text, _) in jobs { _ = try batches.apply(text) }
            }
            let rows = try [sets, batches, interpreter].map { try $0.rows("SELECT * FROM Item ORDER BY id") }
            #expect(rows[0] == rows[2] && rows[1] == rows[2], "\(jobs.map(\.text))")
            for (id, values) in last {
                for (key, value) in values {
                    let path = "$.\"\(key)\""
                    let found = try sets.rows(
                        RandomItems.columns.contains(key)
                            ? "SELECT coalesce(\(key), _extra -> '\(path)') FROM Item WHERE id = \(id)"
                            : "SELECT _extra -> '\(path)' FROM Item WHERE id = \(id)")
                    #expect(found == [value == "null" ? "NULL" : value], "\(id).\(key): \(jobs.map(\.text))")
                }
            }
        }
    }

    /// Records of Item.
    private struct RandomItems {
        static let columns = ["amount", "ratio"]
        private static let keys = ["amount", "ratio", "a", "b.c", "e"]
        private static let values = ["1", "7", "2.5", "\"x\"", "null", "true", "9007199254740993", "[1,{}]"]
        /// The columns' forms of values.
        private static let shown = [
            "amount": ["true": "1"], "ratio": ["1": "1.0", "7": "7.0", "true": "1.0"],
        ]

        var generator: SeededGenerator

        mutating func job() -> (text: String, records: [(id: Int, values: [String: String])]) {
            var records: [(id: Int, values: [String: String])] = []
            let text = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                let id = Int.random(in: 1...5, using: &generator)
                var (members, values): ([String], [String: String]) = (["\"id\":\(id)"], [:])
                for key in Self.keys where Bool.random(using: &generator) {
                    let value = Self.values.randomElement(using: &generator)!
                    members.append("\"\(key)\":\(value)")
                    values[key] = Self.shown[key]?[value] ?? value
                }
                records.append((id, values))
                return "{\(members.joined(separator: ","))}"
            }
            return ("{\"Item\": [\(text.joined(separator: ","))]}", records)
        }
    }
}
