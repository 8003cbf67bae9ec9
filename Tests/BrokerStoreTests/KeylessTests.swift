import BrokerModel
import Testing

@testable import BrokerStore

/// Attributes without a key (`"key": []`): no record has a value, and all other rules apply.
@Suite(.timeLimit(.minutes(5))) struct KeylessTests {
    private static let model = """
        {"entities": {
          "Note": {"identity": "id", "attributes": {
              "id": "integer64", "text": "string", "secret": {"type": "string", "key": []},
              "state": {"type": "string", "key": [], "optional": false, "default": "new"}},
            "relationships": {"book": {"entity": "Book", "inverse": "notes", "key": []},
              "twin": {"entity": "Note", "key": []}}},
          "Book": {"identity": "code", "attributes": {"code": {"type": "string", "key": []}, "name": "string"},
            "relationships": {"notes": {"entity": "Note", "toMany": true, "inverse": "book"}}},
          "Strict": {"identity": "id", "attributes": {"id": "integer64", "must": {"type": "string", "key": [], "optional": false}}},
          "Pair": {"identity": ["a", "b"], "attributes": {"a": "string", "b": {"type": "string", "key": []}}}}}
        """

    private func filled() throws -> TestStore {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Book": [{"id": "x", "name": "X", "notes": [{"id": 1, "text": "one"}]}]}"#)
        return store
    }

    @Test func `a record does not bring it, by its name either, and the inverse fills a relationship`() throws {
        let store = try filled()
        let outcome = try store.outcome(
            #"{"Note": [{"id": 1, "secret": "s", "state": "old", "book": "y", "twin": 7}, {"id": 2}]}"#)
        #expect(outcome.warnings.map(\.key).sorted { $0 ?? "" < $1 ?? "" } == ["book", "secret", "state", "twin"])
        #expect(
            try store.rows("SELECT id, text, secret, state, book, twin FROM Note ORDER BY 1")
                == ["1|one|NULL|new|x|NULL", "2|NULL|NULL|new|NULL|NULL"])
        #expect(try store.isSound())
    }

    @Test func `the key id is still that of a single identity`() throws {
        #expect(try filled().rows("SELECT code, name FROM Book") == ["x|X"])
    }

    @Test func `a required attribute with neither key nor default is missing`() throws {
        let strict = try TestStore(Self.model).fault(#"{"Strict": [{"id": 1, "must": "x"}]}"#)
        #expect(strict?.code == .missingValue)
        let pair = try TestStore(Self.model).fault(#"{"Pair": [{"a": "x", "b": "y"}]}"#)
        #expect(pair?.code == .missingIdentity)
        #expect(pair?.message.contains("its identity b (to which the model gives no key)") == true)
    }

    @Test func `a fetch with remote names omits it, unless it is requested`() throws {
        let store = try filled()
        #expect(try store.fetch("Note") { _ in } == #"[{"id":1,"text":"one"}]"#)
        #expect(
            try store.fetch("Note") { $0.include = ["book", "twin"] }
                == #"[{"id":1,"text":"one","book":{"id":"x","name":"X"},"twin":null}]"#)
        #expect(
            try store.fetch("Note") { $0.names = .local }
                == #"[{"id":1,"text":"one","secret":null,"state":"new","book":"x","twin":null}]"#)
    }
}
