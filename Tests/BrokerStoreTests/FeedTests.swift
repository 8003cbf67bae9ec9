import BrokerJSON
import BrokerModel
import BrokerStaging
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

/// The history of a store covers every row and link that a job changes: two stores that differ in one row or link before a job
/// that changes it have other histories after it, though the job and its counts are the same.
@Suite(.timeLimit(.minutes(5))) struct DigestCoverageTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}, "relationships": {
            "parts": {"entity": "Part", "toMany": true, "inverse": "row", "deleteRule": "cascade"},
            "loose": {"entity": "Part", "toMany": true, "inverse": "near", "assignment": "replace"},
            "list": {"entity": "Part", "toMany": true, "ordered": true, "inverse": "in"},
            "tags": {"entity": "Tag", "toMany": true, "inverse": "rows", "assignment": "replace"},
            "line": {"entity": "Tag", "toMany": true, "ordered": true}, "badge": {"entity": "Tag", "inverse": "owner"},
            "items": {"entity": "Item", "toMany": true, "owned": true}}},
          "Part": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "row": {"entity": "Row", "inverse": "parts"}, "near": {"entity": "Row", "inverse": "loose"},
            "in": {"entity": "Row", "inverse": "list"}}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "rows": {"entity": "Row", "toMany": true, "inverse": "tags"}, "owner": {"entity": "Row", "inverse": "badge"}}},
          "Item": {"identity": "no", "attributes": {"no": "integer64", "text": "string"}}}}
        """

    private static let note = #"{"op": "delete", "entity": "Note", "where": "text == 'x'"}"#

    private static func row(_ members: String) -> String { #"{"entity": "Row", "json": {\#(members)}}"# }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let before: (String, String)
        let job: String

        init(_ name: String, _ one: String, _ other: String, _ job: String) {
            (testDescription, before, self.job) = (name, (one, other), job)
        }
    }

    static let cases: [Case] = [
        Case(
            "an object that a cascade deletes", row(#""id": 1, "parts": [5]"#), row(#""id": 1, "parts": [6]"#),
            #"{"op": "delete", "entity": "Row", "objects": [1]}"#),
        Case(
            "a link that a deletion ends", row(#""id": 1, "loose": [5]"#), row(#""id": 1, "loose": [6]"#),
            #"{"op": "delete", "entity": "Row", "objects": [1]}"#),
        Case(
            "a link in a join table that a deletion ends", row(#""id": 1, "tags": [5]"#), row(#""id": 2, "tags": [5]"#),
            #"{"op": "delete", "entity": "Tag", "objects": [5]}"#),
        Case(
            "a link in a join table that a later step ends", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#),
            "\(note), \(row(#""id": 1, "tags": []"#))"),
        Case(
            "a link that one to one ends", row(#""id": 1, "badge": 5"#), row(#""id": 2, "badge": 5"#),
            row(#""id": 3, "badge": 5"#)),
        Case(
            "a link that a replaced set ends", row(#""id": 1, "loose": [5]"#), row(#""id": 1, "loose": [6]"#),
            row(#""id": 1, "loose": []"#)),
        Case(
            "a link in a join table that a replaced set ends", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#), row(#""id": 1, "tags": []"#)),
        Case(
            "a position", row(#""id": 1, "list": [5]"#), row(#""id": 1, "list": [5, 6]"#), row(#""id": 1, "list": [9]"#)
        ),
        Case(
            "a position in a join table", row(#""id": 1, "line": [5]"#), row(#""id": 1, "line": [5, 6]"#),
            row(#""id": 1, "line": [9]"#)),
        Case(
            "a position in a later step", row(#""id": 1, "line": [5]"#), row(#""id": 1, "line": [5, 6]"#),
            "\(note), \(row(#""id": 1, "line": [9]"#))"),
        Case(
            "an owned object that no value names", row(#""id": 1, "items": [{"no": 1}]"#),
            row(#""id": 1, "items": [{"no": 2}]"#), row(#""id": 1, "items": []"#)),
        Case(
            "an object that a sync does not name", row(#""id": 1"#), row(#""id": 2"#),
            #"{"op": "sync", "entity": "Row", "json": [{"id": 3}]}"#),
        Case(
            "a link that follows a renamed object", row(#""id": 1, "parts": [5]"#), row(#""id": 1, "parts": [6]"#),
            #"{"entity": "Row", "object": 1, "json": {"id": 7}}"#),
        Case(
            "a link in a join table that follows a renamed object", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#), #"{"entity": "Row", "object": 1, "json": {"id": 7}}"#),
        Case(
            "a key that is taken", #"{"entity": "Note", "json": []}"#, #"{"entity": "Note", "json": {"text": "y"}}"#,
            #"{"entity": "Note", "json": {"text": "z"}}"#),
        Case(
            "a key that is taken in a later step", #"{"entity": "Note", "json": []}"#,
            #"{"entity": "Note", "json": {"text": "y"}}"#, "\(note), \(#"{"entity": "Note", "json": {"text": "z"}}"#)"),
    ]

    private func history(_ before: String, _ job: String) throws -> (digits: String, outcome: [UInt8]) {
        let test = try TestStore(Self.model)
        // Objects that both stores have.
        try test.apply(#"{"Part": [{"id": 5}, {"id": 6}], "Tag": [{"id": 5}, {"id": 6}]}"#)
        try test.run(before)
        test.nextSequence = 101
        try test.store.beginLog("log", after: 100)
        let storeJob = try test.job(operations: job, wantsKeys: false).with(hash: [1])
        let end = try test.apply(storeJob)
        #expect(!end.isFailure, "\(end)")
        return (try #require(test.store.history).digits, end.body(of: storeJob))
    }

    @Test(arguments: cases) func `what a job changes is part of the history`(_ sample: Case) throws {
        let (one, other) = sample.before
        let histories = (try history(one, sample.job), try history(other, sample.job))
        #expect(histories.0.digits != histories.1.digits)
        #expect(histories.0.outcome == histories.1.outcome, "\(String(decoding: histories.1.outcome, as: UTF8.self))")
        #expect(try history(one, sample.job).digits == histories.0.digits)
    }
}

/// The history of a store that is fed from a log covers what its jobs wrote.
@Suite(.timeLimit(.minutes(5))) struct StateDigestTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"},
            "relationships": {"parts": {"entity": "Part", "toMany": true, "inverse": "row", "deleteRule": "cascade"}}},
          "Part": {"identity": "id", "attributes": {"id": "integer64", "text": "string"},
            "relationships": {"row": {"entity": "Row", "inverse": "parts"}}}}}
        """

    /// The digits of the history after the job that does the same to stores of which only the rows before differ.
    ///
    /// - Parameter before: jobs that the history does not cover.
    private func history(before: [String] = [], _ payload: String, together: Bool = false) throws -> String {
        let test = try TestStore(Self.model)
        for payload in before { try test.apply(payload) }
        test.nextSequence = 101
        try test.store.beginLog("log", after: 100)
        let job = try test.job(payload).with(hash: [1])
        try test.store.begin()
        if together { _ = try #require(try test.store.applyBatch([job])) } else { _ = try test.store.apply(job) }
        try test.store.commit()
        return try #require(test.store.history).digits
    }

    @Test(arguments: TestStore.interpretsAll ? [false] : [false, true])
    func `another value, column or key of a written row gives another history`(isTogether: Bool) throws {
        let history = { (before: [String], payload: String) in
            try self.history(before: before, payload, together: isTogether)
        }
        let note = #"{"Note": {"text": "a"}}"#
        let all = try [
            history([], note), history([], #"{"Note": {"text": "b"}}"#), history([], #"{"Note": {"text": null}}"#),
            history([note], note), history([], #"{"Row": {"id": 1}}"#), history([], #"{"Row": {"id": 2}}"#),
            history([], #"{"Row": {"id": 1, "text": ""}}"#), history([], #"{"Row": {"id": 1, "text": "1"}}"#),
            history([], #"{"Row": {"id": 1, "text": "123456789"}}"#),
            history([], #"{"Row": {"id": 1, "text": "12345678"}}"#), history([], #"{"Part": {"id": 1}}"#),
        ]
        #expect(Set(all).count == all.count)
        #expect(try history([], note) == all[0])
    }

    @Test func `the rows that are inserted, and those that a later step changes or deletes, are part of the history`()
        throws
    {
        func history(before: String, _ operations: String) throws -> String {
            let test = try TestStore(Self.model)
            try test.apply(before)
            test.nextSequence = 101
            try test.store.beginLog("log", after: 100)
            try test.apply(test.job(operations: operations, wantsKeys: false).with(hash: [1]))
            return try #require(test.store.history).digits
        }
        let delete = #"{"op": "delete", "entity": "Row", "objects": [1]}"#
        let update = { (text: String) in
            #"{"op": "delete", "entity": "Note", "objects": []}, {"entity": "Row", "json": {"id": 1, "text": "\#(text)"}}"#
        }
        let both = #"{"entity": "Row", "json": [{"id": 1}, {"id": 2}]}"#
        // The outcomes in each pair are the same.
        for (one, other) in try [
            (history(before: #"{"Row": {"id": 1}}"#, both), history(before: #"{"Row": {"id": 2}}"#, both)),
            (
                history(before: #"{"Row": {"id": 1, "text": "a"}}"#, delete),
                history(before: #"{"Row": {"id": 1, "text": "b"}}"#, delete)
            ),
            (
                history(before: #"{"Row": {"id": 1, "parts": [{"id": 5}]}}"#, delete),
                history(before: #"{"Row": {"id": 1, "parts": [{"id": 6}]}}"#, delete)
            ),
            (
                history(before: #"{"Row": {"id": 1}}"#, update("a")),
                history(before: #"{"Row": {"id": 1}}"#, update("b"))
            ),
        ] { #expect(one != other) }
    }

    @Test(.mergesSets) func `a job gives the same history by itself and together with others`() throws {
        for payload in [
            #"{"Note": [{"text": "a"}, {"text": "b"}]}"#, #"{"Row": [{"id": 1, "text": "x"}]}"#,
            #"{"Part": {"id": 1, "row": {"id": 5}}}"#,
        ] { #expect(try history(payload) == history(payload, together: true), "\(payload)") }
    }

    @Test func `the history is that of the transactions that became durable`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        try test.apply(#"{"Row": {"id": 1}}"#)
        let history = test.store.history
        try test.store.begin()
        _ = try test.store.apply(try test.job(#"{"Row": {"id": 2}}"#))
        test.store.rollback()
        #expect(test.store.history == history)
    }

    @Test func `a job of the journal is not applied at a position that is already applied`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        try test.apply(#"{"Row": {"id": 1}}"#)
        test.nextSequence = 1
        let error = #expect(throws: StoreError.self) { try test.apply(#"{"Row": {"id": 2}}"#, id: "again") }
        #expect(error?.code == .defect)
        #expect(try test.rows("SELECT id FROM Row") == ["1"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct ApplicationFingerprintTests {
    private func fingerprint(_ zones: String...) throws -> ApplicationFingerprint {
        let attributes = zones.enumerated().map { #""a\#($0)": {"type": "date", "timeZone": "\#($1)"}"# }
        return ApplicationFingerprint(
            try stagingPlan("{\"entities\": {\"Row\": {\"attributes\": {\(attributes.joined(separator: ","))}}}}"))
    }

    @Test func `a fingerprint has what decides outcomes, and its text has all of it`() throws {
        let fingerprint = try fingerprint("Europe/Berlin", "+02:00")
        let names = fingerprint.text.split(separator: "\n").map { $0.prefix { $0 != "=" } }
        #expect(names == ["broker", "sqlite", "swift", "timeZoneData", "re2", "timeZone Europe/Berlin"])
        #expect(fingerprint.text.contains("sqlite=20") && !fingerprint.text.contains("none"))
        #expect(ApplicationFingerprint(fingerprint.text) == fingerprint)
        #expect(ApplicationFingerprint("sqlite") == nil)
        #expect(fingerprint.digits.wholeMatch(of: /[0-9a-f]{16}/) != nil)
        #expect(try fingerprint == self.fingerprint("+02:00", "Europe/Berlin"))
    }

    @Test func `two fingerprints say in what they differ`() throws {
        let (one, other) = (try fingerprint("Europe/Berlin"), try fingerprint("Asia/Kolkata", "Europe/Berlin"))
        #expect(one.digits != other.digits)
        let differences = other.differences(from: one)
        #expect(differences.count == 1 && differences[0].hasPrefix("timeZone Asia/Kolkata was absent, is "))
        let older = try #require(ApplicationFingerprint(one.text.replacing("sqlite=20", with: "sqlite=19")))
        #expect(one.differences(from: older).map { $0.prefix(13) } == ["sqlite was 19"])
        #expect(one.differences(from: one) == [])
    }

    @Test func `statistics of ANALYZE are in the fingerprint of a store that is opened after them`() throws {
        let test = try TestStore(#"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try test.apply(#"{"Row": [{"id": 1}, {"id": 2}]}"#)
        let before = test.store.fingerprint
        #expect(before == ApplicationFingerprint(test.store.merger.plan))
        try test.store.connection.execute("ANALYZE")
        try test.reopen()
        let again = test.store.fingerprint
        #expect(again.differences(from: before).map { $0.prefix(26) } == ["statistics was absent, is "])
        try test.reopen()
        #expect(test.store.fingerprint == again)
    }

    /// Vienna's clocks were once changed on other days than Berlin's; Busingen's have gone like Zurich's since 1970.
    @Test func `a zone whose clocks were once changed at another time is another zone`() throws {
        func hash(_ zone: String) throws -> Substring { try fingerprint(zone).text.split(separator: "=").last! }
        #expect(try hash("Europe/Berlin") != hash("Europe/Vienna"))
        #expect(try hash("Europe/Busingen") == hash("Europe/Zurich"))
    }
}
