import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Values by which servers say that a relationship leads to no object.
@Suite(.timeLimit(.minutes(5))) struct NoneValueTests {
    private static func model(_ none: String = #", "none": ["", 0, false, []]"#) -> String {
        """
        {"entities": {
          "Invoice": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "partner": {"entity": "Partner", "key": ["partner", "partner_id"]\(none)},
            "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"\(none)},
            "lines": {"entity": "Line", "toMany": true, "owned": true\(none)}}},
          "Partner": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "name", "attributes": {"name": "string"}},
          "Flag": {"identity": "isSet", "attributes": {"isSet": "boolean"}, "relationships": {
            "other": {"entity": "Flag"}}},
          "Line": {"identity": "n", "attributes": {"n": "integer64"}}}}
        """
    }

    private static let whole =
        #"{"Invoice": {"id": 1, "partner": 7, "tags": ["a", "b"], "lines": [{"n": 1}, {"n": 2}]}}"#

    private func counts(_ store: TestStore) throws -> String {
        try store.rows(
            "SELECT (SELECT ifnull(partner, '-') FROM Invoice), (SELECT count(*) FROM Partner), "
                + "(SELECT count(*) FROM Invoice_tags), (SELECT count(*) FROM Tag), (SELECT count(*) FROM Line)")[0]
    }

    @Test(arguments: ["\"\"", "0", "0.0", "-0", "false", "[]", "null"])
    func `a listed value is read as null, by each kind of relationship`(value: String) throws {
        let store = try TestStore(Self.model())
        try store.apply(Self.whole)
        #expect(try counts(store) == "7|1|2|2|2")
        try store.apply(#"{"Invoice": {"id": 1, "partner": \#(value), "tags": \#(value), "lines": \#(value)}}"#)
        #expect(try counts(store) == "-|1|0|2|0", "no link, no phantom")
        #expect(try store.isSound())
    }

    @Test func `a listed element is none of the set, and another path is asked`() throws {
        let store = try TestStore(Self.model())
        try store.apply(Self.whole)
        try store.apply(#"{"Invoice": {"id": 1, "partner": false, "partner_id": 8, "tags": ["", "b", 0, false, []]}}"#)
        #expect(try counts(store) == "8|2|1|2|2")
        #expect(try store.fault(#"{"Invoice": {"id": 1, "tags": ["a", null]}}"#)?.path == "/Invoice/tags/1")
        let relate = #"{"op": "relate", "entity": "Invoice", "object": 1, "relationship": "partner", "json": false}"#
        #expect(try store.run(relate) == "Invoice ~1")
        #expect(try counts(store) == "-|2|1|2|2")
    }

    @Test(arguments: ["false", "true"])
    func `a bare key true or false is invalid, unless the identity is a boolean`(value: String) throws {
        let store = try TestStore(Self.model(""))
        for json in [
            #"{"Invoice": {"id": 1, "partner": \#(value)}}"#, #"{"Invoice": {"id": 1, "tags": [\#(value)]}}"#,
        ] {
            #expect(try store.fault(json)?.code == .invalidValue, "\(json)")
        }
        for operation in [
            #"{"op": "delete", "entity": "Partner", "objects": [\#(value)]}"#,
            #"{"entity": "Partner", "object": \#(value), "json": {}}"#,
        ] {
            let fault = #expect(throws: Fault.self) { try store.run(operation) }
            #expect(fault?.code == .invalidValue, "\(operation)")
        }
        #expect(throws: Fault.self) { try store.fetch("Partner", object: value) }
        #expect(try store.rows("SELECT (SELECT count(*) FROM Partner) + (SELECT count(*) FROM Tag)") == ["0"])
        #expect(try store.changes(#"{"Flag": {"isSet": true, "other": \#(value)}}"#).count == 1)
    }

    @Test func `without a list, other values are keys as before`() throws {
        let store = try TestStore(Self.model(""))
        try store.apply(#"{"Invoice": {"id": 1, "partner": 0, "tags": [""]}}"#)
        #expect(try counts(store) == "0|1|1|1|0")
        #expect(try store.fault(#"{"Invoice": {"id": 1, "partner": []}}"#)?.code == .invalidValue)
    }

    @Test func `the model says what may be listed, and is written with it`() throws {
        for (none, part) in [
            ("[null]", "a text, a whole number"), ("[0.5]", "a whole number"), ("[[1]]", "an empty array"),
            ("[{}]", "an empty array"),
            ("[]", "the array is empty"), ("0", "an array of values"),
            ("[\((0..<17).map(String.init).joined(separator: ","))]", "16 are the most"),
        ] {
            let error = #expect(throws: ModelError.self, "\(none)") {
                _ = try stagingPlan(Self.model(#", "none": \#(none)"#))
            }
            #expect(error?.description.contains(part) == true, "\(none): \(error?.description ?? "")")
        }
        let plan = try stagingPlan(Self.model())
        let text = try plan.model.relationshipNone("Invoice", "partner")
        #expect(text == [#""""#, "0", "false", "[]"])
    }
}

extension Model {
    /// The values of a relationship that mean no object, after the model was written and read again.
    fileprivate func relationshipNone(_ entity: String, _ relationship: String) throws -> [String] {
        var writer = JSONWriter()
        write(to: &writer)
        let again = try ModelReader.read(JSONText(copying: writer.bytes))
        let index = try #require(again.index(ofEntity: entity))
        return again.entities[index].relationships.first { $0.name == relationship }?.none.map(\.text) ?? []
    }
}
