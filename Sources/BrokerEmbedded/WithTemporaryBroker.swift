internal import Broker
public import Logging

/// Runs code with a broker in this process whose store is new, and gone afterwards: for tests.
///
/// ```swift
/// @Test func imports() async throws {
///     try await withTemporaryBroker(model: .json(model)) { try await importStaff($0) }
/// }
/// ```
///
/// The store is not synced to a disk, and is in memory where the system has a file system in memory.
///
/// - Throws: ``/Broker/BrokerError`` when the model is not valid, or what `body` throws.
@discardableResult public func withTemporaryBroker<Value>(
    model: EmbeddedBroker.ModelSource, handlers: EmbeddedBroker.Handlers = EmbeddedBroker.Handlers(),
    logger: Logger = Logger(label: "broker.embedded", factory: { _ in SwiftLogNoOpLogHandler() }),
    isolation: isolated (any Actor)? = #isolation, _ body: (EmbeddedBroker) async throws -> Value
) async throws -> Value {
    var configuration = EmbeddedBrokerConfiguration()
    configuration.durability = .off
    configuration.workers = 1
    let broker = try await EmbeddedBroker.open(
        store: .temporary, model: model, handlers: handlers, configuration: configuration, logger: logger)
    do {
        let value = try await body(broker)
        await broker.stop()
        return value
    } catch {
        await broker.stop()
        throw error
    }
}
