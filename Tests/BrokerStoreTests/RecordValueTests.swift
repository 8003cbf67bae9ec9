import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStaging
@testable import BrokerStore

/// Values in the place of the objects that key paths lead through.
@Suite(.timeLimit(.minutes(5))) struct KeyPathValueTests {
    private static let model = """
        {"entities": {
          "Place": {"identity": "id", "modified": "at", "tombstone": "isGone == true", "ignore": ["raw"], "attributes": {
            "id": {"type": "integer64", "key": ["id", "meta.id"]}, "at": {"type": "integer64", "key": "meta.at"},
            "isGone": {"type": "boolean", "key": "meta.gone"},
            "lat": {"type": "double", "key": "geo.lat"}, "street": {"type": "string", "key": "geo.address.street"},
            "loose": {"type": "double", "key": "soft.value", "onInvalid": "skip"},
            "empty": {"type": "double", "key": "soft.other", "onInvalid": "null"},
            "author": {"type": "string", "key": ["author.name", "author"]}, "part": {"type": "string", "key": "raw.part"},
            "firm": {"type": "string", "key": "firm.name", "optional": false, "default": "x"}}, "relationships": {
            "owner": {"entity": "Person", "key": "links.owner"},
            "tags": {"entity": "Tag", "toMany": true, "key": "links.more.tags"}}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}}},
         "mappings": {"place": {"entity": "Place", "attributes": {"at.lat": "lat"}}}}
        """
    private static let whole = """
        {"Place": {"id": 1, "geo": {"lat": 1.5, "address": {"street": "Elm"}}, "soft": {"value": 2, "other": 3},
         "links": {"owner": 7, "more": {"tags": [1, 2]}}, "author": {"name": "Ann"}}}
        """
    private static let queries = [
        "values": "SELECT lat, street, owner FROM Place", "soft": "SELECT loose, empty FROM Place",
        "authors": "SELECT author FROM Place", "ages": "SELECT lat, at FROM Place",
        "tags": "SELECT destination FROM Place_tags ORDER BY 1",
    ]

    private let store: TestStore

    init() throws { store = try TestStore(Self.model, having: Self.whole) }

    @Test(
        arguments: Claim.list(
            #"""
            # null in the place of an object clears what lies below it, at any depth
            values :: 1.5|Elm|7
            {"Place": {"id": 1, "geo": {"address": null}}}
            values :: 1.5|NULL|7
            {"Place": {"id": 1, "geo": null, "links": null}}
            values :: NULL|NULL|NULL
            tags ::
            {"Place": {"id": 1, "firm": null}} => missingValue /Place/firm
            # an empty object, and a missing one, change nothing
            {"Place": {"id": 1, "geo": {}, "links": {"more": {}}, "soft": {}}} => Place =1
            {"Place": {"id": 1}} => Place =1
            values :: 1.5|Elm|7
            soft :: 2.0|3.0
            tags :: 1, 2
            # the attribute's own policy decides about a value that is no object
            warnings {"Place": {"id": 1, "soft": 7}} => ignoredValue Place.loose 1, ignoredValue Place.empty 1
            soft :: 2.0|NULL
            # a value at a key where a path ends is read by that path
            {"Place": {"id": 1, "author": "Bob"}}
            authors :: Bob
            {"Place": {"id": 1, "author": {"name": "Cid"}, "raw": [1, 2]}}
            authors :: Cid
            {"Place": {"id": 1, "author": null}}
            authors :: NULL
            # ages and tombstones at the end of a path follow the same rule, and other faults of a tombstone do not count
            {"Place": {"id": 1, "meta": {"at": 5}, "geo": {"lat": 2}}}
            {"Place": {"id": 1, "meta": {"at": 4}, "geo": {"lat": 3}}}
            ages :: 2.0|5
            {"Place": {"id": 1, "meta": null, "geo": {"lat": 3}}}
            ages :: 3.0|NULL
            {"Place": {"id": 1, "meta": "gone"}} => invalidValue /Place/meta
            {"Place": {"id": 1, "meta": {"gone": true}, "geo": "x", "links": 9}}
            ages ::
            SELECT id FROM Person :: 7
            # the last of duplicate keys counts
            {"Place": {"id": 1, "geo": {"lat": 9}, "geo": null}}
            ages :: NULL|NULL
            {"Place": {"id": 1, "geo": "x", "geo": {"lat": 8}}}
            ages :: 8.0|NULL
            {"Place": {"id": 1, "geo": {"lat": 8}, "geo": []}} => invalidValue /Place/geo
            """#))
    func `values at key paths`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test(arguments: ["[]", "\"x\"", "\"\"", "0", "5", "true", "false", "[{\"lat\": 9}]", "[{\"address\": {}}]"])
    func `any other value there is invalid, wherever the path goes on`(value: String) throws {
        for (record, path, attribute) in [
            (#"{"id": 1, "geo": \#(value)}"#, "/geo", "lat"), (#"{"id": 1, "links": \#(value)}"#, "/links", nil),
            (#"{"id": 1, "geo": {"address": \#(value)}}"#, "/geo/address", "street"),
            (#"{"id": 1, "links": {"more": \#(value), "owner": 1}}"#, "/links/more", nil),
            (#"{"geo": {"lat": 1}, "meta": \#(value)}"#, "/meta", "id"),
        ] {
            let fault = try #require(try store.fault(#"{"Place": \#(record)}"#))
            #expect(fault.code == .invalidValue && fault.path == "/Place" + path, "\(record): \(fault)")
            #expect(fault.attribute == attribute, "\(record): \(fault)")
        }
        let outcome = try store.outcome(#"{"Place": [{"id": 1, "geo": \#(value)}, {"id": 2}]}"#, .skip)
        #expect(outcome.rejections == ["invalidValue /Place/0/geo"])
        #expect(try store.rows(Self.queries["values"]! + " WHERE id = 1") == ["1.5|Elm|7"])
        #expect(try store.rows("SELECT count(*) FROM Person") == ["1"], "no object of a key that is none")
    }
}

/// Values by which servers say that a relationship leads to no object.
@Suite(.timeLimit(.minutes(5))) struct NoneValueTests {
    private static func model(_ none: String = #", "none": ["", 0, false, []]"#) -> String {
        """
        {"entities": {
          "Invoice": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "partner": {"entity": "Partner", "key": ["partner", "partner_id"]\(none)},
            "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"\(none)},
            "lines": {"entity": "Line", "toMany": true, "owned": true\(none)}}},
          "Partner": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "name", "attributes": {"name": "string"}},
          "Flag": {"identity": "isSet", "attributes": {"isSet": "boolean"}, "relationships": {"other": {"entity": "Flag"}}},
          "Line": {"identity": "n", "attributes": {"n": "integer64"}}}}
        """
    }

    private static let whole =
        #"{"Invoice": {"id": 1, "partner": 7, "tags": ["a", "b"], "lines": [{"n": 1}, {"n": 2}]}}"#

    private func counts(_ store: TestStore) throws -> String {
        try store.rows(
            "SELECT (SELECT ifnull(partner, '-') FROM Invoice), (SELECT count(*) FROM Partner), "
                + "(SELECT count(*) FROM Invoice_tags), (SELECT count(*) FROM Tag), (SELECT count(*) FROM Line)")[0]
    }

    @Test(arguments: ["\"\"", "0", "0.0", "-0", "false", "[]", "null"])
    func `a listed value is read as null, by each kind of relationship`(value: String) throws {
        let store = try TestStore(Self.model(), having: Self.whole)
        #expect(try counts(store) == "7|1|2|2|2")
        try store.apply(#"{"Invoice": {"id": 1, "partner": \#(value), "tags": \#(value), "lines": \#(value)}}"#)
        #expect(try counts(store) == "-|1|0|2|0", "no link, no phantom")
        #expect(try store.isSound())
    }

    @Test func `a listed element is none of the set, and another path is asked`() throws {
        let store = try TestStore(Self.model(), having: Self.whole)
        try store.apply(#"{"Invoice": {"id": 1, "partner": false, "partner_id": 8, "tags": ["", "b", 0, false, []]}}"#)
        #expect(try counts(store) == "8|2|1|2|2")
        #expect(try store.fault(#"{"Invoice": {"id": 1, "tags": ["a", null]}}"#)?.path == "/Invoice/tags/1")
        let relate = #"{"op": "relate", "entity": "Invoice", "object": 1, "relationship": "partner", "json": false}"#
        #expect(try store.run(relate) == "Invoice ~1")
        #expect(try counts(store) == "-|2|1|2|2")
    }

    @Test(arguments: ["false", "true"])
    func `a bare key true or false is invalid, unless the identity is a boolean`(value: String) throws {
        let store = try TestStore(Self.model(""))
        for operation in [
            #"{"entity": "Invoice", "json": {"id": 1, "partner": \#(value)}}"#,
            #"{"entity": "Invoice", "json": {"id": 1, "tags": [\#(value)]}}"#,
            #"{"op": "delete", "entity": "Partner", "objects": [\#(value)]}"#,
            #"{"entity": "Partner", "object": \#(value), "json": {}}"#,
        ] {
            let fault = #expect(throws: Fault.self) { try store.run(operation) }
            #expect(fault?.code == .invalidValue, "\(operation)")
        }
        #expect(throws: Fault.self) { try store.fetch("Partner", object: value) }
        #expect(try store.rows("SELECT (SELECT count(*) FROM Partner) + (SELECT count(*) FROM Tag)") == ["0"])
        #expect(
            try store.changes(#"{"Flag": {"isSet": true, "other": \#(value)}}"#)
                == (value == "true" ? "Flag +1" : "Flag +2"))
    }

    @Test func `without a list, other values are keys as before`() throws {
        let store = try TestStore(Self.model(""), having: #"{"Invoice": {"id": 1, "partner": 0, "tags": [""]}}"#)
        #expect(try counts(store) == "0|1|1|1|0")
        #expect(try store.fault(#"{"Invoice": {"id": 1, "partner": []}}"#)?.code == .invalidValue)
    }

    @Test func `the model says what may be listed, and is written with it`() throws {
        for (none, part) in [
            ("[null]", "a text, a whole number"), ("[0.5]", "a whole number"), ("[[1]]", "an empty array"),
            ("[{}]", "an empty array"), ("[]", "the array is empty"), ("0", "an array of values"),
            ("[\((0..<17).map(String.init).joined(separator: ","))]", "16 are the most"),
        ] {
            let error = #expect(throws: ModelError.self, "\(none)") {
                try stagingPlan(Self.model(#", "none": \#(none)"#))
            }
            #expect(error?.description.contains(part) == true, "\(none): \(error?.description ?? "")")
        }
        // Written and read again.
        var writer = JSONWriter()
        try stagingPlan(Self.model()).model.write(to: &writer)
        let again = try ModelReader.read(JSONText(copying: writer.bytes))
        let partner = again.entities.first { $0.name == "Invoice" }?.relationships.first { $0.name == "partner" }
        #expect(partner?.none.map(\.text) == [#""""#, "0", "false", "[]"])
    }
}

