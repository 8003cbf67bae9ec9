import Testing

@testable import BrokerModel

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
