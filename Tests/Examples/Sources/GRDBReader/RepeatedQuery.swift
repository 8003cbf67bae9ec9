import GRDB

/// The result of a query, now and after each commit of another process.
///
/// (GRDB's `ValueObservation` sees only what its own process writes.)
struct RepeatedQuery<Value: Sendable>: AsyncSequence {
    let store: DatabaseQueue
    let fetch: @Sendable (Database) throws -> Value

    func makeAsyncIterator() -> Iterator { Iterator(store: store, fetch: fetch) }

    struct Iterator: AsyncIteratorProtocol {
        let store: DatabaseQueue
        let fetch: @Sendable (Database) throws -> Value
        private var version: Int?

        init(store: DatabaseQueue, fetch: @escaping @Sendable (Database) throws -> Value) {
            self.store = store
            self.fetch = fetch
        }

        mutating func next() async throws -> Value? {
            while true {
                let result = try await store.read { [fetch, version] database -> (Int?, Value)? in
                    // SQLite changes this number of a connection when another one has committed.
                    let newest = try Int.fetchOne(database, sql: "PRAGMA data_version")
                    return newest == version ? nil : (newest, try fetch(database))
                }
                if let (newest, value) = result {
                    version = newest
                    return value
                }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }
}
