import BrokerModel
import Testing

@testable import BrokerStaging

/// Values that a nested record takes from the record around it.
@Suite(.timeLimit(.minutes(5))) struct StagedHolderTests {
    /// Lines are identified by their order and their place, and may be in an offer, too.
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": {"type": "integer64", "key": "head.id"}, "note": "string"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "key": "body.lines"},
                               "best": {"entity": "Line"}}},
          "Offer": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "mapping": "lines"}}},
          "Line": {"identity": ["order", "place"], "attributes": {
             "order": {"type": "integer64", "key": "@parent.id"}, "place": {"type": "integer64", "key": ["at", "@parent.@index"]},
             "sku": "string"}},
          "Plain": {"relationships": {"lines": {"entity": "Line", "toMany": true}}}},
         "mappings": {"lines": {"entity": "Line", "nestingKey": "sku", "collection": true}}}
        """

    private func model(_ change: (String) -> String = { $0 }) throws -> Staging {
        try Staging(
            change(
                Self.model.replacing(
                    #""Plain": {"relationships": {"lines": {"entity": "Line", "toMany": true}}}"#, with: #""Plain": {}"#
                )))
    }

    @Test func `a nested record has its holder's identity and its place`() throws {
        let staged = try model().stage(
            #"{"Order": [{"body": {"lines": [{"sku": "a"}, {"sku": "b"}]}, "head": {"id": 7}}, "#
                + #"{"head": {"id": 8}, "body": {"lines": {"sku": "c"}}, "best": {"sku": "d"}}]}"#)
        #expect(
            staged("Line") == [
                "order=7 place=0 sku=a", "order=7 place=1 sku=b", "order=8 place=0 sku=d",
            ])
    }

    @Test func `a key of the record before the holder's counts first`() throws {
        let staged = try model().stage(
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"at": 5}, {"at": null}, {}]}}}"#)
        #expect(staged("Line") == ["order=7 place=5", "order=7 place=1", "order=7 place=2"])
    }

    @Test func `the places of a dictionary are those of its members`() throws {
        let staged = try model().stage(
            #"{"Offer": {"id": 3, "lines": [{"a": {}, "b": {}}, {"c": {}}]}}"#)
        #expect(staged("Line") == ["order=3 place=0 sku=a", "order=3 place=1 sku=b", "order=3 place=2 sku=c"])
    }

    @Test func `skipped elements count`() throws {
        let staged = try model().stage(
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}, {"sku": []}, null, {"sku": "b"}]}}}"#,
            .skip)
        #expect(staged("Line") == ["order=7 place=0 sku=a", "order=7 place=3 sku=b"])
        #expect(
            staged.rejections == ["invalidValue /Order/body/lines/1/sku", "invalidValue /Order/body/lines/2"])
    }

    @Test func `a record that is not nested has no such value`() throws {
        let fault = try #require(try model().fault(#"{"Line": {"sku": "a"}}"#))
        #expect(fault.code == .missingIdentity)
        #expect(fault.message.contains(#"identity order (key "@parent.id"). Send the record nested"#))
    }

    @Test func `faults of a job that fails are found in the order of the text`() throws {
        let staging = try model()
        let text = #"{"Order": {"body": {"lines": [{"sku": []}]}, "head": {"id": 7}, "note": {}}}"#
        #expect(try staging.fault(text)?.path == "/Order/body/lines/0/sku")
        let good = text.replacing("[]", with: "1")
        #expect(try staging.fault(good)?.path == "/Order/note")
        // A holder whose own identity is wrong makes no nested record wrong.
        #expect(try staging.fault(good.replacing("7", with: #""x""#))?.path == "/Order/head/id")
    }

    @Test func `parts of a job are staged as the whole is`() throws {
        let staging = try model()
        let text =
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}]}}, "Line": [], "#
            + #""Offer": {"id": 7, "lines": {"b": {}}}}"#
        #expect(try staging.stage(text)("Line") == ["order=7 place=0 sku=b"])
        #expect(try staging.stageTogether(text)("Line") == ["order=7 place=0 sku=b"])
    }

    // MARK: - Owned records

    private static let owned = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Line": {"attributes": {"sku": "string"}, "relationships": {"product": {"entity": "Product", "inverse": "lines"}}},
          "Product": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true}}}}}
        """

    @Test(arguments: [
        (#"{"Line": {"sku": "a"}}"#, "missingIdentity /Line"),
        (#"{"Product": {"id": 1, "lines": [{"sku": "a"}]}}"#, "missingIdentity /Product/lines/0"),
        (#"{"Order": {"id": 1, "lines": [5]}}"#, "invalidValue /Order/lines/0"),
        (#"{"Order": {"id": 1, "lines": "x"}}"#, "invalidValue /Order/lines"),
    ])
    func `an owned record is nested in its owner's`(payload: String, fault: String) throws {
        let staged = try Staging(Self.owned).stage(payload, .skip)
        #expect(staged.rejections == [fault])
        #expect(staged("Line").isEmpty)
    }

    @Test func `the last record of an owner says what it owns`() throws {
        let staging = try Staging(Self.owned)
        let text =
            #"{"Order": [{"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 1, "lines": [{"sku": "c"}]}, "#
            + #"{"id": 2, "lines": [{"sku": "d"}]}, {"id": 2}]}"#
        let expected = [
            "parent_id=1 position=0 sku=c order=@1", "parent_id=1 position=1 sku=b order=nil",
            "parent_id=2 position=0 sku=d order=@2",
        ]
        #expect(try staging.stage(text)("Line") == expected)
        let parts = text.replacing(#"]}, {"id": 1, "#, with: #"]}], "Product": [], "Order": [{"id": 1, "#)
        #expect(try staging.stage(parts)("Line") == expected)
    }
}
