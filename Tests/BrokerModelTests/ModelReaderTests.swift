import BrokerJSON
import Testing

@testable import BrokerModel

@Suite(.timeLimit(.minutes(5))) struct ModelReaderTests {
    @Test func `the example of the contract is read`() throws {
        let model = try read(staffModel)
        #expect(model.entities.map(\.name) == ["Department", "Employee", "User", "Child", "Boy", "Girl", "Article"])
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

    @Test(
        arguments: [
            (#""geo.lat""#, [["geo", "lat"]]), (#"["http.status"]"#, [["http.status"]]), (#"["name"]"#, [["name"]]),
            (#"[""]"#, [[""]]), (#"["k\u0000\"é"]"#, [["k\0\"é"]]), (#"[]"#, []),
            (#"["geo.lat", "lat"]"#, [["geo", "lat"], ["lat"]]), (#"[["geo", "lat.deg"]]"#, [["geo", "lat.deg"]]),
            (#"["a", ["b.c"], ["d", ""]]"#, [["a"], ["b.c"], ["d", ""]]), (#""@parent.id""#, [["@parent", "id"]]),
        ] as [(String, [[String]])])
    func `keys as they are, and paths, are read and written again`(key: String, paths: [[String]]) throws {
        let text =
            #"{"entities": {"A": {"ignore": \#(key.contains("@") || key == #"[""]"# ? "[]" : key), "attributes": {"x": {"type": "integer64", "key": \#(key)}}}, "#
            + #""B": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"a": {"entity": "A"}}}}}"#
        let model = try read(text)
        #expect(model.entities[0].attributes[0].keyPaths == paths)
        var writer = JSONWriter()
        model.write(to: &writer)
        let written = String(decoding: writer.bytes, as: UTF8.self)
        let again = try ModelReader.read(
            ModelDocument(parsing: JSONText(copying: Array(written.utf8))).readingStoredPaths())
        #expect(try read(written).entities[0].attributes[0].keyPaths == paths, "\(written)")
        #expect(again.entities[0].attributes[0].keyPaths == paths)
        #expect(again.entities[0].ignoredPaths == model.entities[0].ignoredPaths)
    }

    @Test func `a path in a model that an earlier version stored is one, and so is the only one to be ignored`() throws
    {
        let text =
            #"{"entities": {"A": {"ignore": ["a.b"], "attributes": {"x": {"type": "string", "key": ["geo.lat"]}}}}}"#
        let stored = try ModelReader.read(
            ModelDocument(parsing: JSONText(copying: Array(text.utf8))).readingStoredPaths())
        #expect(stored.entities[0].attributes[0].keyPaths == [["geo", "lat"]])
        #expect(stored.entities[0].ignoredPaths == [["a", "b"]])
        #expect(try read(text).entities[0].attributes[0].keyPaths == [["geo.lat"]])
    }

    @Test func `a content is a text, and needs no record around`() throws {
        let model = { (type: String) in
            #"{"entities": {"A": {"identity": "c", "attributes": {"c": {"type": "\#(type)", "key": "@record.@content"}, "#
                + #""x": {"type": "string", "key": ["@content"]}}}}}"#
        }
        let attributes = try read(model("string")).entities[0].attributes
        #expect(attributes.map(\.holderValue) == [.content, nil])
        #expect(attributes[1].keyPaths == [["@content"]])
        #expect(throws: ModelError.self) { try read(model("integer64")) }
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
                  "B": {"relationships": {"c": {"entity": "C"}}}, "C": {}}}
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

    @Test func `relatives may have a to-one and a to-many relationship of one name`() throws {
        for flags in [("true", "false"), ("false", "true")] {
            let model = try read(
                """
                {"entities": {
                  "Top": {"identity": "id", "attributes": {"id": "integer64"}},
                  "A": {"parent": "Top", "relationships": {"x": {"entity": "Other", "toMany": \(flags.0)}}},
                  "B": {"parent": "Top", "relationships": {"x": {"entity": "Other", "toMany": \(flags.1)}}},
                  "Other": {"identity": "id", "attributes": {"id": "integer64"}}}}
                """)
            let forms = RowLayout(model).entities[0].forms
            for entity in model.entities[1...2] {
                let place = try #require(entity.relationshipIndices.first)
                let isToMany = entity.relationships[place].isToMany
                #expect(forms[place] == (isToMany ? .linkTable(0, isReversed: false) : .column(1)))
            }
        }
    }

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

    @Test(
        arguments: FaultCase.list(
            entities, at: "/entities",
            #"""
            "A": {"parent": "B"} => /A/parent :: no entity "B"
            "A": {"parent": "A"} => /A/parent :: inherit from itself
            "A": {"attributes": {"x": "string"}}, "B": {"parent": "A", "attributes": {"X": "string"}}
              => /B/attributes/X :: from A already
            "A": {"identity": "x", "attributes": {"x": "string"}}, "B": {"parent": "A", "identity": "y", "attributes": {"y":
              "string"}} => /B/identity :: A has the identity
            "A": {}, "B": {"parent": "A", "attributes": {"_entity": "string"}}
              => /B/attributes/_entity :: the entity of each object
            "A": {"identity": "x", "attributes": {"x": "string", "y": "date"}}, "B": {"parent": "A", "modified": "y"}
              => /B/modified :: topmost
            "P": {"identity": "x", "attributes": {"x": "string"}, "relationships": {"t": {"entity": "T"}}}, "A": {"parent":
              "P"}, "T": {"relationships": {"as": {"entity": "A", "toMany": true, "inverse": "t"}}}
              => /T/relationships/as/inverse :: an inverse of it leads to P
            """#))
    func `each fault of a hierarchy has a sentence of its own`(fault: FaultCase) { fault.check() }

    @Test func `every entity of a circle of parents is reported`() {
        let found = faults(
            of: entities(#""A": {"parent": "B"}, "B": {"parent": "C"}, "C": {"parent": "A"}, "D": {"parent": "C"}"#))
        #expect(found.map(\.place.pointer) == ["/entities/A/parent", "/entities/B/parent", "/entities/C/parent"])
    }
}

/// A model with the entities `User` and `Post`, and these fields beside them.
private func model(_ fields: String) -> String {
    """
    {"entities": {
      "User": {"identity": "name", "attributes": {"name": "string", "email": "string"},
               "relationships": {"posts": {"entity": "Post", "toMany": true, "inverse": "author"}}},
      "Post": {"identity": "id", "attributes": {"id": "integer64", "title": "string"},
               "relationships": {"author": {"entity": "User"}}}}, \(fields)}
    """
}

private func mapping(_ fields: String) -> String { model(#""mappings": {"m": {"# + fields + "}}") }

private func route(_ fields: String) -> String {
    model(#""mappings": {"m": {"entity": "User"}}, "routes": [{"# + fields + "}]")
}

@Suite(.timeLimit(.minutes(5))) struct MappingModelTests {
    private static let whole = model(
        """
        "mappings": {
          "post": {"entity": "Post", "attributes": {"headline.text": "title", "headline": "title"},
                   "relationships": {"writer": {"relationship": "author", "mapping": "user"}, "by": "author"}},
          "user": {"entity": "User", "nestingKey": "name", "collection": true, "attributes": {"(name).mail.main": "email"}},
          "any": {"select": {"key": "meta.kind", "cases": {"post": "post", "1": "user"}, "otherwise": "post"}},
          "some": {"select": {"key": "kind", "cases": {"x": "any"}, "otherwise": null}},
          "strict": {"select": {"key": "kind", "cases": {"x": "any"}}}
        },
        "routes": [{"path": "/posts/:id", "keyPath": "data.posts", "mapping": "any"}, {"keyPath": "error", "error": true}]
        """)

    @Test func `mappings and routes are read`() throws {
        let model = try read(Self.whole)
        #expect(model.mappings.map(\.name) == ["post", "user", "any", "some", "strict"])
        guard case .record(let post) = model.mappings[0].form, case .record(let user) = model.mappings[1].form,
            case .select(let any) = model.mappings[2].form, case .select(let some) = model.mappings[3].form,
            case .select(let strict) = model.mappings[4].form
        else {
            Issue.record("the forms are others: \(model.mappings)")
            return
        }
        #expect(post.attributes == [1: [MappedPath(keys: ["headline", "text"]), MappedPath(keys: ["headline"])]])
        #expect(post.relationships[0]?.paths.map(\.keys) == [["writer"], ["by"]])
        #expect(post.relationships[0]?.mapping == 1)
        #expect(user.nesting?.attribute == 0)
        #expect(user.nesting?.isCollection == true)
        #expect(user.attributes == [1: [MappedPath(isBelowKey: true, keys: ["mail", "main"])]])
        #expect(any.key == ["meta", "kind"])
        #expect(any.cases.map(\.value) == ["post", "1"])
        #expect([any.otherwise, some.otherwise, strict.otherwise] == [.mapping(0), .decline, .refuse])
        #expect(model.routes.map(\.summary) == ["path /posts/:id and key path data.posts", "key path error"])
        #expect(model.routes.map(\.isError) == [false, true])
        #expect(model.entities(ofMapping: 3) == [0, 1])
    }

    @Test func `written mappings and routes read as the same`() throws {
        let model = try read(Self.whole)
        let again = try read(written(model))
        #expect(content(of: again) == content(of: model))
        #expect(written(again) == written(model))
    }

    @Test(
        arguments: FaultCase.list(
            mapping, at: "/mappings/m",
            #"""
            => :: needs an "entity"
            "entity": "Usr" => /entity :: did you mean "User"?
            "entity": "User", "attributes": {"x": "emial"} => /attributes/x :: did you mean "email"?
            "entity": "User", "attributes": {"x": "posts"} => /attributes/x :: it is a relationship
            "entity": "User", "attributes": {"x..y": "email"} => /attributes/x..y :: empty key
            "entity": "User", "attributes": {"(name).x": "email"} => /attributes/(name).x :: add "nestingKey"
            "entity": "User", "nestingKey": "name", "attributes": {"(nam).x": "email"}
              => /attributes/(nam).x :: write (name)
            "entity": "User", "collection": true => /collection :: nestingKey
            "entity": "User", "nestingKey": "name", "attributes": {"(name).(year)": "email"}
              => /attributes/(name).(year) :: one level of keys as values, and "(name).(year)" has "(name)" and "(year)"
            "entity": "User", "nestingKey": "name", "attributes": {"(name).x.(year).y": "email"}
              => /attributes/(name).x.(year).y :: one level of keys
            "entity": "User", "nestingKey": "name", "attributes": {"x.(name).y": "email"}
              => /attributes/x.(name).y :: begin with it
            "entity": "User", "relationships": {"x": "post"} => /relationships/x :: did you mean "posts"?
            "entity": "User", "relationships": {"x": {"relationship": "posts", "mapping": "n"}}
              => /relationships/x/mapping :: no mapping "n"
            "entity": "User", "relationships": {"x": {"relationship": "posts", "mapping": "m"}} => :: "posts" leads to Post
            "select": {"cases": {"x": "m"}} => :: leads back to itself
            "select": {"key": "k"} => /select :: needs "cases"
            "select": {"key": "k", "cases": {}} => /select/cases :: has no case
            "select": {"key": "k", "cases": {"x": "n"}} => /select/cases/x :: no mapping "n"
            "entity": "User", "select": {"key": "k", "cases": {}} => /select :: either
            """#)
            + FaultCase.list(
                route, at: "/routes/0",
                #"""
                "keyPath": "x" => :: leads nowhere
                "mapping": "m" => :: which payloads
                "keyPath": "x", "mapping": "m", "error": true => /mapping :: either
                "keyPath": "x", "mapping": "n" => /mapping :: did you mean "m"?
                "keyPath": ".x", "mapping": "m" => /keyPath :: empty key
                "path": "/x/:", "mapping": "m" => /path :: no name after it
                """#) + [
                FaultCase(model(#""routes": [{"keyPath": "x", "mapping": "n"}]"#), "/routes/0/mapping", "no mappings")
            ])
    func `each fault of a mapping or a route has a sentence of its own`(fault: FaultCase) {
        let found = faults(of: fault.json).filter { $0.place.pointer == fault.pointer }
        #expect(found.contains { $0.message.contains(fault.message) }, "\(faults(of: fault.json))")
    }
}

/// The sent and the stored outcome of a job.
@Suite(.timeLimit(.minutes(5))) struct OutcomeTests {
    private static func outcome(_ changes: [(String, ChangeCounts)], _ change: (inout Outcome) -> Void = { _ in })
        -> Outcome
    {
        var outcome = Outcome()
        outcome.changes = changes.map { (entity: $0, counts: $1) }
        change(&outcome)
        return outcome
    }

    private static let others: [Outcome] = [
        outcome([("Row", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 2))]),
        outcome([("Row", ChangeCounts(updated: 1))]),
        outcome([("Line", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 1)), ("Line", ChangeCounts(inserted: 1))]),
        // Two names in Unicode's eyes alone.
        outcome([("\u{E9}", ChangeCounts(inserted: 1))]), outcome([("e\u{301}", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 1))]) { $0.keys = Array("{}".utf8) },
        outcome([("Row", ChangeCounts(inserted: 1))]) { $0.rejected = [Fault(.invalidValue, "It is no number.")] },
        outcome([("Row", ChangeCounts(inserted: 1))]) {
            $0.warnings = [Warning(.unknownKey, entity: "Row", key: "bunk", count: 1)]
        },
        outcome([]),
    ]

    @Test func `a written outcome has its own text`() throws {
        for outcome in Self.others {
            var written = outcome
            written.writeBrief()
            #expect(written.members == outcome.members)
            #expect(written.storedObject == outcome.storedObject)
            written.changes.append((entity: "Other", counts: ChangeCounts(deleted: 3)))
            #expect(written.members != outcome.members)
        }
    }

    @Test func `an outcome of only the changes of another one has its text`() throws {
        for outcome in Self.others {
            for other in Self.others where outcome.isOnly(other.changes) && other.isOnly(other.changes) {
                #expect(outcome.members == other.members)
                #expect(outcome.storedObject == other.storedObject)
            }
        }
        let plain = Self.others.filter { $0.isOnly($0.changes) }
        #expect(plain.count == Self.others.count { $0.keys == nil && $0.rejected.isEmpty && $0.warnings.isEmpty })
    }

    @Test func `the stored outcome is an object of the sent members`() throws {
        for outcome in Self.others {
            #expect(outcome.storedObject == Array("{".utf8) + outcome.members + Array("}".utf8))
            _ = try JSONDocument(parsing: JSONText(copying: outcome.storedObject))
        }
    }
}

/// The example of the model's public form, mappings and routes and all.
let staffModel = """
    {
      "keyStyle": "exact",
      "entities": {
        "Department": {
          "identity": "departmentId",
          "attributes": {"departmentId": {"type": "integer64", "key": "id"}, "name": "string"},
          "relationships": {"employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}
        },
        "Employee": {
          "table": "employee", "root": "employee", "ignore": ["trace", "contact.raw"], "identity": ["employeeId"],
          "attributes": {
            "employeeId": "integer64",
            "name": {"type": "string", "optional": false, "transform": ["trim"], "maxLength": 200},
            "email": {"type": "string", "key": ["email", "contact.email"], "pattern": ".+@.+"},
            "salary": {"type": "decimal", "min": 0},
            "hiredAt": {"type": "date", "key": "hired_at", "format": "yyyy/MM/dd HH:mm:ss Z"}
          },
          "relationships": {
            "department": {"entity": "Department", "inverse": "employees", "deleteRule": "nullify"}
          }
        },
        "User": {"identity": "username", "attributes": {"username": "string", "email": "string"}},
        "Child": {"abstract": true, "identity": "name", "attributes": {"name": "string"}},
        "Boy": {"parent": "Child"}, "Girl": {"parent": "Child"},
        "Article": {"identity": "articleID", "attributes": {"articleID": "integer64", "title": "string"}}
      },
      "mappings": {
        "people": {"select": {"key": "type", "cases": {"Boy": "boy", "Girl": "girl"}, "otherwise": null}},
        "boy": {"entity": "Boy"}, "girl": {"entity": "Girl"},
        "users": {"entity": "User", "nestingKey": "username"},
        "article": {"entity": "Article", "attributes": {"headline.text": "title"}}
      },
      "routes": [
        {"keyPath": "articles", "mapping": "article"},
        {"path": "/articles/:articleID", "mapping": "article"},
        {"keyPath": "error", "error": true}, {"keyPath": "errors", "error": true}
      ]
    }
    """

func read(_ json: String) throws -> Model { try ModelReader.read(JSONText(copying: Array(json.utf8))) }

/// The faults of a model; empty for a valid one.
func faults(of json: String) -> [ModelFault] {
    do {
        _ = try ModelReader.read(JSONText(copying: Array(json.utf8)))
        return []
    } catch {
        return error.faults
    }
}

/// A model of the entity `A` with these fields.
func entity(_ fields: String) -> String { #"{"entities": {"A": {"# + fields + "}}}" }

/// A model of the entity `A` with the attribute `a` of these fields.
func attribute(_ fields: String) -> String { entity(#""attributes": {"a": {"# + fields + "}}") }

/// A model of the entities `A` and `B`, `A` with the relationship `b` of these fields.
func relationship(_ fields: String) -> String {
    #"{"entities": {"A": {"relationships": {"b": {"# + fields + #"}}}, "B": {"attributes": {"name": "string"}}}}"#
}

func written(_ model: Model) -> String {
    var writer = JSONWriter()
    model.write(to: &writer)
    return String(decoding: writer.bytes, as: UTF8.self)
}

/// Everything of a model but the places, for comparison.
func content(of model: Model) -> String {
    let entities = model.entities.map { entity in
        var entity = entity
        entity.place = .unknown
        for index in entity.attributes.indices { entity.attributes[index].place = .unknown }
        for index in entity.relationships.indices { entity.relationships[index].place = .unknown }
        return entity
    }
    let mappings = model.mappings.map { mapping in
        var mapping = mapping
        mapping.place = .unknown
        // Dictionaries have no order.
        guard case .record(let record) = mapping.form else { return String(reflecting: mapping) }
        return "\(mapping.name) \(record.entity) \(String(reflecting: record.nesting)) "
            + String(reflecting: record.attributes.sorted { $0.key < $1.key })
            + String(reflecting: record.relationships.sorted { $0.key < $1.key })
    }
    let routes = model.routes.map { "\($0.summary) \(String(reflecting: $0.mapping))" }
    return String(reflecting: entities) + mappings.joined() + routes.joined()
}