/// Ignored values and keys are counted: values that are not valid, and bare keys that name nothing.
@Suite(.timeLimit(.minutes(5))) struct IgnoredValueTests {
    private static let model = """
        {"entities": {
          "Item": {"identity": "id", "modified": "version", "attributes": {
            "id": "integer64", "version": "integer64", "size": {"type": "integer16", "onInvalid": "skip"},
            "word": {"type": "string", "maxLength": 3, "onInvalid": "null"}, "strict": "integer16"}, "relationships": {
              "shelf": {"entity": "Shelf", "missing": "ignore"},
              "tags": {"entity": "Tag", "toMany": true, "missing": "ignore"}, "parts": {"entity": "Item", "toMany": true}}},
          "Shelf": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
          "Base": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "friend": {"entity": "Special", "missing": "ignore"}}},
          "Special": {"parent": "Base", "attributes": {"extra": "string"}}}}
        """

    @Test(
        arguments: Claim.list(
            #"""
            # values that onInvalid ignores or makes null are counted by attribute
            warnings {"Item": [{"id": 1, "size": 99999, "word": "long"}, {"id": 2, "size": "x", "word": "ok", "parts": [{"id": 3, "size": []}]}]}
              => ignoredValue Item.size 3, ignoredValue Item.word 1
            warnings {"Item": [{"id": 1, "size": 5, "word": null}]} => none
            # a record that is rejected or not newer counts nothing
            skip warnings {"Item": {"id": 1, "size": "x", "strict": "y"}} => none
            {"Item": {"id": 1, "version": 5}}
            warnings {"Item": {"id": 1, "version": 4, "size": "x"}} => none
            # bare keys that name no object are counted by relationship, and an object that the job makes exists
            {"Shelf": {"id": 1}}
            warnings {"Item": [{"id": 1, "shelf": 1, "tags": [1, 2, 2]}, {"id": 2, "shelf": 9}, {"id": 3, "shelf": 9, "tags": [{"id": 7}, 7]}]}
              => ignoredKey Item.shelf 2, ignoredKey Item.tags 3
            SELECT count(*) FROM Item_tags :: 1
            warnings {"Item": {"id": 4, "shelf": 8}, "Shelf": {"id": 8}} => none
            warnings {"Item": {"id": 5, "shelf": 8}} => none
            # in a hierarchy a key of another entity is counted, too
            {"Base": {"id": 1}, "Special": {"id": 2}}
            warnings {"Base": [{"id": 3, "friend": 1}, {"id": 4, "friend": 2}]} => ignoredKey Base.friend 1
            """#))
    func warnings(claim: Claim) throws { try claim.check(TestStore(Self.model)) }
}

/// Attributes without a key (`"key": []`): no record has a value, and all other rules apply.
@Suite(.timeLimit(.minutes(5))) struct KeylessTests {
    private static let model = """
        {"entities": {
          "Note": {"identity": "id", "attributes": {
              "id": "integer64", "text": "string", "secret": {"type": "string", "key": []},
              "state": {"type": "string", "key": [], "optional": false, "default": "new"}},
            "relationships": {"book": {"entity": "Book", "inverse": "notes", "key": []}, "twin": {"entity": "Note", "key": []}}},
          "Book": {"identity": "code", "attributes": {"code": {"type": "string", "key": []}, "name": "string"},
            "relationships": {"notes": {"entity": "Note", "toMany": true, "inverse": "book"}}},
          "Strict": {"identity": "id", "attributes": {"id": "integer64", "must": {"type": "string", "key": [], "optional": false}}},
          "Pair": {"identity": ["a", "b"], "attributes": {"a": "string", "b": {"type": "string", "key": []}}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(
            Self.model, having: #"{"Book": [{"id": "x", "name": "X", "notes": [{"id": 1, "text": "one"}]}]}"#)
    }

    @Test func `a record does not bring it, by its name either, and the inverse fills a relationship`() throws {
        let outcome = try store.outcome(
            #"{"Note": [{"id": 1, "secret": "s", "state": "old", "book": "y", "twin": 7}, {"id": 2}]}"#)
        #expect(outcome.warnings.map { $0.key ?? "" }.sorted() == ["book", "secret", "state", "twin"])
        let rows = try store.rows("SELECT id, text, secret, state, book, twin FROM Note ORDER BY 1")
        #expect(rows == ["1|one|NULL|new|x|NULL", "2|NULL|NULL|new|NULL|NULL"])
        #expect(try store.rows("SELECT code, name FROM Book") == ["x|X"], "the key id is that of a single identity")
        #expect(try store.isSound())
    }

    @Test func `a required attribute with neither key nor default is missing`() throws {
        #expect(try store.fault(#"{"Strict": [{"id": 1, "must": "x"}]}"#)?.code == .missingValue)
        let pair = try store.fault(#"{"Pair": [{"a": "x", "b": "y"}]}"#)
        #expect(pair?.code == .missingIdentity)
        #expect(pair?.message.contains("its identity b (to which the model gives no key)") == true)
    }

    @Test func `a fetch with remote names omits it, unless it is requested`() throws {
        #expect(try store.fetch("Note") == #"[{"id":1,"text":"one"}]"#)
        let included = try store.fetch("Note") { $0.include = ["book", "twin"] }
        #expect(included == #"[{"id":1,"text":"one","book":{"id":"x","name":"X"},"twin":null}]"#)
        let local = try store.fetch("Note") { $0.names = .local }
        #expect(local == #"[{"id":1,"text":"one","secret":null,"state":"new","book":"x","twin":null}]"#)
    }
}

/// The digits of dates: what is stored, printed, compared and counted.
@Suite(.timeLimit(.minutes(5))) struct DatePrecisionTests {
    private static func model(_ at: String, more: String = "") -> String {
        #"{"entities": {"Item": {"identity": "id"\#(more), "attributes": {"id": "integer64", "at": {"type": "date"\#(at)}, "note": "string"}}}}"#
    }
    private static func precision(_ digits: Int) -> String { ", \"precision\": \(digits)" }

    private func item(_ at: String, id: Int = 1, note: String = "n") -> String {
        #"{"Item": {"id": \#(id), "at": \#(at), "note": "\#(note)"}}"#
    }

    @Test(arguments: [
        (0, "2020-01-02T03:04:05Z", 1), (3, "2020-01-02T03:04:05.678Z", 1), (6, "2020-01-02T03:04:05.678901Z", 1),
        (9, "2020-01-02T03:04:05.678901234Z", 0),
    ])
    func `a date is stored and printed with its precision, and lost digits are counted`(
        digits: Int, stored: String, inexact: Int
    ) throws {
        let store = try TestStore(Self.model(Self.precision(digits)))
        for sent in [
            "\"2020-01-02T03:04:05.678901234Z\"", "\"2020-01-02 04:04:05,678901234+01:00\"", "1577934245.678901234",
        ] {
            let outcome = try store.outcome(item(sent))
            #expect(outcome.warnings == (inexact == 0 ? [] : [Warning(.inexact, entity: "Item", key: "at", count: 1)]))
            #expect(try store.rows("SELECT at FROM Item") == [stored])
        }
        #expect(try store.fetch("Item") == #"[{"id":1,"at":"\#(stored)","note":"n"}]"#)
        let again = try store.outcome(item("\"\(stored)\""))
        #expect(again.summary == "Item =1" && again.warnings == [])
        // More digits than any precision has, and before 1970.
        #expect(try store.outcome(item("\"2020-01-02T03:04:05.6789012345Z\"")).warnings.count == 1)
        #expect(try store.outcome(item("-0.0000000001")).warnings.count == 1)
        #expect(try store.outcome(item("\"2020-01-02T03:04:05.00000000000Z\"")).warnings == [])
        #expect(try store.outcome(item("1577934245")).warnings == [])
        #expect(try store.outcome(item("1.577934245e9")).warnings == [])
    }

    @Test func `other forms of storage count lost digits, too`() throws {
        let unix = try TestStore(Self.model(#", "storage": "unix", "format": "UnixTime""#))
        #expect(try unix.outcome(item("\"2020-01-02T03:04:05.001Z\"")).warnings.count == 1)
        #expect(try unix.outcome(item("1577934245001")).warnings.count == 1)
        #expect(try unix.outcome(item("1577934245000")).warnings == [])
        #expect(try unix.rows("SELECT at FROM Item") == ["1577934245"])
        let core = try TestStore(Self.model(#", "storage": "coreData""#))
        for (sent, count) in [("05.123456Z", 0), ("05.1Z", 0), ("05Z", 0), ("05.123456789Z", 1)] {
            let outcome = try core.outcome(item("\"2020-01-02T03:04:\(sent)\""))
            #expect(outcome.warnings.count == count, "\(sent)")
        }
        try core.apply(item("\"2020-01-02T03:04:05.123456Z\""))
        #expect(try core.fetch("Item").contains(#""2020-01-02T03:04:05.123456Z""#))
    }

    @Test(arguments: [
        "", ", \"precision\": 6", ", \"precision\": 9", ", \"precision\": 0", ", \"storage\": \"unix\"",
        ", \"storage\": \"coreData\"",
    ])
    func `a record is newer by each digit that was sent`(form: String) throws {
        let store = try TestStore(Self.model(form, more: #", "modified": "at""#))
        func note() throws -> [String] { try store.rows("SELECT note FROM Item") }
        // Beside the store, in jobs of their own.
        try store.apply(item("\"2020-01-02T03:04:05.0012Z\"", note: "a"))
        try store.apply(item("\"2020-01-02T03:04:05.0015Z\"", note: "b"))
        #expect(try note() == ["b"])
        try store.apply(item("\"2020-01-02T03:04:04.9999Z\"", note: "old"))
        #expect(try note() == ["b"])
        // In one job the records are compared with all their digits.
        let records = ["0.0019", "0.0017", "0.00171", "0.0018999"].enumerated().map { number, time in
            #"{"id": 2, "at": "2020-01-02T03:04:0\#(time)Z", "note": "\#(number)"}"#
        }
        try store.apply("{\"Item\": [\(records.joined(separator: ", "))]}")
        #expect(try store.rows("SELECT note FROM Item WHERE id = 2") == ["0"])
        try store.apply("{\"Item\": [\(records.reversed().joined(separator: ", "))]}")
        #expect(try store.rows("SELECT note FROM Item WHERE id = 2") == ["0"])
    }

    @Test
    func `with enough digits an older record within a millisecond is ignored, and a repeated one changes nothing`()
        throws
    {
        let store = try TestStore(
            Self.model(Self.precision(6), more: #", "modified": "at", "tombstone": "note == 'gone'""#))
        try store.apply(item("\"2020-01-02T03:04:05.0015Z\"", note: "b"))
        for time in ["0014", "001499999", "0015", "0015000"] {
            let outcome = try store.outcome(item("\"2020-01-02T03:04:05.\(time)Z\"", note: "x"))
            #expect(outcome.summary == "Item =1", "\(time)")
        }
        try store.apply(item("\"2020-01-02T03:04:05.0013Z\"", note: "gone"))
        #expect(try store.rows("SELECT note FROM Item") == ["b"])
        try store.apply(item("\"2020-01-02T03:04:05.001500001Z\"", note: "c"))
        #expect(try store.rows("SELECT note, at FROM Item") == ["c|2020-01-02T03:04:05.001500Z"])
        try store.apply(item("\"2020-01-02T03:04:05.0016Z\"", note: "gone"))
        #expect(try store.rows("SELECT note FROM Item") == [])
    }

    @Test func `predicates, keys and pages agree with what is stored`() throws {
        let model =
            #"{"entities": {"Tick": {"identity": "at", "attributes": {"at": {"type": "date", "precision": 6}, "until": "date"}, "relationships": {"next": {"entity": "Tick"}}}}}"#
        let store = try TestStore(model)
        let times = ["000001", "000002", "0000029", "5", ""].map { "2020-01-02T03:04:05\($0.isEmpty ? "" : ".\($0)")Z" }
        let outcome = try store.outcome("{\"Tick\": [\(times.map { #"{"at": "\#($0)"}"# }.joined(separator: ", "))]}")
        #expect(outcome.summary == "Tick +4", "two differ in what is cut off")
        func fetched(_ predicate: String) throws -> String {
            try store.fetch("Tick") { ($0.predicate, $0.select, $0.result) = (predicate, ["at"], .count) }
        }
        for (predicate, count) in [
            ("at == '2020-01-02T03:04:05.000002Z'", 1), ("at == '2020-01-02T03:04:05.0000029Z'", 1),
            ("at > '2020-01-02T03:04:05.000001Z'", 2), ("at < '2020-01-02T03:04:05.000002Z'", 2),
            ("at IN {'2020-01-02T03:04:05Z'}", 1),
        ] { #expect(try fetched(predicate).contains("\(count)"), "\(predicate)") }
        #expect(throws: Fault.self) { try fetched("at == until") }
        #expect(try store.fetch("Tick", object: "\"2020-01-02T03:04:05.5Z\"").contains("05.500000Z"))
        try store.apply(#"{"Tick": {"at": "2020-01-02T03:04:05.5Z", "next": "2020-01-02T03:04:05.000001Z"}}"#)
        #expect(try store.rows("SELECT count(*) FROM Tick") == ["4"])
        #expect(
            try store.run(#"{"op": "delete", "entity": "Tick", "objects": ["2020-01-02T03:04:05.5Z"]}"#) == "Tick -1")
    }

    @Test func `a higher precision is a migration, and a lower one is refused where digits would be lost`() throws {
        let store = try TestStore(Self.model(""))
        try store.apply(item("\"2020-01-02T03:04:05.12Z\""))
        #expect(try store.refusal(Self.model(Self.precision(9))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05.120000000Z"])
        #expect(try store.changes(item("\"2020-01-02T03:04:05.12Z\"")) == "Item =1")
        #expect(try store.refusal(Self.model(Self.precision(3))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05.120Z"])
        let refusal = try #require(try store.refusal(Self.model(Self.precision(0))))
        #expect(
            refusal.contains(
                "Item.at has the precision 3 in the store, and 0 in the model, which does not hold 2020-01-02T03:04:05.120Z "
                    + "(keep the precision)"), "\(refusal)")
        try store.apply(item("\"2020-01-02T03:04:05Z\""))
        #expect(try store.refusal(Self.model(Self.precision(0))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05Z"])
        #expect(try store.isSound())
    }

    @Test func `links follow a converted identity`() throws {
        func model(_ digits: Int) -> String {
            #"{"entities": {"Tick": {"identity": "at", "attributes": {"at": {"type": "date", "precision": \#(digits)}}, "relationships": {"next": {"entity": "Tick"}}}}}"#
        }
        let store = try TestStore(model(3))
        try store.apply(#"{"Tick": {"at": "2020-01-01", "next": "2020-01-02"}}"#)
        try store.reopen(model(6))
        #expect(
            try store.rows("SELECT at, next FROM Tick ORDER BY at LIMIT 1") == [
                "2020-01-01T00:00:00.000000Z|2020-01-02T00:00:00.000000Z"
            ])
        #expect(try store.isSound())
    }

    @Test func `the model says where a precision belongs`() throws {
        for (at, part) in [
            (", \"precision\": 4", "0, 3, 6 or 9"), (", \"storage\": \"unix\", \"precision\": 0", "stored as text"),
            (", \"storage\": \"coreData\", \"precision\": 6", "stored as text"),
            (", \"precision\": \"3\"", "a whole number"),
        ] {
            let error = #expect(throws: ModelError.self) { _ = try stagingPlan(Self.model(at)) }
            #expect(error?.description.contains(part) == true, "\(at): \(error?.description ?? "")")
        }
        let error = #expect(throws: ModelError.self) {
            _ = try stagingPlan(
                #"{"entities": {"A": {"attributes": {"n": {"type": "calendarDate", "precision": 3}}}}}"#)
        }
        #expect(error?.description.contains("\"precision\" is for dates with a time") == true)
    }
}

/// Decimals that are stored as whole numbers of units.
@Suite(.timeLimit(.minutes(5))) struct ScaledDecimalTests {
    private static let scaled = #"{"type": "decimal", "storage": "scaled", "scale": 2}"#
    private static func model(_ price: String) -> String {
        """
        {"entities": {"Item": {"identity": "id", "modified": "version", "tombstone": "price > 1000.005",
          "attributes": {"id": "integer64", "price": \(price), "version": "integer64"}}}}
        """
    }

    private func store(_ prices: String...) throws -> TestStore {
        let store = try TestStore(Self.model(Self.scaled))
        for (id, price) in prices.enumerated() { try store.apply("{\"Item\": {\"id\": \(id), \"price\": \(price)}}") }
        return store
    }

    @Test(arguments: [
        ("12.5", "1250", "12.50"), ("\"+012.500\"", "1250", "12.50"), ("-0.05", "-5", "-0.05"),
        ("1e2", "10000", "100.00"),
        ("0", "0", "0.00"), ("-0.0", "0", "0.00"), ("true", "100", "1.00"), ("-1.2e-1", "-12", "-0.12"),
        ("-92233720368547758.08", "-9223372036854775808", "-92233720368547758.08"), ("null", "NULL", "null"),
    ])
    func `a value is stored as a whole number, and printed with its point`(
        json: String, stored: String, printed: String
    ) throws {
        let store = try store(json)
        #expect(try store.rows("SELECT price FROM Item") == [stored])
        #expect(try store.fetch("Item") == "[{\"id\":0,\"price\":\(printed),\"version\":null}]")
        #expect(try store.changes("{\"Item\": {\"id\": 0, \"price\": \(printed)}}") == "Item =1")
    }

    @Test(arguments: [
        ("0.001", "allows 2 digits after the point"), ("1e-400000000", "allows 2 digits"),
        ("92233720368547758.08", "whole numbers of 64 bits"), ("1e999999999", "whole numbers of 64 bits"),
        ("\"x\"", "is not a number"), ("[1]", "is not a number"),
    ])
    func `a value with too many digits is refused`(json: String, message: String) throws {
        let fault = try store().fault("{\"Item\": {\"id\": 1, \"price\": \(json)}}")
        #expect(fault?.code == .invalidValue)
        #expect(fault?.message.contains(message) == true, "\(fault?.message ?? "")")
    }

    @Test(arguments: [
        ("price > 2", "[2,3]"), ("price >= 9.001", "[3]"), ("price < 9.001", "[0,1,2]"), ("price == 9.00", "[2]"),
        ("price == 9.001", "[]"), ("price != 2", "[0,2,3,4]"), ("price IN {9, 2.0, 1.234}", "[1,2]"),
        ("price == nil", "[4]"),
        ("price BETWEEN {-0.045, 2}", "[1]"), ("price > -1e30", "[0,1,2,3]"), ("price < 1e30", "[0,1,2,3]"),
        ("price > 1e30", "[]"),
    ])
    func `values are compared exactly, also with more digits than are stored`(predicate: String, ids: String) throws {
        let store = try store("-0.05", "2", "9", "100", "null")
        let found = try store.fetch("Item") { $0.predicate = predicate }
        let numbers = found.matches(of: #/"id":(\d+)/#).map { Int($0.1)! }.sorted()
        #expect(numbers.description.replacing(" ", with: "") == ids)
    }

    @Test func `a sort is one of numbers`() throws {
        let store = try store("100", "9", "-20", "9.5")
        let found = try store.fetch("Item") { $0.sort = ["-price"] }
        #expect(found.matches(of: #/"id":(\d)/#).map { String($0.1) } == ["0", "3", "1", "2"])
    }

    @Test func `limits, tombstones and the readable view read the value`() throws {
        let limited = #"{"type": "decimal", "storage": "scaled", "scale": 2, "min": 1.5, "max": 2000, "default": 3.25}"#
        let store = try TestStore(Self.model(limited))
        let fault = try store.fault(#"{"Item": {"id": 1, "price": 1.49}}"#)
        #expect(fault?.message.contains("1.49 is outside of the") == true, "\(fault?.message ?? "")")
        try store.apply(#"{"Item": [{"id": 1, "price": 1.5}, {"id": 2}, {"id": 3, "price": 1000}]}"#)
        #expect(
            try store.rows("SELECT price, typeof(price) FROM Item_readable")
                == ["1.5|real", "3.25|real", "1000.0|real"])
        try store.apply(#"{"Item": {"id": 3, "price": 1000.01}}"#)
        #expect(try store.rows("SELECT id FROM Item") == ["1", "2"])
        let sql = try store.rows("SELECT sql FROM sqlite_schema WHERE name = 'Item'")[0]
        #expect(
            sql.contains(
                #""price" DECIMAL_INTEGER /* decimal with 2 digits after the point, as a whole number: the value is "#
                    + #""price" / 100.0, or use Item_readable */"#))
    }

    private func reopening(_ store: TestStore, _ price: String) throws -> String? {
        try store.refusal(Self.model(price))
    }

    @Test func `the storage changes where each value fits, and is refused where one does not`() throws {
        let store = try TestStore(Self.model("\"decimal\""))
        try store.apply(#"{"Item": [{"id": 1, "price": 1.500}, {"id": 2, "price": -20}, {"id": 3}]}"#)
        #expect(try reopening(store, Self.scaled) == nil)
        let prices = "SELECT price FROM Item ORDER BY id"
        #expect(try store.rows(prices) == ["150", "-2000", "NULL"])
        #expect(try reopening(store, Self.scaled.replacing("2}", with: "4}")) == nil)
        #expect(try store.rows(prices) == ["15000", "-200000", "NULL"])
        let refused = try #require(try reopening(store, Self.scaled.replacing("2}", with: "0}")))
        #expect(
            refused.contains(
                "Item.price is stored as scaled with the scale 4 in the store, and as scaled with the scale 0 in the model, "
                    + "which does not hold 1.5000 (change the scale, or let the storage be text)"), "\(refused)")
        #expect(try reopening(store, Self.scaled.replacing("2}", with: "1}")) == nil)
        #expect(try store.rows(prices) == ["15", "-200", "NULL"])
        #expect(try reopening(store, "\"decimal\"") == nil)
        #expect(try store.rows(prices) == ["1.5", "-20.0", "NULL"])
        #expect(try store.isSound())
    }

    @Test func `unique texts that would be equal numbers are refused with both, and become scaled when they differ`()
        throws
    {
        func model(_ price: String) -> String {
            Self.model(price).replacing("\"modified\"", with: "\"unique\": [[\"price\", \"version\"]], \"modified\"")
        }
        let store = try TestStore(model("\"decimal\""))
        let prices = ["1.0", "1.00", "2.0", "2.5"].enumerated()
        for (id, price) in prices {
            try store.apply("{\"Item\": {\"id\": \(id), \"price\": \(price), \"version\": 7}}")
        }
        let error = #expect(throws: StoreError.self) { try store.reopen(model(Self.scaled)) }
        #expect(
            error?.message.contains(
                "Item (price, version) is unique in the model, where '1.0', 7 and '1.00', 7 would be equal (change these rows, or keep "
                    + "the type and the storage)") == true, "\(error?.message ?? "")")
        try store.reopen(model("\"decimal\""))
        try store.apply(#"{"Item": {"id": 1, "price": 1.01, "version": 8}}"#)
        try store.reopen(model(Self.scaled))
        #expect(try store.rows("SELECT price FROM Item ORDER BY id") == ["100", "101", "200", "250"])
        #expect(try store.isSound())
    }

    @Test func `other numbers become scaled decimals where each fits, and these become texts`() throws {
        let store = try TestStore(Self.model("\"double\""))
        try store.apply(#"{"Item": [{"id": 1, "price": 0.25}, {"id": 2, "price": 3}]}"#)
        let refused = try #require(try reopening(store, Self.scaled.replacing("2}", with: "1}")))
        #expect(refused.contains("does not hold 0.25"), "\(refused)")
        #expect(try reopening(store, Self.scaled) == nil)
        #expect(try store.rows("SELECT price FROM Item") == ["25", "300"])
        #expect(try reopening(store, "\"string\"") == nil)
        #expect(try store.rows("SELECT price FROM Item") == ["0.25", "3.00"])
    }

    @Test(arguments: [
        (#"{"type": "decimal", "storage": "scaled"}"#, "needs a \"scale\""),
        (#"{"type": "decimal", "scale": 2}"#, "is for decimals with"),
        (#"{"type": "decimal", "storage": "text", "scale": 2}"#, "is for decimals with"),
        (#"{"type": "double", "storage": "scaled", "scale": 2}"#, "is for dates with a time and decimals"),
        (#"{"type": "decimal", "storage": "scaled", "scale": 19}"#, "is at most 18"),
        (#"{"type": "decimal", "storage": "scaled", "scale": -1}"#, "a whole number from 0 on"),
        (#"{"type": "decimal", "storage": "unix"}"#, "one of \"text\", \"scaled\""),
        (#"{"type": "decimal", "storage": "scaled", "scale": 1, "min": 0.25}"#, "allows 1 digits"),
    ])
    func `the model's faults are reported`(price: String, message: String) {
        let error = #expect(throws: ModelError.self) { try stagingPlan(Self.model(price)) }
        #expect(error?.faults.contains { $0.message.contains(message) } == true, "\(String(describing: error))")
    }

    @Test func `an identity is not scaled, and the model in the store is the same`() throws {
        let model = "{\"entities\": {\"A\": {\"identity\": \"x\", \"attributes\": {\"x\": \(Self.scaled)}}}}"
        let error = #expect(throws: ModelError.self) { try stagingPlan(model) }
        #expect(error?.faults.first?.message.contains("scaled decimal and cannot identify") == true)
        let store = try store("1")
        let scale = "SELECT value ->> '$.entities.Item.attributes.price.scale' FROM _broker_meta WHERE key = 'model'"
        #expect(try store.rows(scale) == ["2"])
        try store.reopen()
        #expect(store.store.migration.changes == [])
    }
}
