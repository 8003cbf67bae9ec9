extension BrokerClient {
    /// A job that the server has accepted: it has its place in the one order of all jobs.
    public struct JobTicket: Sendable {
        public let id: String
        public let sequence: Int64
        let answer: Answer<Completion>
        // Keeps the connection open until the outcome is read.
        let client: BrokerClient

        /// The job's outcome, once it is committed. Any number of tasks may wait for it.
        ///
        /// - Throws: ``BrokerError``. Cancelling the calling task ends its waiting and nothing else: it gets `outcomeUnknown`,
        ///   and the job goes on. ``cancel()`` cancels the job.
        public var completion: Completion {
            get async throws { try await answer.value(orOnCancellation: BrokerError.waitCancelled(id)) }
        }
    }

    /// A job that is on its way: it will take effect after those sent before it by this client.
    public struct SentJob: Sendable {
        public let id: String
        let answer: Answer<Completion>
        // Keeps the connection open until the outcome is read.
        let client: BrokerClient

        /// The job's outcome, once it is committed. Any number of tasks may wait for it.
        ///
        /// - Throws: ``BrokerError``. Cancelling the calling task ends its waiting and nothing else: it gets `outcomeUnknown`,
        ///   and the job goes on. ``cancel()`` cancels the job.
        public var completion: Completion {
            get async throws { try await answer.value(orOnCancellation: BrokerError.waitCancelled(id)) }
        }
    }
}

extension BrokerError {
    static func waitCancelled(_ id: String) -> BrokerError { .outcomeUnknown(id: id, cause: .waitCancelled) }
}
