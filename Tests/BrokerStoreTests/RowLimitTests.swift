import BrokerStaging
import CSQLite
import TestSupport
import Testing

@testable import BrokerStore

/// SQLite bounds the bytes of a row.
@Suite(.timeLimit(.minutes(5))) struct RowLimitTests {
    @Test func `a record whose object would have too many bytes is rejected, and no other`() throws {
        let test = try TestStore(
            """
            {"entities": {"Doc": {"identity": "id", "attributes": {"id": "integer64", "a": "string", "b": "string"}}}}
            """)
        sqlite3_limit(test.store.connection.handle, SQLITE_LIMIT_LENGTH, 100_000)
        let text = String(repeating: "t", count: 60_000)
        try test.apply("{\"Doc\": {\"id\": 1, \"a\": \"\(text)\"}}")
        let records = "[{\"id\": 2, \"a\": \"x\"}, {\"id\": 1, \"b\": \"\(text)\"}]"
        let operation = "{\"entity\": \"Doc\", \"json\": \(records)}"
        guard case .failed(let fault) = try test.apply(test.job(operations: operation)) else {
            return #expect(Bool(false))
        }
        #expect(
            fault.code == .constraintViolation && fault.path == "/0/json/1" && fault.message.contains("no row of more"))
        #expect(!fault.message.contains("too big") && fault.cause == "string or blob too big")
        guard case .completed = try test.apply(test.job(operations: operation, .skip)) else {
            return #expect(Bool(false))
        }
        #expect(try test.rows("SELECT id, a, b FROM Doc WHERE id = 2") == ["2|x|NULL"])
    }
}
