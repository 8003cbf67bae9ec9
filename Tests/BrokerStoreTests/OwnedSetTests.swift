import BrokerModel
import BrokerStaging
import Testing
import TestSupport

@testable import BrokerStore

/// Owned objects beside other rules: keys of their own, mappings, unique values, ages, tombstones, and other jobs.
@Suite(.timeLimit(.minutes(5))) struct OwnedSetTests {
    /// - Parameter changes: to the model of a repository that owns its releases, each known by its tag there.
    private func store(_ changes: [(String, String)] = []) throws -> TestStore {
        var model = """
            {"entities": {
              "Repo": {"identity": "name", "attributes": {"name": "string", "at": "integer64"},
                 "relationships": {"releases": {"entity": "Release", "toMany": true, "owned": true}}},
              "Release": {"identity": "tag", "attributes": {"tag": "string", "size": "integer64"}}},
             "mappings": {"release": {"entity": "Release", "nestingKey": "tag", "collection": true}}}
            """
        for (part, other) in changes {
            #expect(model.contains(part))
            model = model.replacing(part, with: other)
        }
        return try TestStore(model)
    }

    private func send(_ json: String, to store: TestStore, _ policy: InvalidRecordPolicy = .fail) throws -> String {
        try store.run(#"{"entity": "Repo", "json": \#(json)}"#, policy)
    }

    private func releases(_ store: TestStore) throws -> [String] {
        try store.rows("SELECT parent_name, tag, size FROM Release ORDER BY 1, 2")
    }

    private static let two = #"{"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 2}]}"#

    @Test func `a key of its own names an object among those of its owner`() throws {
        let store = try store()
        #expect(
            try send(#"[\#(Self.two), {"name": "b", "releases": {"tag": "1", "size": 9}}]"#, to: store)
                == "Release +3, Repo +2")
        #expect(
            try send(#"{"name": "a", "releases": [{"tag": "3"}, {"tag": "2"}]}"#, to: store)
                == "Release +1 =1 -1, Repo =1")
        #expect(try releases(store) == ["a|2|2", "a|3|NULL", "b|1|9"])
        let bad = #"{"name": "a", "releases": [{"tag": "2", "size": "x"}, {"size": 4}]}"#
        #expect(try send(bad, to: store, .skip) == "Release -1 !2, Repo =1")
        #expect(try releases(store) == ["a|2|2", "b|1|9"])
        #expect(try store.isSound())
    }

    @Test func `a dictionary of records names its members by their keys`() throws {
        let store = try store([
            (#""owned": true"#, #""owned": true, "key": "payload.tags", "mapping": "release", "ordered": true"#)
        ])
        let two = #"{"name": "a", "payload": {"tags": {"1": {"size": 1}, "2": {"size": 2}}}}"#
        #expect(try send(two, to: store) == "Release +2, Repo +1")
        #expect(try send(two, to: store) == "Release =2, Repo =1")
        let some = two.replacing(#""1": {"size": 1}"#, with: #""3": {}, "1": {"size": "x"}, "9": 5"#)
        #expect(try send(some, to: store, .skip) == "Release +1 ~1 !2, Repo =1", "the order has changed")
        #expect(try releases(store) == ["a|1|1", "a|2|2", "a|3|NULL"])
        let wrong = #"{"name": "a", "payload": {"tags": {"1": 5, "2": null, "3": {}}}}"#
        #expect(try send(wrong, to: store, .skip) == "Release =1 !2, Repo =1")
        #expect(try releases(store) == ["a|1|1", "a|2|2", "a|3|NULL"])
        #expect(
            try send(#"{"name": "a", "payload": {"tags": {"2": {"size": 2}}}}"#, to: store) == "Release ~1 -2, Repo =1")
        #expect(try send(#"{"name": "a", "payload": {"tags": {}}}"#, to: store) == "Release -1, Repo =1")
    }

    @Test func `objects of an owner without identity are replaced by new ones`() throws {
        let store = try store([(#""identity": "name", "#, ""), (#""identity": "tag", "#, "")])
        let two = #"{"name": "a", "releases": [{"tag": "1"}, {"tag": "2"}]}"#
        #expect(try send(two, to: store) == "Release +2, Repo +1")
        #expect(try send(two, to: store) == "Release +2, Repo +1")
        #expect(
            try store.run(#"{"entity": "Repo", "object": 1, "json": {"releases": [{"tag": "3"}]}}"#)
                == "Release +1 -2, Repo =1")
        #expect(try store.rows("SELECT tag, repo FROM Release ORDER BY _pk") == ["1|2", "2|2", "3|1"])
        #expect(try store.run(#"{"op": "delete", "entity": "Repo", "objects": [2]}"#) == "Release -2, Repo -1")
        #expect(throws: Fault.self) { try store.run(#"{"entity": "Release", "json": {"tag": "4"}}"#) }
    }

    @Test func `a record that is not newer leaves what its object owns`() throws {
        let store = try store([(#""identity": "name", "#, #""identity": "name", "modified": "at", "#)])
        let dated = Self.two.replacing(#""a""#, with: #""a", "at": 5"#)
        #expect(try send(dated, to: store) == "Release +2, Repo +1")
        #expect(try send(#"{"name": "a", "at": 4, "releases": [{"tag": "9"}]}"#, to: store) == "Repo =1")
        #expect(
            try send(
                #"[{"name": "a", "at": 7, "releases": []}, {"name": "a", "at": 6, "releases": [{"tag": "9"}]}]"#,
                to: store)
                == "Release -2, Repo ~1")
    }

    @Test func `a tombstone of the owner deletes what it owns, and one of an owned object deletes that`() throws {
        let store = try store([
            (#""identity": "name", "#, #""identity": "name", "tombstone": "at = 0", "#),
            (#""identity": "tag", "#, #""identity": "tag", "tombstone": "size = 0", "#),
        ])
        #expect(try send(Self.two, to: store) == "Release +2, Repo +1")
        #expect(
            try send(#"{"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 0}]}"#, to: store)
                == "Release =1 -1, Repo =1")
        let again = #"[{"name": "a", "at": 0}, {"name": "a", "releases": [{"tag": "7"}]}]"#
        #expect(try send(again, to: store) == "Release +1 -1, Repo =1")
        #expect(try releases(store) == ["a|7|NULL"])
        #expect(try send(#"{"name": "a", "at": 0, "releases": [{"tag": "8"}]}"#, to: store) == "Release -1, Repo -1")
        #expect(try store.isSound())
    }

    @Test func `a value of an object that its owner does not name any more is free`() throws {
        let unique = #""size": {"type": "integer64", "unique": true}"#
        let store = try store([(#""size": "integer64""#, unique), (#""identity": "tag", "#, "")])
        #expect(try send(#"{"name": "a", "releases": [{"size": 1}, {"size": 2}]}"#, to: store) == "Release +2, Repo +1")
        #expect(try send(#"{"name": "a", "releases": [{"size": 2}]}"#, to: store) == "Release ~1 -1, Repo =1")
        #expect(
            try send(#"{"name": "a", "releases": [{"size": 2}, {"size": 3}]}"#, to: store) == "Release +1 =1, Repo =1")
        #expect(try send(#"{"name": "a", "releases": [{"size": 3}, {"size": 2}]}"#, to: store) == "Release ~2, Repo =1")
        #expect(try store.rows("SELECT position, size FROM Release ORDER BY 1") == ["0|3", "1|2"])
        #expect(try store.isSound())
    }

    @Test func `an object that another one must keep is not deleted`() throws {
        let files =
            #""size": "integer64"}, "relationships": {"files": {"entity": "File", "toMany": true, "deleteRule": "deny"}}"#
        let file = #"{"entities": {"File": {"identity": "id", "attributes": {"id": "integer64"}},"#
        let store = try store([(#""size": "integer64"}"#, files), (#"{"entities": {"#, file)])
        #expect(
            try send(#"{"name": "a", "releases": [{"tag": "1", "files": [1]}, {"tag": "2"}]}"#, to: store)
                == "File +1, Release +2, Repo +1")
        let fault = #expect(throws: Fault.self) { try send(#"{"name": "a", "releases": []}"#, to: store) }
        #expect(fault?.code == .constraintViolation)
        #expect(try send(#"{"name": "a", "releases": [{"tag": "1"}]}"#, to: store) == "Release =1 -1, Repo =1")
    }

    @Test func `a record in one that a sync ignores has no holder, unless that one's object exists`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Order": {"identity": "id", "attributes": {"id": "integer64"},
                 "relationships": {"lines": {"entity": "Line", "toMany": true}}},
              "Line": {"identity": ["order", "place"], "attributes": {
                 "order": {"type": "integer64", "key": "@parent.id"},
                 "place": {"type": "integer64", "key": "@parent.@index"}, "sku": "string"}}}}
            """)
        try store.run(#"{"entity": "Order", "json": [{"id": 1, "lines": {"sku": "a"}}, {"id": 2}]}"#)
        let sync =
            #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": {"sku": "b"}}, {"id": 9, "lines": {"sku": "c"}}]"#
        #expect(try store.run(sync + #", "actions": ["delete"]}"#) == "Line ~1, Order -1")
        #expect(try store.rows("SELECT * FROM Line") == ["1|0|b"])
    }

    @Test(.mergesSets) func `jobs of one batch have the effect of jobs one after the other`() throws {
        let store = try store()
        let jobs = [Self.two, Self.two.replacing(#"{"tag": "1", "size": 1}, "#, with: "")].map {
            #"{"Repo": \#($0)}"#
        }
        #expect(try store.store.canJoin(store.job(jobs[0])) == false)
        #expect(try store.changes(jobs[0]) == ["Release +2 ~0 =0 !0", "Repo +1 ~0 =0 !0"])
        #expect(try store.outcome(jobs[1]).changes.first?.counts.deleted == 1)
        #expect(try store.outcome(#"{"Repo": {"name": "c"}}"#).changes.map(\.entity) == ["Repo"])
        #expect(try store.store.canJoin(store.job(#"{"Repo": {"name": "d"}}"#)))
    }

    @Test func `the feed has the keys of deleted owned objects`() throws {
        let store = try store()
        _ = try send(Self.two, to: store)
        _ = try send(#"{"name": "a", "releases": [{"tag": "3"}]}"#, to: store)
        let line = try store.rows("SELECT CAST(keys AS TEXT) FROM _broker_feed WHERE sequence = 2")
        #expect(
            line == [
                #"2 {"Release":{"inserted":[{"parent_name":"a","tag":"3"}],"deleted":[{"parent_name":"a","tag":"1"},"#
                    + #"{"parent_name":"a","tag":"2"}]}}"# + "\n"
            ])
    }

    @Test func `a store does not begin to own objects`() throws {
        let store = try store([(#", "owned": true"#, "")])
        _ = try send(Self.two, to: store)
        let owned = store.plan.model.text.replacing(#""toMany":true"#, with: #""toMany":true,"owned":true"#)
            .replacing(#""deleteRule":"nullify","assignment":"union""#, with: #""assignment":"replace""#)
        let error = #expect(throws: StoreError.self) { try store.reopen(owned) }
        #expect(error?.message.contains("Repo.releases does not own its objects in the store") == true)
        #expect(error?.message.contains("Release is identified by tag in the store, and by parent_name, tag") == true)
    }

    @Test(.mergesSets, arguments: [false, true])
    func `objects that the last operation ends are only counted, in little memory`(
        isSync: Bool
    ) throws {
        var options = StoreOptions()
        // An entry of the net changes for each would take five times as much.
        options.mergeMemory = 512 << 10
        let store = try TestStore(
            """
            {"entities": {
              "Repo": {"identity": "name", "attributes": {"name": "string"},
                 "relationships": {"releases": {"entity": "Release", "toMany": true, "owned": true}}},
              "Release": {"identity": "tag", "attributes": {"tag": "string"}}}}
            """, options: options)
        let tags = (0..<5_000).map { #"{"tag": "\#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Repo": [{"name": "a", "releases": [\#(tags)]}, {"name": "b", "releases": {"tag": "x"}}]}"#)
        let (operation, repos) = isSync ? ("sync", 1) : ("process", 0)
        let job = try store.job(
            operations:
                #"{"op": "\#(operation)", "entity": "Repo", "json": [{"name": "a", "releases": {"tag": "7"}}]}"#,
            wantsKeys: false)
        guard case .completed(let outcome) = try store.apply(job) else {
            Issue.record("the job fails")
            return
        }
        let counts = Dictionary(uniqueKeysWithValues: outcome.changes.map { ($0.entity, $0.counts) })
        #expect(counts["Release"]?.deleted == 4_999 + repos && counts["Release"]?.unchanged == 1)
        #expect(counts["Repo"]?.deleted ?? 0 == repos)
        #expect(try releases(store, "tag") == (isSync ? ["7"] : ["7", "x"]))
        #expect(try store.isSound())
    }

    private func releases(_ store: TestStore, _ column: String) throws -> [String] {
        try store.rows("SELECT \(column) FROM Release ORDER BY 1")
    }
}
