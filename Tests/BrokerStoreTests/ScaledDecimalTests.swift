import BrokerModel
import Testing
import TestSupport

@testable import BrokerSchema
@testable import BrokerStaging
@testable import BrokerStore

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
        #expect(
            try store.fetch("Item") == "[{\"id\":0,\"price\":\(printed),\"version\":null}]")
        #expect(try store.changes("{\"Item\": {\"id\": 0, \"price\": \(printed)}}") == ["Item +0 ~0 =1 !0"])
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
        let found = try store.fetch("Item") {
            $0.predicate = predicate
        }
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
        do {
            try store.reopen(Self.model(price))
            return nil
        } catch let error as StoreError {
            return error.message
        }
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
