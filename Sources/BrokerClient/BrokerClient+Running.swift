internal import BrokerRequests

#if LIFECYCLE
public import ServiceLifecycle

/// With the package trait `ServiceLifecycle`.
extension BrokerClient: Service {}
#endif

extension BrokerClient {
    /// The state of the connection, and how it changes: the current state comes first. It ends when the client is closed. A reader
    /// that is slow misses states, but never the newest.
    public var connectionStates: AsyncStream<BrokerConnectionState> { driver.states.read() }

    /// Connects, and keeps the client until the task is cancelled or a graceful shutdown begins; then closes it.
    ///
    /// While it runs, the client connects to a server that starts later, and connects again after each loss, whether calls wait
    /// or not. A call waits for the connection as long as ``BrokerClientConfiguration/reconnectDeadline``.
    ///
    /// A graceful shutdown (with the trait `ServiceLifecycle`, in a `ServiceGroup`) takes no further calls, ends the iterations over
    /// ``commits(for:)``, and finishes what is unanswered and the iterations over ``results(of:)`` that have begun, at most for
    /// ``BrokerClientConfiguration/shutdownTimeout``. Cancelling the task closes the client at once: jobs that were sent and are
    /// unanswered end with ``/Broker/BrokerError/Code/outcomeUnknown``.
    public func run() async {
        driver.stayConnected()
        let end = Answer<Void>()
        #if LIFECYCLE
        await withGracefulShutdownHandler {
            try? await end.value()
        } onGracefulShutdown: {
            end.finish(.success(()))
        }
        #else
        try? await end.value()
        #endif
        if !Task.isCancelled { await finishUnanswered() }
        close()
    }

    /// At most for the time of the configuration.
    private func finishUnanswered() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [driver, large = jobs.end()] in
                async let drained: Void = driver.drain()
                await large?.drain()
                await drained
            }
            group.addTask { [configuration] in try? await Task.sleep(for: configuration.shutdownTimeout) }
            await group.next()
            group.cancelAll()
        }
    }
}
