/// Reports the progress of a job, ten times a second at most: numbers that are not sent then are sent with the next
/// ones, or never. A client that wants `accepted` is sent that first.
final class JobProgress: Sendable {
    private struct State {
        var staged = 0
        var merged = 0
        var reportedAt: Int64?
        var waitsForAcceptance: Bool
    }

    private static let pauseMicroseconds: Int64 = 100_000

    private let state: Monitor<State>
    private let id: String
    private let completions: SerialThread
    private let observer: @Sendable (JobEvent) -> Void

    init(
        _ id: JobID, waitsForAcceptance: Bool, _ completions: SerialThread,
        _ observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        state = Monitor(State(waitsForAcceptance: waitsForAcceptance))
        self.id = id.text
        self.completions = completions
        self.observer = observer
    }

    /// `accepted` has been sent; the numbers known by then are sent next. Called where events are sent.
    func accepted() {
        let event = change { state in
            state.waitsForAcceptance = false
            return state.staged > 0 || state.merged > 0
        }
        if let event { observer(event) }
    }

    /// Adds rows that were staged or merged. May be called from any thread.
    func note(staged: Int = 0, merged: Int = 0) {
        let event = change { state in
            state.staged += staged
            state.merged += merged
            return !state.waitsForAcceptance
        }
        if let event { completions.run { [observer] in observer(event) } }
    }

    /// The event to send, if the change makes one due.
    private func change(_ change: (inout State) -> Bool) -> JobEvent? {
        let now = monotonicMicroseconds()
        return state.withLock { state in
            guard change(&state) else { return nil }
            if let reportedAt = state.reportedAt, now - reportedAt < Self.pauseMicroseconds { return nil }
            state.reportedAt = now
            return .progress(id: id, staged: state.staged, merged: state.merged)
        }
    }
}
