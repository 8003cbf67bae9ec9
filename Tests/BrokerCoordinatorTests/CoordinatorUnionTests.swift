import BrokerModel
import Testing
import TestSupport

@testable import BrokerCoordinator

/// A job of many collections, staged by many workers, does what its collections do one after the other.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorUnionTests {
    private static let tables = ["Author", "Book", "Shop", "Author_friends", "Book_shops"]

    @Test func `collections that name the same objects become one state, later ones winning`() throws {
        let test = try TestCoordinator(Library.model)
        test.submit(
            """
            {"Author": [{"id": 1, "name": "a", "books": [{"id": 10, "title": "x"}, 11]}],
             "Book": [{"id": 10, "title": "y", "shops": ["s", "t"]}, {"id": 12, "author": {"id": 1, "name": "b"}}],
             "Author": [{"id": 2, "books": 10, "favourite": 12}], "Book": {"id": 12, "fan": {"id": 1}}}
            """)
        #expect(
            test.events.ends(1)[0].body.hasPrefix(
                #""changes":{"Author":{"inserted":2,"updated":0,"unchanged":0,"deleted":0,"rejected":0},"#
                    + #""Book":{"inserted":3,"updated":0,"unchanged":0,"deleted":0,"rejected":0},"#
                    + #""Shop":{"inserted":2,"updated":0,"unchanged":0,"deleted":0,"rejected":0}}"#))
        #expect(try test.rows("SELECT id, name, favourite FROM Author ORDER BY 1") == ["1|b|12", "2|NULL|NULL"])
        #expect(
            try test.rows("SELECT id, title, author, fan FROM Book ORDER BY 1")
                == ["10|y|2|NULL", "11|NULL|1|NULL", "12|NULL|1|1"])
        #expect(try test.rows("SELECT source, destination FROM Book_shops ORDER BY 2") == ["10|s", "10|t"])
    }

    @Test func `random jobs of many collections leave the tables of as many jobs of one`() throws {
        var library = Library(generator: SeededGenerator(for: "jobs of many collections"))
        let jobs = (0..<60).map { _ in
            (0..<Int.random(in: 1...7, using: &library.generator)).map { _ in library.collection() }
        }
        let whole = try TestCoordinator(Library.model)
        let parts = try TestCoordinator(Library.model) { $0.limits.workers = 1 }
        for collections in jobs {
            whole.submit("{\(collections.joined(separator: ","))}", .skip)
            for collection in collections { parts.submit("{\(collection)}", .skip) }
        }
        #expect(whole.events.ends(jobs.count).allSatisfy { $0.code == nil })
        #expect(parts.events.ends(jobs.joined().count).allSatisfy { $0.code == nil })
        for table in Self.tables {
            let rows = try whole.rows("SELECT * FROM \(table) ORDER BY 1, 2")
            #expect(try rows == parts.rows("SELECT * FROM \(table) ORDER BY 1, 2"), "\(table)")
            #expect(!rows.isEmpty)
        }
        #expect(try whole.rows("PRAGMA foreign_key_check") == [])
    }
}

/// Random collections of few objects that are met often, at any depth, in every form of relationship.
private struct Library {
    static let model = """
        {"entities": {
          "Author": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "books": {"entity": "Book", "toMany": true, "inverse": "author"},
            "favourite": {"entity": "Book", "inverse": "fan"},
            "friends": {"entity": "Author", "toMany": true, "inverse": "friends"}}},
          "Book": {"identity": "id", "attributes": {"id": "integer64", "title": "string"}, "relationships": {
            "author": {"entity": "Author", "inverse": "books"},
            "fan": {"entity": "Author", "inverse": "favourite"},
            "shops": {"entity": "Shop", "toMany": true, "inverse": "books"}}},
          "Shop": {"identity": "name", "attributes": {"name": "string", "city": "string"}, "relationships": {
            "books": {"entity": "Book", "toMany": true, "inverse": "shops"}}}
        }}
        """

    var generator: SeededGenerator

    /// `"Entity": [records]`.
    mutating func collection() -> String {
        let entity = ["Author", "Book", "Shop"].randomElement(using: &generator)!
        let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in record(entity, depth: 3) }
        return "\"\(entity)\": [\(records.joined(separator: ","))]"
    }

    private static let members:
        [String: (text: String, relationships: [(name: String, destination: String, isToMany: Bool)])] = [
            "Author": ("name", [("books", "Book", true), ("favourite", "Book", false), ("friends", "Author", true)]),
            "Book": ("title", [("author", "Author", false), ("fan", "Author", false), ("shops", "Shop", true)]),
            "Shop": ("city", [("books", "Book", true)]),
        ]

    private mutating func record(_ entity: String, depth: Int) -> String {
        let (text, relationships) = Self.members[entity]!
        var members = ["\"\(entity == "Shop" ? "name" : "id")\": \(chance(25) ? "{}" : key(of: entity))"]
        if chance(2) { members.append("\"\(text)\": \(chance(4) ? "null" : "\"t\(number())\"")") }
        for (name, destination, isToMany) in relationships where chance(3) {
            members.append("\"\(name)\": \(value(destination, isToMany, depth: depth))")
        }
        return "{\(members.joined(separator: ","))}"
    }

    private mutating func value(_ destination: String, _ isToMany: Bool, depth: Int) -> String {
        // For a to-many, null ends the stored links, but in one job never those that the job names.
        guard isToMany else { return chance(5) ? "null" : element(destination, depth: depth) }
        return "[\((0..<number()).map { _ in element(destination, depth: depth) }.joined(separator: ","))]"
    }

    private mutating func element(_ destination: String, depth: Int) -> String {
        depth == 0 || chance(2) ? key(of: destination) : record(destination, depth: depth - 1)
    }

    private mutating func key(of entity: String) -> String { entity == "Shop" ? "\"s\(number())\"" : "\(number())" }
    private mutating func number() -> Int { Int.random(in: 1...4, using: &generator) }
    private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }
}
