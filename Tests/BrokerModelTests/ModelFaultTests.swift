import BrokerJSON
import Testing

@testable import BrokerModel

/// A model with one fault, the pointer at which it must be found, and a part of what is said.
struct FaultCase: Sendable, CustomTestStringConvertible {
    let json: String
    let pointer: String
    let message: String

    init(_ json: String, _ pointer: String, _ message: String) {
        self.json = json
        self.pointer = pointer
        self.message = message
    }

    var testDescription: String { message }

    func check() {
        let found = faults(of: json)
        #expect(found.map(\.place.pointer) == [pointer], "\(found)")
        #expect(found.first?.message.contains(message) == true, "\(found)")
    }
}

@Suite(.timeLimit(.minutes(5))) struct ModelFaultTests {
    @Test func `text that is no JSON is one fault with its place`() {
        let place = ModelPlace(pointer: "", line: 2, column: 3)
        #expect(
            faults(of: "{\n  x}")
                == [ModelFault("the model is not JSON: expected a key in double quotes, saw 'x'", at: place)])
        #expect(
            faults(of: "").map(\.message) == [
                "the model is not JSON: there is no JSON here, only white space or nothing"
            ])
    }

    @Test func `all faults are listed in the order of the document`() {
        let found = faults(
            of: """
                {
                  "keyStyle": "kebab",
                  "entities": {
                    "Person": {
                      "identty": "id",
                      "attributes": {
                        "id": "integer",
                        "born": {"type": "date", "minLength": 3, "formt": "yyyy"},
                        "id": "string"
                      },
                      "relationships": {
                        "home": {"entity": "Hose", "inverse": "people"},
                        "desk": {"entity": "House", "inverse": "peple"}
                      }
                    },
                    "House": {"parent": "Thing", "relationships": {"people": {"toMany": true}}},
                    "HOUSE": {}
                  },
                  "routs": []
                }
                """)
        let expected: [(line: Int, column: Int, pointer: String)] = [
            (2, 16, "/keyStyle"), (5, 8, "/entities/Person/identty"), (7, 16, "/entities/Person/attributes/id"),
            (8, 47, "/entities/Person/attributes/born/minLength"), (8, 51, "/entities/Person/attributes/born/formt"),
            (9, 10, "/entities/Person/attributes/id"), (12, 29, "/entities/Person/relationships/home/entity"),
            (13, 49, "/entities/Person/relationships/desk/inverse"), (16, 26, "/entities/House/parent"),
            (16, 62, "/entities/House/relationships/people"), (17, 6, "/entities/HOUSE"), (19, 4, "/routs"),
        ]
        #expect(
            found.map(\.place) == expected.map { ModelPlace(pointer: $0.pointer, line: $0.line, column: $0.column) })
        #expect(found.map(\.message).filter { $0.contains("did you mean") }.count == 6)
    }

    @Test func `the description of a fault gives its place and the remedy`() throws {
        let fault = try #require(faults(of: attribute(#""type": "string", "optinal": false"#)).first)
        #expect(
            fault.description
                == #"line 1, column 61 (/entities/A/attributes/a/optinal): an attribute has no field "optinal"; "#
                + #"did you mean "optional"?"#)
        let whole = ModelError(faults: faults(of: "[]")).description
        #expect(whole == "line 1, column 1: expected an object that describes a model, saw an array")
    }

    @Test(arguments: [
        FaultCase("{}", "", #"a model needs "entities""#),
        FaultCase(#"{"entities": {}}"#, "/entities", "has no entity"),
        FaultCase(#"{"entities": []}"#, "/entities", "saw an array"),
        FaultCase(#"{"entities": {"A": {}}, "mappings": []}"#, "/mappings", "expected an object"),
        FaultCase(#"{"entities": {"A": {}}, "routes": {}}"#, "/routes", "expected an array"),
        FaultCase(
            #"{"entities": {"A": {}}, "entities": {"A": {}}}"#, "/entities", "occurs twice here, first on line 1"),
        FaultCase(#"{"entities": {"A": {}}, "inferred": 1}"#, "/inferred", "expected a string"),
        FaultCase(
            #"{"entities": {"A": {}}, "inferred": ""# + String(repeating: "é", count: 51) + #""}"#, "/inferred",
            "more than 100 bytes"),
        FaultCase(#"{"entities": {"A": {}}, "version": 1}"#, "/version", #"no field "version""#),
        FaultCase(#"{"entities": {"A": "B"}}"#, "/entities/A", "an object that describes an entity"),
        FaultCase(#"{"entities": {"A": {}, "A": {}}}"#, "/entities/A", "twice"),
        FaultCase(#"{"entities": {"": {}}}"#, "/entities/", "the name is empty"),
        FaultCase(#"{"entities": {"": {"table": "t"}}}"#, "/entities/", "the name is empty"),
        FaultCase(#"{"entities": {"A": {"ignore": ["a..b"]}}}"#, "/entities/A/ignore/0", "has an empty key"),
        FaultCase(#"{"entities": {"a/b~c": {"root": 1}}}"#, "/entities/a~1b~0c/root", "expected a string"),
    ])
    func `a wrong document is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        FaultCase(entity(#""table": """#), "/entities/A/table", "empty"),
        FaultCase(entity(#""table": "_Broker_jobs""#), "/entities/A/table", "Broker's own"),
        FaultCase(entity(#""table": "sqlite_x""#), "/entities/A/table", "SQLite's own"),
        FaultCase(entity(#""table": "a\u0000b""#), "/entities/A/table", "control character"),
        FaultCase(entity(#""identityOptional": true"#), "/entities/A/identityOptional", #"add "identity""#),
        FaultCase(entity(#""identity": 1"#), "/entities/A/identity", "name of an attribute"),
        FaultCase(entity(#""identity": []"#), "/entities/A/identity", "empty"),
        FaultCase(
            entity(#""identity": "nam", "attributes": {"name": "string"}"#), "/entities/A/identity",
            #"no attribute "nam"; did you mean "name"?"#),
        FaultCase(
            entity(#""identity": ["a", "a"], "attributes": {"a": "string"}"#), "/entities/A/identity/1", "twice"),
        FaultCase(
            entity(#""identity": "a", "attributes": {"a": "transformable"}"#), "/entities/A/identity",
            "cannot identify"),
        FaultCase(
            entity(#""identity": "a", "attributes": {"a": {"type": "string", "default": "x"}}"#),
            "/entities/A/attributes/a/default", "an identity has no default"),
        FaultCase(
            entity(
                #""identity": "a", "identityOptional": true, "#
                    + #""attributes": {"a": {"type": "uuid", "optional": false}}"#),
            "/entities/A/attributes/a/optional", "identityOptional"),
        FaultCase(entity(#""unique": "a", "attributes": {"a": "string"}"#), "/entities/A/unique", "array of arrays"),
        FaultCase(
            entity(#""unique": ["a", "b"], "attributes": {"a": "string", "b": "string"}"#), "/entities/A/unique",
            #"[["a"], ["b"]]"#),
        FaultCase(
            entity(#""indexes": [["a", "c"]], "attributes": {"a": "string"}"#), "/entities/A/indexes/0/1",
            #"no attribute "c""#),
        FaultCase(
            entity(#""indexes": [["a", "a"]], "attributes": {"a": "string"}"#), "/entities/A/indexes/0/1", "twice"),
        FaultCase(entity(#""attributes": []"#), "/entities/A/attributes", "attributes by name"),
        FaultCase(entity(#""relationships": []"#), "/entities/A/relationships", "relationships by name"),
        FaultCase(entity(#""description": 1"#), "/entities/A/description", "expected a string"),
    ])
    func `a wrong entity is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        FaultCase(entity(#""modified": 1"#), "/entities/A/modified", "expected a string"),
        FaultCase(
            entity(#""identity": "id", "modified": "chnaged", "attributes": {"id": "uuid", "changed": "date"}"#),
            "/entities/A/modified", #"did you mean "changed"?"#),
        FaultCase(
            entity(#""identity": "id", "modified": "id", "attributes": {"id": "integer64"}"#), "/entities/A/modified",
            "never newer"),
        FaultCase(
            entity(#""identity": "id", "modified": "b", "attributes": {"id": "integer64", "b": "binary"}"#),
            "/entities/A/modified", #""b" is binary"#),
        FaultCase(
            entity(#""modified": "at", "attributes": {"at": "date"}"#), "/entities/A/modified", #"add "identity""#),
    ])
    func `a modified attribute without an order is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        FaultCase(
            entity(#""attributes": {"a": "string"}, "tombstone": "a == 1""#), "/entities/A/tombstone", "a new object")
    ])
    func `a tombstone of an entity without identity is refused`(fault: FaultCase) { fault.check() }

    @Test func `an incomplete request without missing parts is accepted`() {
        #expect(faults(of: entity(#""abstract": false"#)).isEmpty)
        #expect(faults(of: relationship(#""entity": "B", "ordered": false"#)).isEmpty)
        #expect(faults(of: #"{"$schema": "x", "description": "y", "entities": {"A": {"description": "z"}}}"#).isEmpty)
    }

    @Test(arguments: [
        FaultCase(
            entity(#""attributes": {"a": "string"}, "tombstone": "a == 1""#), "/entities/A/tombstone", "a new object"),
        FaultCase(relationship(""), "/entities/A/relationships/b", #"needs an "entity""#),
        FaultCase(relationship(#""entity": "b""#), "/entities/A/relationships/b/entity", #"did you mean "B"?"#),
        FaultCase(
            relationship(#""entity": "B", "inverse": "nane""#), "/entities/A/relationships/b/inverse",
            #"B has no relationship "nane""#),
        FaultCase(relationship(#""entity": "B", "toMany": 1"#), "/entities/A/relationships/b/toMany", "true or false"),
        FaultCase(
            relationship(#""entity": "B", "deleteRule": "cascad""#), "/entities/A/relationships/b/deleteRule",
            #"did you mean "cascade"?"#),
        FaultCase(
            relationship(#""entity": "B", "assignment": "replace""#), "/entities/A/relationships/b/assignment",
            "to-many"),
        FaultCase(
            relationship(#""entity": "B", "ordered": true"#), "/entities/A/relationships/b/ordered", "to-many"),
        FaultCase(relationship(#""entity": "B", "missing": 1"#), "/entities/A/relationships/b/missing", "one of"),
        FaultCase(
            relationship(#""entity": "B", "optional": true"#), "/entities/A/relationships/b/optional", "no field"),
        FaultCase(
            entity(#""relationships": {"b": "B"}"#), "/entities/A/relationships/b", "describes a relationship"),
    ])
    func `a wrong relationship is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        ("optinal", "optional"), ("tpye", "type"), ("KEY", "key"), ("minlenght", "minLength"), ("eypt", nil),
        ("colour", nil), ("", nil),
    ])
    func `the name that was probably meant has few typing errors in it`(name: String, meant: String?) {
        #expect(NearMiss.nearest(to: name, among: ["type", "key", "optional", "minLength"]) == meant)
    }

    @Test func `long names and further candidates are not compared`() {
        let long = String(repeating: "n", count: 64)
        #expect(NearMiss.nearest(to: long, among: [long + "x"]) == long + "x")
        #expect(NearMiss.nearest(to: long + "x", among: [long]) == nil)
        let names = (0..<600).map { "strange\($0)" }
        #expect(NearMiss.nearest(to: "near", among: names.prefix(499) + ["neer"]) == "neer")
        #expect(NearMiss.nearest(to: "near", among: names.prefix(500) + ["neer"]) == nil)
    }
}

@Suite(.timeLimit(.minutes(5))) struct AttributeFaultTests {
    private static let pointer = "/entities/A/attributes/a"

    @Test(arguments: [
        FaultCase(entity(#""attributes": {"a": 1}"#), pointer, "a type name"),
        FaultCase(entity(#""attributes": {"a": "strng"}"#), pointer, #"did you mean "string"?"#),
        FaultCase(attribute(#""optional": true"#), pointer, #"needs a "type""#),
        FaultCase(attribute(#""type": "text""#), pointer + "/type", "one of \"integer16\""),
        FaultCase(attribute(#""type": "string", "nullable": true"#), pointer + "/nullable", "no field"),
        FaultCase(attribute(#""type": "string", "optional": 1"#), pointer + "/optional", "true or false"),
        FaultCase(attribute(#""type": "string", "onInvalid": "ignore""#), pointer + "/onInvalid", "one of"),
        FaultCase(attribute(#""type": "string", "indexed": "yes""#), pointer + "/indexed", "true or false"),
        FaultCase(attribute(#""type": "string", "unique": null"#), pointer + "/unique", "saw null"),
        FaultCase(attribute(#""type": "string", "key": 1"#), pointer + "/key", "key path"),
        FaultCase(attribute(#""type": "string", "key": "a..b""#), pointer + "/key", "an empty key"),
        FaultCase(attribute(#""type": "string", "key": ["a", "a"]"#), pointer + "/key/1", "twice"),
    ])
    func `a wrong attribute is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        FaultCase(attribute(#""type": "integer64", "default": {}"#), pointer + "/default", "an object cannot become"),
        FaultCase(attribute(#""type": "string", "default": []"#), pointer + "/default", "an array cannot become"),
        FaultCase(attribute(#""type": "uuid", "default": 1"#), pointer + "/default", "type uuid"),
        FaultCase(attribute(#""type": "date", "default": true"#), pointer + "/default", "true cannot become"),
        FaultCase(
            attribute(#""type": "string", "optional": false, "default": null"#), pointer + "/default",
            "cannot be null by default"),
        FaultCase(attribute(#""type": "string", "enum": []"#), pointer + "/enum", "empty"),
        FaultCase(attribute(#""type": "string", "enum": "x""#), pointer + "/enum", "allowed values"),
        FaultCase(attribute(#""type": "string", "enum": ["x", {}]"#), pointer + "/enum/1", "an object cannot become"),
        FaultCase(attribute(#""type": "string", "enum": [null]"#), pointer + "/enum/0", "null needs no place"),
    ])
    func `a value that cannot become the type is refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        FaultCase(attribute(#""type": "string", "min": 1"#), pointer + "/min", "for numbers and dates"),
        FaultCase(attribute(#""type": "boolean", "max": 1"#), pointer + "/max", "for numbers and dates"),
        FaultCase(attribute(#""type": "decimal", "min": true"#), pointer + "/min", "a number"),
        FaultCase(attribute(#""type": "decimal", "minLength": 1"#), pointer + "/minLength", "for text"),
        FaultCase(attribute(#""type": "date", "maxLength": 1"#), pointer + "/maxLength", "for text"),
        FaultCase(attribute(#""type": "string", "maxLength": -1"#), pointer + "/maxLength", "from 0 on"),
        FaultCase(attribute(#""type": "string", "maxLength": 1.5"#), pointer + "/maxLength", "whole number"),
        FaultCase(attribute(#""type": "string", "minLength": 3, "maxLength": 2"#), pointer + "/minLength", "no value"),
        FaultCase(attribute(#""type": "binary", "pattern": "x""#), pointer + "/pattern", "for text"),
        FaultCase(attribute(#""type": "string", "pattern": 1"#), pointer + "/pattern", "a string"),
        FaultCase(attribute(#""type": "integer16", "transform": ["trim"]"#), pointer + "/transform", "for text"),
        FaultCase(attribute(#""type": "string", "transform": ["trm"]"#), pointer + "/transform/0", #""trim"?"#),
        FaultCase(attribute(#""type": "string", "format": "yyyy""#), pointer + "/format", "for dates"),
        FaultCase(attribute(#""type": "string", "formats": ["yyyy"]"#), pointer + "/formats", "for dates"),
        FaultCase(attribute(#""type": "string", "timeZone": "UTC""#), pointer + "/timeZone", "for dates"),
        FaultCase(attribute(#""type": "calendarDate", "timeZone": "UTC""#), pointer + "/timeZone", "with a time"),
        FaultCase(attribute(#""type": "calendarDate", "storage": "unix""#), pointer + "/storage", "with a time"),
        FaultCase(attribute(#""type": "calendarDate", "default": 5"#), pointer + "/default", "cannot become"),
        FaultCase(attribute(#""type": "string", "storage": "unix""#), pointer + "/storage", "for dates"),
        FaultCase(attribute(#""type": "date", "storage": "posix""#), pointer + "/storage", "one of \"iso8601\""),
        FaultCase(attribute(#""type": "date", "formats": "yyyy""#), pointer + "/formats", "an array of date formats"),
        FaultCase(attribute(#""type": "date", "format": "y", "formats": ["M"]"#), pointer + "/formats", "say the same"),
    ])
    func `a limit that does not fit the type is refused`(fault: FaultCase) { fault.check() }

    @Test func `an unknown type draws no faults about what fits it`() {
        #expect(
            faults(of: attribute(#""type": "txt", "min": 1, "maxLength": 2, "format": "y", "default": []"#)).count == 1)
    }
}

@Suite(.timeLimit(.minutes(5))) struct NameFaultTests {
    @Test(arguments: [
        FaultCase(entity(#""attributes": {"": "string"}"#), "/entities/A/attributes/", "the name is empty"),
        FaultCase(entity(#""attributes": {"a.b": "string"}"#), "/entities/A/attributes/a.b", "dot"),
        FaultCase(entity(#""attributes": {"_PK": "string"}"#), "/entities/A/attributes/_PK", "Broker's own"),
        FaultCase(
            entity(#""relationships": {"_pk": {"entity": "A"}}"#), "/entities/A/relationships/_pk", "Broker's own"),
        FaultCase(
            entity(#""attributes": {"name": "string", "Name": "string"}"#), "/entities/A/attributes/Name",
            #"the attribute "name" has the column"#),
        FaultCase(
            entity(#""attributes": {"b": "string"}, "relationships": {"b": {"entity": "A", "toMany": true}}"#),
            "/entities/A/relationships/b", "an attribute of the entity as well"),
        FaultCase(
            entity(#""attributes": {"b": "string"}, "relationships": {"B": {"entity": "A"}}"#),
            "/entities/A/relationships/B", #"the attribute "b" has the column"#),
        FaultCase(
            #"{"entities": {"A": {"table": "x"}, "B": {"table": "X"}}}"#, "/entities/B/table",
            "the entity A has the table"),
        FaultCase(
            #"{"entities": {"A_b": {}, "A": {"relationships": {"b": {"entity": "A", "toMany": true}}}}}"#,
            "/entities/A/relationships/b", #"the entity A_b has the table "A_b" already"#),
        FaultCase(
            """
            {"entities": {"A": {"attributes": {"b_Y": "string"}, "relationships": {"b": {"entity": "B"}}},
              "B": {"identity": ["x", "y"], "attributes": {"x": "string", "y": "string"}}}}
            """, "/entities/A/relationships/b", #"the attribute "b_Y" has the column "b_y" already"#),
    ])
    func `names that would collide are refused`(fault: FaultCase) { fault.check() }

    @Test(arguments: [
        // The column of a to-many relationship is in the other table, or in none.
        entity(#""attributes": {"b": "string"}, "relationships": {"B": {"entity": "A", "toMany": true}}"#),
        // Only ASCII letters lose their case in SQLite.
        entity(#""attributes": {"é": "string", "É": "string"}"#),
        // The table of a many-to-many pair belongs to A alone.
        """
        {"entities": {"B_as": {}, "A": {"relationships": {"bs": {"entity": "B", "toMany": true, "inverse": "as"}}},
          "B": {"relationships": {"as": {"entity": "A", "toMany": true}}}}}
        """,
        // A one-to-many pair has no table of its own.
        """
        {"entities": {"A_bs": {}, "A": {"relationships": {"bs": {"entity": "B", "toMany": true, "inverse": "a"}}},
          "B": {"relationships": {"a": {"entity": "A"}}}}}
        """,
        // One key may feed two attributes.
        entity(#""attributes": {"a": "string", "b": {"type": "string", "key": "a"}}"#),
    ])
    func `names that do not collide are accepted`(json: String) {
        #expect(faults(of: json) == [])
    }

    @Test func `lines are counted as JSONPosition counts them`() {
        let text = "\n{\r\n\t\"é\": 1}\n\n"
        let bytes = Array(text.utf8)
        let index = LineIndex(of: .init(copying: bytes))
        for offset in 0...bytes.count {
            let line = bytes[..<offset].filter { $0 == 0x0A }.count + 1
            let column = offset - (bytes[..<offset].lastIndex(of: 0x0A).map { $0 + 1 } ?? 0) + 1
            #expect(index.position(of: offset) == (line, column))
        }
    }
}

/// A model at each limit is read, and one beyond it is refused with what is too much, and nothing else.
@Suite(.timeLimit(.minutes(5))) struct ModelLimitTests {
    private func faults(_ text: String) -> [String] {
        do throws(ModelError) {
            _ = try ModelReader.read(JSONText(copying: Array(text.utf8)))
            return []
        } catch {
            return error.faults.map(\.description)
        }
    }

    private func entity(attributes count: Int, _ more: String = "") -> String {
        let attributes = (0..<count).map { "\"a\($0)\": \"string\"" }.joined(separator: ", ")
        return "{\"attributes\": {\(attributes)}\(more)}"
    }

    private func model(_ entities: some Sequence<(name: String, text: String)>) -> String {
        "{\"entities\": {" + entities.map { "\"\($0.name)\": \($0.text)" }.joined(separator: ", ") + "}}"
    }

    /// One fault that has these words, on a line that a screen can show.
    private func isRefused(_ text: String, _ words: String...) -> Bool {
        let faults = faults(text)
        return faults.count == 1 && faults[0].utf8.count < 400 && words.allSatisfy { faults[0].contains($0) }
    }

    @Test(arguments: [
        ("\"NAME\": {\"attributes\": {\"a\": \"string\"}}", "/entities/"),
        ("\"E\": {\"table\": \"NAME\", \"attributes\": {\"a\": \"string\"}}", "/entities/E/"),
        ("\"E\": {\"attributes\": {\"NAME\": \"string\"}}", "/entities/E/attributes/"),
        (
            "\"E\": {\"attributes\": {\"a\": \"string\"}, \"relationships\": {\"NAME\": {\"entity\": \"E\"}}}",
            "/entities/E/relationships/"
        ),
        ("\"E\": {\"attributes\": {\"a\": \"string\"}}}, \"mappings\": {\"NAME\": {\"entity\": \"E\"}", "/mappings/"),
    ])
    func `a name has at most 255 bytes`(entities: String, pointer: String) {
        func model(_ name: String) -> String {
            "{\"entities\": {\(entities.replacing("NAME", with: name))}}"
        }
        let name = String(repeating: "é", count: 127) + "e"
        #expect(faults(model(name)) == [])
        #expect(isRefused(model(name + "e"), "at most 255 bytes, and this one has 256", "(\(pointer)é"))
        #expect(isRefused(model(String(repeating: "x", count: 1 << 20)), "this one has 1048576"))
    }

    @Test func `an entity has at most 2,000 attributes and relationships, with its key in the table`() {
        // An entity without identity has a column of Broker's own, too.
        let identity = ", \"identity\": \"a0\""
        #expect(faults(model([("E", entity(attributes: 2_000, identity))])) == [])
        #expect(
            isRefused(
                model([("E", entity(attributes: 2_001, identity))]), "2001 attributes", "at most 2000", "(/entities/E)")
        )
        let relationships = ", \"relationships\": {\"r\": {\"entity\": \"E\", \"toMany\": true}}"
        #expect(
            isRefused(model([("E", entity(attributes: 2_000, identity + relationships))]), "2001 attributes and rel"))
    }

    @Test func `a model has at most 5,000 entities`() {
        let small = "{\"attributes\": {\"a\": \"string\"}}"
        #expect(faults(model((0..<5_000).map { ("E\($0)", small) })) == [])
        #expect(isRefused(model((0..<5_001).map { ("E\($0)", small) }), "5001 entities", "at most 5000", "(/entities)"))
    }

    @Test func `a model has at most 50,000 attributes and relationships in all`() {
        let large = entity(attributes: 1_000)
        let full = (0..<50).map { ("E\($0)", large) }
        #expect(faults(model(full)) == [])
        #expect(isRefused(model(full + [("F", entity(attributes: 1))]), "50001 attributes", "in all", "at most 50000"))
    }

    @Test func `a hierarchy has at most 250 entities`() {
        func hierarchy(_ count: Int, _ parent: (Int) -> Int) -> String {
            model(
                (0..<count).map { index in
                    (
                        "E\(index)",
                        entity(attributes: index == 0 ? 1 : 0, index == 0 ? "" : ", \"parent\": \"E\(parent(index))\"")
                    )
                })
        }
        for parent in [{ $0 - 1 }, { _ in 0 }, { $0 / 2 }] as [(Int) -> Int] {
            #expect(faults(hierarchy(250, parent)) == [])
            #expect(isRefused(hierarchy(251, parent), "251 entities in one hierarchy", "(/entities/E0)"))
        }
        // A circle is reported as such.
        let circle = model([
            ("A", entity(attributes: 1, ", \"parent\": \"B\"")), ("B", entity(attributes: 0, ", \"parent\": \"A\"")),
        ])
        #expect(faults(circle).contains { $0.contains("inherit from itself") })
    }

    @Test func `entities of hierarchies have at most 250,000 attributes and relationships with the inherited ones`() {
        func hierarchy(_ top: String, _ attributes: Int) -> [(name: String, text: String)] {
            (0..<250).map {
                ("\(top)\($0)", $0 == 0 ? entity(attributes: attributes) : "{\"parent\": \"\(top)0\"}")
            }
        }
        #expect(faults(model(hierarchy("A", 990))) == [])
        #expect(
            isRefused(
                model(hierarchy("A", 600) + hierarchy("B", 401)), "there are 250250 attributes", "at most 250000",
                "(/entities)"))
    }

    @Test func `an entity has at most 250 unique lists and indexes`() {
        func model(_ unique: Int, _ indexes: Int) -> String {
            func lists(_ count: Int, _ from: Int) -> String {
                (0..<count).map { "[\"a\(from + $0)\"]" }.joined(separator: ", ")
            }
            let more = ", \"unique\": [\(lists(unique, 0))], \"indexes\": [\(lists(indexes, unique))]"
            return self.model([("E", entity(attributes: 300, more))])
        }
        #expect(faults(model(100, 150)) == [])
        #expect(isRefused(model(101, 150), "251 unique lists and indexes", "at most 250"))
    }

    @Test func `a model has at most 10,000 mappings and routes`() {
        func model(_ mappings: Int, _ routes: Int) -> String {
            let mapping = (0..<mappings).map { "\"m\($0)\": {\"entity\": \"E\"}" }.joined(separator: ", ")
            let route = (0..<routes).map { "{\"keyPath\": \"k\($0)\", \"mapping\": \"m0\"}" }.joined(separator: ", ")
            return "{\"entities\": {\"E\": {\"attributes\": {\"a\": \"string\"}}}, \"mappings\": {\(mapping)}, "
                + "\"routes\": [\(route)]}"
        }
        #expect(faults(model(5_000, 5_000)) == [])
        #expect(isRefused(model(5_000, 5_001), "10001 mappings and routes", "at most 10000"))
    }

    @Test func `a model is nested at most 512 deep`() {
        func model(_ depth: Int) -> String {
            let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            return
                "{\"entities\": {\"E\": {\"attributes\": {\"a\": {\"type\": \"transformable\", \"default\": \(value)}}}}}"
        }
        // The five objects around it count.
        #expect(faults(model(507)) == [])
        #expect(isRefused(model(508), "the model is not JSON", "512"))
    }
}
