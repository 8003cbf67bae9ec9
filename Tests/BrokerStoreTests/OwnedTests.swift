import BrokerModel
import BrokerStaging
import Testing
import TestSupport

@testable import BrokerStore

/// Objects that live in their owner (`owned`): they are identified by it, and deleted when no value names them.
@Suite(.timeLimit(.minutes(5))) struct OwnedTests {
    static let model = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": "integer64", "total": "double"},
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true, "owned": true},
                               "address": {"entity": "Address", "owned": true}}},
          "OrderLine": {"attributes": {"sku": {"type": "string", "optional": false}, "quantity": "integer64"},
             "relationships": {"taxes": {"entity": "Tax", "toMany": true, "owned": true},
                               "product": {"entity": "Product", "inverse": "lines"}}},
          "Tax": {"identity": "name", "attributes": {"name": "string", "rate": "double"}},
          "Address": {"attributes": {"city": "string", "zip": "string"}},
          "Product": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true}}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    /// Processes records of orders.
    @discardableResult
    private func send(_ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> String {
        try store.run(#"{"entity": "Order", "json": \#(json)}"#, policy)
    }

    private func lines() throws -> [String] {
        try store.rows(#"SELECT parent_id, position, sku, quantity, "order" FROM OrderLine ORDER BY 1, 2"#)
    }

    private func taxes() throws -> [String] { try store.rows("SELECT * FROM Tax ORDER BY 1, 2, 3") }

    private func addresses() throws -> [String] { try store.rows(#"SELECT * FROM Address ORDER BY 1"#) }

    private static let two = #"{"id": 1, "lines": [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 1}]}"#

    @Test func `an order with two lines that is sent three times has two lines`() throws {
        #expect(try send(Self.two) == "Order +1, OrderLine +2")
        #expect(try send(Self.two) == "Order =1, OrderLine =2")
        #expect(try send(Self.two) == "Order =1, OrderLine =2")
        #expect(try lines() == ["1|0|a|2|1", "1|1|b|1|1"])
        #expect(try send(Self.two.replacing(": 2}", with: ": 3}")) == "Order =1, OrderLine ~1 =1")
        #expect(try store.isSound())
    }

    @Test func `lines that a value does not name are deleted`() throws {
        try send(Self.two)
        #expect(try send(#"{"id": 1, "total": 5}"#) == "Order ~1")
        #expect(try lines().count == 2)
        #expect(try send(#"{"id": 1, "lines": [{"sku": "b"}]}"#) == "Order =1, OrderLine ~1 -1")
        #expect(try lines() == ["1|0|b|2|1"])
        #expect(try send(#"{"id": 1, "lines": []}"#) == "Order =1, OrderLine -1")
        try send(Self.two)
        #expect(try send(#"{"id": 1, "lines": null}"#) == "Order =1, OrderLine -2")
        #expect(try send(#"{"id": 1, "lines": null}"#) == "Order =1")
        #expect(try lines().isEmpty)
        #expect(try store.isSound())
    }

    @Test func `lines go with the taxes in them, and their keys are reported`() throws {
        let taxed =
            #"{"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}, {"name": "y"}]}, {"sku": "b", "taxes": {"name": "x"}}]}"#
        #expect(try send(taxed) == "Order +1, OrderLine +2, Tax +3")
        #expect(try send(taxed) == "Order =1, OrderLine =2, Tax =3")
        #expect(try taxes() == ["1|0|x|NULL|1|0", "1|0|y|NULL|1|0", "1|1|x|NULL|1|1"])
        #expect(
            try send(#"{"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "y", "rate": 2}]}, {"sku": "b"}]}"#)
                == "Order =1, OrderLine =2, Tax ~1 -1")
        let outcome = try store.outcome(ofOperations: #"{"entity": "Order", "json": {"id": 1, "lines": {"sku": "a"}}}"#)
        #expect(
            outcome.keys.map { String(decoding: $0, as: UTF8.self) }
                == #"{"Order":{"inserted":[],"updated":[],"deleted":[]},"#
                + #""OrderLine":{"inserted":[],"updated":[],"deleted":[{"parent_id":1,"position":1}]},"#
                + #""Tax":{"inserted":[],"updated":[],"deleted":[{"parent_parent_id":1,"parent_position":1,"name":"x"}]}}"#
        )
        #expect(
            try store.run(#"{"op": "delete", "entity": "Order", "objects": [1]}"#) == "Order -1, OrderLine -1, Tax -1")
    }

    @Test func `an owned object of a to-one relationship changes, stays and goes`() throws {
        #expect(try send(#"{"id": 1, "address": {"city": "Rom", "zip": "1"}}"#) == "Address +1, Order +1")
        #expect(try send(#"{"id": 1, "address": {"city": "Rom", "zip": "1"}}"#) == "Address =1, Order =1")
        #expect(try send(#"{"id": 1, "address": {"zip": "2"}}"#) == "Address ~1, Order =1")
        #expect(try send(#"{"id": 1}"#) == "Order =1")
        #expect(try addresses() == ["1|Rom|2|1"])
        #expect(try send(#"{"id": 1, "address": null}"#) == "Address -1, Order ~1")
        #expect(try send(#"[{"id": 1, "address": {"zip": "2"}}, {"id": 1, "address": null}]"#) == "Order =1")
        #expect(
            try send(#"[{"id": 1, "address": null}, {"id": 1, "address": {"zip": "2"}}]"#) == "Address +1, Order ~1")
        #expect(try store.run(#"{"op": "delete", "entity": "Order"}"#) == "Address -1, Order -1")
        #expect(try store.isSound())
    }

    @Test func `the last record of an order in a job says which lines it has`() throws {
        let three =
            #"[{"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 1, "lines": [{"sku": "c"}]}, {"id": 2, "lines": [{"sku": "d"}]}]"#
        #expect(try send(three) == "Order +2, OrderLine +2")
        #expect(try lines() == ["1|0|c|NULL|1", "2|0|d|NULL|2"])
        try send(Self.two)
        let operations =
            #"{"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}]}}, {"entity": "Product", "json": {"id": 5}}, "#
            + #"{"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}, {"sku": "b"}]}}"#
        #expect(try store.run(operations) == "Order =1, OrderLine ~2, Product +1")
        #expect(try send(#"[\#(Self.two), {"id": 1, "lines": null}]"#) == "Order =1, OrderLine -2")
        #expect(try send(#"[{"id": 1, "lines": null}, \#(Self.two)]"#) == "Order =1, OrderLine +2")
        #expect(try store.isSound())
    }

    @Test func `one line is deleted and made again by two steps of a job`() throws {
        try send(Self.two)
        let again =
            #"{"entity": "Order", "json": {"id": 1, "lines": []}}, {"op": "delete", "entity": "Product"}, "#
            + #"{"entity": "Order", "json": {"id": 1, "lines": [{"sku": "a"}]}}"#
        #expect(try store.run(again) == "Order =1, OrderLine ~1 -1")
        #expect(try lines() == ["1|0|a|NULL|1"])
    }

    @Test func `an invalid element leaves the stored object`() throws {
        try send(Self.two)
        let bad = #"{"id": 1, "lines": [{"sku": "a"}, {"sku": [], "quantity": 7}]}"#
        #expect(try send(bad, .skip) == "Order =1, OrderLine =1 !1")
        #expect(try send(#"{"id": 1, "lines": [null, 5, {"sku": "c"}]}"#, .skip) == "Order =1, OrderLine +1 !2")
        #expect(try lines() == ["1|0|a|2|1", "1|1|b|1|1", "1|2|c|NULL|1"])
        #expect(
            try send(#"[{"id": 2}, {"id": 1, "lines": [{"sku": "a"}, {"sku": []}, {"sku": "c"}]}]"#, .skip)
                == "Order +1 =1, OrderLine =2 !1")
        // A new line without the required attribute is found beside the rows.
        #expect(
            try send(#"{"id": 1, "lines": [{"sku": "a"}, {}, {}, {"quantity": 4}]}"#, .skip)
                == "Order =1, OrderLine =3 !1")
        #expect(
            try send(#"[{"id": 1, "lines": []}, {"id": 1, "lines": [{"sku": []}]}]"#, .skip)
                == "Order =1, OrderLine -3 !1")
    }

    @Test func `an order that gets another identity keeps its lines`() throws {
        try send(
            #"{"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}]}, {"sku": "b"}], "address": {"zip": "1"}}"#)
        let renamed = #"{"entity": "Order", "object": 1, "json": {"id": 7, "lines": [{"sku": "a"}, {"sku": "c"}]}}"#
        #expect(try store.run(renamed) == "Address ~1, Order ~1, OrderLine ~2, Tax ~1")
        #expect(try lines() == ["7|0|a|NULL|7", "7|1|c|NULL|7"])
        #expect(try taxes() == ["7|0|x|NULL|7|0"])
        #expect(try addresses() == ["7|NULL|1|7"])
        #expect(try send(#"{"id": 1, "lines": [{"sku": "z"}]}"#) == "Order +1, OrderLine +1")
        #expect(
            try store.run(
                #"{"entity": "Tax", "object": {"parent_parent_id": 7, "parent_position": 0, "name": "x"}, "json": {"name": "y", "rate": 3}}"#
            )
                == "Tax ~1")
        #expect(try taxes() == ["7|0|y|3.0|7|0"])
        #expect(try store.isSound())
    }

    @Test func `operations name an owned object by its key`() throws {
        try send(Self.two)
        #expect(
            try store.run(
                #"{"entity": "OrderLine", "object": {"parent_id": 1, "position": 1}, "json": {"quantity": 9}}"#)
                == "OrderLine ~1")
        #expect(
            try store.run(
                #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [{"sku": "c"}]}"#)
                == "Order =1, OrderLine ~1 -1")
        #expect(try lines() == ["1|0|c|2|1"])
        #expect(
            try store.run(
                #"{"op": "relate", "entity": "Product", "object": 3, "relationship": "lines", "json": null}"#, .skip)
                == "Product !1")
        let faults = [
            #"{"op": "relate", "entity": "OrderLine", "object": {"parent_id": 1, "position": 0}, "relationship": "order", "json": 2}"#,
            #"{"entity": "OrderLine", "json": {"sku": "a"}}"#,
            #"{"entity": "Product", "json": {"id": 1, "lines": [{"sku": "a"}]}}"#,
            #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [1]}"#,
        ].map { operation in #expect(throws: Fault.self) { try store.run(operation) }?.code }
        #expect(faults == [.invalidValue, .missingIdentity, .missingIdentity, .invalidValue])
        #expect(
            try store.run(#"{"op": "delete", "entity": "OrderLine", "objects": [{"parent_id": 1, "position": 0}]}"#)
                == "OrderLine -1")
    }

    @Test func `an owned object that is named by its key owns others`() throws {
        try send(Self.two)
        let line = #"{"entity": "OrderLine", "object": {"parent_id": 1, "position": 1}, "json": "#
        #expect(try store.run(line + #"{"taxes": [{"name": "x"}, {"name": "y"}]}}"#) == "OrderLine =1, Tax +2")
        #expect(try store.run(line + #"{"taxes": [{"name": "y"}]}}"#) == "OrderLine =1, Tax =1 -1")
        #expect(try taxes() == ["1|1|y|NULL|1|1"])
        let address = #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "address", "json": "#
        #expect(try store.run(address + #"{"zip": "1"}}"#) == "Address +1, Order ~1")
        #expect(try store.run(address + "null}") == "Address -1, Order ~1")
    }

    @Test func `an object is fetched with what it owns, in order, and sent back as it is`() throws {
        try send(
            #"{"id": 1, "lines": [{"sku": "b", "product": 3}, {"sku": "a", "taxes": {"name": "x"}}], "address": {"zip": "1"}}"#
        )
        func fetch(_ entity: String, _ relationships: [String], _ names: FetchNames = .remote) throws -> String {
            try store.fetch(entity) {
                $0.names = names
                $0.include = relationships
            }
        }
        let order = try fetch("Order", ["lines", "address"])
        #expect(
            order == #"[{"id":1,"total":null,"lines":[{"sku":"b","quantity":null,"product":3},"#
                + #"{"sku":"a","quantity":null,"product":null}],"address":{"city":null,"zip":"1"}}]"#)
        #expect(try send(order) == "Address =1, Order =1, OrderLine =2, Product =1")
        #expect(try fetch("Order", []) == #"[{"id":1,"total":null}]"#)
        #expect(
            try fetch("Tax", [], .local)
                == #"[{"parent_parent_id":1,"parent_position":1,"name":"x","rate":null,"#
                + #""orderLine":{"parent_id":1,"position":1}}]"#)
    }

    @Test func `an owner without identity gets what a relate sends`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Log": {"attributes": {"name": "string"},
                "relationships": {"entries": {"entity": "Entry", "toMany": true, "owned": true}}},
              "Entry": {"attributes": {"text": "string"}}}}
            """)
        try store.apply(#"{"Log": {"name": "a"}}"#)
        let relate =
            #"{"op": "relate", "entity": "Log", "object": 1, "relationship": "entries", "json": [{"text": "b"}]}"#
        guard case .completed = try store.apply(store.job(operations: relate, .fail)) else {
            return #expect(Bool(false))
        }
        #expect(try store.rows("SELECT text FROM Entry") == ["b"])
    }

    @Test func `owned objects are retained with the parts of an earlier model`() throws {
        try send(Self.two)
        let small =
            #"{"entities": {"Order": {"identity": "id", "attributes": {"id": "integer64", "total": "double"}}}}"#
        try store.reopen(small, removal: .keep)
        #expect(try send(#"[{"id": 1, "total": 3}, {"id": 2}]"#) == "Order +1 ~1")
        try store.reopen(Self.model)
        #expect(try send(Self.two) == "Order =1, OrderLine =2")
        try store.reopen(small, removal: .keep)
        #expect(try store.run(#"{"op": "delete", "entity": "Order", "objects": [1]}"#) == "Order -1")
        try store.reopen(Self.model)
        #expect(try lines().isEmpty)
    }

    @Test func `a sync keeps the lines of the orders that it names`() throws {
        try send(#"[\#(Self.two), {"id": 2, "lines": {"sku": "z"}}]"#)
        let sync =
            #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": [{"sku": "a"}]}, {"id": 3, "lines": {"sku": "n"}}]"#
        #expect(try store.run(sync + #", "actions": ["delete"]}"#) == "Order -1, OrderLine -1")
        #expect(try lines() == ["1|0|a|2|1", "1|1|b|1|1"])
        #expect(try store.run(sync + "}") == "Order +1 =1, OrderLine +1 =1 -1")
        #expect(try lines() == ["1|0|a|2|1", "3|0|n|NULL|3"])
    }

    @Test func `the store opens again without a migration`() throws {
        try send(Self.two)
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        let written = try store.rows("SELECT value FROM _broker_meta WHERE key = 'model'")
        #expect(written == [store.plan.model.text])
        try store.reopen(written[0])
        #expect(store.store.migration.changes.isEmpty)
        #expect(try send(Self.two) == "Order =1, OrderLine =2")
    }
}
