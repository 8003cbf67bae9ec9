internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// Opens streamed fetches, makes their parts one at a time, and ends those whose clients are too slow, on a thread of its
/// own. ``StreamTable`` decides which, ``StreamLoop`` does it.
final class StreamThread: Sendable {
    struct State {
        var table: StreamTable
        /// Those that are queued or open.
        var streams: [Int: FetchStream] = [:]
        var plan: StagingPlan
        /// The contents of the store are unknown.
        var failure: StoreError?
        /// Streams end.
        var isStopping = false
        var isStopped = false
        var lastNumber = 0
    }

    private let state: Monitor<State>
    private let thread: Thread

    init(_ files: OpenedFiles, plan: StagingPlan, gate: ReaderGate, _ limits: StreamLimits) {
        let state = Monitor(State(table: StreamTable(limits), plan: plan))
        self.state = state
        gate.onWriterWaiting { waits in
            state.update { $0.table.writer(waits: waits) }
        }
        thread = Thread(named: "streams") {
            var loop = StreamLoop(state, gate, files)
            loop.run()
        }
    }

    /// Streams that are opened from now on use another model.
    func use(_ plan: StagingPlan) { state.withLock { $0.plan = plan } }

    func fail(_ error: StoreError) { state.withLock { $0.failure = error } }

    func stream(
        _ request: FetchRequest, of process: Int32, in envelope: FetchEnvelope,
        isWanted: @escaping @Sendable () -> Bool, notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) -> FetchStream {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return FetchStream(
            number, request, of: process, in: envelope, on: self,
            isWanted: { [state] in isWanted() && !state.withLock { $0.isStopping } }, notify: notify)
    }

    func ask(_ stream: FetchStream) {
        state.update { state in
            state.streams[stream.number] = stream
            state.table.ask(stream.number, of: stream.process, at: monotonicMicroseconds())
        }
    }

    func cancel(_ stream: FetchStream) {
        state.update { state in
            state.streams[stream.number] = nil
            state.table.cancel(stream.number)
        }
    }

    /// Ends all streams, and each new one. Any number of calls.
    func interrupt() { state.update { $0.isStopping = true } }

    /// Ends all streams and the thread. Called once.
    func stop() {
        state.update {
            $0.isStopping = true
            $0.isStopped = true
        }
        thread.join()
    }
}
