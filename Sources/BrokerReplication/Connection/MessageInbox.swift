#if Replication
/// Messages that have arrived for one receiver and were not taken. Threads of libnats add them.
final class MessageInbox: Sendable {
    private struct State {
        var messages: [NATSMessage] = []
        var isClosed = false
    }

    private let state = Monitor(State())

    func add(_ message: NATSMessage) {
        var isLate = false
        state.update { state in
            isLate = state.isClosed
            if !isLate { state.messages.append(message) }
        }
        if isLate { message.destroy() }
    }

    /// Destroys the messages, and those that are added later.
    func close() {
        var messages: [NATSMessage] = []
        state.withLock { state in
            state.isClosed = true
            swap(&messages, &state.messages)
        }
        for message in messages { message.destroy() }
    }

    /// Wakes ``take(until:_:)``.
    func wake() { state.update { _ in } }

    var isEmpty: Bool { state.withLock { $0.messages.isEmpty } }

    /// Waits for messages, and takes all that have arrived, in their order. The caller owns them.
    ///
    /// - Parameter deadline: microseconds of the monotonic clock.
    func take(until deadline: Int64, _ isStopped: () -> Bool) -> [NATSMessage] {
        let messages: [NATSMessage]? = state.wait(until: deadline) { state in
            guard state.messages.isEmpty else {
                var messages: [NATSMessage] = []
                swap(&messages, &state.messages)
                return messages
            }
            return isStopped() ? [] : nil
        }
        return messages ?? []
    }
}
#endif
