extension ReadyJob {
    /// Reports that the job is merged, before its COMMIT.
    func noteMerged() { progress?.note(merged: rowCount) }

    /// Rows that are staged for the job.
    var rowCount: Int {
        guard case .steps(let steps) = work else { return 0 }
        return steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
    }
}
