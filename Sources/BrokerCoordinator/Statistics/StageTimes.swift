/// The microseconds that a job spent in each stage, and the whole from its frame to the durable transaction.
package struct StageTimes: Sendable, Equatable {
    package static let names = ["queued", "staged", "merged", "committed", "total"]

    package var queued: Int64 = 0
    package var staged: Int64 = 0
    package var merged: Int64 = 0
    package var committed: Int64 = 0
    package var total: Int64 = 0

    package init(queued: Int64 = 0, staged: Int64 = 0, merged: Int64 = 0, committed: Int64 = 0, total: Int64 = 0) {
        (self.queued, self.staged, self.merged) = (queued, staged, merged)
        (self.committed, self.total) = (committed, total)
    }

    /// In the order of ``names``.
    var values: InlineArray<5, Int64> { [queued, staged, merged, committed, total] }

    /// The time in which the job was staged, and others were merged or merging was paused.
    package var waited: Int64 { max(0, total - queued - staged - merged - committed) }

    /// All of them in the order in which they pass.
    package var named: [(name: String, microseconds: Int64)] {
        [
            ("queued", queued), ("staged", staged), ("waited", waited), ("merged", merged), ("committed", committed),
            ("total", total),
        ]
    }
}
