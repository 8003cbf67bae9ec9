/// Tells how far a job has come, ten times a second at most: what is not told then is told with what comes next, or never.
final class JobProgress: Sendable {
    private struct State {
        var staged = 0
        var merged = 0
        var toldAt: Int64?
    }

    private static let pauseMicroseconds: Int64 = 100_000

    private let state = Monitor(State())
    private let id: String
    private let completions: SerialThread
    private let observer: @Sendable (JobEvent) -> Void

    init(_ id: JobID, _ completions: SerialThread, _ observer: @escaping @Sendable (JobEvent) -> Void) {
        self.id = id.text
        self.completions = completions
        self.observer = observer
    }

    /// So many rows more are staged, or merged. May be called from any thread.
    func note(staged: Int = 0, merged: Int = 0) {
        let now = monotonicMicroseconds()
        let told = state.withLock { state -> State? in
            state.staged += staged
            state.merged += merged
            if let toldAt = state.toldAt, now - toldAt < Self.pauseMicroseconds { return nil }
            state.toldAt = now
            return state
        }
        guard let told else { return }
        completions.run { [id, observer] in observer(.progress(id: id, staged: told.staged, merged: told.merged)) }
    }
}
