import Testing

@testable import BrokerModel

/// Owned relationships, and attributes whose values come from the record around their own.
@Suite(.timeLimit(.minutes(5))) struct OwnedModelTests {
    /// An order with lines, each with taxes, and an address.
    private static let orders = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": {"type": "string", "transform": "lowercase"}, "total": "double"},
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true, "owned": true},
                               "notes": {"entity": "Note", "toMany": true, "owned": true, "ordered": true},
                               "address": {"entity": "Address", "owned": true}}},
          "OrderLine": {"attributes": {"sku": "string"},
             "relationships": {"taxes": {"entity": "Tax", "toMany": true, "owned": true}}},
          "Tax": {"identity": "name", "attributes": {"name": "string", "rate": "double"}},
          "Note": {"identity": "text", "attributes": {"text": "string"}},
          "Address": {"attributes": {"id": "integer64", "city": "string"}}}}
        """

    /// The attributes with their keys, and the relationships: `parent_id=@parent.id position name* -order>Order`.
    private func describe(_ entity: String, in model: Model) -> String {
        let entity = model.entities[model.index(ofEntity: entity)!]
        let attributes = entity.attributes.enumerated().map { index, attribute in
            let keys = attribute.keyPaths.map { $0.joined(separator: ".") }.joined(separator: ",")
            return attribute.name + (keys == attribute.name ? "" : "=\(keys)")
                + (entity.identity.contains(index) ? "*" : "") + ":\(attribute.type)"
        }
        let links = entity.relationships.map { relationship in
            "-\(relationship.name)\(relationship.keyPaths.isEmpty ? "" : "!")>"
                + "\(model.entities[relationship.destination].name).\(model.inverse(of: relationship)?.name ?? "")"
        }
        return (attributes + links).joined(separator: " ")
    }

    @Test func `an owned entity gets its owner's identity, a position, and an inverse`() throws {
        let model = try read(Self.orders)
        #expect(
            describe("OrderLine", in: model)
                == "parent_id=@parent.id*:string position=@parent.@index*:integer64 sku:string -taxes!>Tax.orderLine "
                + "-order>Order.lines")
        #expect(
            describe("Tax", in: model)
                == "parent_parent_id=@parent.parent_id*:string parent_position=@parent.position*:integer64 name=name,id*:string "
                + "rate:double -orderLine>OrderLine.taxes")
        #expect(
            describe("Address", in: model)
                == "parent_id=@parent.id*:string id:integer64 city:string -order>Order.address")
        let order = model.entities[0]
        #expect(order.relationships.map(\.deleteRule) == [.cascade, .cascade, .cascade])
        #expect(order.relationships.map(\.assignment) == [.replace, .replace, .union])
        let tax = model.entities[2]
        #expect(tax.identity.map { tax.attributes[$0].name } == ["parent_parent_id", "parent_position", "name"])
        #expect(tax.identity.allSatisfy { !tax.attributes[$0].isOptional })
        // An operation may name an object by its key, which is read as the owner's is.
        #expect(tax.attributes[0].transforms == [.lowercase])
    }

    @Test(arguments: [
        orders,
        // An owner without identity, an inverse and names of the model's own, and names that are taken.
        """
        {"entities": {
          "Page": {"relationships": {"rows": {"entity": "Row", "toMany": true, "owned": true}}}, "Row": {}}}
        """,
        """
        {"keyStyle": "snakeCase", "entities": {
          "A": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": {"type": "date", "storage": "unix"}},
                "relationships": {"bs": {"entity": "B", "toMany": true, "owned": true, "inverse": "home"}}},
          "B": {"attributes": {"place": {"type": "integer32", "key": "@parent.@index"},
                               "first": {"type": "integer16", "key": "@parent.x"}},
                "relationships": {"home": {"entity": "A"}}}}}
        """,
        """
        {"entities": {
          "A": {"identity": "x", "attributes": {"x": {"type": "uuid", "renamedFrom": "y"}}, "renamedFrom": "Z",
                "relationships": {"b": {"entity": "B", "toMany": true, "owned": true}}},
          "B": {"attributes": {"Parent_X": "string", "position": "double", "a": "string", "OWNER": "string"}},
          "C": {"relationships": {"b": {"entity": "B"}}}}}
        """,
    ])
    func `a written model reads as the same model`(json: String) throws {
        let model = try read(json)
        let again = try read(written(model))
        #expect(content(of: again) == content(of: model))
        #expect(written(again) == written(model))
    }

    @Test func `names that are taken get a number, and the inverse is the owner`() throws {
        let model = try read(
            """
            {"entities": {
              "A": {"identity": "x", "attributes": {"x": {"type": "uuid", "renamedFrom": "y"}}, "renamedFrom": "Z",
                    "relationships": {"b": {"entity": "B", "toMany": true, "owned": true}}},
              "B": {"attributes": {"Parent_X": "string", "position": "double", "a": "string", "OWNER": "string"}},
              "C": {"relationships": {"b": {"entity": "B"}}}}}
            """)
        #expect(
            describe("B", in: model)
                == "parent_x2=@parent.x*:uuid position2=@parent.@index*:integer64 Parent_X:string position:double a:string "
                + "OWNER:string -owner2>A.b")
        let entity = model.entities[1]
        #expect(entity.attributes[0].renamedFrom == "parent_y")
        #expect(entity.relationships[0].renamedFrom == "z")
        // A bare key makes no owned object.
        #expect(model.entities[2].relationships[0].missing == .fail)
    }

    @Test func `parts of the model's own serve as they are`() throws {
        let model = try read(
            """
            {"entities": {
              "A": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": "string"},
                    "relationships": {"bs": {"entity": "B", "toMany": true, "owned": true, "inverse": "home"}}},
              "B": {"identity": ["code", "parent_y"], "attributes": {"first": {"type": "integer16", "key": "@parent.x"},
                    "code": "string"}, "relationships": {"home": {"entity": "A"}}}}}
            """)
        #expect(
            describe("B", in: model)
                == "parent_y=@parent.y*:string first=@parent.x*:integer16 code=code,id*:string -home>A.bs")
        let entity = model.entities[1]
        #expect(entity.identity.map { entity.attributes[$0].name } == ["first", "parent_y", "code"])
    }

    @Test func `objects of an owner without identity have none`() throws {
        let model = try read(
            """
            {"entities": {
              "Page": {"relationships": {"rows": {"entity": "Row", "toMany": true, "owned": true}}},
              "Row": {"attributes": {"id": "string"},
                      "relationships": {"cells": {"entity": "Cell", "toMany": true, "owned": true}}}, "Cell": {}}}
            """)
        #expect(model.entities.map(\.hasRowKey) == [true, true, true])
        #expect(describe("Row", in: model) == "id:string -cells!>Cell.row -page>Page.rows")
    }

    @Test func `a plain id is no key of an identity that comes from the record around`() throws {
        let model = try read(
            """
            {"entities": {"A": {"identity": "x", "attributes": {"x": "integer64"},
               "relationships": {"b": {"entity": "B", "owned": true}}}, "B": {"attributes": {"y": "string"}}}}
            """)
        #expect(model.entities[1].attributes[0].keyPaths == [["@parent", "x"]])
        let keyed = try read(
            #"""
            {"entities": {"A": {"identity": "x", "attributes": {"x": "integer64"},
               "relationships": {"b": {"entity": "B", "owned": true}}},
               "B": {"identity": "y", "attributes": {"y": "string"}}}}
            """#)
        #expect(keyed.entities[1].attributes.map(\.keyPaths) == [[["@parent", "x"]], [["y"], ["id"]]])
    }

    @Test func `an at sign alone is part of an ordinary key`() throws {
        let model = try read(
            entity(
                #""attributes": {"a": {"type": "string", "key": ["@parent", "@index", "@id.x"]}, "#
                    + #""b": {"type": "string", "key": "x.@parent.y"}}"#))
        #expect(model.entities[0].attributes.allSatisfy { $0.holderValue == nil })
    }

    // MARK: - Faults

    /// A model of `A`, identified by `x`, and `B`.
    private static func model(_ relationship: String, _ fields: String = "", _ others: String = "") -> String {
        """
        {"entities": {"A": {"identity": "x", "attributes": {"x": "integer64", "n": "string"},
           "relationships": {"b": {"entity": "B", \(relationship)}}}, "B": {\(fields)}\(others)}}
        """
    }

    fileprivate static let relationshipB = "/entities/A/relationships/b"

    @Test(arguments: [
        FaultCase(
            model(#""toMany": true"#, #""attributes": {"p": {"type": "string", "key": "@parent.n"}}"#),
            "/entities/B/attributes/p", #"A.b leads here, and "n" is no attribute of the identity of A"#),
        FaultCase(
            model(#""toMany": true"#, #""attributes": {"p": {"type": "string", "key": "@parent.x"}}"#),
            "/entities/B/attributes/p", #"its "x" is integer64; "p" has the key "@parent.x" and needs the same type"#),
        FaultCase(
            model(#""toMany": true"#, #""attributes": {"p": {"type": "integer64", "key": "@parent.x.y"}}"#),
            "/entities/B/attributes/p/key", #"write "@parent.<attribute>", "@parent.@index", or"#),
        FaultCase(
            model(#""toMany": true"#, #""attributes": {"p": {"type": "integer16", "key": "@parent.@index"}}"#),
            "/entities/B/attributes/p", "is a position; give \"p\" the type integer32 or integer64"),
        FaultCase(
            model(
                #""toMany": true"#,
                #""attributes": {"p": {"type": "integer64", "key": ["@parent.x", "@parent.@index"]}}"#),
            "/entities/B/attributes/p", "takes one value from the record around its own"),
        FaultCase(
            entity(#""attributes": {"a": {"type": "string", "key": "@parent.x"}}"#), "/entities/A/attributes/a",
            "no relationship leads to A"),
        FaultCase(
            relationship(#""entity": "B", "key": "@parent.x""#), relationshipB + "/key",
            "can be the key of an attribute of an entity only"),
        FaultCase(
            model(
                #""toMany": true"#, #""attributes": {"p": "string"}"#,
                #"}, "mappings": {"m": {"entity": "B", "attributes": {"@parent.x": "p"}}"#),
            "/mappings/m/attributes/@parent.x", "can be the key of an attribute of an entity only"),
        FaultCase(
            model(
                #""toMany": true, "owned": true"#, "",
                #"}, "mappings": {"m": {"entity": "B", "nestingKey": "position"}"#),
            "/mappings/m/nestingKey", "so its value comes from the record around this one"),
        FaultCase(
            model(#""inverse": "a""#, #""identity": "a", "relationships": {"a": {"entity": "A"}}"#),
            "/entities/B/identity", "\"a\" is a relationship, and attributes identify an object"),
    ])
    func `a key that leads nowhere is refused`(fault: FaultCase) { fault.check() }

    @Test(
        arguments: FaultCase.list(
            { $0 }, at: "",
            #"""
            {"entities": {"A": {"relationships": {"b": {"entity": "B", "owned": true}}}, "B": {"identity": "y",
              "attributes": {"y": "string"}}}} => /entities/B/identity :: A, which owns these objects, has no identity
            {"entities": {"A": {"identity": "x", "identityOptional": true, "attributes": {"x": "string"}, "relationships":
              {"b": {"entity": "B", "owned": true}}}, "B": {}}}
              => /entities/A/relationships/b/owned :: the identity of A is optional
            {"entities": {"Z": {}, "A": {"parent": "Z", "identity": "x", "attributes": {"x": "string"}, "relationships":
              {"b": {"entity": "B", "owned": true}}}, "B": {}}}
              => /entities/A/relationships/b/owned :: the identity of A does not hold for Z
            """#) + [
                FaultCase(
                    model(#""owned": true, "deleteRule": "nullify""#), relationshipB + "/deleteRule",
                    "owned objects are deleted with their owner"),
                FaultCase(
                    model(#""owned": true, "toMany": true, "assignment": "union""#), relationshipB + "/assignment",
                    "a value names all owned objects"),
                FaultCase(
                    model(#""owned": true, "toMany": true, "ordered": true"#), relationshipB + "/ordered",
                    "are identified by their position"),
                FaultCase(
                    model(#""owned": true"#, "", #", "C": {"relationships": {"b": {"entity": "B", "owned": true}}}"#),
                    "/entities/C/relationships/b/owned", "B is owned by A.b already"),
                FaultCase(
                    model(#""owned": true"#, #""parent": "C""#, #", "C": {}"#), relationshipB + "/owned",
                    "B inherits from another entity"),
                FaultCase(
                    model(
                        #""owned": true"#, #""identity": "y", "identityOptional": true, "attributes": {"y": "string"}"#),
                    "/entities/B/identityOptional", "the identity of an owned entity is not optional"),
                FaultCase(
                    model(
                        #""owned": true, "inverse": "a""#,
                        #""relationships": {"a": {"entity": "A", "toMany": true}}"#), "/entities/B/relationships/a",
                    "an owned object has one owner"),
                FaultCase(
                    model(
                        #""owned": true, "inverse": "a""#,
                        #""relationships": {"a": {"entity": "A", "deleteRule": "cascade"}}"#),
                    "/entities/B/relationships/a/deleteRule", "which stays when they go"),
                FaultCase(
                    model(
                        #""owned": true, "inverse": "a""#, #""relationships": {"a": {"entity": "A", "key": "order"}}"#),
                    "/entities/B/relationships/a/key", "so no key names it"),
                FaultCase(
                    model(
                        #""owned": true"#, "", #", "C": {"relationships": {"b": {"entity": "B", "missing": "stub"}}}"#),
                    "/entities/C/relationships/b/missing", "B is owned, so a bare key makes no object of it"),
                FaultCase(
                    model(
                        #""owned": true, "toMany": true"#,
                        #""attributes": {"p": {"type": "integer64", "key": ["@parent.x", "p"]}}"#),
                    "/entities/B/attributes/p",
                    "take its keys out but \"@parent.x\""),
                FaultCase(
                    entity(#""relationships": {"a": {"entity": "A", "owned": true}}"#),
                    "/entities/A/relationships/a/owned",
                    "A would be owned by itself"),
            ])
    func `a relationship that cannot own is refused`(fault: FaultCase) { fault.check() }

    @Test func `owners are not too many, and names not too long`() throws {
        func chain(_ count: Int, id: String) -> String {
            let entities = (0..<count).map { number in
                let identity = number == 0 ? #""identity": "\#(id)", "attributes": {"\#(id)": "integer64"}, "# : ""
                let next = #"{"x": {"entity": "E\#(number + 1)", "owned": true}}"#
                return #""E\#(number)": {\#(identity)"relationships": \#(number + 1 < count ? next : "{}")}"#
            }
            return #"{"entities": {\#(entities.joined(separator: ", "))}}"#
        }
        let model = try read(chain(ModelLimits.mostOwners + 1, id: "id"))
        #expect(content(of: try read(written(model))) == content(of: model))
        #expect(
            faults(of: chain(ModelLimits.mostOwners + 3, id: "id")).map(\.place.pointer)
                == ["/entities/E32/relationships/x/owned", "/entities/E33/relationships/x/owned"])
        let long = faults(of: chain(3, id: String(repeating: "i", count: 245)))
        #expect(long.map(\.place.pointer) == ["/entities/E1/relationships/x/owned"])
        #expect(long.first?.message.contains("more than 255 bytes") == true)
    }

    @Test func `a circle of owners is refused at each of them`() {
        let found = faults(
            of: """
                {"entities": {"A": {"relationships": {"b": {"entity": "B", "owned": true}}},
                              "B": {"relationships": {"a": {"entity": "A", "owned": true}}}}}
                """)
        #expect(found.map(\.place.pointer) == [Self.relationshipB + "/owned", "/entities/B/relationships/a/owned"])
    }
}
