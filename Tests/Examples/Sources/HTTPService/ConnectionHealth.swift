import BrokerClient
import ServiceLifecycle
import Synchronization

/// The newest state of a client's connection.
final class ConnectionHealth: Service {
    private let broker: BrokerClient
    private let current = Mutex(BrokerConnectionState.idle)

    init(_ broker: BrokerClient) { self.broker = broker }

    var state: BrokerConnectionState { current.withLock { $0 } }

    func run() async {
        for await state in broker.connectionStates.cancelOnGracefulShutdown() { current.withLock { $0 = state } }
    }
}
