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
        #expect(document.attribute("x") == #"{"type":"string","renamedFrom":"y","indexed":true}"#)
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
        #expect(document.attribute("home_city") == #"{"type":"string","key":["a.home.city"],"optional":false}"#)
        #expect(document.attribute("home_point_lat") == #"{"type":"double","key":["a.home.point.lat"],"default":0.0}"#)
        #expect(document.attribute("address_city") == #"{"type":"string","key":["address.city"]}"#)
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
                == #"{"entity":"A","toMany":true,"ordered":true,"renamedFrom":"old"}"#)
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
