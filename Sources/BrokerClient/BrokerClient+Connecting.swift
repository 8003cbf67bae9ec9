internal import Broker
internal import BrokerRequests
public import Logging
internal import NIOCore

extension BrokerClient {
    /// Connects and waits for the server's welcome, for ``BrokerClientConfiguration/connectTimeout`` at most: for programs that are of
    /// no use without the server. A server that is not there yet is tried again until then.
    ///
    /// - Throws: ``/Broker/BrokerError`` with ``/Broker/BrokerError/Code/cannotConnect``, with the code of the server's refusal, or with
    ///   ``/Broker/BrokerError/Code/protocolViolation`` when the peer is no Broker.
    public static func connect(
        to address: BrokerAddress, configuration: BrokerClientConfiguration = BrokerClientConfiguration(),
        logger: Logger = Logger(label: "broker.client", factory: { _ in SwiftLogNoOpLogHandler() })
    ) async throws -> BrokerClient {
        try await connect(to: address, configuration: configuration, logger: logger, nil)
    }

    /// Uses sockets that the caller connects.
    ///
    /// - Parameters:
    ///   - name: the server's name in errors.
    ///   - dial: returns the descriptor of a connected stream socket, which the client then owns. Called for every
    ///     connection, on an event loop; must not block.
    package static func connect(
        to name: String, configuration: BrokerClientConfiguration = BrokerClientConfiguration(),
        dial: @escaping @Sendable () throws -> CInt
    ) async throws -> BrokerClient {
        try await connect(
            to: .unixSocket(name), configuration: configuration,
            logger: Logger(label: "broker.client") { _ in
                SwiftLogNoOpLogHandler()
            }, .descriptor(dial))
    }

    static func connect(
        to address: BrokerAddress, configuration: BrokerClientConfiguration, logger: Logger,
        firstDelay: TimeAmount = Reconnection.firstDelay, _ dialing: Dialing?
    ) async throws -> BrokerClient {
        let client = BrokerClient(
            address, configuration: configuration, logger: logger, beginning: .atOnce, firstDelay: firstDelay, dialing)
        do {
            _ = try await client.driver.welcome.value()
            return client
        } catch {
            client.close()
            throw error
        }
    }
}

/// Runs code with a connected client, and closes it afterwards: for scripts.
///
/// ```swift
/// try await withBrokerClient(.unixSocket(path)) { broker in
///     try await broker.process(employees, as: "Employee")
/// }
/// ```
///
/// - Throws: as ``BrokerClient/connect(to:configuration:logger:)``, or what `body` throws.
@discardableResult public func withBrokerClient<Value>(
    _ address: BrokerAddress, configuration: BrokerClientConfiguration = BrokerClientConfiguration(),
    logger: Logger = Logger(label: "broker.client", factory: { _ in SwiftLogNoOpLogHandler() }),
    isolation: isolated (any Actor)? = #isolation, _ body: (BrokerClient) async throws -> Value
) async throws -> Value {
    let client = try await BrokerClient.connect(to: address, configuration: configuration, logger: logger)
    defer { client.close() }
    return try await body(client)
}
