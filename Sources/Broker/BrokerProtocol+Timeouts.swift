// The calls of the protocol within a time. See ``BrokerProtocol`` for what a `timeout` means.
extension BrokerProtocol {
    /// Applies a job and waits until it is committed, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/timedOut`` when the time is over and the job has no effect.
    @discardableResult public func process(_ job: Job, timeout: Duration?) async throws -> Completion {
        try await withTimeout(timeout, job: job.id) { try await process(job) }
    }

    /// Sends a job and waits, within a time, until it has its place in the order of all jobs.
    ///
    /// - Throws: as ``process(_:timeout:)``.
    public func submit(_ job: Job, timeout: Duration?) async throws -> SubmittedJob {
        try await withTimeout(timeout, job: job.id) { try await submit(job) }
    }

    /// The outcome of a job by its id, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over: the job goes on.
    public func await(_ id: JobID, timeout: Duration?) async throws -> Completion {
        try await withTimeout(timeout, job: id) { try await self.await(id) }
    }

    /// Cancels the jobs of that id, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over.
    public func cancel(_ id: JobID, timeout: Duration?) async throws {
        try await withTimeout(timeout, job: id) { try await cancel(id) }
    }

    /// Fetches objects, in one answer, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/timedOut`` when the time is over.
    public func fetch(_ query: Query, timeout: Duration?) async throws -> QueryResult {
        try await withTimeout(timeout) { try await fetch(query) }
    }

    /// Fetches any number of objects, in answers of which all are of one moment, each within a time.
    ///
    /// - Parameter timeout: the maximum time of each answer, from when it is asked for. The iteration ends when one takes longer,
    ///   with ``BrokerError/Code/timedOut``.
    public func results(of query: Query, timeout: Duration?) -> QueryResults {
        let results = results(of: query)
        guard let timeout else { return results }
        return QueryResults {
            let next = results.begin()
            return { try await withTimeout(timeout) { try await next() } }
        }
    }

    /// The bookmark of that name, within a time.
    public func bookmark(named name: String, timeout: Duration?) async throws -> StoredBookmark? {
        try await withTimeout(timeout) { try await bookmark(named: name) }
    }

    /// Counters and measurements since the start, within a time.
    public func statistics(timeout: Duration?) async throws -> Statistics {
        try await withTimeout(timeout) { try await statistics() }
    }

    /// The model in force, within a time.
    public func model(timeout: Duration?) async throws -> ModelDescription {
        try await withTimeout(timeout) { try await model() }
    }

    /// Does an administrative action, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over: the action may have been done.
    @discardableResult public func administer(_ action: AdminAction, timeout: Duration?) async throws -> AdminResult {
        try await withTimeout(timeout) { try await administer(action) }
    }

    /// Copies the store to a file while jobs go on, within a time; else as ``backUp(to:replacing:)``.
    public func backUp(
        to file: String, replacing: Bool = false, timeout: Duration? = nil
    ) async throws -> Backup {
        try await withTimeout(timeout) { try await backUp(to: file, replacing: replacing) }
    }
}
