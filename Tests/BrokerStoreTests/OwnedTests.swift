import BrokerModel
import BrokerStaging
import TestSupport
import Testing

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
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true}}},
          "Log": {"attributes": {"name": "string"}, "relationships": {"entries": {"entity": "Entry", "toMany": true, "owned": true}}},
          "Entry": {"attributes": {"text": "string"}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private static let queries = [
        "lines": #"SELECT parent_id, position, sku, quantity, "order" FROM OrderLine ORDER BY 1, 2"#,
        "taxes": "SELECT * FROM Tax ORDER BY 1, 2, 3", "addresses": "SELECT * FROM Address ORDER BY 1",
    ]
    private static let two = #"{"id": 1, "lines": [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 1}]}"#
    private static let taxed =
        #"{"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}, {"name": "y"}]}, {"sku": "b", "taxes": {"name": "x"}}]}}"#
    private static let line = #"{"entity": "OrderLine", "object": {"parent_id": 1, "position": 1}, "json": "#
    private static let address =
        #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "address", "json": "#
    private static let sync =
        #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": [{"sku": "a"}]}, {"id": 3, "lines": {"sku": "n"}}]"#

    @Test(
        arguments: Claim.list(
            #"""
            # an order with two lines that is sent three times has two lines
            {"Order": \#(two)} => Order +1, OrderLine +2
            {"Order": \#(two)} => Order =1, OrderLine =2
            {"Order": \#(two)} => Order =1, OrderLine =2
            lines :: 1|0|a|2|1, 1|1|b|1|1
            {"Order": {"id": 1, "lines": [{"sku": "a", "quantity": 3}, {"sku": "b", "quantity": 1}]}} => Order =1, OrderLine ~1 =1
            # lines that a value does not name are deleted
            {"Order": \#(two)}
            {"Order": {"id": 1, "total": 5}} => Order ~1
            lines :: 1|0|a|2|1, 1|1|b|1|1
            {"Order": {"id": 1, "lines": [{"sku": "b"}]}} => Order =1, OrderLine ~1 -1
            lines :: 1|0|b|2|1
            {"Order": {"id": 1, "lines": []}} => Order =1, OrderLine -1
            {"Order": \#(two)}
            {"Order": {"id": 1, "lines": null}} => Order =1, OrderLine -2
            {"Order": {"id": 1, "lines": null}} => Order =1
            lines ::
            # lines go with the taxes in them, and their keys are reported
            \#(taxed) => Order +1, OrderLine +2, Tax +3
            \#(taxed) => Order =1, OrderLine =2, Tax =3
            taxes :: 1|0|x|NULL|1|0, 1|0|y|NULL|1|0, 1|1|x|NULL|1|1
            {"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "y", "rate": 2}]}, {"sku": "b"}]}}
              => Order =1, OrderLine =2, Tax ~1 -1
            keys {"Order": {"id": 1, "lines": {"sku": "a"}}} => {"Order":{"inserted":[],"updated":[],"deleted":[]},"OrderLine":{"inserted":[],"updated":[],"deleted":[{"parent_id":1,"position":1}]},"Tax":{"inserted":[],"updated":[],"deleted":[{"parent_parent_id":1,"parent_position":1,"name":"x"}]}}
            {"op": "delete", "entity": "Order", "objects": [1]} => Order -1, OrderLine -1, Tax -1
            # an owned object of a to-one relationship changes, stays and goes
            {"Order": {"id": 1, "address": {"city": "Rom", "zip": "1"}}} => Address +1, Order +1
            {"Order": {"id": 1, "address": {"city": "Rom", "zip": "1"}}} => Address =1, Order =1
            {"Order": {"id": 1, "address": {"zip": "2"}}} => Address ~1, Order =1
            {"Order": {"id": 1}} => Order =1
            addresses :: 1|Rom|2|1
            {"Order": {"id": 1, "address": null}} => Address -1, Order ~1
            {"Order": [{"id": 1, "address": {"zip": "2"}}, {"id": 1, "address": null}]} => Order =1
            {"Order": [{"id": 1, "address": null}, {"id": 1, "address": {"zip": "2"}}]} => Address +1, Order ~1
            {"op": "delete", "entity": "Order"} => Address -1, Order -1
            # the last record of an order in a job says which lines it has
            {"Order": [{"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 1, "lines": [{"sku": "c"}]}, {"id": 2, "lines": [{"sku": "d"}]}]}
              => Order +2, OrderLine +2
            lines :: 1|0|c|NULL|1, 2|0|d|NULL|2
            {"Order": \#(two)}
            {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}]}}, {"entity": "Product", "json": {"id": 5}},
              {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}, {"sku": "b"}]}} => Order =1, OrderLine ~2, Product +1
            {"Order": [\#(two), {"id": 1, "lines": null}]} => Order =1, OrderLine -2
            {"Order": [{"id": 1, "lines": null}, \#(two)]} => Order =1, OrderLine +2
            # one line is deleted and made again by two steps of a job
            {"Order": \#(two)}
            {"entity": "Order", "json": {"id": 1, "lines": []}}, {"op": "delete", "entity": "Product"},
              {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "a"}]}} => Order =1, OrderLine ~1 -1
            lines :: 1|0|a|NULL|1
            # an invalid element leaves the stored object
            {"Order": \#(two)}
            skip {"Order": {"id": 1, "lines": [{"sku": "a"}, {"sku": [], "quantity": 7}]}}
              => Order =1, OrderLine =1 !1; invalidValue /Order/lines/1/sku
            skip {"Order": {"id": 1, "lines": [null, 5, {"sku": "c"}]}}
              => Order =1, OrderLine +1 !2; invalidValue /Order/lines/0, invalidValue /Order/lines/1
            lines :: 1|0|a|2|1, 1|1|b|1|1, 1|2|c|NULL|1
            skip {"Order": [{"id": 2}, {"id": 1, "lines": [{"sku": "a"}, {"sku": []}, {"sku": "c"}]}]}
              => Order +1 =1, OrderLine =2 !1; invalidValue /Order/1/lines/1/sku
            skip {"Order": {"id": 1, "lines": [{"sku": "a"}, {}, {}, {"quantity": 4}]}}
              => Order =1, OrderLine =3 !1; missingValue /Order/lines/3
            skip {"Order": [{"id": 1, "lines": []}, {"id": 1, "lines": [{"sku": []}]}]}
              => Order =1, OrderLine -3 !1; invalidValue /Order/1/lines/0/sku
            # an order that gets another identity keeps its lines
            {"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}]}, {"sku": "b"}], "address": {"zip": "1"}}}
            {"entity": "Order", "object": 1, "json": {"id": 7, "lines": [{"sku": "a"}, {"sku": "c"}]}}
              => Address ~1, Order ~1, OrderLine ~2, Tax ~1
            lines :: 7|0|a|NULL|7, 7|1|c|NULL|7
            taxes :: 7|0|x|NULL|7|0
            addresses :: 7|NULL|1|7
            {"Order": {"id": 1, "lines": [{"sku": "z"}]}} => Order +1, OrderLine +1
            {"entity": "Tax", "object": {"parent_parent_id": 7, "parent_position": 0, "name": "x"}, "json": {"name": "y", "rate": 3}}
              => Tax ~1
            taxes :: 7|0|y|3.0|7|0
            # operations name an owned object by its key
            {"Order": \#(two)}
            \#(line){"quantity": 9}} => OrderLine ~1
            {"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [{"sku": "c"}]} => Order =1, OrderLine ~1 -1
            lines :: 1|0|c|2|1
            skip {"op": "relate", "entity": "Product", "object": 3, "relationship": "lines", "json": null}
              => Product !1; objectNotFound /0/object
            {"op": "relate", "entity": "OrderLine", "object": {"parent_id": 1, "position": 0}, "relationship": "order", "json": 2}
              => invalidValue /0/json
            {"entity": "OrderLine", "json": {"sku": "a"}} => missingIdentity /0/json
            {"entity": "Product", "json": {"id": 1, "lines": [{"sku": "a"}]}} => missingIdentity /0/json/lines/0
            {"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [1]} => invalidValue /0/json/0
            {"op": "delete", "entity": "OrderLine", "objects": [{"parent_id": 1, "position": 0}]} => OrderLine -1
            # an owned object that is named by its key owns others
            {"Order": \#(two)}
            \#(line){"taxes": [{"name": "x"}, {"name": "y"}]}} => OrderLine =1, Tax +2
            \#(line){"taxes": [{"name": "y"}]}} => OrderLine =1, Tax =1 -1
            taxes :: 1|1|y|NULL|1|1
            \#(address){"zip": "1"}} => Address +1, Order ~1
            \#(address)null} => Address -1, Order ~1
            # an owner without identity gets what a relate sends
            {"Log": {"name": "a"}}
            {"op": "relate", "entity": "Log", "object": 1, "relationship": "entries", "json": [{"text": "b"}]}
            SELECT text FROM Entry :: b
            # a sync keeps the lines of the orders that it names
            {"Order": [\#(two), {"id": 2, "lines": {"sku": "z"}}]}
            \#(sync), "actions": ["delete"]} => Order -1, OrderLine -1
            lines :: 1|0|a|2|1, 1|1|b|1|1
            \#(sync)} => Order +1 =1, OrderLine +1 =1 -1
            lines :: 1|0|a|2|1, 3|0|n|NULL|3
            """#))
    func `owned objects`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test func `an object is fetched with what it owns, in order, and sent back as it is`() throws {
        try store.apply(
            #"""
            {"Order": {"id": 1, "lines": [{"sku": "b", "product": 3}, {"sku": "a", "taxes": {"name": "x"}}], "address": {"zip": "1"}}}
            """#)
        let order = try store.fetch("Order") { $0.include = ["lines", "address"] }
        #expect(
            order == #"[{"id":1,"total":null,"lines":[{"sku":"b","quantity":null,"product":3},"#
                + #"{"sku":"a","quantity":null,"product":null}],"address":{"city":null,"zip":"1"}}]"#)
        #expect(try store.changes(#"{"Order": \#(order)}"#) == "Address =1, Order =1, OrderLine =2, Product =1")
        #expect(try store.fetch("Order") == #"[{"id":1,"total":null}]"#)
        #expect(
            try store.fetch("Tax") { $0.names = .local }
                == #"[{"parent_parent_id":1,"parent_position":1,"name":"x","rate":null,"#
                + #""orderLine":{"parent_id":1,"position":1}}]"#)
    }

    @Test func `owned objects are retained with the parts of an earlier model`() throws {
        let (orders, small) = (#"{"Order": \#(Self.two)}"#, Models.of(["Order": "id integer64, total double"]))
        try store.apply(orders)
        try store.reopen(small, removal: .keep)
        #expect(try store.changes(#"{"Order": [{"id": 1, "total": 3}, {"id": 2}]}"#) == "Order +1 ~1")
        try store.reopen(Self.model)
        #expect(try store.changes(orders) == "Order =1, OrderLine =2")
        try store.reopen(small, removal: .keep)
        #expect(try store.run(#"{"op": "delete", "entity": "Order", "objects": [1]}"#) == "Order -1")
        try store.reopen(Self.model)
        #expect(try store.rows(Self.queries["lines"]!).isEmpty)
    }

    @Test func `the store opens again without a migration`() throws {
        let orders = #"{"Order": \#(Self.two)}"#
        try store.apply(orders)
        let written = try store.rows("SELECT value FROM _broker_meta WHERE key = 'model'")
        #expect(written == [store.plan.model.text])
        for model in [nil, written[0]] {
            try store.reopen(model)
            #expect(store.store.migration.changes.isEmpty)
        }
        #expect(try store.changes(orders) == "Order =1, OrderLine =2")
    }
}

/// Owned objects beside other rules: keys of their own, mappings, unique values, ages, tombstones, and other jobs.
@Suite(.timeLimit(.minutes(5))) struct OwnedSetTests {
    /// - Parameter changes: to the model of a repository that owns its releases, each known by its tag there.
    private static func model(_ changes: [(String, String)] = []) -> String {
        changes.reduce(
            """
            {"entities": {
              "Repo": {"identity": "name", "attributes": {"name": "string", "at": "integer64"},
                 "relationships": {"releases": {"entity": "Release", "toMany": true, "owned": true}}},
              "Release": {"identity": "tag", "attributes": {"tag": "string", "size": "integer64"}},
              "File": {"identity": "id", "attributes": {"id": "integer64"}}},
             "mappings": {"release": {"entity": "Release", "nestingKey": "tag", "collection": true}}}
            """
        ) { model, change in
            #expect(model.contains(change.0))
            return model.replacing(change.0, with: change.1)
        }
    }

    private static let two = #"{"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 2}]}"#
    private static let releases = "SELECT parent_name, tag, size FROM Release ORDER BY 1, 2"

    struct Variant: CustomTestStringConvertible, Sendable {
        let claim: Claim
        let model: String
        var testDescription: String { claim.testDescription }

        init(_ changes: [(String, String)], _ script: String) {
            (claim, model) = (Claim.list(script)[0], OwnedSetTests.model(changes))
        }
    }

    @Test(arguments: [
        Variant(
            [],
            #"""
            # a key of its own names an object among those of its owner
            {"Repo": [\#(two), {"name": "b", "releases": {"tag": "1", "size": 9}}]} => Release +3, Repo +2
            {"Repo": {"name": "a", "releases": [{"tag": "3"}, {"tag": "2"}]}} => Release +1 =1 -1, Repo =1
            releases :: a|2|2, a|3|NULL, b|1|9
            skip {"Repo": {"name": "a", "releases": [{"tag": "2", "size": "x"}, {"size": 4}]}}
              => Release -1 !2, Repo =1; invalidValue /Repo/releases/0/size, missingIdentity /Repo/releases/1
            releases :: a|2|2, b|1|9
            """#),
        Variant(
            [(#""owned": true"#, #""owned": true, "key": "payload.tags", "mapping": "release", "ordered": true"#)],
            #"""
            # a dictionary of records names its members by their keys
            {"Repo": {"name": "a", "payload": {"tags": {"1": {"size": 1}, "2": {"size": 2}}}}} => Release +2, Repo +1
            {"Repo": {"name": "a", "payload": {"tags": {"1": {"size": 1}, "2": {"size": 2}}}}} => Release =2, Repo =1
            skip {"Repo": {"name": "a", "payload": {"tags": {"3": {}, "1": {"size": "x"}, "9": 5, "2": {"size": 2}}}}}
              => Release +1 ~1 !2, Repo =1; invalidValue /Repo/payload/tags/1/size, invalidValue /Repo/payload/tags/9
            releases :: a|1|1, a|2|2, a|3|NULL
            skip {"Repo": {"name": "a", "payload": {"tags": {"1": 5, "2": null, "3": {}}}}}
              => Release =1 !2, Repo =1; invalidValue /Repo/payload/tags/1, invalidValue /Repo/payload/tags/2
            releases :: a|1|1, a|2|2, a|3|NULL
            {"Repo": {"name": "a", "payload": {"tags": {"2": {"size": 2}}}}} => Release ~1 -2, Repo =1
            {"Repo": {"name": "a", "payload": {"tags": {}}}} => Release -1, Repo =1
            """#),
        Variant(
            [(#""identity": "name", "#, ""), (#""identity": "tag", "#, "")],
            #"""
            # objects of an owner without identity are replaced by new ones
            {"Repo": {"name": "a", "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"entity": "Repo", "object": 1, "json": {"releases": [{"tag": "3"}]}} => Release +1 -2, Repo =1
            SELECT tag, repo FROM Release ORDER BY _pk :: 1|2, 2|2, 3|1
            {"op": "delete", "entity": "Repo", "objects": [2]} => Release -2, Repo -1
            {"entity": "Release", "json": {"tag": "4"}} => missingIdentity /0/json
            """#),
        Variant(
            [(#""identity": "name", "#, #""identity": "name", "modified": "at", "#)],
            #"""
            # a record that is not newer leaves what its object owns
            {"Repo": {"name": "a", "at": 5, "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "at": 4, "releases": [{"tag": "9"}]}} => Repo =1
            {"Repo": [{"name": "a", "at": 7, "releases": []}, {"name": "a", "at": 6, "releases": [{"tag": "9"}]}]} => Release -2, Repo ~1
            """#),
        Variant(
            [
                (#""identity": "name", "#, #""identity": "name", "tombstone": "at = 0", "#),
                (#""identity": "tag", "#, #""identity": "tag", "tombstone": "size = 0", "#),
            ],
            #"""
            # a tombstone of the owner deletes what it owns, and one of an owned object deletes that
            {"Repo": \#(two)} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 0}]}} => Release =1 -1, Repo =1
            {"Repo": [{"name": "a", "at": 0}, {"name": "a", "releases": [{"tag": "7"}]}]} => Release +1 -1, Repo =1
            releases :: a|7|NULL
            {"Repo": {"name": "a", "at": 0, "releases": [{"tag": "8"}]}} => Release -1, Repo -1
            """#),
        Variant(
            [
                (#""size": "integer64""#, #""size": {"type": "integer64", "unique": true}"#),
                (#""identity": "tag", "#, ""),
            ],
            #"""
            # a value of an object that its owner does not name any more is free
            {"Repo": {"name": "a", "releases": [{"size": 1}, {"size": 2}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"size": 2}]}} => Release ~1 -1, Repo =1
            {"Repo": {"name": "a", "releases": [{"size": 2}, {"size": 3}]}} => Release +1 =1, Repo =1
            {"Repo": {"name": "a", "releases": [{"size": 3}, {"size": 2}]}} => Release ~2, Repo =1
            SELECT position, size FROM Release ORDER BY 1 :: 0|3, 1|2
            """#),
        Variant(
            [
                (
                    #""size": "integer64"}"#,
                    #""size": "integer64"}, "relationships": {"files": {"entity": "File", "toMany": true, "deleteRule": "deny"}}"#
                )
            ],
            #"""
            # an object that another one must keep is not deleted
            {"Repo": {"name": "a", "releases": [{"tag": "1", "files": [1]}, {"tag": "2"}]}} => File +1, Release +2, Repo +1
            {"Repo": {"name": "a", "releases": []}} => constraintViolation /Repo
            {"Repo": {"name": "a", "releases": [{"tag": "1"}]}} => Release =1 -1, Repo =1
            """#),
    ])
    func `owned objects beside other rules`(variant: Variant) throws {
        try variant.claim.check(TestStore(variant.model), ["releases": Self.releases])
    }

    @Test func `a record in one that a sync ignores has no holder, unless that one's object exists`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Order": {"identity": "id", "attributes": {"id": "integer64"},
                 "relationships": {"lines": {"entity": "Line", "toMany": true}}},
              "Line": {"identity": ["order", "place"], "attributes": {"order": {"type": "integer64", "key": "@parent.id"},
                 "place": {"type": "integer64", "key": "@parent.@index"}, "sku": "string"}}}}
            """)
        try store.run(#"{"entity": "Order", "json": [{"id": 1, "lines": {"sku": "a"}}, {"id": 2}]}"#)
        let sync =
            #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": {"sku": "b"}}, {"id": 9, "lines": {"sku": "c"}}]"#
        #expect(try store.run(sync + #", "actions": ["delete"]}"#) == "Line ~1, Order -1")
        #expect(try store.rows("SELECT * FROM Line") == ["1|0|b"])
    }

    @Test(.mergesSets) func `jobs of one batch have the effect of jobs one after the other`() throws {
        let store = try TestStore(Self.model())
        #expect(try !store.store.canJoin(store.job(#"{"Repo": \#(Self.two)}"#)))
        #expect(try store.store.canJoin(store.job(#"{"Repo": {"name": "d"}}"#)))
    }

    @Test func `the feed has the keys of deleted owned objects`() throws {
        let store = try TestStore(Self.model(), having: #"{"Repo": \#(Self.two)}"#)
        try store.apply(#"{"Repo": {"name": "a", "releases": [{"tag": "3"}]}}"#)
        let line = try store.rows("SELECT CAST(keys AS TEXT) FROM _broker_feed WHERE sequence = 2")
        let deleted = #"[{"parent_name":"a","tag":"1"},{"parent_name":"a","tag":"2"}]"#
        #expect(line == [#"2 {"Release":{"inserted":[{"parent_name":"a","tag":"3"}],"deleted":\#(deleted)}}"# + "\n"])
    }

    @Test func `a store does not begin to own objects`() throws {
        let store = try TestStore(Self.model([(#", "owned": true"#, "")]), having: #"{"Repo": \#(Self.two)}"#)
        let message = try store.refusal(Self.model())
        #expect(message?.contains("Repo.releases does not own its objects in the store") == true)
        #expect(message?.contains("Release is identified by tag in the store, and by parent_name, tag") == true)
    }

    @Test(.mergesSets, arguments: [false, true])
    func `objects that the last operation ends are only counted, in little memory`(isSync: Bool) throws {
        // An entry of the net changes for each would take five times as much.
        let store = try TestStore(Self.model()) { $0.mergeMemory = 512 << 10 }
        let tags = (0..<5_000).map { #"{"tag": "\#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Repo": [{"name": "a", "releases": [\#(tags)]}, {"name": "b", "releases": {"tag": "x"}}]}"#)
        let operation =
            #"{"op": "\#(isSync ? "sync" : "process")", "entity": "Repo", "json": [{"name": "a", "releases": {"tag": "7"}}]}"#
        let outcome = try store.outcome(of: store.job(operations: operation, wantsKeys: false))
        #expect(outcome.summary == (isSync ? "Release =1 -5000, Repo =1 -1" : "Release =1 -4999, Repo =1"))
        #expect(try store.rows("SELECT tag FROM Release ORDER BY 1") == (isSync ? ["7"] : ["7", "x"]))
        #expect(try store.isSound())
    }
}
