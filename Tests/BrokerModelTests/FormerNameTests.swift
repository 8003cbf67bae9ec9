import Testing

@testable import BrokerModel

@Suite(.timeLimit(.minutes(5))) struct FormerNameTests {
    @Test func `a part of the model may have a former name`() throws {
        let model = try read(
            """
            {"entities": {
              "A": {"renamedFrom": "B", "attributes": {"a": {"type": "string", "renamedFrom": "b"}},
                "relationships": {"c": {"entity": "A", "renamedFrom": "d"}}}}}
            """)
        let entity = model.entities[0]
        #expect(entity.renamedFrom == "B")
        #expect(entity.attributes[0].renamedFrom == "b")
        #expect(entity.relationships[0].renamedFrom == "d")
        #expect(content(of: try read(written(model))) == content(of: model))
    }

    @Test(arguments: [
        FaultCase(
            entity(#""renamedFrom": "A""#), "/entities/A/renamedFrom", #""A" is still the name of the entity "A""#),
        FaultCase(entity(#""renamedFrom": ["B"]"#), "/entities/A/renamedFrom", "expected a string"),
        FaultCase(entity(#""renamedFrom": """#), "/entities/A/renamedFrom", "empty"),
        FaultCase(
            entity(#""attributes": {"a": {"type": "string", "renamedFrom": "b"}, "b": "string"}"#),
            "/entities/A/attributes/a/renamedFrom", #"still the name of the attribute "b""#),
        FaultCase(
            entity(
                #""attributes": {"a": {"type": "string", "renamedFrom": "r"}}, "relationships": {"r": {"entity": "A"}}"#
            ),
            "/entities/A/attributes/a/renamedFrom", #"still the name of the relationship "r""#),
        FaultCase(
            entity(
                #""attributes": {"a": {"type": "string", "renamedFrom": "x"}, "#
                    + #""b": {"type": "string", "renamedFrom": "x"}}"#),
            "/entities/A/attributes/b/renamedFrom", #"the attribute "a" is renamed from "x" already"#),
        FaultCase(
            #"{"entities": {"A": {"renamedFrom": "X"}, "B": {"renamedFrom": "X"}}}"#, "/entities/B/renamedFrom",
            #"the entity "A" is renamed from "X" already"#),
    ])
    func `a former name without a renaming is refused`(fault: FaultCase) { fault.check() }
}
