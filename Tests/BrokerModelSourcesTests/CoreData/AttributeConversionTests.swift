import BrokerJSON
import BrokerModel
import BrokerModelSources
import Testing

@Suite(.timeLimit(.minutes(5))) struct AttributeConversionTests {
    private func attribute(_ rest: String, _ inside: String = "") throws -> String? {
        try documentOfA("<attribute name=\"x\" \(rest)>\(inside)</attribute>").attribute("x")
    }

    @Test(arguments: ["UnixTime", "unixTime13"])
    func `MagicalRecord's constants for times since 1970 are a format`(constant: String) throws {
        let document = try documentOfA(
            """
            <attribute name="at" optional="YES" attributeType="Date">
            <userInfo><entry key="dateFormat" value="\(constant)"/></userInfo></attribute>
            """)
        #expect(document.attribute("at") == #"{"type":"date","format":"UnixTime"}"#)
        #expect(document.allFaults == [])
        #expect(document.notes("/entities/A/attributes/at").contains { $0.contains("milliseconds") })
    }

    @Test func `MagicalRecord's further date formats are tried in their order`() throws {
        let document = try documentOfA(
            """
            <attribute name="at" optional="YES" attributeType="Date"><userInfo>
            <entry key="dateFormat.2" value="unixTime13"/><entry key="dateFormat.1" value="yyyy"/>
            <entry key="dateFormat" value="dd.MM.yyyy"/></userInfo></attribute>
            <attribute name="on" optional="YES" attributeType="Date">
            <userInfo><entry key="dateFormat.1" value="yyyy"/></userInfo></attribute>
            <attribute name="name" optional="YES" attributeType="String">
            <userInfo><entry key="dateFormat.1" value="yyyy"/></userInfo></attribute>
            """)
        #expect(document.attribute("at") == #"{"type":"date","formats":["dd.MM.yyyy","yyyy","UnixTime"]}"#)
        #expect(document.attribute("on") == #"{"type":"date","format":"yyyy"}"#)
        #expect(document.allFaults == [])
        #expect(
            document.notes("/entities/A/attributes/at").contains {
                $0.contains("dateFormat, dateFormat.1, dateFormat.2")
            })
        #expect(
            document.notes("/entities/A/attributes/name").contains {
                $0.contains("dateFormat.1: the attribute is no date")
            })
    }

    @Test func `every type of Core Data has one here, in old spellings and new ones`() throws {
        let types = [
            ("Integer 16", "integer16"), ("Integer 32", "integer32"), ("Integer 64", "integer64"),
            ("Decimal", "decimal"),
            ("Double", "double"), ("Float", "float"), ("String", "string"), ("Boolean", "boolean"), ("Date", "date"),
            ("Binary", "binary"), ("Binary Data", "binary"), ("UUID", "uuid"), ("URI", "uri"),
            ("Transformable", "transformable"), ("Undefined", "transformable"), ("Integer64", "integer64"),
            ("integer 16", "integer16"), ("Integer32AttributeType", "integer32"), ("boolean", "boolean"),
        ]
        for (written, type) in types {
            let found = try attribute("optional=\"YES\" attributeType=\"\(written)\"")
            #expect(found == #"{"type":"\#(type)"}"#, "\(written)")
        }
        #expect(try attribute("optional=\"YES\"") == #"{"type":"transformable"}"#)
    }

    @Test func `a property without a column is skipped with the reason`() throws {
        let document = try documentOfA(
            """
            <attribute name="t" optional="YES" transient="YES" attributeType="String"/>
            <attribute name="d" optional="YES" attributeType="String" derived="YES" derivationExpression="uppercase:(name)"/>
            <attribute name="o" attributeType="ObjectID"/>
            <fetchedProperty name="f"><fetchRequest name="f" entity="A"/></fetchedProperty>
            """)
        #expect(document.json("entities", "A", "attributes") == "{}")
        #expect(
            document.notes("/entities/A/attributes/t")
                == ["skipped: the attribute is transient: Core Data does not store it either"])
        #expect(
            document.notes("/entities/A/attributes/d")
                == ["skipped: the attribute is derived (uppercase:(name)): its value follows from others"])
        #expect(
            document.notes("/entities/A/attributes/o")
                == ["skipped: values of type ObjectID are addresses within one Core Data store"])
        #expect(document.notes("/entities/A").contains { $0.hasPrefix("skipped: the fetched property f: ") })
    }

    @Test func `an attribute without optional is required, whatever the spelling of yes and no`() throws {
        for (flag, isOptional) in [("YES", true), ("true", true), ("1", true), ("NO", false), ("false", false)] {
            let found = try attribute("optional=\"\(flag)\" attributeType=\"String\"")
            #expect(found == (isOptional ? #"{"type":"string"}"# : #"{"type":"string","optional":false}"#))
        }
        #expect(try attribute("attributeType=\"String\"") == #"{"type":"string","optional":false}"#)
    }

    @Test func `defaults are JSON of the attribute's type`() throws {
        let defaults = [
            ("Integer 16", "-7", "-7"), ("Integer 64", "9223372036854775807", "9223372036854775807"),
            ("Decimal", "0.10", "0.10"), ("Double", "1e3", "1e3"), ("Float", "0.0", "0.0"),
            ("Integer 32", "007", "\"007\""),
            ("Boolean", "YES", "true"), ("Boolean", "NO", "false"), ("Boolean", "1", "true"),
            ("String", "a &quot;b&quot; &amp; &#233;", #""a \"b\" & é""#), ("String", "", "\"\""),
            ("UUID", "0D5C3F6E-0000-4000-8000-000000000000", "\"0D5C3F6E-0000-4000-8000-000000000000\""),
            ("URI", "https://example.org/", "\"https://example.org/\""), ("Boolean", "perhaps", "\"perhaps\""),
        ]
        for (type, text, json) in defaults {
            let found = try documentOfA(
                "<attribute name=\"x\" optional=\"YES\" attributeType=\"\(type)\" defaultValueString=\"\(text)\"/>")
            #expect(found.json("entities", "A", "attributes", "x", "default") == json, "\(type) \(text)")
        }
    }

    @Test func `dates count from 2001, to the millisecond and back beyond 1970`() throws {
        let dates = [
            ("0", "2001-01-01T00:00:00Z"), ("-978307200", "1970-01-01T00:00:00Z"), ("0.5", "2001-01-01T00:00:00.500Z"),
            ("-0.0004", "2000-12-31T23:59:59.999Z"), ("725846400", "2024-01-02T00:00:00Z"),
            ("-63114076800", "0001-01-01T00:00:00Z"), ("252423993599", "9999-12-31T23:59:59Z"),
        ]
        for (seconds, text) in dates {
            let found = try documentOfA(
                "<attribute name=\"x\" optional=\"YES\" attributeType=\"Date\" defaultDateTimeInterval=\"\(seconds)\"/>"
            )
            #expect(found.json("entities", "A", "attributes", "x", "default") == "\"\(text)\"", "\(seconds)")
        }
        for seconds in ["nan", "inf", "1e300", "-63114076801", "252423993600", "soon"] {
            let found = try documentOfA(
                "<attribute name=\"x\" optional=\"YES\" attributeType=\"Date\" defaultDateTimeInterval=\"\(seconds)\"/>"
            )
            #expect(
                found.allFaults
                    == ["4: the default \"\(seconds)\" is no number of seconds since 2001 within the years 1 to 9999"])
        }
    }

    @Test func `limits are lengths of texts, bounds of numbers, and seconds of dates`() throws {
        #expect(
            try attribute("attributeType=\"String\" minValueString=\"2\" maxValueString=\"8\"")
                == #"{"type":"string","optional":false,"minLength":2,"maxLength":8}"#)
        #expect(
            try attribute("attributeType=\"Integer 16\" minValueString=\"-2\" maxValueString=\"0.5\"")
                == #"{"type":"integer16","optional":false,"min":-2,"max":0.5}"#)
        #expect(
            try attribute("attributeType=\"Date\" minDateTimeInterval=\"0\" maxDateTimeInterval=\"86400\"")
                == #"{"type":"date","optional":false,"min":"2001-01-01T00:00:00Z","max":"2001-01-02T00:00:00Z"}"#)
        #expect(
            try attribute("attributeType=\"String\" regularExpressionString=\"[a-z]+\\d|x\"")
                == #"{"type":"string","optional":false,"pattern":"\\A(?:[a-z]+\\d|x)\\z"}"#)
        let wrong = try documentOfA("<attribute name=\"x\" attributeType=\"String\" minValueString=\"-1\"/>")
        #expect(wrong.allFaults == ["4: minValueString=\"-1\" of a text is its length, a whole number from 0 on"])
    }

    @Test func `an index and a renaming identifier are converted, a wrong spelling is reported`() throws {
        let document = try documentOfA(
            "<attribute name=\"x\" optional=\"YES\" attributeType=\"String\" indexed=\"YES\" elementID=\"y\" defaultValue=\"z\"/>"
        )
        #expect(document.attribute("x") == #"{"type":"string","key":["x"],"renamedFrom":"y","indexed":true}"#)
        #expect(
            document.notes("/entities/A/attributes/x") == [
                "taken: renaming identifier y", "ignored: defaultValue \"z\": Core Data reads defaultValueString",
            ])
    }

    @Test func `composites are flattened to any depth, with their place in JSON`() throws {
        let composites = """
            <composite name="Address">
                <attribute name="city" attributeType="String"/>
                <attribute name="point" optional="YES" attributeType="Composite" elementType="Point"/>
            </composite>
            <composite name="Point"><attribute name="lat" attributeType="Double" defaultValueString="0.0"/></composite>
            """
        let document = try document(
            """
            <entity name="A">
                <attribute name="home" attributeType="Composite" elementType="Address">
                    <userInfo><entry key="mappedKeyName" value="a.home"/></userInfo>
                </attribute>
                <attribute name="address" optional="YES" attributeType="Composite"/>
            </entity>
            \(composites)
            """)
        #expect(document.attribute("home_city") == #"{"type":"string","key":"a.home.city","optional":false}"#)
        #expect(document.attribute("home_point_lat") == #"{"type":"double","key":"a.home.point.lat","default":0.0}"#)
        #expect(document.attribute("address_city") == #"{"type":"string","key":"address.city"}"#)
        #expect(document.attribute("home") == nil)
        #expect(document.allFaults == [])
        let unknown = try documentOfA("<attribute name=\"x\" attributeType=\"Composite\"/>")
        #expect(unknown.notes("/entities/A/attributes/x").first?.hasPrefix("skipped: ") == true)
    }

    /// A chain of composites, each with some parts of the next one.
    private func chain(_ depth: Int, parts: Int, _ inside: String = "", last: String) -> String {
        let composites = (0..<depth).map { level in
            let parts = (0..<parts).map {
                "<attribute name=\"p\($0)\" attributeType=\"Composite\" elementType=\"C\(level + 1)\">\(inside)</attribute>"
            }
            return "<composite name=\"C\(level)\">\(parts.joined())</composite>"
        }
        return "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Composite\" elementType=\"C0\"/></entity>"
            + composites.joined() + "<composite name=\"C\(depth)\">\(last)</composite>"
    }

    @Test(arguments: ["", "<attribute name=\"a\" attributeType=\"String\"/>"])
    func `composites of composites have as many parts as a model has properties`(last: String) throws {
        #expect(try document(chain(8, parts: 2, last: last)).allFaults == [])
        // They would have no end.
        let faults = try document(chain(60, parts: 2, last: last)).allFaults
        try #require(faults.count == 1)
        #expect(faults[0].contains("have more than 50000 parts"))
    }

    @Test func `keys of composites count with their parts`() throws {
        let keys = (0...9).map { "<entry key=\"mappedKeyName.\($0)\" value=\"key\($0)\"/>" }.joined()
        let faults = try document(
            chain(7, parts: 1, "<userInfo>\(keys)</userInfo>", last: "<attribute name=\"a\" attributeType=\"String\"/>")
        ).allFaults
        try #require(faults.count == 1)
        #expect(faults[0].contains("have more than 50000 parts"))
        let long =
            "<userInfo><entry key=\"mappedKeyName\" value=\"\(String(repeating: "k", count: 100_000))\"/></userInfo>"
        #expect(try document(chain(6, parts: 2, long, last: "")).allFaults.count == 1)
    }

    @Test func `composites are nested at most 64 deep`() throws {
        let last = "<attribute name=\"a\" attributeType=\"String\"/>"
        #expect(try document(chain(63, parts: 1, last: last)).allFaults == [])
        let faults = try document(chain(10_000, parts: 1, last: last)).allFaults
        try #require(faults.count == 1)
        #expect(faults[0].contains("more than 64 deep"))
    }

    @Test func `a composite that holds itself is a fault, and ends`() throws {
        let document = try document(
            """
            <entity name="A"><attribute name="x" attributeType="Composite" elementType="P"/></entity>
            <composite name="P"><attribute name="q" attributeType="Composite" elementType="Q"/></composite>
            <composite name="Q"><attribute name="p" attributeType="Composite" elementType="P"/></composite>
            """)
        #expect(
            document.allFaults == ["5: the composite \"P\" holds itself, by way of P → Q → P; take one of them out"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct RelationshipConversionTests {
    private func relationship(_ rest: String) throws -> String? {
        try documentOfA("<relationship name=\"r\" optional=\"YES\" destinationEntity=\"A\" \(rest)/>").relationship("r")
    }

    @Test func `the cardinality is read in old spellings and new ones`() throws {
        for one in ["maxCount=\"1\"", "minCount=\"1\" maxCount=\"1\"", "toMany=\"NO\"", ""] {
            #expect(try relationship(one) == #"{"entity":"A"}"#, "\(one)")
        }
        for many in ["toMany=\"YES\"", "maxCount=\"0\"", "maxCount=\"5\"", "toMany=\"YES\" minCount=\"1\""] {
            #expect(try relationship(many) == #"{"entity":"A","toMany":true}"#, "\(many)")
        }
    }

    @Test func `delete rules, order and renaming are taken`() throws {
        for (rule, taken) in [
            ("Nullify", ""), ("Cascade", #","deleteRule":"cascade""#), ("Deny", #","deleteRule":"deny""#),
            ("No Action", #","deleteRule":"noAction""#),
        ] { #expect(try relationship("maxCount=\"1\" deletionRule=\"\(rule)\"") == "{\"entity\":\"A\"\(taken)}") }
        #expect(
            try relationship("toMany=\"YES\" ordered=\"YES\" elementID=\"old\"")
                == #"{"entity":"A","toMany":true,"key":["r"],"ordered":true,"renamedFrom":"old"}"#)
        #expect(try relationship("maxCount=\"1\" ordered=\"YES\" elementID=\"r\"") == #"{"entity":"A"}"#)
    }

    @Test func `a skipped inverse is not named, one of an ancestor is`() throws {
        let document = try document(
            """
            <entity name="A">
                <relationship name="b" optional="YES" maxCount="1" destinationEntity="B" inverseName="a" inverseEntity="B"/>
                <relationship name="c" optional="YES" maxCount="1" destinationEntity="C" inverseName="d" inverseEntity="B"/>
            </entity>
            <entity name="B">
                <relationship name="a" transient="YES" toMany="YES" destinationEntity="A" inverseName="b" inverseEntity="A"/>
                <relationship name="d" optional="YES" toMany="YES" destinationEntity="A" inverseName="c" inverseEntity="A"/>
            </entity>
            <entity name="C" parentEntity="B"/>
            """)
        #expect(document.relationship("b") == #"{"entity":"B"}"#)
        #expect(document.relationship("c") == #"{"entity":"C","inverse":"d"}"#)
        #expect(document.relationship("a", of: "B") == nil)
        #expect(document.notes("/entities/A/relationships/b") == ["skipped: the inverse a: it is skipped itself"])
        #expect(
            document.notes("/entities/B/relationships/a")
                == ["skipped: the relationship is transient: Core Data does not store it either"])
        #expect(document.faults.isEmpty)
    }

    @Test func `a rule that is not enforced is reported`() throws {
        let document = try documentOfA(
            "<relationship name=\"r\" toMany=\"YES\" minCount=\"1\" maxCount=\"4\" destinationEntity=\"A\"/>")
        #expect(
            document.notes("/entities/A/relationships/r") == [
                "ignored: no inverse: the other side does not know of the link",
                "skipped: the relationship is not optional: that is not enforced, so that records may come in any order",
                "skipped: minCount=\"1\": how many there are is not enforced",
                "skipped: maxCount=\"4\": how many there are is not enforced",
            ])
    }
}

/// A model of the shape that Xcode writes, around some of its elements.
func contents(_ elements: String) -> String {
    """
    <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
    <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" minimumToolsVersion="Automatic">
    \(elements)
    </model>
    """
}

func document(_ elements: String) throws -> ModelDocument {
    try CoreDataModel.read(contents: Array(contents(elements).utf8), source: "contents")
}

/// An entity `A` with these attributes and other elements.
func documentOfA(_ inside: String) throws -> ModelDocument {
    try document("<entity name=\"A\" syncable=\"YES\">\n\(inside)\n</entity>")
}

extension ModelDocument {
    /// A part of the tree as JSON, by names; nil when it is not there.
    func json(_ path: String...) -> String? {
        var value: ModelValue? = root
        for name in path { value = value?[name] }
        guard let value else { return nil }
        var writer = JSONWriter()
        value.write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    func attribute(_ name: String, of entity: String = "A") -> String? { json("entities", entity, "attributes", name) }

    func relationship(_ name: String, of entity: String = "A") -> String? {
        json("entities", entity, "relationships", name)
    }

    /// The notes about a part: "kind: message".
    func notes(_ pointer: String) -> [String] {
        notes.filter { $0.place.pointer == pointer }.map { "\($0.kind.rawValue): \($0.message)" }
    }

    /// The faults, here or of the reader, as "line: message".
    var allFaults: [String] {
        do throws(ModelError) {
            _ = try ModelReader.read(self)
            return []
        } catch {
            return error.faults.map { "\($0.place.line): \($0.message)" }
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct IdentityRulesTests {
    private func identity(_ inside: String, _ entries: [String: String] = [:]) throws -> String? {
        try documentOfA(inside + userInfo(entries)).json("entities", "A", "identity")
    }

    private func userInfo(_ entries: [String: String]) -> String {
        let lines = entries.sorted { $0.key < $1.key }.map { "<entry key=\"\($0.key)\" value=\"\($0.value)\"/>" }
        return "<userInfo>\(lines.joined())</userInfo>"
    }

    private func attributes(_ names: String...) -> String {
        names.map { "<attribute name=\"\($0)\" optional=\"YES\" attributeType=\"String\"/>" }.joined(separator: "\n")
    }

    private let constraint = """
        <uniquenessConstraints><uniquenessConstraint><constraint value="c"/><constraint value="d"/></uniquenessConstraint>
        </uniquenessConstraints>
        """

    @Test func `each source of an identity precedes the later ones`() throws {
        var inside = attributes("a", "b", "c", "d", "id", "aID", "aId", "remoteID")
        var entries = [
            "identityAttributes": "b, a", "identityAttribute": "a", "relatedByAttribute": "b",
            "RKEntityIdentificationAttributes": "c,a",
        ]
        inside += constraint
        #expect(try identity(inside, entries) == #"["b","a"]"#)
        entries["identityAttributes"] = nil
        #expect(try identity(inside, entries) == #"["a"]"#)
        entries["identityAttribute"] = nil
        #expect(try identity(inside, entries) == #"["b"]"#)
        entries["relatedByAttribute"] = nil
        #expect(try identity(inside, entries) == #"["c","a"]"#)
        let marked = "<attribute name=\"k\" attributeType=\"String\">" + userInfo(["sync.isPrimaryKey": "YES"])
        #expect(try identity(inside + marked + "</attribute>", entries) == #"["k"]"#)
        let hyper = "<attribute name=\"h\" attributeType=\"String\">" + userInfo(["hyper.isPrimaryKey": "true"])
        #expect(try identity(inside + hyper + "</attribute>", entries) == #"["h"]"#)
        #expect(try identity(inside) == #"["c","d"]"#)
        for (names, expected) in [
            (["id", "aId", "aID", "remoteID"], "remoteID"), (["id", "aId", "aID"], "aID"), (["id", "aId"], "aId"),
            (["id"], "id"),
        ] {
            #expect(try identity(names.map { attributes($0) }.joined()) == "[\"\(expected)\"]")
        }
        #expect(try identity(attributes("x")) == nil)
    }

    @Test func `a name that is no attribute gives a note and is ignored`() throws {
        let document = try documentOfA(
            attributes("name", "id") + "<attribute name=\"t\" transient=\"YES\" attributeType=\"String\"/>"
                + userInfo(["identityAttributes": "nmae", "relatedByAttribute": "t"]))
        #expect(document.json("entities", "A", "identity") == #"["id"]"#)
        #expect(
            document.notes("/entities/A") == [
                "ignored: userInfo identityAttributes: nmae: there is no attribute nmae to find objects by; "
                    + "did you mean \"name\"?",
                "ignored: userInfo relatedByAttribute: t: there is no attribute t to find objects by",
                "inferred: the identity is id: the usual name",
            ])
    }

    @Test func `a relationship determines the attribute by which its destinations are found`() throws {
        let document = try document(
            """
            <entity name="A">
                <attribute name="code" attributeType="String"/><attribute name="id" attributeType="Integer 64"/>
            </entity>
            <entity name="B"><attribute name="id" attributeType="Integer 64"/>
                <relationship name="a" optional="YES" maxCount="1" destinationEntity="A">
                    <userInfo><entry key="relatedByAttribute" value="code"/></userInfo>
                </relationship>
            </entity>
            """)
        #expect(document.json("entities", "A", "identity") == #"["code"]"#)
        #expect(document.json("entities", "B", "identity") == #"["id"]"#)
    }

    @Test func `the identity has no default and is required`() throws {
        let document = try documentOfA(
            "<attribute name=\"id\" optional=\"YES\" attributeType=\"Integer 64\" defaultValueString=\"0\"/>")
        #expect(document.attribute("id") == #"{"type":"integer64"}"#)
        #expect(
            document.notes("/entities/A/attributes/id") == [
                "inferred: required, though the model says optional: it is of the identity",
                "ignored: the default \"0\": all records without an identity would be one object",
            ])
        #expect(try ModelReader.read(document).entities[0].identity == [0])
    }

    @Test func `in a hierarchy the topmost identity is that of all`() throws {
        let document = try document(
            """
            <entity name="Dog" parentEntity="Animal"><attribute name="dogID" attributeType="Integer 64"/>
                <userInfo><entry key="identityAttributes" value="dogID"/></userInfo></entity>
            <entity name="Puppy" parentEntity="Dog"><attribute name="id" attributeType="Integer 64"/></entity>
            <entity name="Animal" isAbstract="YES"><attribute name="animalID" attributeType="Integer 64"/></entity>
            <entity name="Stone"><attribute name="weight" attributeType="Double"/></entity>
            <entity name="Gem" parentEntity="Stone"><attribute name="gemId" attributeType="String"/></entity>
            """)
        #expect(document.json("entities", "Animal", "identity") == #"["animalID"]"#)
        #expect(document.json("entities", "Dog", "identity") == nil)
        #expect(document.json("entities", "Puppy", "identity") == nil)
        #expect(document.json("entities", "Gem", "identity") == #"["gemId"]"#)
        #expect(document.json("entities", "Dog", "parent") == "\"Animal\"")
        #expect(document.json("entities", "Animal", "abstract") == "true")
        #expect(
            document.notes("/entities/Dog") == [
                "ignored: userInfo identityAttributes: dogID: a hierarchy has one identity, its topmost entity's",
                "inferred: the identity is that of Animal, whose subentity this is",
            ])
    }

    @Test func `parents that go around in a circle end`() throws {
        let document = try document(
            """
            <entity name="A" parentEntity="B"><attribute name="id" attributeType="String"/></entity>
            <entity name="B" parentEntity="A"/><entity name="C" parentEntity="C"/>
            """)
        #expect(document.json("entities", "C", "parent") == "\"C\"")
        #expect(document.faults.isEmpty)
    }

    @Test func `a line of parents that never ends is bounded`() throws {
        let entities = (0..<20_000).map { "<entity name=\"E\($0)\" parentEntity=\"E\($0 + 1)\"/>" }
        let document = try document(entities.joined(separator: "\n"))
        #expect(document.faults.count == 20_000 - 65)
        #expect(document.faults[0].message == "the entity has more than 64 ancestors; no model needs them")
    }

    @Test func `other uniqueness constraints and indexes become lists, impossible ones are reported`() throws {
        let document = try documentOfA(
            attributes("id", "a", "b") + """
                <relationship name="r" optional="YES" maxCount="1" destinationEntity="A"/>
                <uniquenessConstraints>
                    <uniquenessConstraint><constraint value="r"/></uniquenessConstraint>
                    <uniquenessConstraint><constraint value="id"/></uniquenessConstraint>
                    <uniquenessConstraint><constraint value="a"/><constraint value="b"/></uniquenessConstraint>
                </uniquenessConstraints>
                <fetchIndex name="byB"><fetchIndexElement property="b" type="Binary" order="ascending"/></fetchIndex>
                <fetchIndex name="byR"><fetchIndexElement property="r" type="Binary" order="ascending"/></fetchIndex>
                <fetchIndex name="tree"><fetchIndexElement property="b" type="RTree" order="ascending"/></fetchIndex>
                <fetchIndex name="upper"><fetchIndexElement expression="uppercase(b)" type="Binary"/></fetchIndex>
                <compoundIndexes><compoundIndex><index value="b"/><index value="a"/></compoundIndex></compoundIndexes>
                """)
        #expect(document.json("entities", "A", "identity") == #"["id"]"#)
        #expect(document.json("entities", "A", "unique") == #"[["a","b"]]"#)
        #expect(document.json("entities", "A", "indexes") == #"[["b"],["b","a"]]"#)
        #expect(
            document.notes("/entities/A").filter { !$0.hasPrefix("inferred") } == [
                "skipped: the uniqueness constraint over r: r is no attribute that is stored",
                "ignored: the index byR: a relationship has an index anyway",
                "skipped: the index tree: Broker makes no R-trees",
                "skipped: the index upper: Broker indexes attributes, not expressions",
            ])
        #expect(document.allFaults == [])
    }
}

/// The user info of the libraries of the field.
@Suite(.timeLimit(.minutes(5))) struct KeyRulesTests {
    private func attribute(_ name: String, _ entries: (String, String)..., type: String = "String") -> String {
        let lines = entries.map { "<entry key=\"\($0.0)\" value=\"\($0.1)\"/>" }.joined()
        return """
            <attribute name="\(name)" optional="YES" attributeType="\(type)"><userInfo>\(lines)</userInfo></attribute>
            """
    }

    private func relationship(_ name: String, isToMany: Bool, _ entries: (String, String)...) -> String {
        let lines = entries.map { "<entry key=\"\($0.0)\" value=\"\($0.1)\"/>" }.joined()
        let count = isToMany ? "toMany=\"YES\"" : "maxCount=\"1\""
        return """
            <relationship name="\(name)" optional="YES" \(count) destinationEntity="A"><userInfo>\(lines)</userInfo>\
            </relationship>
            """
    }

    private func key(_ document: ModelDocument, _ name: String, _ part: String = "attributes") -> String? {
        document.json("entities", "A", part, name, "key")
    }

    @Test func `MagicalRecord's keys have fallbacks, of attributes and relationships`() throws {
        let document = try documentOfA(
            attribute("plain") + attribute("mapped", ("mappedKeyName", "location.latitude"))
                + attribute(
                    "several", ("mappedKeyName.2", "c"), ("mappedKeyName", "a"), ("mappedKeyName.1", "b"),
                    ("mappedKeyName.9", "d"))
                + attribute("fallback", ("mappedKeyName.1", "other"))
                + attribute(
                    "date", ("dateFormat", "yyyy-MM-dd"), ("useDefaultValueWhenNotPresent", "YES"), type: "Date")
                + attribute("misspelt", ("mapedKeyName", "x"))
                + relationship("friends", isToMany: true, ("mappedKeyName", "friend_list"), ("mappedKeyName.1", "pals"))
        )
        #expect(key(document, "plain") == nil)
        #expect(key(document, "mapped") == #""location.latitude""#)
        #expect(key(document, "several") == #"["a","b","c","d"]"#)
        #expect(key(document, "fallback") == #"["fallback","other"]"#)
        #expect(document.json("entities", "A", "attributes", "date", "format") == "\"yyyy-MM-dd\"")
        #expect(key(document, "friends", "relationships") == #"["friend_list","pals"]"#)
        #expect(
            document.notes("/entities/A/attributes/misspelt") == [
                "ignored: userInfo mapedKeyName: Broker does not know this key; did you mean \"mappedKeyName\"?"
            ])
        #expect(
            document.notes("/entities/A/attributes/date").contains {
                $0 == "ignored: userInfo useDefaultValueWhenNotPresent: the attribute has no default"
            })
        #expect(document.allFaults == [])
        let reset = try documentOfA(
            """
            <attribute name="state" optional="YES" attributeType="String" defaultValueString="new">
                <userInfo><entry key="useDefaultValueWhenNotPresent" value="YES"/></userInfo>
            </attribute>
            """)
        #expect(reset.json("entities", "A", "attributes", "state", "defaultWhenMissing") == "true")
    }

    @Test func `with Groot, a property without a key path is not mapped, in the whole hierarchy`() throws {
        let document = try document(
            """
            <entity name="A">
                \(attribute("id", ("JSONKeyPath", "identifier")))\(attribute("note"))
                \(attribute("shout", ("JSONKeyPath", "name"), ("JSONTransformerName", "Upper")))
                \(relationship("others", isToMany: true))
                <userInfo><entry key="identityAttributes" value="id"/><entry key="entityMapperName" value="M"/></userInfo>
            </entity>
            <entity name="Sub" parentEntity="A">\(attribute("more"))</entity>
            <entity name="Free">\(attribute("x"))</entity>
            """)
        #expect(key(document, "id") == #"["identifier"]"#)
        #expect(key(document, "note") == "[]")
        #expect(key(document, "others", "relationships") == "[]")
        #expect(document.json("entities", "Sub", "attributes", "more", "key") == "[]")
        #expect(document.json("entities", "Free", "attributes", "x", "key") == nil)
        #expect(
            document.notes("/entities/A/attributes/shout").contains {
                $0.hasPrefix("skipped: userInfo JSONTransformerName: ")
            })
        #expect(document.notes("/entities/A").contains { $0.hasPrefix("skipped: userInfo entityMapperName: ") })
    }

    @Test func `Sync's names hold in a model that bears one of its keys, and in no other`() throws {
        let inside =
            attribute("remoteID") + attribute("createdAt") + attribute("aType") + attribute("name")
            + relationship("bestFriend", isToMany: false) + relationship("notes", isToMany: true)
        let plain = try documentOfA(inside)
        #expect(key(plain, "createdAt") == nil)
        for marker in ["sync.remoteKey", "hyper.remoteKey"] {
            let document = try documentOfA(inside + attribute("company", (marker, "company.name")))
            #expect(key(document, "remoteID") == #"["id"]"#)
            #expect(key(document, "createdAt") == #"["created_at","createdAt"]"#)
            #expect(key(document, "aType") == #"["type","a_type","aType"]"#)
            #expect(key(document, "name") == #"["name"]"#)
            #expect(key(document, "company") == #""company.name""#)
            #expect(key(document, "bestFriend", "relationships") == #"["best_friend","bestFriend","best_friend_id"]"#)
            #expect(key(document, "notes", "relationships") == #"["notes","notes_ids"]"#)
            #expect(document.notes("").contains { $0.hasPrefix("inferred: the model has user info of Sync's") })
            #expect(document.allFaults == [])
        }
    }

    @Test func `the first of several libraries' keys counts, and the others are reported`() throws {
        let document = try documentOfA(
            attribute(
                "x", ("sync.remoteKey", "s"), ("mappedKeyName", "m"), ("JSONKeyPath", "j"), ("hyper.remoteKey", "j")))
        #expect(key(document, "x") == #"["j"]"#)
        #expect(
            document.notes("/entities/A/attributes/x") == [
                "taken: userInfo JSONKeyPath: j", "ignored: userInfo mappedKeyName: JSONKeyPath goes before it",
                "ignored: userInfo sync.remoteKey: JSONKeyPath goes before it",
            ])
    }

    @Test func `a wrong key path is a fault at its line`() throws {
        let document = try documentOfA("\n" + attribute("x", ("mappedKeyName", "a..b")))
        #expect(document.allFaults.count == 1)
        #expect(
            document.allFaults[0].hasPrefix("5: the key path \"a..b\" has an empty key; take out the dot too many"))
    }
}
