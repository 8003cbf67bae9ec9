import BrokerJSON
import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// The feed: the committed jobs that changed objects, from the ledger, with the keys of the objects.
@Suite(.timeLimit(.minutes(5))) struct FeedTests {
    private static let model = """
        {"entities": {
          "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
              "people": {"entity": "Person", "toMany": true, "inverse": "team", "deleteRule": "cascade"}}},
          "Person": {"identity": "id", "attributes": {"id": "string", "age": "integer64"}, "relationships": {
              "team": {"entity": "Team", "inverse": "people"},
              "tags": {"entity": "Tag", "toMany": true, "inverse": "people"},
              "desk": {"entity": "Desk", "inverse": "owner"}}},
          "Tag": {"identity": ["land", "code"], "attributes": {"land": "string", "code": "boolean"}, "relationships": {
              "people": {"entity": "Person", "toMany": true, "inverse": "tags"}}},
          "Desk": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
              "owner": {"entity": "Person", "inverse": "desk"}}},
          "Note": {"attributes": {"text": "string"}}, "Record": {"attributes": {"n": "integer64"}},
          "User": {"parent": "Record", "identity": "name", "attributes": {"name": "string"}}}}
        """

    /// Makes the operations of a job.
    private struct RandomJobs {
        var generator: SeededGenerator

        mutating func any(_ values: [String]) -> String { values.randomElement(using: &generator)! }
        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

        mutating func record(_ entity: String) -> String {
            let number = any(["1", "2", "3", "4"])
            switch entity {
            case "Team": return #"{"id": \#(number), "name": "\#(any(["a", "b"]))"}"#
            case "Person":
                var members = [#""id": "p\#(number)""#]
                if chance(50) { members.append(#""age": \#(any(["1", "2"]))"#) }
                if chance(40) { members.append(#""team": \#(any(["1", "2", "null"]))"#) }
                if chance(30) { members.append(#""desk": \#(any(["1", "2", "null"]))"#) }
                if chance(30) { members.append(#""tags": [{"land": "\#(any(["x", "é"]))", "code": true}]"#) }
                return "{\(members.joined(separator: ", "))}"
            case "Tag": return #"{"land": "\#(any(["x", "y"]))", "code": \#(any(["true", "false"]))}"#
            case "Desk": return #"{"id": \#(number)}"#
            case "User": return #"{"name": "u\#(number)", "n": \#(any(["1", "2"]))}"#
            case "Record": return #"{"n": \#(number)}"#
            default: return #"{"text": "\#(number)"}"#
            }
        }

        mutating func records(_ entity: String) -> String {
            "[\((0..<Int.random(in: 0...4, using: &generator)).map { _ in record(entity) }.joined(separator: ", "))]"
        }

        mutating func operation() -> String {
            let entity = any(["Team", "Person", "Tag", "Desk", "Note", "User", "Record"])
            switch Int.random(in: 0..<10, using: &generator) {
            case 0: return #"{"op": "delete", "entity": "\#(entity)", "where": "TRUEPREDICATE"}"#
            case 1 where entity == "Team" || entity == "Desk":
                return #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(any(["1", "1, 2", "3, 4"]))]}"#
            case 2 where entity != "Note" && entity != "Record":
                return #"{"op": "sync", "entity": "\#(entity)", "json": \#(records(entity))}"#
            case 3 where entity == "Team":
                return
                    #"{"op": "relate", "entity": "Team", "object": 1, "relationship": "people", "json": ["p1", "p2"]}"#
            default: return #"{"entity": "\#(entity)", "json": \#(records(entity))}"#
            }
        }

        mutating func operations() -> String {
            (0..<Int.random(in: 1...3, using: &generator)).map { _ in operation() }.joined(separator: ", ")
        }
    }

    /// Lists of keys as sets, without empty ones: `Team.inserted: 1 2`.
    private static func lists(_ keys: [UInt8]?) throws -> [String] {
        guard let keys else { return [] }
        let object = try JSONSerialization.jsonObject(with: Data(keys)) as? [String: [String: [Any]]]
        return try #require(object).flatMap { entity, changes in
            try changes.filter { !$0.value.isEmpty }.map { word, keys in
                let texts = try keys.map {
                    String(
                        decoding: try JSONSerialization.data(
                            withJSONObject: $0, options: [.fragmentsAllowed, .sortedKeys]), as: UTF8.self)
                }
                return "\(entity).\(word): \(texts.sorted().joined(separator: " "))"
            }
        }.sorted()
    }

    private func selection(_ store: TestStore, _ entities: [String]? = nil, keys: Bool = true) -> FeedSelection {
        FeedSelection(entities: entities ?? store.plan.model.entities.map(\.name), wantsKeys: keys, asker: .server)
    }

    /// All jobs of the feed after a sequence, read in parts of that many bytes.
    private func feed(
        _ store: TestStore, after: Int64 = 0, _ selection: FeedSelection? = nil, bytes: Int = 1 << 20
    ) throws -> [FeedCommit]? {
        let reader = try FeedReader(path: store.path)
        var (commits, position): ([FeedCommit], Int64) = ([], after)
        while let part = try reader.part(after: position, selection ?? self.selection(store), bytes: bytes) {
            commits += part.commits
            position = part.position
            if part.isLast { return commits }
        }
        return nil
    }

    @Test func `the keys of the feed are those that a job asks for, over all operations`() throws {
        var jobs = RandomJobs(generator: SeededGenerator())
        for _ in 0..<12 {
            let (asked, followed) = (try TestStore(Self.model), try TestStore(Self.model))
            var expected: [Int64: [String]] = [:]
            for _ in 0..<40 {
                let operations = jobs.operations()
                let job = try asked.job(operations: operations, wantsKeys: true)
                if case .completed(let outcome) = try asked.apply(job) {
                    let keys = try Self.lists(outcome.keys)
                    if !keys.isEmpty { expected[job.sequence] = keys }
                    #expect(outcome.feedKeys == nil, "they are not retained")
                }
                let other = try followed.job(operations: operations, wantsKeys: false)
                let end = followed.store.canJoin(other) ? try followed.applyBatch([other])?.first : nil
                let applied = try end ?? followed.apply(other)
                if case .completed(let outcome) = applied { #expect(outcome.keys == nil) }
            }
            for store in [asked, followed] {
                let commits = try #require(try feed(store, bytes: 1_000))
                #expect(commits.map(\.sequence) == expected.keys.sorted())
                for commit in commits {
                    #expect(try Self.lists(commit.keys) == expected[commit.sequence], "\(commit.sequence)")
                    #expect(commit.id == "job-\(commit.sequence)")
                }
            }
        }
    }

    @Test func `jobs that fail, change nothing or are undone are not in the feed, and others have their own counts`()
        throws
    {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Team": [{"id": 1, "name": "a"}, {"id": 2}], "Note": {"text": "x"}}"#)
        try store.apply(#"{"Team": {"id": 1, "name": "a"}}"#)
        try store.apply(#"{"Team": {"id": "wrong"}}"#)
        try store.store.begin()
        _ = try store.store.apply(store.job(#"{"Team": {"id": 3}}"#))
        store.store.rollback()
        try store.apply(#"{"Team": {"id": 1, "name": "b"}}"#)
        let commits = try #require(try feed(store))
        #expect(commits.map(\.sequence) == [1, 5])
        #expect(
            commits.map { String(decoding: $0.changes, as: UTF8.self) } == [
                #"{"Note":{"inserted":1},"Team":{"inserted":2}}"#, #"{"Team":{"updated":1}}"#,
            ])
        #expect(
            commits.map { String(decoding: $0.keys ?? [], as: UTF8.self) } == [
                #"{"Note":{"inserted":[1]},"Team":{"inserted":[1,2]}}"#, #"{"Team":{"updated":[1]}}"#,
            ])
        #expect(try store.rows("SELECT sequence FROM _broker_feed") == ["1", "5"])
        let line = try store.rows("SELECT CAST(keys AS TEXT) FROM _broker_feed WHERE sequence = 5")
        #expect(line == ["5 {\"Team\":{\"updated\":[1]}}\n"], "without a line of the job that was rolled back")
    }

    @Test func `a follower gets the entities that it wants, their keys if it asks, and ids that it may see`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Team": {"id": 1}, "Note": {"text": "x"}}"#)
        try store.apply(#"{"Desk": {"id": 1}}"#)
        let notes = try #require(try feed(store, selection(store, ["Note"])))
        #expect(notes.map(\.sequence) == [1])
        #expect(notes.first?.changes == Array(#"{"Note":{"inserted":1}}"#.utf8))
        #expect(notes.first?.keys == Array(#"{"Note":{"inserted":[1]}}"#.utf8))
        let desks = try #require(try feed(store, selection(store, ["Desk"], keys: false)))
        #expect(desks.map(\.sequence) == [2])
        #expect(desks.first?.keys == nil)
        let stranger = FeedSelection(entities: ["Desk"], wantsKeys: true, asker: JobOwner(user: 4_000_000_000))
        #expect(try feed(store, stranger)?.map(\.id) == [nil])
    }

    @Test func `the feed can be read after each sequence, in parts of any size`() throws {
        let store = try TestStore(Self.model)
        try store.store.begin()
        for number in 1...50 { _ = try store.store.apply(store.job(#"{"Team": {"id": \#(number)}}"#)) }
        try store.store.commit()
        for number in 51...60 { try store.apply(#"{"Team": {"id": \#(number)}}"#) }
        #expect(try store.rows("SELECT count(*) FROM _broker_feed") == ["11"], "one row for each transaction")
        for after in 0...60 {
            for bytes in [1, 400, 1 << 20] {
                let commits = try #require(try feed(store, after: Int64(after), bytes: bytes))
                #expect(commits.map { Int($0.sequence) } == Array(after + 1..<61))
                for commit in commits {
                    #expect(commit.keys == Array(#"{"Team":{"inserted":[\#(commit.sequence)]}}"#.utf8))
                }
            }
        }
        #expect(try feed(store, after: 61) == nil, "the store has no such job")
        #expect(try FeedReader(path: store.path).bounds() == FeedReader.Bounds(oldest: 0, newest: 60))
    }

    @Test func `what the ledger has forgotten is gone, and keys beyond their limit are missing`() throws {
        let store = try TestStore(Self.model) { ($0.retention.count, $0.feedBytes) = (20, 400) }
        for number in 1...100 { try store.apply(#"{"Team": {"id": \#(number)}}"#) }
        let oldest = try #require(Int64(try store.rows("SELECT min(sequence) FROM _broker_jobs")[0])) - 1
        #expect(oldest > 70)
        #expect(try FeedReader(path: store.path).bounds() == FeedReader.Bounds(oldest: oldest, newest: 100))
        #expect(try feed(store, after: oldest - 1) == nil)
        let commits = try #require(try feed(store, after: oldest))
        #expect(commits.map(\.sequence) == Array(oldest + 1...100))
        #expect(commits.first?.keys == nil)
        #expect(commits.last?.keys == Array(#"{"Team":{"inserted":[100]}}"#.utf8))
        #expect(commits.count { $0.keys != nil } < 12)
        let bytes = try #require(Int(try store.rows("SELECT sum(length(keys) + 16) FROM _broker_feed")[0]))
        #expect(bytes <= 425)
        try store.reopen()
        #expect(try feed(store, after: oldest - 1) == nil, "also after a restart")
        #expect(try feed(store, after: oldest) == commits)
    }

    @Test func `a store without keys has the feed all the same, and deletes the keys that are there`() throws {
        let store = try TestStore(Self.model) { $0.feedBytes = 0 }
        try store.execute("INSERT INTO _broker_feed VALUES (1, x'00')")
        try store.reopen()
        try store.apply(#"{"Team": {"id": 1}}"#)
        #expect(try store.rows("SELECT count(*) FROM _broker_feed") == ["0"])
        let commits = try #require(try feed(store))
        #expect(commits.map(\.sequence) == [1])
        #expect(commits.first?.keys == nil)
    }

    @Test func `a delete without reply keys that is only counted has its keys in the feed`() throws {
        let store = try TestStore(Self.model)
        let records = (1...3_000).map { #"{"id": \#($0), "people": [{"id": "p\#($0)", "desk": \#($0)}]}"# }
        try store.apply(payload("Team", records))
        let job = try store.job(
            operations: #"{"op": "delete", "entity": "Team", "where": "id > 1000"}"#, wantsKeys: false)
        _ = try store.apply(job)
        let commit = try #require(try feed(store, after: 1)?.first)
        let lists = try Self.lists(commit.keys)
        let keys = (1_001...3_000).map(String.init)
        #expect(
            lists == [
                "Desk.updated: \(keys.sorted().joined(separator: " "))",
                "Person.deleted: \(keys.map { "\"p\($0)\"" }.sorted().joined(separator: " "))",
                "Team.deleted: \(keys.sorted().joined(separator: " "))",
            ])
    }

    @Test(.mergesSets) func `a job whose keys exceed their limit has none, and the next one has its own`() throws {
        let store = try TestStore(Self.model)
        let rest = String(repeating: "k", count: 1_000)
        func insert(_ entity: String, _ key: String, _ others: String = "") -> String {
            let keys = (0..<FeedKeys.maximumBytesOfJob / 1_000).map { #"{"\#(key)": "\#($0)\#(rest)"\#(others)}"# }
            return #"{"entity": "\#(entity)", "json": [\#(keys.joined(separator: ","))]}"#
        }
        let together = try store.job(operations: insert("Tag", "land", #", "code": true"#), wantsKeys: false)
        try #require(store.store.canJoin(together))
        _ = try #require(try store.applyBatch([together]))
        for operations in [insert("Person", "id"), #"{"op": "delete", "entity": "Person", "where": "TRUEPREDICATE"}"#] {
            _ = try store.apply(store.job(operations: operations, wantsKeys: false))
        }
        try store.apply(#"{"Team": {"id": 2}}"#)
        let commits = try #require(try feed(store))
        #expect(commits.map { $0.keys == nil } == [true, true, true, false])
        #expect(commits.map { $0.changes.count > 2 } == [true, true, true, true])
    }

    @Test func `a damaged line of the ledger or of the keys is an error, and no commit is skipped`() throws {
        let store = try TestStore(Self.model)
        for number in 1...2 { try store.apply(#"{"Team": {"id": \#(number)}, "Desk": {"id": \#(number)}}"#) }
        try store.execute("UPDATE _broker_feed SET keys = x'32207b0a' WHERE sequence = 2")
        #expect(throws: StoreError.self) { try feed(store, selection(store, ["Team"])) }
        try store.execute("UPDATE _broker_jobs SET outcome = '{' WHERE sequence = 2")
        let error = #expect(throws: StoreError.self) { try feed(store, selection(store, ["Team"], keys: false)) }
        #expect(error?.code == .unavailable)
    }
}

/// The keys in the feed of objects whose identity a job changes.
@Suite(.timeLimit(.minutes(5))) struct RenamedKeyFeedTests {
    private static let model = """
        {"entities": {
          "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "members": {"entity": "Member", "toMany": true, "owned": true}}},
          "Member": {"identity": "n", "attributes": {"n": "integer64"}}, "Record": {"attributes": {"n": "integer64"}},
          "User": {"parent": "Record", "identity": "name", "attributes": {"name": "string"}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.run(
            #"""
            {"entity": "Team", "json": [{"id": 1, "members": [{"n": 1}]}, {"id": 2}, {"id": 3}]},
            {"entity": "User", "json": {"name": "a", "n": 1}}
            """#)
    }

    /// The feed's keys of a job.
    ///
    /// - Parameter wantsKeys: the job's answer has its keys, too; without them, deletions may be counted alone.
    private func keys(_ operations: String, _ wantsKeys: Bool) throws -> String {
        guard case .completed = try store.apply(store.job(operations: operations, wantsKeys: wantsKeys)) else {
            return "failed"
        }
        return try newestKeys().map { String(decoding: $0, as: UTF8.self) } ?? "none"
    }

    /// The keys of the newest job; nil when it is not in the feed.
    private func newestKeys() throws -> [UInt8]? {
        let all = FeedSelection(entities: store.plan.model.entities.map(\.name), wantsKeys: true, asker: .server)
        let part = try FeedReader(path: store.path).part(after: store.nextSequence - 2, all, bytes: 1 << 20)
        return part?.commits.first?.keys
    }

    private static func rename(_ old: String, _ new: String, _ entity: String = "Team") -> String {
        let name = entity == "Team" ? "id" : "name"
        return #"{"entity": "\#(entity)", "object": \#(old), "json": {"\#(name)": \#(new)}}"#
    }
    private static func delete(_ key: String, _ entity: String = "Team") -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(key)]}"#
    }

    @Test(arguments: [true, false]) func `the former key of a renamed object is among the deleted ones`(wantsKeys: Bool)
        throws
    {
        #expect(try keys(Self.rename("3", "4"), wantsKeys) == #"{"Team":{"updated":[4],"deleted":[3]}}"#)
        #expect(try keys(Self.delete("4"), wantsKeys) == #"{"Team":{"deleted":[4]}}"#)
        #expect(
            try keys(Self.rename("1", "9"), wantsKeys)
                == #"{"Member":{"updated":[{"parent_id":9,"n":1}],"deleted":[{"parent_id":1,"n":1}]},"Team":{"updated":[9],"deleted":[1]}}"#
        )
        #expect(
            try keys(Self.rename("\"a\"", "\"b\"", "User"), wantsKeys) == #"{"User":{"updated":["b"],"deleted":["a"]}}"#
        )
        #expect(try keys(Self.delete("\"b\"", "User"), wantsKeys) == #"{"User":{"deleted":["b"]}}"#)
    }

    @Test(arguments: [true, false]) func `an object that one job renames and deletes has the key before the job`(
        wantsKeys: Bool
    ) throws {
        #expect(try keys("\(Self.rename("3", "4")), \(Self.delete("4"))", wantsKeys) == #"{"Team":{"deleted":[3]}}"#)
        #expect(
            try keys("\(Self.rename("\"a\"", "\"b\"", "User")), \(Self.delete("\"b\"", "User"))", wantsKeys)
                == #"{"User":{"deleted":["a"]}}"#)
        #expect(
            try keys(
                #"{"entity": "Team", "json": {"id": 2, "name": "x"}}, \#(Self.rename("2", "5")), \#(Self.delete("5"))"#,
                wantsKeys)
                == #"{"Team":{"deleted":[2]}}"#)
    }

    @Test(arguments: [true, false]) func `a key that another object has after the job is not among the deleted ones`(
        wantsKeys: Bool
    ) throws {
        // Another object gets the former key.
        #expect(
            try keys(#"\#(Self.rename("2", "5")), {"entity": "Team", "json": {"id": 2}}"#, wantsKeys)
                == #"{"Team":{"inserted":[2],"updated":[5]}}"#)
        // An object gets the key of a deleted one.
        #expect(
            try keys("\(Self.delete("3")), \(Self.rename("2", "3"))", wantsKeys)
                == #"{"Team":{"updated":[3],"deleted":[2]}}"#)
        // Two objects exchange their keys.
        try store.run(#"{"entity": "Team", "json": {"id": 6}}"#)
        #expect(
            try keys("\(Self.rename("3", "7")), \(Self.rename("6", "3")), \(Self.rename("7", "6"))", wantsKeys)
                == #"{"Team":{"updated":[6,3]}}"#)
        // Renamed and named back: nothing changed.
        #expect(try keys("\(Self.rename("3", "7")), \(Self.rename("7", "3"))", wantsKeys) == "none")
    }

    @Test(arguments: [true, false]) func `a follower that applies the feed has the objects of the store`(
        wantsKeys: Bool
    ) throws {
        var generator = SeededGenerator(for: "a follower that applies the feed")
        func any() -> String { String(Int.random(in: 1...4, using: &generator)) }
        var known = Set(try store.rows("SELECT id FROM Team"))
        for _ in 0..<300 {
            let operations = (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: Self.delete(any())
                case 1: #"{"entity": "Team", "json": {"id": \#(any()), "name": "\#(any())"}}"#
                default: Self.rename(any(), any())
                }
            }.joined(separator: ", ")
            guard case .completed = try store.apply(store.job(operations: operations, wantsKeys: wantsKeys)) else {
                continue
            }
            let document = try JSONDocument(parsing: JSONText(copying: newestKeys() ?? Array("{}".utf8)))
            func list(_ word: String) -> [String] {
                document.root["Team"]?[word]?.elements.map { String(decoding: $0.bytes, as: UTF8.self) } ?? []
            }
            known.subtract(list("deleted"))
            known.formUnion(list("inserted") + list("updated"))
            #expect(try known == Set(store.rows("SELECT id FROM Team")), "\(operations)")
        }
    }
}
