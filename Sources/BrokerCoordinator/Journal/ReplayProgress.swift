internal import BrokerStore

/// The state of a replay of the journal, shared by the thread that reads it and the workers that open its frames.
struct ReplayProgress {
    /// More may be admitted.
    var hasRoom = false
    /// Why the replay cannot go on: the first job of the journal that cannot be applied.
    var failure: StoreError?
}

extension StoreError {
    /// A job of the journal cannot be applied. It and all jobs after it stay in the journal.
    ///
    /// - Parameter remedy: a sentence.
    static func unappliable(_ job: JournaledJob, _ reason: String, _ remedy: String) -> StoreError {
        StoreError(
            .unavailable,
            "Job \(job.sequence) of the journal (id \"\(job.id)\") cannot be applied: \(reason) \(remedy) The job and all after "
                + "it stay in the journal.")
    }
}
