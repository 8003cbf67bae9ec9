extension ReadyJob {
    /// Reports that the job is merged, before its COMMIT.
    func noteMerged() { progress?.note(merged: rowCount) }

    /// Rows that are staged for the job.
    var rowCount: Int {
        switch work {
        case .merge(let rows): rows.rowCount
        case .steps(let steps): steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
        case .refused: 0
        }
    }
}
