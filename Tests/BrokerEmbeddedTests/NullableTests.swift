import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

/// Attributes that are nil.
@Suite(.timeLimit(.minutes(5))) struct NullableTests {
    private struct Cleared: Codable, Equatable {
        var id: Int
        @Nullable var name: String?
    }

    private struct Chosen: Encodable {
        var id: Int
        var name: Nullable<String>?
    }

    @Test func `nil of a Nullable clears the column, and nil of an optional leaves it`() async throws {
        let store = TestStore()
        let broker = try await store.open()
        func name() throws -> [String] { try store.rows("SELECT coalesce(name, 'NULL') FROM Employee") }
        _ = try await broker.run(.process([Employee(id: 1, name: "Ada")], as: "Employee"))
        _ = try await broker.run(.process(Employee(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["Ada"])
        _ = try await broker.run(.process(Cleared(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["NULL"])
        _ = try await broker.run(.process(Cleared(id: 1, name: "Grace"), as: "Employee"))
        #expect(try name() == ["Grace"])
        _ = try await broker.run(.process(Chosen(id: 1, name: nil), as: "Employee"))
        #expect(try name() == ["Grace"])
        _ = try await broker.run(.process(Chosen(id: 1, name: Nullable(nil)), as: "Employee"))
        #expect(try name() == ["NULL"])
        await broker.stop()
    }

    @Test func `a member that is missing or null is read as nil`() throws {
        for text in [#"{"id":1}"#, #"{"id":1,"name":null}"#] {
            #expect(try RawJSON(text).decode(Cleared.self) == Cleared(id: 1, name: nil))
        }
        #expect(try RawJSON(#"{"id":1,"name":"a"}"#).decode(Cleared.self) == Cleared(id: 1, name: "a"))
    }
}
