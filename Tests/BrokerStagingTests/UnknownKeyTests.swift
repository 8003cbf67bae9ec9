import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerStaging

/// Records with keys that the model does not name.
@Suite(.timeLimit(.minutes(5))) struct UnknownKeyTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
                "relationships": {"notes": {"entity": "Note", "toMany": true}}},
              "Guest": {"identity": "id", "identityOptional": true, "attributes": {"id": "integer64", "name": "string"}},
              "Log": {"ignore": ["trace", "meta.raw"], "attributes":
                {"kind": {"type": "string", "key": "meta.kind"}, "payload": "transformable",
                 "size": {"type": "integer64", "key": "payload.size"}}},
              "Note": {"attributes": {"text": "string", "city": {"type": "string", "key": "address.city"}}}}}
            """)
    }

    private func stage(_ payload: String, _ policy: InvalidRecordPolicy) throws -> StagedRows {
        let document = try JSONDocument(parsing: JSONText(copying: Array(payload.utf8)))
        let operations = document.root.members.map { key, value in
            StagingOperation(entity: staging.plan.model.index(ofEntity: key.string!)!, json: value)
        }
        let collections = JobCollection.collections(of: ShortList(operations), in: document, refusesUnknownKeys: true)
        return StagedJobRows.unite(try collections.map { try $0.stage(staging.plan, policy) }, staging.plan)
    }

    // MARK: - None of the keys is known

    @Test(arguments: [
        (#"{"Note": {"error": "not found"}}"#, "/Note", #""error""#),
        (#"{"Note": [{"text": "a"}, {"message": "no", "code": 404}]}"#, "/Note/1", #""message", "code""#),
        (#"{"Guest": {"error": "not found"}}"#, "/Guest", #""error""#),
        (#"{"Person": {"id": 1, "notes": [{"txt": "a"}]}}"#, "/Person/notes/0", #""txt""#),
        (#"{"Note": {"note": {"txt": "a"}}}"#, "/Note/note", #""txt""#),
        (#"{"Note": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}}"#, "/Note", #""e" …"#),
    ])
    func `a record without a known key is at fault`(payload: String, path: String, keys: String) throws {
        let fault = try staging.fault(payload)
        #expect(fault?.code == .noKnownKey && fault?.path == path, "\(String(describing: fault))")
        #expect(fault?.message.contains(keys) == true, "\(String(describing: fault))")
    }

    @Test func `a missing identity is reported first, also when no key is known`() throws {
        #expect(try staging.fault(#"{"Person": {"error": "not found"}}"#)?.code == .missingIdentity)
    }

    @Test(arguments: [
        #"{"Note": {}}"#, #"{"Note": [{}, {"text": null, "x": 1}]}"#, #"{"Note": {"address": {"zip": 1}}}"#,
        #"{"Note": {"address": null, "x": 1}}"#, #"{"Guest": {"name": "a", "x": 1}}"#,
    ])
    func `one known key, or none at all, is a record`(payload: String) throws {
        #expect(try staging.fault(payload) == nil)
    }

    @Test func `with skip, the record alone is rejected`() throws {
        let staged = try staging.stage(#"{"Note": [{"text": "a"}, {"txt": "b"}, {"text": "c"}]}"#, .skip)
        #expect(staged.rejections == ["noKnownKey /Note/1"])
    }

    @Test(arguments: [
        #"{"Log": {"trace": {"a": {"b": 1}}, "meta": {"kind": "k", "raw": [1]}}}"#,
        // A value that an attribute takes whole has no unknown keys, though another attribute leads into it.
        #"{"Log": {"payload": {"size": 1, "more": {"x": 1}}}}"#,
        #"{"Log": {"trace": 1}}"#,
    ])
    func `ignored keys, and keys inside of a value that the model takes, are known`(payload: String) throws {
        #expect(try staging.fault(payload) == nil)
        _ = try stage(payload, .fail)
    }

    // MARK: - Unknown keys fail

    @Test(arguments: [
        (#"{"Person": [{"id": 1}, {"id": 2, "nmae": "b"}]}"#, "/Person/1", #""nmae""#),
        (#"{"Person": {"id": 1, "b": {"x": 1}, "a": 2}}"#, "/Person", #""b""#),
        (#"{"Note": {"address": {"zip": 1, "city": "c"}, "text": "t"}}"#, "/Note", #"the path address.zip of Note."#),
        (#"{"Note": {"address.city": "c", "text": "t"}}"#, "/Note", #"the key "address.city" of Note, as a dot"#),
        (#"{"Note": {"address": {"ctiy": "c"}, "text": "t"}}"#, "/Note", #"did you mean "city"?"#),
        (#"{"Person": {"id": 1, "notes": [{"text": "a", "x": 1}]}}"#, "/Person/notes/0", #""x""#),
        (#"{"Log": {"trace": 1, "meta": {"raw": 1, "x": 1}}}"#, "/Log", "the path meta.x of Log"),
    ])
    func `where unknown keys fail, a record that has one is at fault`(payload: String, path: String, key: String) throws
    {
        #expect(try staging.fault(payload) == nil)
        let refusal = #expect(throws: StagingRefusal.self) { try stage(payload, .fail) }
        guard case .fault(let fault) = refusal else { return }
        #expect(fault.code == .unknownKey && fault.path == path && fault.message.contains(key), "\(fault)")
    }

    @Test func `where unknown keys fail, records without them are staged`() throws {
        let rows = try stage(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "notes": [{"text": "t"}]}]}"#, .fail)
        #expect(rows.warnings.isEmpty)
    }
}
