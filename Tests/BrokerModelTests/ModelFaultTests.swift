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
