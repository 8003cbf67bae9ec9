internal import BrokerJSON
package import BrokerModel
package import BrokerStore

/// How a job ended, ready to be sent.
package struct JobCompletion: Sendable {
    package enum Result: Sendable {
        /// JSON members of `completed` after `id`, `sequence` and `duplicate`, without `timing`.
        case completed(members: [UInt8], isDuplicate: Bool)
        /// The `error` object: JSON.
        case failed(error: [UInt8])
    }

    package var id: String
    /// The owner of the job; nil when unknown, and then any client may see it.
    package var owner: JobOwner?
    /// Nil when the job was refused before it had a sequence.
    package var sequence: Int64?
    package var result: Result
    /// The job has changed nothing, and the ledger does not have it; unless it is a duplicate, which had been applied.
    package var isDryRun = false
    /// Nil for an outcome that was read from the ledger: the timing is that of a message.
    package var timing: StageTimes?
    /// The objects of the job's own records, sent once, to the client that asked for them with the job.
    package var objects: ReplyObjects?
    /// For the log of the server: SQLite's text about the fault of the job, or of its first record that was rejected.
    package var cause: String?

    package init(id: String, owner: JobOwner?, sequence: Int64?, result: Result) {
        self.id = id
        self.owner = owner
        self.sequence = sequence
        self.result = result
    }

    package static func failed(_ fault: Fault, id: String, owner: JobOwner?, sequence: Int64?) -> JobCompletion {
        var writer = JSONWriter()
        fault.write(to: &writer)
        var completion = JobCompletion(id: id, owner: owner, sequence: sequence, result: .failed(error: writer.bytes))
        completion.cause = fault.cause
        return completion
    }
}
