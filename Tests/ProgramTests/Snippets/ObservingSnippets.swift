import Broker
import BrokerClient
import Logging
import Synchronization
import Testing

/// The code of the article *Observing*, run.
@Suite(.timeLimit(.minutes(5))) struct ObservingSnippets {
    @Test func `the state of the connection and of the server can be seen`() async throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let path = programs.path("broker.sock")
        let logger = Logger(label: "payroll")
        let broker = BrokerClient(.unixSocket(path), configuration: .init(name: "payroll"), logger: logger)

        let statistics = try await broker.statistics()
        print("\(statistics.jobs.inFlight) jobs in flight, the store is \(statistics.store.state)")
        #expect(statistics.store.state == .serving)

        // The states of a client that is closed end.
        broker.close()
        let health = Mutex(BrokerConnectionState.idle)
        for await state in broker.connectionStates {
            health.withLock { $0 = state }
        }
        #expect(health.withLock { $0 } == .closed)
    }
}
