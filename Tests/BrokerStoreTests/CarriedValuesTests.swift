import BrokerModel
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// `renamedFrom` with a path: values go along a link, from an object into the one around it, or the other way.
@Suite(.timeLimit(.minutes(5))) struct CarriedValuesTests {
    /// - Parameters:
    ///   - identity: of Order; the objects are owned, and identified by it.
    private static func nested(_ identity: String = #""identity": "id","#, owned: Bool = true, _ more: String = "")
        -> String
    {
        """
        {"entities": {
          "Order": {\(identity) "extra": true, "attributes": {"id": "integer64", "shop": "string"},
            "relationships": {"to": {"entity": "Address", "owned": \(owned)}}},
          "Address": {"extra": true, \(owned ? "" : #""identity": "code","#)
            "attributes": {"code": "string", "at": {"type": "date", "storage": "unix"},
              "fee": {"type": "decimal", "storage": "scaled", "scale": 2}}\(more)}}}
        """
    }

    private static func flat(_ identity: String = #""identity": "id","#, _ rest: String = "", fee: String? = nil)
        -> String
    {
        let fee =
            fee ?? #"{"type": "decimal", "storage": "scaled", "scale": 2, "key": "to.fee", "renamedFrom": "to.fee"}"#
        return """
            {"entities": {
              "Order": {\(identity) "extra": true, "attributes": {"id": "integer64", "shop": "string",
                "to_code": {"type": "string", "key": "to.code", "renamedFrom": "to.code"},
                "to_at": {"type": "date", "storage": "unix", "key": "to.at", "renamedFrom": "to.at"},
                "to_fee": \(fee)}}\(rest)}}
            """
    }

    private static func split(_ identity: String = #""identity": "id","#, fee: String = #""decimal""#) -> String {
        """
        {"entities": {
          "Order": {\(identity) "extra": true, "attributes": {"id": "integer64", "shop": "string"},
            "relationships": {"to": {"entity": "Address", "owned": true}}},
          "Address": {"extra": true, "attributes": {"code": {"type": "string", "renamedFrom": "order.to_code"},
            "at": {"type": "date", "storage": "unix", "renamedFrom": "order.to_at"},
            "fee": {"type": \(fee), "renamedFrom": "order.to_fee"}}}}}
        """
    }

    private static let records = """
        {"Order": [
          {"id": 1, "shop": "a", "to": {"code": "x", "at": "2020-01-02T03:04:05Z", "fee": "1.50", "odd": {"n": null, "m": 12.50}}},
          {"id": 2, "shop": "b", "to": {"code": "it's", "fee": 7}, "own": 1}, {"id": 3, "shop": "c"}, {"id": 4, "shop": "d", "to": null}]}
        """

    private static let rows = [
        #"1|x|1577934245|150|{"to":{"odd":{"n":null,"m":12.50}}}"#, #"2|it's|NULL|700|{"own":1}"#,
        "3|NULL|NULL|NULL|NULL",
        "4|NULL|NULL|NULL|NULL",
    ]
    private static let flatRows = "SELECT id, to_code, to_at, to_fee, _extra FROM \"Order\" ORDER BY id"

    @Test(arguments: [#""identity": "id","#, #""identity": ["id", "shop"],"#, ""])
    func `attributes of an owned object go to its owner, with all that it has`(identity: String) throws {
        // Two columns lead to the object, which is not followed: nothing is lost then, either.
        let store = try TestStore(Self.nested(identity), having: Self.records)
        guard identity != #""identity": ["id", "shop"],"# else {
            let refusal = try #require(try store.refusal(Self.flat(identity)))
            #expect(refusal.contains("Order.to is in the store, but not in the model"), "\(refusal)")
            return
        }
        try store.reopen(Self.flat(identity))
        #expect(try store.rows(Self.flatRows) == Self.rows)
        #expect(try store.rows("SELECT name FROM sqlite_schema WHERE name LIKE '%Address%'") == [])
        if identity != "" { #expect(try store.changes(Self.records) == "Order =4") }
        #expect(try store.isSound())
        try store.reopen()
        #expect(try store.rows(Self.flatRows) == Self.rows)
    }

    @Test func `objects that are not owned stay, and each row gets a copy of their values`() throws {
        let records = #"{"Order": [{"id": 1, "to": {"code": "x", "fee": 2}}, {"id": 2, "to": "x"}, {"id": 3}]}"#
        let store = try TestStore(Self.nested(owned: false), having: records)
        let rest =
            #", "Address": {"extra": true, "identity": "code", "attributes": {"code": "string", "at": {"type": "date", "storage": "unix"}, "fee": {"type": "decimal", "storage": "scaled", "scale": 2}}}"#
        try store.reopen(Self.flat(#""identity": "id","#, rest))
        #expect(try store.rows(Self.flatRows) == ["1|x|NULL|200|NULL", "2|x|NULL|200|NULL", "3|NULL|NULL|NULL|NULL"])
        #expect(try store.rows("SELECT code, fee FROM Address") == ["x|200"])
        #expect(try store.isSound())
    }

    @Test(arguments: [
        // One that is not taken, one that is not the object's, one that does not hold every value.
        (#"{"type": "decimal", "storage": "scaled", "scale": 2, "key": "to.fee"}"#, "Address is in the store"),
        (#"{"type": "decimal", "key": "to.fee", "renamedFrom": "to.fees"}"#, "Address is in the store"),
        (#"{"type": "integer64", "key": "to.fee", "renamedFrom": "to.fee"}"#, "Address is in the store"),
    ])
    func `what no attribute takes is refused as a loss`(fee: String, reason: String) throws {
        let store = try TestStore(Self.nested(), having: Self.records)
        let refusal = try #require(try store.refusal(Self.flat(fee: fee)))
        #expect(refusal.contains(reason), "\(refusal)")
        try store.reopen(Self.flat(fee: fee), removal: .drop)
        #expect(try store.rows("SELECT to_code, to_at, to_fee FROM \"Order\" WHERE id = 1") == ["x|1577934245|NULL"])
    }

    @Test func `a refused model leaves the objects as they were`() throws {
        let store = try TestStore(Self.nested(), having: Self.records)
        #expect(try store.refusal(Self.flat(fee: "\"decimal\"")) != nil)
        try store.reopen(Self.nested())
        #expect(try store.changes(Self.records) == "Address =2, Order =4")
    }

    @Test(arguments: [#""identity": "id","#, #""identity": ["id", "shop"],"#])
    func `attributes become an object that their row owns`(identity: String) throws {
        let store = try TestStore(Self.flat(identity), having: Self.records)
        try store.reopen(Self.split(identity))
        #expect(
            try store.rows("SELECT parent_id, code, at, fee FROM Address ORDER BY 1")
                == ["1|x|1577934245|1.50", "2|it's|NULL|7.00"])
        let linked = identity == #""identity": "id","# ? "\"to\"" : "to_parent_id"
        #expect(
            try store.rows("SELECT id, \(linked) FROM \"Order\" ORDER BY id") == ["1|1", "2|2", "3|NULL", "4|NULL"])
        #expect(
            try store.changes(#"{"Order": {"id": 2, "shop": "b", "to": {"code": "it's"}}}"#) == "Address =1, Order =1")
        #expect(try store.isSound())
    }

    @Test func `an owner without an identity is not split, and a type that holds less is a loss`() throws {
        for (identity, fee) in [("", #""decimal""#), (#""identity": "id","#, #""integer16""#)] {
            let store = try TestStore(Self.flat(identity), having: Self.records)
            let refusal = try #require(try store.refusal(Self.split(identity, fee: fee)))
            #expect(refusal.contains("Order.to_fee is in the store, but not in the model"), "\(refusal)")
        }
    }

    @Test func `parts that a store retains change nothing in that`() throws {
        let kept = Self.nested().replacing(#""shop": "string""#, with: #""shop": "string", "old": "string""#)
        let records = Self.records.replacing(#""id": 1, "#, with: #""id": 1, "old": "o", "#)
        let store = try TestStore(kept, having: records)
        try store.reopen(Self.flat(), removal: .keep)
        #expect(
            try store.rows("SELECT id, old, to_code, to_fee FROM \"Order\" WHERE id < 3 ORDER BY id")
                == ["1|o|x|150", "2|NULL|it's|700"])
    }
}
