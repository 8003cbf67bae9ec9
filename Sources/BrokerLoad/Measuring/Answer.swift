/// The counts of changed objects of a job, or of several.
package struct ObjectCounts: Sendable, Equatable {
    package var inserted = 0
    package var updated = 0
    package var unchanged = 0
    package var deleted = 0
    package var rejected = 0

    mutating func add(_ other: ObjectCounts) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }
}

/// An answer of the server's, as far as it is measured.
package struct Answer: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case accepted
        case completed
        /// `failed`, or an `error`.
        case failed(code: String, message: String)
        /// One to a message that is no job.
        case other
    }

    /// Microseconds that the server says a job spent in each of its stages.
    package struct Stages: Sendable, Equatable {
        package static let names = [
            "queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed",
        ]

        package var queued = 0
        package var staged = 0
        package var journalWaited = 0
        package var journalSynced = 0
        package var waited = 0
        package var merged = 0
        package var committed = 0

        /// In the order of ``names``.
        var values: InlineArray<7, Int> {
            [queued, staged, journalWaited, journalSynced, waited, merged, committed]
        }
    }

    /// The number of the job in this run; nil for an answer to anything else.
    package var job: Int?
    package var kind: Kind
    /// The job had been applied before it was sent.
    package var isDuplicate = false
    package var objects = ObjectCounts()
    /// Nil when the answer lacks them.
    package var stages: Stages?
}
