package import BrokerJSON

/// The microseconds of a job's stages, which follow one another: each moment from the whole frame to the durable transaction is
/// in one of them.
package struct StageTimes: Sendable, Equatable {
    package static let names = [
        "queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed", "total",
    ]
    private static let allStages = Array(names.indices)
    private static let plainStages = names.indices.filter { !names[$0].hasPrefix("journal") }

    /// The positions of the names; only jobs of a journal have all of them.
    static func stages(isJournaled: Bool) -> [Int] { isJournaled ? allStages : plainStages }

    /// From the whole frame to the thread that opens it.
    package var queued: Int64 = 0
    /// Decoding, parsing and staging, with the wait for a worker and for memory.
    package var staged: Int64 = 0
    /// Staged, until the journal began to write the job.
    package var journalWaited: Int64 = 0
    /// Staged, while the journal wrote and synced the job.
    package var journalSynced: Int64 = 0
    /// Staged and in the journal, while other jobs were merged, or merging was paused.
    package var waited: Int64 = 0
    /// The writer's work on the job, and on those whose rows were merged in the same statements.
    package var merged: Int64 = 0
    /// From there until the transaction was durable.
    package var committed: Int64 = 0
    var isJournaled = false
    /// The time that the workers and the writer spent on this job alone; no stage.
    package var work: Int64 = 0

    package var total: Int64 { queued + staged + journalWaited + journalSynced + waited + merged + committed }

    /// In the order of ``names``.
    var values: InlineArray<8, Int64> {
        [queued, staged, journalWaited, journalSynced, waited, merged, committed, total]
    }

    /// The work, and all stages in the order in which they pass.
    package var named: [(name: String, microseconds: Int64)] {
        let values = values
        return [("work", work)] + Self.stages(isJournaled: isJournaled).map { (Self.names[$0], values[$0]) }
    }

    /// The `timing` of a `completed` message.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("queued", queued)
            writer.member("staged", staged)
            if isJournaled {
                writer.member("journalWaited", journalWaited)
                writer.member("journalSynced", journalSynced)
            }
            writer.member("waited", waited)
            writer.member("merged", merged)
            writer.member("committed", committed)
        }
    }
}
