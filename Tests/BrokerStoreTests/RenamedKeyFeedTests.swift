import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

/// The keys in the feed of objects whose identity a job changes.
@Suite(.timeLimit(.minutes(5))) struct RenamedKeyFeedTests {
    private static let model = """
        {"entities": {
          "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "members": {"entity": "Member", "toMany": true, "owned": true}}},
          "Member": {"identity": "n", "attributes": {"n": "integer64"}},
          "Record": {"attributes": {"n": "integer64"}},
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
