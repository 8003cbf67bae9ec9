import BrokerJSON
import Testing

@testable import BrokerModel

/// A model of these entities.
private func entities(_ text: String) -> String { #"{"entities": {"# + text + "}}" }

@Suite(.timeLimit(.minutes(5))) struct HierarchyModelTests {
    private static let people = entities(
        """
        "Manager": {"parent": "Employee", "attributes": {"title": "string", "level": "integer16"}},
        "Person": {"abstract": true, "identity": "id", "attributes": {"id": "integer64", "name": "string"},
                   "relationships": {"boss": {"entity": "Manager", "inverse": "staff"}}},
        "Employee": {"parent": "Person", "attributes": {"salary": "decimal"}, "unique": [["name", "salary"]]},
        "Clerk": {"parent": "Employee", "attributes": {"title": "string", "level": "string"}},
        "Guest": {"parent": "Person", "relationships": {"host": {"entity": "Employee"}}},
        "Room": {"relationships": {"people": {"entity": "Person", "toMany": true}}}
        """)

    @Test func `entities of a hierarchy share its columns, and each says which it has`() throws {
        let faults = faults(of: Self.people)
        #expect(faults.map(\.place.pointer) == ["/entities/Person/relationships/boss/inverse"])
        let model = try read(Self.people.replacing(#", "inverse": "staff""#, with: ""))
        let columns = { (name: String) in
            let entity = model.entities[model.index(ofEntity: name)!]
            return entity.attributeIndices.map { entity.attributes[$0].column }
        }
        #expect(columns("Person") == ["id", "name"])
        #expect(columns("Manager") == ["id", "name", "salary", "title", "Manager_level"])
        #expect(columns("Clerk") == ["id", "name", "salary", "title", "Clerk_level"])
        #expect(columns("Guest") == ["id", "name"])
        #expect(Set(model.entities.map(\.attributes.count)) == [6, 0])
        let manager = try #require(model.index(ofEntity: "Manager"))
        #expect(model.entities[manager].identity == [0])
        #expect(model.ancestors(of: manager).map { model.entities[$0].name } == ["Employee", "Person"])
        #expect(
            model.subentities(of: 1).map { model.entities[$0].name } == [
                "Manager", "Person", "Employee", "Clerk", "Guest",
            ])
        #expect(model.tableEntities.map { model.entities[$0].name } == ["Person", "Room"])
        #expect(model.entities[1].unique == [[1, 2]])
        #expect(model.entities[manager].index(ofRelationship: "boss") != nil)
        #expect(model.entities[manager].index(ofRelationship: "host") == nil)
    }

    @Test func `a written hierarchy reads as the same model`() throws {
        let model = try read(Self.people.replacing(#", "inverse": "staff""#, with: ""))
        let again = try read(written(model))
        #expect(content(of: again) == content(of: model))
    }

    @Test func `a plain id is the identity's for those that have no attribute of that key`() throws {
        let model = try read(
            entities(
                """
                "A": {"identity": "key", "attributes": {"key": "integer64"}},
                "B": {"parent": "A", "attributes": {"id": "string"}}, "C": {"parent": "A"}
                """))
        #expect(
            model.entities.map { $0.attributes[0].keyPaths } == [[["key"], ["id"]], [["key"]], [["key"], ["id"]]])
    }

    @Test func `below a topmost entity without identity, each branch may have its own`() throws {
        let model = try read(
            entities(
                """
                "Record": {"abstract": true, "attributes": {"seenAt": "date"}},
                "User": {"parent": "Record", "identity": "id", "attributes": {"id": "integer64"}},
                "Admin": {"parent": "User"},
                "Tag": {"parent": "Record", "identity": "name", "attributes": {"name": "string"}}
                """))
        #expect(model.entities.map(\.identity.count) == [0, 1, 1, 1])
        #expect(model.entities.map(\.hasRowKey) == [true, true, true, true])
        #expect(model.entities.map(\.hasIdentityOfItsOwn) == [false, true, true, true])
    }

    @Test(arguments: [
        FaultCase(entities(#""A": {"parent": "B"}"#), "/entities/A/parent", #"no entity "B""#),
        FaultCase(entities(#""A": {"parent": "A"}"#), "/entities/A/parent", "inherit from itself"),
        FaultCase(
            entities(
                #""A": {"attributes": {"x": "string"}}, "B": {"parent": "A", "attributes": {"X": "string"}}"#),
            "/entities/B/attributes/X", #"from A already"#),
        FaultCase(
            entities(
                """
                "A": {"identity": "x", "attributes": {"x": "string"}},
                "B": {"parent": "A", "identity": "y", "attributes": {"y": "string"}}
                """), "/entities/B/identity", "A has the identity"),
        FaultCase(
            entities(#""A": {}, "B": {"parent": "A", "attributes": {"_entity": "string"}}"#),
            "/entities/B/attributes/_entity", "the entity of each object"),
        FaultCase(
            entities(
                """
                "A": {"identity": "x", "attributes": {"x": "string", "y": "date"}},
                "B": {"parent": "A", "modified": "y"}
                """), "/entities/B/modified", "topmost"),
        FaultCase(
            entities(
                """
                "P": {"identity": "x", "attributes": {"x": "string"}, "relationships": {"t": {"entity": "T"}}},
                "A": {"parent": "P"}, "T": {"relationships": {"as": {"entity": "A", "toMany": true, "inverse": "t"}}}
                """), "/entities/T/relationships/as/inverse", "an inverse of it leads to P"),
    ])
    func `each fault of a hierarchy has a sentence of its own`(fault: FaultCase) { fault.check() }

    @Test func `every entity of a circle of parents is reported`() {
        let found = faults(
            of: entities(#""A": {"parent": "B"}, "B": {"parent": "C"}, "C": {"parent": "A"}, "D": {"parent": "C"}"#))
        #expect(found.map(\.place.pointer) == ["/entities/A/parent", "/entities/B/parent", "/entities/C/parent"])
    }
}
