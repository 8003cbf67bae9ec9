import Broker
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import BrokerEmbedded

/// Code that has a say while records become objects.
@Suite(.timeLimit(.minutes(5))) struct HandlersTests {
    private static let model = RawJSON(
        """
        {"entities": {
           "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "bornAt": "date"},
              "relationships": {"boss": {"entity": "Person"}, "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"}}},
           "Manager": {"parent": "Person", "attributes": {"grade": {"type": "integer16", "default": 1}}},
           "Tag": {"identity": "word", "attributes": {"word": "string"}, "unique": [["word"]]}},
         "mappings": {"any": {"select": {"key": "type", "cases": {"m": "manager"}, "otherwise": "person"}},
           "person": {"entity": "Person"}, "manager": {"entity": "Manager"}},
         "routes": [{"keyPath": "people", "mapping": "any"}]}
        """)

    private struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    private let store = TestStore()

    private func open(_ configure: (inout EmbeddedBroker.Handlers) -> Void) async throws -> EmbeddedBroker {
        var handlers = EmbeddedBroker.Handlers()
        configure(&handlers)
        var options = EmbeddedBrokerConfiguration()
        options.store.synchronous = .off
        return try await EmbeddedBroker.open(
            store: .file(store.path), model: .json(Self.model), handlers: handlers, configuration: options)
    }

    @Test func `a chooser says what a record is, or leaves it to the model`() async throws {
        let broker = try await open {
            $0.choose("any") { record in
                let text = record.description
                if text.contains("secret") { return .decline }
                return text.contains("boss of") ? .mapping("manager") : .asModelled
            }
        }
        let outcome = try await broker.run(
            .map(
                json:
                    #"{"people": [{"id": 1, "name": "boss of x"}, {"id": 2, "type": "m"}, {"id": 3}, {"id": 4, "name": "secret"}]}"#
            ))
        #expect(outcome.changes["Manager"]?.inserted == 2)
        #expect(try store.rows("SELECT id, _entity FROM Person ORDER BY id") == ["1|Manager", "2|Manager", "3|Person"])
        await broker.stop()
    }

    @Test func `a chooser that sends a record around a circle is left at last`() async throws {
        let broker = try await open {
            $0.choose("person") { _ in .mapping("manager") }
            $0.choose("manager") { _ in .mapping("person") }
        }
        let outcome = try await broker.run(.map(json: #"{"id": 1}"#, by: .mapping("person")))
        #expect(outcome.changes.values.reduce(0) { $0 + $1.inserted } == 1)
        await broker.stop()
    }

    @Test func `a rewriter changes a record, nested ones too, before it is mapped`() async throws {
        let broker = try await open {
            $0.rewrite("Person") { record in
                var text = record.description
                if text.contains("\"drop\"") { return nil }
                text = text.replacingOccurrences(of: "\"old_name\"", with: "\"name\"")
                return .init(text)
            }
        }
        let outcome = try await broker.run(
            .process(
                json:
                    #"[{"id": 1, "old_name": "a", "boss": {"id": 2, "old_name": "b", "tags": ["x"]}}, {"id": 3, "drop": 1}, {"id": 4, "boss": {"id": 5, "drop": 1}}]"#,
                as: "Person"), reply: .objects)
        #expect(try store.rows("SELECT id, name, boss FROM Person ORDER BY id") == ["1|a|2", "2|b|NULL"].map { $0 })
        #expect(outcome.warnings == [])
        await broker.stop()
    }

    @Test func `later assertions override rewritten ones, and the other way round`() async throws {
        let broker = try await open {
            // Much longer than before, so that its own offsets would follow those of the next records.
            $0.rewrite("Manager") {
                .init($0.description.dropLast() + #", "name": "\#(String(repeating: "n", count: 500))"}"#)
            }
        }
        _ = try await broker.run(
            .process(json: #"[{"id": 1, "boss": {"id": 9}}]"#, as: "Manager"),
            .process(json: #"[{"id": 1, "boss": {"id": 8}, "name": "short"}]"#, as: "Person"))
        #expect(try store.rows("SELECT name, boss FROM Person WHERE id = 1") == ["short|8"])
        await broker.stop()
    }

    @Test func `a validator gets converted values by attribute, and its error is reported at the record`() async throws
    {
        let broker = try await open {
            $0.validate("Person") { object in
                if object.description.contains("1970-01-01T00:00:00.000Z") {
                    throw Refusal(description: "The age is impossible.")
                }
            }
        }
        let records =
            #"[{"id": 1, "bornAt": 0}, {"id": 2, "bornAt": 86400, "boss": {"id": 3, "bornAt": "1970-01-01"}}]"#
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: records, as: "Manager"))
        }
        #expect(error?.code == .validationFailed)
        #expect(error?.fault?.message == "The age is impossible.")
        #expect(error?.fault?.path == "/json/0")
        let outcome = try await broker.run(.process(json: records, as: "Manager"), onInvalid: .skip)
        #expect(outcome.rejections.map(\.path) == ["/json/0", "/json/1/boss"])
        #expect(try store.rows("SELECT id, boss FROM Person") == ["2|NULL"])
        await broker.stop()
    }

    @Test func `a conversion runs before the model's own, also for bare keys`() async throws {
        let broker = try await open {
            $0.convert("word", of: "Tag") { word in
                let text = try word.decode(String.self)
                if text == "bad" { throw Refusal(description: "No such word.") }
                return try .init(value: text.uppercased())
            }
        }
        _ = try await broker.run(.process(json: #"[{"id": 1, "tags": ["a", {"word": "b"}]}]"#, as: "Person"))
        #expect(try store.rows("SELECT word FROM Tag ORDER BY 1") == ["A", "B"])
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: #"[{"word": "bad"}]"#, as: "Tag"))
        }
        #expect(error?.fault?.path == "/json/0/word")
        #expect(error?.fault?.message == "No such word.")
        await broker.stop()
    }

    @Test func `a handler's result must be JSON of the right kind`() async throws {
        let broker = try await open {
            $0.rewrite("Person") { $0.description.contains("7") ? .init("[1]") : .init("{") }
        }
        for (id, message) in [("7", "an object is wanted"), ("8", "made no JSON")] {
            let error = await #expect(throws: BrokerError.self) {
                _ = try await broker.run(.process(json: #"{"id": \#(id)}"#, as: "Person"))
            }
            #expect(error?.code == .invalidValue)
            #expect(error?.fault?.message.contains(message) == true)
        }
        await broker.stop()
    }

    @Test func `handlers for what the model does not have are refused at the opening`() async throws {
        let error = await #expect(throws: BrokerError.self) {
            try await open {
                $0.rewrite("Persn") { $0 }
                $0.convert("nam", of: "Person") { $0 }
                $0.choose("some") { _ in .decline }
            }
        }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.split(separator: "\n").count == 3)
    }
}
