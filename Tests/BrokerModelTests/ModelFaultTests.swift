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

    /// The cases of a script, each `fields => pointer :: message`; an indented line continues the one before it.
    ///
    /// - Parameter model: the model of these fields.
    /// - Parameter base: what the pointers begin with.
    static func list(_ model: (String) -> String, at base: String, _ script: String) -> [FaultCase] {
        script.replacing("\n  ", with: " ").split(separator: "\n").map { line in
            let match = line.firstMatch(of: /(.*?) ?=> ?(.*?) ?:: (.*)/)!
            return FaultCase(model(String(match.1)), base + match.2, String(match.3))
        }
    }

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

    @Test(
        arguments: FaultCase.list(
            { $0 }, at: "",
            #"""
            {} => :: a model needs "entities"
            {"entities": {}} => /entities :: has no entity
            {"entities": []} => /entities :: saw an array
            {"entities": {"A": {}}, "mappings": []} => /mappings :: expected an object
            {"entities": {"A": {}}, "routes": {}} => /routes :: expected an array
            {"entities": {"A": {}}, "entities": {"A": {}}} => /entities :: occurs twice here, first on line 1
            {"entities": {"A": {}}, "inferred": 1} => /inferred :: expected a string
            {"entities": {"A": {}}, "version": 1} => /version :: no field "version"
            {"entities": {"A": "B"}} => /entities/A :: an object that describes an entity
            {"entities": {"A": {}, "A": {}}} => /entities/A :: twice
            {"entities": {"": {}}} => /entities/ :: the name is empty
            {"entities": {"": {"table": "t"}}} => /entities/ :: the name is empty
            {"entities": {"A": {"ignore": ["a..b", "c"]}}} => /entities/A/ignore/0 :: has an empty key
            {"entities": {"A": {"ignore": "a."}}} => /entities/A/ignore :: write an array of its keys
            {"entities": {"A": {"ignore": [["a", 1]]}}} => /entities/A/ignore/0 :: all of them texts
            {"entities": {"A": {"ignore": [[]]}}} => /entities/A/ignore/0 :: the array is empty
            {"entities": {"A": {"ignore": ["a.b", ["a", "b"]]}}} => /entities/A/ignore/1 :: "a.b" occurs twice
            {"entities": {"a/b~c": {"root": 1}}} => /entities/a~1b~0c/root :: expected a string
            {"entities": {"A": {}}, "evolve": ["rows"]} => /evolve/0 :: write "columns"
            {"entities": {"A": {}}, "evolve": true} => /evolve :: an array of words
            {"entities": {"A": {}}, "readableViews": 0} => /readableViews :: true or false
            {"entities": {"A": {"extra": 1}}} => /entities/A/extra :: true or false
            {"entities": {"A": {"extra": true, "attributes": {"_extra": "string"}}}} => /entities/A/attributes/_extra :: _extra
            {"entities": {"A": {"extra": true, "identity": "_extra"}}} => /entities/A/identity :: has what no other attribute takes
            {"entities": {"A": {"extra": true, "unique": [["_extra"]]}}} => /entities/A/unique/0/0 :: has what no other attribute takes
            {"entities": {"A": {"extra": true, "attributes": {"x": "string"}}, "B": {"parent": "A", "extra": true}}}
              => /entities/B/extra :: "_extra" from A already
            """#))
    func `a wrong document is refused`(fault: FaultCase) { fault.check() }

    @Test(
        arguments: FaultCase.list(
            entity, at: "/entities/A",
            #"""
            "table": "" => /table :: empty
            "table": "_Broker_jobs" => /table :: Broker's own
            "table": "sqlite_x" => /table :: SQLite's own
            "table": "a\u0000b" => /table :: control character
            "identityOptional": true => /identityOptional :: add "identity"
            "identity": 1 => /identity :: name of an attribute
            "identity": [] => /identity :: empty
            "identity": "nam", "attributes": {"name": "string"} => /identity :: no attribute "nam"; did you mean "name"?
            "identity": "nam", "modified": "at", "tombstone": "name == NULL", "attributes": {"name": "string", "at": "date"} => /identity :: no attribute "nam"; did you mean "name"?
            "identity": ["a", "a"], "attributes": {"a": "string"} => /identity/1 :: twice
            "identity": "a", "attributes": {"a": "transformable"} => /identity :: cannot identify
            "identity": "a", "attributes": {"a": {"type": "string", "default": "x"}}
              => /attributes/a/default :: an identity has no default
            "identity": "a", "identityOptional": true, "attributes": {"a": {"type": "uuid", "optional": false}}
              => /attributes/a/optional :: identityOptional
            "unique": "a", "attributes": {"a": "string"} => /unique :: array of arrays
            "unique": ["a", "b"], "attributes": {"a": "string", "b": "string"} => /unique :: [["a"], ["b"]]
            "indexes": [["a", "c"]], "attributes": {"a": "string"} => /indexes/0/1 :: no attribute "c"
            "indexes": [["a", "a"]], "attributes": {"a": "string"} => /indexes/0/1 :: twice
            "attributes": [] => /attributes :: attributes by name
            "relationships": [] => /relationships :: relationships by name
            "description": 1 => /description :: expected a string
            """#))
    func `a wrong entity is refused`(fault: FaultCase) { fault.check() }

    @Test(
        arguments: FaultCase.list(
            entity, at: "/entities/A",
            #"""
            "modified": 1 => /modified :: expected a string
            "identity": "id", "modified": "chnaged", "attributes": {"id": "uuid", "changed": "date"}
              => /modified :: did you mean "changed"?
            "identity": "id", "modified": "id", "attributes": {"id": "integer64"} => /modified :: never newer
            "identity": "id", "modified": "b", "attributes": {"id": "integer64", "b": "binary"}
              => /modified :: "b" is binary
            "modified": "at", "attributes": {"at": "date"} => /modified :: add "identity"
            """#))
    func `a modified attribute without an order is refused`(fault: FaultCase) { fault.check() }

    @Test func `an incomplete request without missing parts is accepted`() {
        #expect(faults(of: entity(#""abstract": false"#)).isEmpty)
        #expect(faults(of: relationship(#""entity": "B", "ordered": false"#)).isEmpty)
        #expect(faults(of: #"{"$schema": "x", "description": "y", "entities": {"A": {"description": "z"}}}"#).isEmpty)
    }

    @Test(
        arguments: FaultCase.list(
            relationship, at: "/entities/A/relationships/b",
            #"""
            => :: needs an "entity"
            "entity": "b" => /entity :: did you mean "B"?
            "entity": "B", "inverse": "nane" => /inverse :: B has no relationship "nane"
            "entity": "B", "toMany": 1 => /toMany :: true or false
            "entity": "B", "deleteRule": "cascad" => /deleteRule :: did you mean "cascade"?
            "entity": "B", "assignment": "replace" => /assignment :: to-many
            "entity": "B", "ordered": true => /ordered :: to-many
            "entity": "B", "missing": 1 => /missing :: one of
            "entity": "B", "optional": true => /optional :: no field
            """#) + [
                FaultCase(
                    entity(#""attributes": {"a": "string"}, "tombstone": "a == 1""#), "/entities/A/tombstone",
                    "a new object"),
                FaultCase(
                    entity(#""attributes": {"a": "string"}, "maximumDeletions": "200%""#),
                    "/entities/A/maximumDeletions",
                    "a whole number from 0, or a percentage"),
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

    @Test(
        arguments: FaultCase.list(
            attribute, at: "/entities/A/attributes/a",
            #"""
            "optional": true => :: needs a "type"
            "type": "text" => /type :: one of "integer16"
            "type": "string", "nullable": true => /nullable :: no field
            "type": "string", "optional": 1 => /optional :: true or false
            "type": "string", "onInvalid": "ignore" => /onInvalid :: one of
            "type": "string", "indexed": "yes" => /indexed :: true or false
            "type": "string", "unique": null => /unique :: saw null
            "type": "string", "key": 1 => /key :: key path
            "type": "string", "key": "a..b" => /key :: an empty key
            "type": "string", "key": ["a", "a"] => /key/1 :: twice
            """#) + [
                FaultCase(entity(#""attributes": {"a": 1}"#), pointer, "a type name"),
                FaultCase(entity(#""attributes": {"a": "strng"}"#), pointer, #"did you mean "string"?"#),
            ])
    func `a wrong attribute is refused`(fault: FaultCase) { fault.check() }

    @Test(
        arguments: FaultCase.list(
            attribute, at: "/entities/A/attributes/a",
            #"""
            "type": "integer64", "default": {} => /default :: an object cannot become
            "type": "string", "default": [] => /default :: an array cannot become
            "type": "uuid", "default": 1 => /default :: type uuid
            "type": "date", "default": true => /default :: true cannot become
            "type": "string", "optional": false, "default": null => /default :: cannot be null by default
            "type": "string", "enum": [] => /enum :: empty
            "type": "string", "enum": "x" => /enum :: allowed values
            "type": "string", "enum": ["x", {}] => /enum/1 :: an object cannot become
            "type": "string", "enum": [null] => /enum/0 :: null needs no place
            """#))
    func `a value that cannot become the type is refused`(fault: FaultCase) { fault.check() }

    @Test(
        arguments: FaultCase.list(
            attribute, at: "/entities/A/attributes/a",
            #"""
            "type": "string", "min": 1 => /min :: for numbers and dates
            "type": "boolean", "max": 1 => /max :: for numbers and dates
            "type": "decimal", "min": true => /min :: a number
            "type": "decimal", "minLength": 1 => /minLength :: for text
            "type": "date", "maxLength": 1 => /maxLength :: for text
            "type": "string", "maxLength": -1 => /maxLength :: from 0 on
            "type": "string", "maxLength": 1.5 => /maxLength :: whole number
            "type": "string", "minLength": 3, "maxLength": 2 => /minLength :: no value
            "type": "binary", "pattern": "x" => /pattern :: for text
            "type": "string", "pattern": 1 => /pattern :: a string
            "type": "integer16", "transform": ["trim"] => /transform :: for text
            "type": "string", "transform": ["trm"] => /transform/0 :: "trim"?
            "type": "string", "format": "yyyy" => /format :: for dates
            "type": "string", "formats": ["yyyy"] => /formats :: for dates
            "type": "string", "timeZone": "UTC" => /timeZone :: for dates
            "type": "calendarDate", "timeZone": "UTC" => /timeZone :: with a time
            "type": "calendarDate", "storage": "unix" => /storage :: with a time
            "type": "calendarDate", "default": 5 => /default :: cannot become
            "type": "string", "storage": "unix" => /storage :: for dates
            "type": "date", "storage": "posix" => /storage :: one of "iso8601"
            "type": "date", "formats": "yyyy" => /formats :: an array of date formats
            "type": "date", "format": "y", "formats": ["M"] => /formats :: say the same
            """#))
    func `a limit that does not fit the type is refused`(fault: FaultCase) { fault.check() }

    @Test func `an unknown type draws no faults about what fits it`() {
        #expect(
            faults(of: attribute(#""type": "txt", "min": 1, "maxLength": 2, "format": "y", "default": []"#)).count == 1)
    }
}

@Suite(.timeLimit(.minutes(5))) struct NameFaultTests {
    @Test(
        arguments: FaultCase.list(
            entity, at: "/entities/A",
            #"""
            "attributes": {"": "string"} => /attributes/ :: the name is empty
            "attributes": {"a.b": "string"} => /attributes/a.b :: dot
            "attributes": {"_PK": "string"} => /attributes/_PK :: Broker's own
            "relationships": {"_pk": {"entity": "A"}} => /relationships/_pk :: Broker's own
            "attributes": {"name": "string", "Name": "string"} => /attributes/Name :: the attribute "name" has the column
            "attributes": {"b": "string"}, "relationships": {"b": {"entity": "A", "toMany": true}}
              => /relationships/b :: an attribute of the entity as well
            "attributes": {"b": "string"}, "relationships": {"B": {"entity": "A"}}
              => /relationships/B :: the attribute "b" has the column
            """#)
            + FaultCase.list(
                { $0 }, at: "",
                #"""
                {"entities": {"A": {"table": "x"}, "B": {"table": "X"}}} => /entities/B/table :: the entity A has the table
                {"entities": {"A_b": {}, "A": {"relationships": {"b": {"entity": "A", "toMany": true}}}}}
                  => /entities/A/relationships/b :: the entity A_b has the table "A_b" already
                {"entities": {"A": {"attributes": {"b_Y": "string"}, "relationships": {"b": {"entity": "B"}}}, "B": {"identity":
                  ["x", "y"], "attributes": {"x": "string", "y": "string"}}}}
                  => /entities/A/relationships/b :: the attribute "b_Y" has the column "b_y" already
                """#))
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
            #expect(index.place(at: offset, source: "") == SourcePlace(line: line, column: column))
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
