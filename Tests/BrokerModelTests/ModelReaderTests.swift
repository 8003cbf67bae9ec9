import BrokerJSON
import Testing

@testable import BrokerModel

@Suite(.timeLimit(.minutes(5))) struct ModelReaderTests {
    @Test func `the example of the contract is read`() throws {
        let model = try read(staffModel)
        #expect(
            model.entities.map(\.name) == ["Department", "Employee", "User", "Child", "Boy", "Girl", "Article"])
        let employee = model.entities[1]
        #expect(employee.table == "employee")
        #expect(employee.root == "employee")
        #expect(employee.identity == [0])
        #expect(employee.attributes.map(\.name) == ["employeeId", "name", "email", "salary", "hiredAt"])
        #expect(employee.attributes.map(\.isOptional) == [false, false, true, true, true])
        #expect(employee.attributes[2].keyPaths == [["email"], ["contact", "email"]])
        #expect(employee.attributes[3].constraints.minimum == JSONFragment("0"))
        #expect(employee.attributes[4].keyPaths == [["hired_at"]])
        #expect(employee.attributes[4].dateFormats == ["yyyy/MM/dd HH:mm:ss Z"])
        #expect(employee.relationships[0].destination == 0)
        #expect(model.inverse(of: employee.relationships[0])?.name == "employees")
        #expect(model.entities[0].table == "Department")
        #expect(model.entities[0].relationships[0].isToMany)
    }

    @Test func `parts know their place in the document`() throws {
        let employee = try read(staffModel).entities[1]
        #expect(employee.place == ModelPlace(pointer: "/entities/Employee", line: 9, column: 17))
        #expect(
            employee.attributes[0].place
                == ModelPlace(pointer: "/entities/Employee/attributes/employeeId", line: 12, column: 24))
    }

    @Test func `every field of an attribute is read`() throws {
        let text = attribute(
            #""type": "string", "key": "x.y", "optional": false, "default": "q\"é", "minLength": 1, "maxLength": 9, "#
                + #""pattern": "^q", "enum": ["q\"é", 1], "transform": ["trim", "lowercase"], "onInvalid": "skip", "#
                + #""indexed": true, "unique": true, "description": "for people""#)
        let entity = try read(text).entities[0]
        let attribute = entity.attributes[0]
        #expect(attribute.keyPaths == [["x", "y"]])
        #expect(!attribute.isOptional)
        #expect(attribute.defaultValue == JSONFragment(#""q\"é""#))
        #expect(
            attribute.constraints
                == ValueConstraints(
                    minimumLength: 1, maximumLength: 9, pattern: "^q",
                    allowed: [JSONFragment(#""q\"é""#), JSONFragment("1")]))
        #expect(attribute.transforms == [.trim, .lowercase])
        #expect(attribute.onInvalid == .skip)
        #expect(entity.unique == [[0]])
        #expect(entity.indexes.isEmpty, "a unique attribute has an index already")
    }

    @Test func `every field of a date is read`() throws {
        let text = attribute(
            #""type": "date", "formats": ["yyyy", "yyyy-MM"], "timeZone": "Europe/Berlin", "storage": "unix", "#
                + #""min": "1970-01-01", "max": 4e9, "default": 0"#)
        let attribute = try read(text).entities[0].attributes[0]
        #expect(attribute.dateFormats == ["yyyy", "yyyy-MM"])
        #expect(attribute.timeZone == "Europe/Berlin")
        #expect(attribute.dateStorage == .unix)
        #expect(attribute.constraints.minimum == JSONFragment(#""1970-01-01""#))
        #expect(attribute.constraints.maximum == JSONFragment("4e9"))
        #expect(attribute.defaultValue == JSONFragment("0"))
    }

    @Test func `every field of a relationship is read`() throws {
        let text = relationship(
            #""entity": "B", "toMany": true, "key": ["b.c", "d"], "deleteRule": "deny", "assignment": "replace", "#
                + #""missing": "fail", "ordered": false"#)
        let relationship = try read(text).entities[0].relationships[0]
        #expect(relationship.destination == 1)
        #expect(relationship.isToMany)
        #expect(relationship.inverse == nil)
        #expect(relationship.keyPaths == [["b", "c"], ["d"]])
        #expect(relationship.deleteRule == .deny)
        #expect(relationship.assignment == .replace)
        #expect(relationship.missing == .fail)
    }

    @Test func `defaults keep every digit and brace as written`() throws {
        let digits = attribute(#""type": "decimal", "default": 1.50000000000000000000001E+2"#)
        #expect(try read(digits).entities[0].attributes[0].defaultValue == JSONFragment("1.50000000000000000000001E+2"))
        let object = attribute(#""type": "transformable", "default": {"x": [1, 2]}"#)
        #expect(try read(object).entities[0].attributes[0].defaultValue == JSONFragment(#"{"x": [1, 2]}"#))
        let null = attribute(#""type": "string", "default": null"#)
        #expect(try read(null).entities[0].attributes[0].defaultValue == nil)
    }

    @Test(arguments: [
        ("hiredAt", "hired_at"), ("userID", "user_id"), ("URLString", "url_string"), ("name", "name"),
        ("userIDs", "user_ids"), ("line2Text", "line2_text"), ("aBC", "a_bc"), ("already_snake", "already_snake"),
        ("my_Name", "my_name"), ("isASystem", "is_a_system"), ("URL", "url"),
    ])
    func `snake case follows words and acronyms`(name: String, key: String) {
        #expect(KeyStyle.snakeCase.key(forName: name) == key)
        #expect(KeyStyle.exact.key(forName: name) == name)
    }

    @Test func `the key style leaves given keys alone`() throws {
        let text = """
            {"keyStyle": "snakeCase", "entities": {"A": {
              "attributes": {"hiredAt": "date", "firedAt": {"type": "date", "key": "firedAt"}},
              "relationships": {"nextOne": {"entity": "A"}}}}}
            """
        let entity = try read(text).entities[0]
        #expect(entity.attributes.map(\.keyPaths) == [[["hired_at"]], [["firedAt"]]])
        #expect(entity.relationships[0].keyPaths == [["next_one"]])
    }
}

@Suite(.timeLimit(.minutes(5))) struct IdentityTests {
    private func keyPaths(_ fields: String) throws -> [[String]] {
        try read(entity(fields)).entities[0].attributes[0].keyPaths
    }

    @Test func `an unclaimed id is the single identity's least preferred key`() throws {
        #expect(try keyPaths(#""identity": "n", "attributes": {"n": "integer64"}"#) == [["n"], ["id"]])
        #expect(
            try keyPaths(#""identity": "n", "attributes": {"n": {"type": "integer64", "key": ["a.b", "c"]}}"#)
                == [["a", "b"], ["c"], ["id"]])
    }

    @Test func `an id that an attribute or relationship claims is not read as the identity`() throws {
        #expect(
            try keyPaths(#""identity": "n", "attributes": {"n": "integer64", "o": {"type": "string", "key": "id"}}"#)
                == [["n"]])
        #expect(
            try keyPaths(#""identity": "n", "attributes": {"n": "string"}, "relationships": {"id": {"entity": "A"}}"#)
                == [["n"]])
        #expect(try keyPaths(#""identity": "id", "attributes": {"id": "integer64"}"#) == [["id"]])
    }

    @Test func `without a single identity an id is nothing special`() throws {
        #expect(try keyPaths(#""attributes": {"n": "integer64"}"#) == [["n"]])
        #expect(try keyPaths(#""identity": ["n", "o"], "attributes": {"n": "string", "o": "string"}"#) == [["n"]])
    }

    @Test func `identity attributes are required unless the identity is optional`() throws {
        let required = entity(#""identity": ["o", "n"], "attributes": {"n": "string", "o": "uuid"}"#)
        let entity = try read(required).entities[0]
        #expect(entity.identity == [1, 0])
        #expect(entity.attributes.map(\.isOptional) == [false, false])
        let optional = BrokerModelTests.entity(
            #""identity": "n", "identityOptional": true, "attributes": {"n": "string"}"#)
        #expect(try read(optional).entities[0].attributes[0].isOptional)
        #expect(try read(optional).entities[0].isIdentityOptional)
    }

    @Test func `unique lists and indexes come from attributes and entity without repetition`() throws {
        let text = entity(
            #""identity": "n", "attributes": {"n": {"type": "string", "unique": true, "indexed": true}, "#
                + #""o": {"type": "string", "indexed": true}, "p": "string"}, "#
                + #""unique": [["o", "p"], "p"], "indexes": [["o"], ["p", "o"], ["p"]]"#)
        let entity = try read(text).entities[0]
        #expect(entity.unique == [[1, 2], [2]])
        #expect(entity.indexes == [[1], [2, 1]])
        #expect(try read(BrokerModelTests.entity(#""unique": [], "indexes": []"#)).entities[0].unique.isEmpty)
    }
}

@Suite(.timeLimit(.minutes(5))) struct InverseTests {
    private func model(_ first: String, _ second: String) -> String {
        #"{"entities": {"A": {"relationships": {\#(first)}}, "B": {"relationships": {\#(second)}}}}"#
    }

    @Test(arguments: [
        (#", "inverse": "a""#, ""), ("", #", "inverse": "b""#), (#", "inverse": "a""#, #", "inverse": "b""#),
    ])
    func `one side that names the inverse is enough`(first: String, second: String) throws {
        let text = model(
            #""x": {"entity": "B"}, "b": {"entity": "B"\#(first)}"#, #""a": {"entity": "A", "toMany": true\#(second)}"#)
        let model = try read(text)
        #expect(model.entities[0].relationships.map(\.inverse) == [nil, 0])
        #expect(model.entities[1].relationships.map(\.inverse) == [1])
    }

    @Test func `a relationship may be its own inverse`() throws {
        let text = entity(#""relationships": {"friends": {"entity": "A", "toMany": true, "inverse": "friends"}}"#)
        #expect(try read(text).entities[0].relationships[0].inverse == 0)
    }

    @Test func `an inverse that does not lead back is refused`() {
        let found = faults(
            of: """
                {"entities": {
                  "A": {"relationships": {"b": {"entity": "B", "inverse": "c"}}},
                  "B": {"relationships": {"c": {"entity": "C"}}},
                  "C": {}}}
                """)
        #expect(
            found == [
                ModelFault(
                    #""c" of B leads to C, not to A; an inverse leads back"#,
                    at: ModelPlace(pointer: "/entities/A/relationships/b/inverse", line: 2, column: 60))
            ])
    }

    @Test func `inverses that name different relationships are refused on both sides`() {
        let found = faults(
            of: model(
                #""b": {"entity": "B", "inverse": "a"}, "c": {"entity": "B"}"#, #""a": {"entity": "A", "inverse": "c"}"#
            ))
        #expect(found.map(\.place.pointer) == ["/entities/A/relationships/b/inverse"])
        #expect(found.first?.message.contains(#"names "c" as its inverse, not "b""#) == true)
    }

    @Test func `an inverse belongs to one relationship`() {
        let found = faults(
            of: model(
                #""b": {"entity": "B", "inverse": "a"}, "c": {"entity": "B", "inverse": "a"}"#, #""a": {"entity": "A"}"#
            ))
        #expect(found.map(\.place.pointer) == ["/entities/A/relationships/c/inverse"])
        #expect(found.first?.message.contains(#"is the inverse of "b" already"#) == true)
    }
}
