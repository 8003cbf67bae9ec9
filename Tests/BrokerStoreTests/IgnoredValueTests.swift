import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Ignored values and keys are counted: values that are not valid, and bare keys that name nothing.
@Suite(.timeLimit(.minutes(5))) struct IgnoredValueTests {
    private static let model = """
        {"entities": {
          "Item": {"identity": "id", "modified": "version", "attributes": {
            "id": "integer64", "version": "integer64", "size": {"type": "integer16", "onInvalid": "skip"},
            "word": {"type": "string", "maxLength": 3, "onInvalid": "null"}, "strict": "integer16"},
            "relationships": {
              "shelf": {"entity": "Shelf", "missing": "ignore"},
              "tags": {"entity": "Tag", "toMany": true, "missing": "ignore"}, "parts": {"entity": "Item", "toMany": true}}},
          "Shelf": {"identity": "id", "attributes": {"id": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
          "Base": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "friend": {"entity": "Special", "missing": "ignore"}}},
          "Special": {"parent": "Base", "attributes": {"extra": "string"}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func warnings(_ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        try store.outcome(json, policy).warnings.map { "\($0.code.rawValue) \($0.entity).\($0.key ?? "") \($0.count)" }
    }

    @Test func `values that onInvalid ignores or makes null are counted by attribute`() throws {
        #expect(
            try warnings(
                #"{"Item": [{"id": 1, "size": 99999, "word": "long"}, {"id": 2, "size": "x", "word": "ok", "parts": [{"id": 3, "size": []}]}]}"#
            ) == ["ignoredValue Item.size 3", "ignoredValue Item.word 1"])
        #expect(try warnings(#"{"Item": [{"id": 1, "size": 5, "word": null}]}"#) == [])
    }

    @Test func `a record that is rejected or not newer counts nothing`() throws {
        #expect(try warnings(#"{"Item": {"id": 1, "size": "x", "strict": "y"}}"#, .skip) == [])
        try store.apply(#"{"Item": {"id": 1, "version": 5}}"#)
        #expect(try warnings(#"{"Item": {"id": 1, "version": 4, "size": "x"}}"#) == [])
    }

    @Test func `bare keys that name no object are counted by relationship`() throws {
        try store.apply(#"{"Shelf": {"id": 1}}"#)
        #expect(
            try warnings(
                #"{"Item": [{"id": 1, "shelf": 1, "tags": [1, 2, 2]}, {"id": 2, "shelf": 9}, {"id": 3, "shelf": 9, "tags": [{"id": 7}, 7]}]}"#
            ) == ["ignoredKey Item.shelf 2", "ignoredKey Item.tags 3"])
        #expect(try store.rows("SELECT count(*) FROM Item_tags") == ["1"])
        // An object that the job makes exists.
        #expect(try warnings(#"{"Item": {"id": 4, "shelf": 8}, "Shelf": {"id": 8}}"#) == [])
        #expect(try warnings(#"{"Item": {"id": 5, "shelf": 8}}"#) == [])
    }

    @Test func `in a hierarchy a key of another entity is counted, too`() throws {
        try store.apply(#"{"Base": {"id": 1}, "Special": {"id": 2}}"#)
        #expect(
            try warnings(#"{"Base": [{"id": 3, "friend": 1}, {"id": 4, "friend": 2}]}"#) == ["ignoredKey Base.friend 1"]
        )
    }
}
