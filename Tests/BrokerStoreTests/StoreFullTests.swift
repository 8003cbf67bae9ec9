import BrokerModel
import Testing

@testable import BrokerStore

/// A store that reaches its limit refuses what does not fit, and goes on.
@Suite(.timeLimit(.minutes(5))) struct StoreFullTests {
    private let store: TestStore

    init() throws {
        var options = StoreOptions()
        options.maximumPages = 40
        store = try TestStore(
            #"{"entities": {"Blob": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#,
            options: options)
    }

    private func blob(_ id: Int, kibibytes: Int) -> String {
        "{\"Blob\": {\"id\": \(id), \"text\": \"\(String(repeating: "x", count: kibibytes << 10))\"}}"
    }

    @Test func `a job that does not fit is refused as full and leaves nothing`() throws {
        try store.apply(blob(1, kibibytes: 8), id: "fits")
        let error = try #require(throws: StoreError.self) { try store.apply(blob(2, kibibytes: 400), id: "large") }
        #expect(error.code == .full)
        #expect(try store.rows("SELECT id, length(text) FROM Blob") == ["1|8192"])
        #expect(try store.store.outcome(ofJob: "large") == nil)
        try store.apply(blob(3, kibibytes: 8), id: "after")
        #expect(try store.rows("SELECT id FROM Blob") == ["1", "3"])
        #expect(try store.isSound())
    }

    @Test func `a transaction that SQLite rolled back is reported, and the next one begins normally`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(blob(1, kibibytes: 8)))
        #expect(throws: StoreError.self) { try store.store.apply(store.job(blob(2, kibibytes: 400))) }
        store.store.rollback()
        #expect(store.store.connection.isAutocommit)
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["0"])
        try store.apply(blob(3, kibibytes: 8))
        #expect(try store.rows("SELECT id FROM Blob") == ["3"])
    }

    @Test func `a store filled to the brim takes what makes room, and then more`() throws {
        var id = 0
        #expect(throws: StoreError.self) {
            while true {
                id += 1
                try store.apply(blob(id, kibibytes: 8))
            }
        }
        #expect(id > 5)
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["\(id - 1)"])
        try store.apply("{\"Blob\": [\((1...5).map { #"{"id": \#($0), "text": ""}"# }.joined(separator: ","))]}")
        try store.apply(blob(id, kibibytes: 8))
        #expect(try store.rows("SELECT count(*) FROM Blob") == ["\(id)"])
    }
}
