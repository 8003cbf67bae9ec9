import BrokerStore
import Logging
import TestSupport

@testable import BrokerEmbedded

/// A folder with a store that brokers are opened on, one after the other.
final class TestStore: Sendable {
    static let model = EmbeddedBroker.JSON(
        """
        {"entities": {
          "Employee": {
            "identity": "id",
            "attributes": {"id": "integer64", "name": "string", "hiredAt": {"type": "date", "key": "hired_at"}},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}
        }}
        """)

    let folder = TemporaryFolder()

    var path: String { folder.path("store.sqlite") }

    func open(_ configure: (inout EmbeddedBroker.Options) -> Void = { _ in }) async throws -> EmbeddedBroker {
        var options = EmbeddedBroker.Options(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        options.limits.workers = 2
        // Power failures are not tested here, and syncing costs the most.
        options.store.synchronous = .off
        configure(&options)
        return try await EmbeddedBroker.open(store: path, model: Self.model, options: options)
    }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }
}

struct Employee: Codable, Equatable {
    var id: Int
    var name: String?
}
