import BrokerModel
import Testing

@testable import BrokerStaging

/// Records, their identities and their rows.
@Suite(.timeLimit(.minutes(5))) struct StagedRecordTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {
              "Person": {"identity": "id", "root": "human", "attributes": {
                "id": "integer64", "name": {"type": "string", "optional": false}, "age": "integer16",
                "email": {"type": "string", "key": ["email", "contact.email", "contact.e/~mail"]},
                "level": {"type": "integer16", "onInvalid": "skip"},
                "score": {"type": "integer16", "onInvalid": "null"},
                "rank": {"type": "integer16", "optional": false, "default": 1, "onInvalid": "null"}}},
              "Country": {"identity": "code", "attributes": {
                "code": {"type": "string", "transform": ["uppercase"]}, "name": "string"}},
              "Seat": {"identity": ["row", "number"], "attributes": {
                "row": "string", "number": "integer16", "taken": "boolean"}},
              "Note": {"attributes": {"text": "string"}},
              "Guest": {"identity": ["house", "room"], "identityOptional": true, "attributes": {
                "house": "string", "room": "integer16", "name": "string"}}
            }}
            """)
    }

    @Test func `records of one identity are one row, and later values win attribute by attribute`() throws {
        let staged = try staging.stage(
            #"{"Person": [{"id": 1, "name": "Ada", "age": 36}, {"id": 2}, {"id": 1, "age": 37, "email": "a@b"}]}"#)
        #expect(staged("Person") == ["id=1 name=Ada age=37 email=a@b", "id=2"])
    }

    @Test func `a missing key leaves the column unchanged, null clears it`() throws {
        let staged = try staging.stage(#"{"Person": [{"id": 1, "age": null}, {"id": 2, "email": null, "age": 0}]}"#)
        #expect(staged("Person") == ["id=1 age=nil", "id=2 age=0 email=nil"])
    }

    @Test func `a text identity is compared as it is stored, byte by byte`() throws {
        let staged = try staging.stage(
            #"""
            {"Country": [{"code": "de", "name": "A"}, {"code": "DE", "name": "B"}, {"code": "d\u0065"},
              {"code": ""}]}
            """#
        )
        #expect(staged("Country") == ["code=DE name=B", "code="])
    }

    @Test func `a compound identity is all of its attributes`() throws {
        let staged = try staging.stage(
            """
            {"Seat": [{"row": "A", "number": 1}, {"row": "A", "number": 2, "taken": true},
              {"number": 1, "row": "A", "taken": false}, {"row": "A1", "number": 1}]}
            """)
        #expect(staged("Seat") == ["row=A number=1 taken=0", "row=A number=2 taken=1", "row=A1 number=1"])
    }

    @Test func `without an identity each record is a new object`() throws {
        let staged = try staging.stage(#"{"Note": [{"text": "a"}, {"text": "a"}, {}]}"#)
        #expect(staged("Note") == ["text=a", "text=a", ""])
    }

    @Test func `an incomplete optional identity inserts a new object with the values it has`() throws {
        let staged = try staging.stage(
            """
            {"Guest": [{"house": "H", "name": "a"}, {"house": "H", "room": null, "name": "b"}, {"name": "c"},
              {"house": "H", "room": 1}, {"house": "H", "room": 1, "name": "d"}]}
            """)
        #expect(
            staged("Guest") == [
                "house=H room=nil name=a", "house=H room=nil name=b", "house=nil room=nil name=c",
                "house=H room=1 name=d",
            ])
    }

    @Test(arguments: [
        (#"{"Person": [{"id": 1}, {"name": "x"}]}"#, "/Person/1", "id"),
        (#"{"Person": {"id": null, "name": "x"}}"#, "/Person", "id"),
        (#"{"Seat": [{"row": "A"}]}"#, "/Seat/0", "number"),
        (#"{"Person": [{"human": {"name": "x"}}]}"#, "/Person/0/human", "id"),
    ])
    func `a record without identity is reported with its path`(payload: String, path: String, attribute: String) throws
    {
        let fault = try #require(try staging.fault(payload))
        #expect(fault.code == .missingIdentity)
        #expect(fault.path == path)
        #expect(fault.attribute == attribute)
    }

    @Test func `null for a required attribute is a missing value`() throws {
        let fault = try #require(try staging.fault(#"{"Person": [{"id": 1, "name": null}]}"#))
        #expect(fault.code == .missingValue)
        #expect(fault.path == "/Person/0/name")
        #expect(fault.entity == "Person")
        #expect(fault.attribute == "name")
    }

    @Test func `the first of several key paths whose value is not null counts`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"id": 1, "email": "a", "contact": {"email": "b"}},
              {"id": 2, "email": null, "contact": {"email": "b"}},
              {"id": 3, "contact": {"e/~mail": "c"}}, {"id": 4, "contact": {"email": null}}, {"id": 5, "contact": {}},
              {"id": 6, "contact": null}]}
            """)
        #expect(
            staged("Person") == [
                "id=1 email=a", "id=2 email=b", "id=3 email=c", "id=4 email=nil", "id=5", "id=6 email=nil",
            ])
    }

    @Test func `a key id that no attribute claims is the identity's, after its own key`() throws {
        let staging = try Staging(
            """
            {"entities": {"Shelf": {"identity": "shelfId", "attributes": {"shelfId": "integer64"}, "relationships": {
              "label": {"entity": "Label"}}},
              "Label": {"identity": "code", "attributes": {
                "code": "string", "number": {"type": "integer64", "key": "id"}}}}}
            """)
        let staged = try staging.stage(
            """
            {"Shelf": [{"id": 1}, {"shelfId": 2, "id": 9}, {"shelfId": null, "id": 3, "label": {"code": "x", "id": 7}}]}
            """)
        #expect(staged("Shelf") == ["shelfId=1", "shelfId=2", "shelfId=3 label=@x"])
        #expect(staged("Label") == ["code=x number=7"])
    }

    @Test func `a path into the message is escaped as RFC 6901 says`() throws {
        let fault = try #require(try staging.fault(#"{"Person": [{"id": 1, "contact": {"e/~mail": []}}]}"#))
        #expect(fault.path == "/Person/0/contact/e~1~0mail")
    }

    @Test func `the last of duplicate keys wins at any depth`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"id": 9, "age": 1, "age": 2, "contact": {"email": "a"},
              "contact": {"email": "b", "email": "c"},
              "id": 1}]}
            """)
        #expect(staged("Person") == ["id=1 age=2 email=c"])
    }

    @Test func `a wrapped record is unwrapped by its root or its entity's name`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"human": {"id": 1}}, {"person": {"id": 2}}, {"id": 3, "human": {"id": 4}}],
              "Note": {"note": {"text": "a"}}}
            """)
        #expect(staged("Person") == ["id=1", "id=2", "id=3"])
        #expect(staged("Note") == ["text=a"])
        #expect(staged.warnings == ["Person human 1"])
    }

    @Test func `a key of the entity is not a wrapper`() throws {
        let staging = try Staging(
            """
            {"entities": {"Note": {"identity": "number", "attributes": {
              "number": {"type": "integer64", "key": "note.number"}}}}}
            """)
        #expect(try staging.stage(#"{"Note": [{"note": {"number": 1}}]}"#)("Note") == ["number=1"])
    }

    @Test func `a value that cannot be converted is skipped or null where the attribute says so`() throws {
        let staged = try staging.stage(#"{"Person": [{"id": 1, "level": "x", "score": "x"}, {"id": 2, "level": 1}]}"#)
        #expect(staged("Person") == ["id=1 score=nil", "id=2 level=1"])
    }

    @Test func `a required attribute that would become null for its invalid value is a missing value`() throws {
        let fault = try #require(try staging.fault(#"{"Person": [{"id": 1, "rank": "x"}]}"#))
        #expect(fault.code == .missingValue)
        #expect(fault.path == "/Person/0/rank")
    }

    @Test(arguments: [
        (#"{"Person": [{"id": 1}, 7]}"#, "/Person/1"), (#"{"Person": [[]]}"#, "/Person/0"),
        (#"{"Person": ["x"]}"#, "/Person/0"), (#"{"Person": "x"}"#, "/Person"), (#"{"Person": null}"#, "/Person"),
    ])
    func `a value that is no record is an invalid value`(payload: String, path: String) throws {
        let fault = try #require(try staging.fault(payload))
        #expect(fault.code == .invalidValue)
        #expect(fault.path == path)
    }

    @Test func `an empty collection stages nothing`() throws {
        #expect(try staging.stage(#"{"Person": []}"#)("Person") == [])
    }

    @Test func `invalid records are rejected and listed in payload order with skip`() throws {
        let staged = try staging.stage(
            #"{"Person": [{"id": "x"}, {"id": 1}, {"age": 1}, 5, {"id": 2, "age": 99999, "name": "a"}, {"id": 3}]}"#,
            .skip)
        #expect(staged("Person") == ["id=1", "id=3"])
        #expect(
            staged.rejections == [
                "invalidValue /Person/0/id", "missingIdentity /Person/2", "invalidValue /Person/3",
                "invalidValue /Person/4/age",
            ])
    }
}
