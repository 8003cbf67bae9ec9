/// Tells how far a job has come, ten times a second at most: what is not told then is told with what comes next, or never.
/// Who is told that the job is accepted is told that first.
final class JobProgress: Sendable {
    private struct State {
        var staged = 0
        var merged = 0
        var toldAt: Int64?
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

    /// It has been told that the job is accepted; what is known by then is told next. To be called where events are told.
    func accepted() {
        let event = change { state in
            state.waitsForAcceptance = false
            return state.staged > 0 || state.merged > 0
        }
        if let event { observer(event) }
    }

    /// So many rows more are staged, or merged. May be called from any thread.
    func note(staged: Int = 0, merged: Int = 0) {
        let event = change { state in
            state.staged += staged
            state.merged += merged
            return !state.waitsForAcceptance
        }
        if let event { completions.run { [observer] in observer(event) } }
    }

    /// What is to be told then, if the change says so and it is time.
    private func change(_ change: (inout State) -> Bool) -> JobEvent? {
        let now = monotonicMicroseconds()
        return state.withLock { state in
            guard change(&state) else { return nil }
            if let toldAt = state.toldAt, now - toldAt < Self.pauseMicroseconds { return nil }
            state.toldAt = now
            return .progress(id: id, staged: state.staged, merged: state.merged)
        }
    }
}
