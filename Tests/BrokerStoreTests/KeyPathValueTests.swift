import BrokerModel
import BrokerStaging
import Testing

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
            "author": {"type": "string", "key": ["author.name", "author"]},
            "part": {"type": "string", "key": "raw.part"},
            "firm": {"type": "string", "key": "firm.name", "optional": false, "default": "x"}}, "relationships": {
            "owner": {"entity": "Person", "key": "links.owner"},
            "tags": {"entity": "Tag", "toMany": true, "key": "links.more.tags"}}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}}},
         "mappings": {"place": {"entity": "Place", "attributes": {"at.lat": "lat"}}}}
        """
    private static let whole = """
        {"id": 1, "geo": {"lat": 1.5, "address": {"street": "Elm"}}, "soft": {"value": 2, "other": 3},
         "links": {"owner": 7, "more": {"tags": [1, 2]}}, "author": {"name": "Ann"}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try send(Self.whole)
    }

    @discardableResult
    private func send(_ record: String, _ policy: InvalidRecordPolicy = .fail) throws -> Outcome {
        try store.outcome(#"{"Place": \#(record)}"#, policy)
    }

    private func row(_ columns: String) throws -> [String] {
        try store.rows("SELECT \(columns) FROM Place WHERE id = 1")
    }

    private var tags: [String] { get throws { try store.rows("SELECT destination FROM Place_tags ORDER BY 1") } }

    @Test func `null in the place of an object clears what lies below it, at any depth`() throws {
        #expect(try row("lat, street, owner") == ["1.5|Elm|7"])
        try send(#"{"id": 1, "geo": {"address": null}}"#)
        #expect(try row("lat, street") == ["1.5|NULL"])
        try send(#"{"id": 1, "geo": null, "links": null}"#)
        #expect(try row("lat, street, owner") == ["NULL|NULL|NULL"])
        #expect(try tags == [])
        let fault = try store.fault(#"{"Place": {"id": 1, "firm": null}}"#)
        #expect(fault?.code == .missingValue)
        #expect(fault?.path == "/Place/firm")
    }

    @Test func `an empty object, and a missing one, change nothing`() throws {
        for record in [#"{"id": 1, "geo": {}, "links": {"more": {}}, "soft": {}}"#, #"{"id": 1}"#] {
            #expect(try send(record).described == ["Place +0 ~0 =1 !0"])
        }
        #expect(try row("lat, street, owner, loose, empty") == ["1.5|Elm|7|2.0|3.0"])
        #expect(try tags == ["1", "2"])
    }

    @Test(arguments: ["[]", "\"x\"", "\"\"", "0", "5", "true", "false", "[{\"lat\": 9}]", "[{\"address\": {}}]"])
    func `any other value there is invalid, wherever the path goes on`(value: String) throws {
        for (record, path, attribute) in [
            (#"{"id": 1, "geo": \#(value)}"#, "/geo", "lat"),
            (#"{"id": 1, "geo": {"address": \#(value)}}"#, "/geo/address", "street"),
            (#"{"id": 1, "links": \#(value)}"#, "/links", nil),
            (#"{"id": 1, "links": {"more": \#(value), "owner": 1}}"#, "/links/more", nil),
            (#"{"geo": {"lat": 1}, "meta": \#(value)}"#, "/meta", "id"),
        ] {
            let fault = try #require(try store.fault(#"{"Place": \#(record)}"#))
            #expect(fault.code == .invalidValue, "\(record): \(fault)")
            #expect(fault.path == "/Place" + path, "\(record): \(fault)")
            #expect(fault.attribute == attribute, "\(record): \(fault)")
        }
        #expect(
            try send(#"[{"id": 1, "geo": \#(value)}, {"id": 2}]"#, .skip).rejections == ["invalidValue /Place/0/geo"])
        #expect(try row("lat, street, owner") == ["1.5|Elm|7"])
        #expect(try store.rows("SELECT count(*) FROM Person") == ["1"], "no object of a key that is none")
    }

    @Test func `the attribute's own policy decides about such a value`() throws {
        let outcome = try send(#"{"id": 1, "soft": 7}"#)
        #expect(try row("loose, empty") == ["2.0|NULL"])
        #expect(
            outcome.warnings == [
                Warning(.ignoredValue, entity: "Place", key: "loose", count: 1),
                Warning(.ignoredValue, entity: "Place", key: "empty", count: 1),
            ])
    }

    @Test func `a value at a key where a path ends is read by that path`() throws {
        try send(#"{"id": 1, "author": "Bob"}"#)
        #expect(try row("author") == ["Bob"])
        try send(#"{"id": 1, "author": {"name": "Cid"}, "raw": [1, 2]}"#)
        #expect(try row("author") == ["Cid"])
        try send(#"{"id": 1, "author": null}"#)
        #expect(try row("author") == ["NULL"])
    }

    @Test func `ages and tombstones at the end of a path follow the same rule`() throws {
        try send(#"{"id": 1, "meta": {"at": 5}, "geo": {"lat": 2}}"#)
        try send(#"{"id": 1, "meta": {"at": 4}, "geo": {"lat": 3}}"#)
        #expect(try row("lat") == ["2.0"])
        // No age: the record is taken, and clears it.
        try send(#"{"id": 1, "meta": null, "geo": {"lat": 3}}"#)
        #expect(try row("lat, at") == ["3.0|NULL"])
        #expect(try store.fault(#"{"Place": {"id": 1, "meta": "gone"}}"#)?.code == .invalidValue)
        // Other faults of a tombstone do not count.
        try send(#"{"id": 1, "meta": {"gone": true}, "geo": "x", "links": 9}"#)
        #expect(try row("id") == [])
        #expect(try store.rows("SELECT id FROM Person") == ["7"])
    }

    @Test func `the last of duplicate keys counts`() throws {
        try send(#"{"id": 1, "geo": {"lat": 9}, "geo": null}"#)
        #expect(try row("lat") == ["NULL"])
        try send(#"{"id": 1, "geo": "x", "geo": {"lat": 8}}"#)
        #expect(try row("lat") == ["8.0"])
        #expect(try store.fault(#"{"Place": {"id": 1, "geo": {"lat": 8}, "geo": []}}"#)?.code == .invalidValue)
    }
}
