import BrokerStore
import TestSupport

import Broker
@testable import BrokerEmbedded

/// A folder with a store that brokers are opened on, one after the other.
final class TestStore: Sendable {
    static let model = RawJSON(
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

    func open(_ configure: (inout EmbeddedBrokerConfiguration) -> Void = { _ in }) async throws -> EmbeddedBroker {
        var options = EmbeddedBrokerConfiguration()
        options.limits.workers = 2
        // Power failures are not tested here, and syncing costs the most.
        options.store.synchronous = .off
        configure(&options)
        return try await EmbeddedBroker.open(store: .file(path), model: .json(Self.model), configuration: options)
    }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }
}

extension EmbeddedBroker {
    /// Applies operations as one job.
    func run(
        _ operations: Job.Operation..., id: JobID? = nil, onInvalid: Job.OnInvalid = .fail, reply: Job.Reply = .summary
    ) async throws -> Completion {
        try await process(Job(operations, id: id, onInvalid: onInvalid, reply: reply))
    }
}

struct Employee: Codable, Equatable {
    var id: Int
    var name: String?
}
