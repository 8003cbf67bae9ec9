import BrokerSchema
import Foundation
import Testing

@testable import BrokerStore

/// The losses of a changed model, counted before anything is lost.
@Suite(.timeLimit(.minutes(5))) struct DroppedPartsTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": ["first", "last"], "attributes": {"first": "string", "last": "string", "age": "integer16"},
            "relationships": {"home": {"entity": "Place", "inverse": "people"}, "pets": {"entity": "Pet", "toMany": true}}},
          "Place": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "home"}}},
          "Pet": {"attributes": {"name": "string"}}}}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        try store.apply(
            """
            {"Person": [{"first": "A", "last": "B", "age": 3, "home": {"id": 7}, "pets": [{"name": "x"}, {"name": "y"}]},
              {"first": "C", "last": "D", "home": {"id": 7}}, {"first": "E", "last": "F", "age": 4}]}
            """)
        return store
    }

    private func losses(
        _ store: TestStore, _ model: String, _ removal: RemovalPolicy, _ verdict: StoreChange.Verdict
    ) throws -> [String: StoreLoss] {
        let changes = try Store.changes(path: store.path, plan: stagingPlan(model), removal: removal)
        return Dictionary(
            uniqueKeysWithValues: changes.filter { $0.verdict == verdict }.compactMap { change in
                change.loss.map { (change.subject, $0) }
            })
    }

    private static let bare = #"{"entities": {"Place": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    @Test func `each part that goes is counted with the rows that have it, and names some`() throws {
        let store = try store()
        let model = """
            {"entities": {"Person": {"identity": ["first", "last"], "attributes": {"first": "string", "last": "string"}}}}
            """
        let expected: [String: StoreLoss] = [
            "Person.age": StoreLoss(.values, count: 2, examples: ["'A', 'B': 3", "'E', 'F': 4"]),
            "Person.home": StoreLoss(.links, count: 2, examples: ["'A', 'B': 7", "'C', 'D': 7"]),
            "Person.pets": StoreLoss(.links, count: 2, examples: ["'A', 'B': 1", "'A', 'B': 2"]),
            "Place": StoreLoss(.objects, count: 1, examples: ["7"]),
            "Pet": StoreLoss(.objects, count: 2, examples: ["1", "2"]),
        ]
        #expect(try losses(store, model, .drop, .dropped) == expected)
        #expect(try losses(store, model, .refuse, .refused) == expected)
        #expect(try losses(store, model, .keep, .kept).isEmpty)
        #expect(try losses(store, Self.before, .drop, .dropped).isEmpty)
    }

    @Test func `what is counted is what a drop removes, and the file is not changed by counting`() throws {
        let store = try store()
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let bytes = try Data(contentsOf: URL(filePath: store.path))
        let objects = "SELECT (SELECT count(*) FROM Person) + (SELECT count(*) FROM Pet) + (SELECT count(*) FROM Place)"
        let before = try store.rows(objects)
        let counted = try losses(store, Self.bare, .drop, .dropped).values.filter { $0.kind == .objects }
        #expect(try Data(contentsOf: URL(filePath: store.path)) == bytes)
        try store.reopen(Self.bare, removal: .drop)
        let after = try store.rows("SELECT count(*) FROM Place")
        #expect(before == ["6"] && after == ["1"] && counted.reduce(0) { $0 + $1.count } == 5)
    }

    @Test func `links that the other side retains are not lost`() throws {
        let model = Self.before.replacing(
            #","# + "\n    " + #""relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "home"}}"#,
            with: ""
        ).replacing(#""entity": "Place", "inverse": "people""#, with: #""entity": "Place""#)
        #expect(model != Self.before)
        let store = try store()
        let changes = try Store.changes(path: store.path, plan: stagingPlan(model), removal: .drop)
        #expect(
            changes.contains { $0.verdict == .dropped && $0.subject == "Place.people" && $0.loss == nil }, "\(changes)")
        try store.reopen(model, removal: .drop)
        #expect(try store.rows("SELECT home FROM Person ORDER BY first") == ["7", "7", "NULL"])
    }

    @Test func `rows of relatives that retain the part are not counted`() throws {
        let family = """
            {"entities": {
              "Animal": {"identity": "id", "attributes": {"id": "integer64", "legs": "integer16"}},
              "Dog": {"parent": "Animal", "attributes": {"tricks": "string"}},
              "Cat": {"parent": "Animal", "attributes": {"tricks": "string", "lives": "integer16"}}}}
            """
        let store = try TestStore(family)
        try store.apply(
            """
            {"Animal": [{"id": 1, "legs": 4}], "Dog": [{"id": 2, "legs": 4, "tricks": "sit"}],
             "Cat": [{"id": 3, "legs": 4, "tricks": "jump", "lives": 9}, {"id": 4, "tricks": "purr"}]}
            """)
        let model = family.replacing(#""tricks": "string", "lives""#, with: #""lives""#)
            .replacing(#", "legs": "integer16""#, with: "")
            .replacing(#"{"tricks": "string"}"#, with: #"{"tricks": "string", "legs": "integer16"}"#)
        let found = try losses(store, model, .drop, .dropped)
        #expect(found["Cat.tricks"] == StoreLoss(.values, count: 2, examples: ["3: 'jump'", "4: 'purr'"]), "\(found)")
        let legs = "SELECT count(legs) FROM Animal"
        let before = try store.rows(legs)
        try store.reopen(model, removal: .drop)
        let after = try store.rows(legs)
        #expect(before == ["3"] && after == ["1"])
        #expect(found.filter { $0.key.hasSuffix(".legs") }.values.reduce(0) { $0 + $1.count } == 2, "\(found)")
    }

    @Test func `ten rows are named, each value in part, and the others are counted`() throws {
        let store = try TestStore(Self.before)
        let long = String(repeating: "x", count: 500)
        let people = (10...34).map { "{\"first\": \"\($0)\", \"last\": \"\(long)\", \"age\": 1}" }
        try store.apply("{\"Person\": [\(people.joined(separator: ","))]}")
        let loss = try #require(try losses(store, Self.bare, .drop, .dropped)["Person"])
        #expect(loss.count == 25 && loss.examples.count == 10 && loss.examples.allSatisfy { $0.count < 80 })
    }
}
