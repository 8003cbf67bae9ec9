import Testing

@testable import BrokerModel

@Suite(.timeLimit(.minutes(5))) struct ModelWritingTests {
    @Test(arguments: [
        staffModel,
        attribute(
            #""type": "string", "key": "x.y", "optional": false, "default": "q\"é", "defaultWhenMissing": true, "minLength": 1, "maxLength": 9, "#
                + #""pattern": "^q\\d", "enum": ["q\u0001é", 1], "transform": "trim", "onInvalid": "null", "#
                + #""indexed": true, "unique": true"#),
        attribute(
            #""type": "date", "format": "yyyy", "timeZone": "+02:00", "storage": "coreData", "min": "1970-01-01", "#
                + #""max": 4e9, "default": 0"#),
        attribute(#""type": "decimal", "storage": "scaled", "scale": 4, "min": 0.0001"#),
        attribute(#""type": "calendarDate", "formats": ["dd/MM/yyyy"], "min": "1900-01-01", "enum": ["1985-12-10"]"#),
        attribute(#""type": "transformable", "default": {"x": [1,  "\n"]}, "indexed": true"#),
        relationship(
            #""entity": "B", "toMany": true, "key": ["b.c", "d"], "deleteRule": "deny", "assignment": "replace", "#
                + #""missing": "ignore", "ordered": true"#),
        """
        {"keyStyle": "snakeCase", "entities": {
          "Z": {"identity": ["userID", "x"], "attributes": {"x": "uuid", "userID": "integer32", "y": "uri", "x2": "date"},
                "unique": [["y", "x"], ["y"]], "indexes": [["x", "y"]], "modified": "x2",
                "relationships": {"friends": {"entity": "Z", "toMany": true, "inverse": "friends"}}},
          "A": {"identity": "hiredAt", "identityOptional": true, "attributes": {"hiredAt": "date", "b": "boolean"},
                "relationships": {"z": {"entity": "Z"}}}}}
        """,
        """
        {"description": "d1", "inferred": "m", "entities": {"A": {
          "description": "d2", "attributes": {"x": {"type": "string", "description": "d3"}},
          "relationships": {"a": {"entity": "A", "description": "d4 é\\n"}}}}}
        """,
    ])
    func `a written model reads as the same model`(json: String) throws {
        let model = try read(json)
        let text = written(model)
        let again = try read(text)
        #expect(content(of: again) == content(of: model))
        #expect(written(again) == text)
    }

    @Test func `descriptions and the mark of an inferred model are written`() throws {
        let text = """
            {"inferred": "m 1", "description": "d1", "entities": {
              "A": {"description": "d2", "attributes": {"x": {"type": "uuid", "description": "d3"}},
                    "relationships": {"a": {"entity": "A", "description": "d4"}}}}}
            """
        #expect(
            written(try read(text))
                == #"{"keyStyle":"exact","description":"d1","inferred":"m 1","entities":{"A":{"description":"d2","#
                + #""table":"A","attributes":{"x":{"description":"d3","type":"uuid","key":["x"],"optional":true}},"#
                + #""relationships":{"a":{"description":"d4","entity":"A","toMany":false,"key":["a"],"#
                + #""deleteRule":"nullify","missing":"stub"}}}}}"#)
    }

    @Test func `implied parts of the model are written out`() throws {
        let text = """
            {"keyStyle": "snakeCase", "entities": {
              "A": {"identity": "userID", "attributes": {"userID": "integer64"},
                    "relationships": {"b": {"entity": "B"}}},
              "B": {"relationships": {"a": {"entity": "A", "inverse": "b", "toMany": true}}}}}
            """
        #expect(
            written(try read(text))
                == #"{"keyStyle":"exact","entities":{"A":{"table":"A","identity":["userID"],"attributes":"#
                + #"{"userID":{"type":"integer64","key":["user_id","id"],"optional":false}},"relationships":"#
                + #"{"b":{"entity":"B","toMany":false,"inverse":"a","key":["b"],"deleteRule":"nullify","#
                + #""missing":"stub"}}},"B":{"table":"B","attributes":{},"relationships":{"a":{"entity":"A","#
                + #""toMany":true,"inverse":"b","key":["a"],"deleteRule":"nullify","assignment":"union","#
                + #""missing":"stub"}}}}}"#)
    }
}
