package import BrokerJSON
package import BrokerModel
package import BrokerStaging
package import BrokerStore

/// A client's request, decoded but not yet staged.
package struct Job: @unchecked Sendable {
    /// The client's id; nil asks for one of the coordinator's, and for at most once instead of exactly once. Ids that
    /// begin with `broker-` are the coordinator's: a server refuses them from clients.
    package var id: String?
    package var owner: JobOwner
    package var document: JSONDocument
    // Offsets into the immutable tape of `document`, which is retained here beside them.
    package var operations: [JobOperation]
    package var policy: InvalidRecordPolicy
    /// Whether a record with a key that the model does not name is rejected, as `policy` says.
    package var refusesUnknownKeys = false
    package var wantsKeys: Bool
    /// Whether `JobCompletion.objects` are wanted.
    package var wantsObjects: Bool
    /// The observer wants ``JobEvent/accepted(id:sequence:)``.
    package var wantsAcceptance: Bool
    /// The observer wants ``JobEvent/progress(id:staged:merged:)``.
    package var wantsProgress = false
    /// The decoded message as it was sent, also when `document` was parsed from a copy without trailing commas.
    package var content: JSONText
    /// Called for everything that happens to the job, on a thread of the coordinator's; must not block.
    package var observer: @Sendable (JobEvent) -> Void

    package init(
        id: String?, owner: JobOwner = .server, document: JSONDocument, operations: [JobOperation],
        policy: InvalidRecordPolicy, wantsKeys: Bool,
        wantsObjects: Bool = false, wantsAcceptance: Bool, content: JSONText,
        observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        self.id = id
        self.owner = owner
        self.document = document
        self.operations = operations
        self.policy = policy
        self.wantsKeys = wantsKeys
        self.wantsObjects = wantsObjects
        self.wantsAcceptance = wantsAcceptance
        self.content = content
        self.observer = observer
    }
}

/// The events of a job, in this order.
package enum JobEvent: Sendable {
    /// The job has its sequence among all jobs.
    case accepted(id: String, sequence: Int64)
    /// The numbers of rows staged and of those merged; sent now and then, or never.
    case progress(id: String, staged: Int, merged: Int)
    /// The transaction is durable, or the job changed nothing. The last event.
    case ended(JobCompletion)
}

/// How a job ended, ready to be sent.
package struct JobCompletion: Sendable {
    package enum Result: Sendable {
        /// JSON members of `completed` after `id`, `sequence` and `duplicate`.
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
    /// The objects of the job's own records, sent once, to the client that asked for them with the job.
    package var objects: ReplyObjects?

    package init(id: String, owner: JobOwner?, sequence: Int64?, result: Result) {
        self.id = id
        self.owner = owner
        self.sequence = sequence
        self.result = result
    }

    package static func failed(_ fault: Fault, id: String, owner: JobOwner?, sequence: Int64?) -> JobCompletion {
        var writer = JSONWriter()
        fault.write(to: &writer)
        return JobCompletion(id: id, owner: owner, sequence: sequence, result: .failed(error: writer.bytes))
    }
}

/// The content of a frame, known when a worker has opened it.
package enum Opened: Sendable {
    case job(Job)
    /// A message that has been answered already, or that cannot be answered.
    case nothing
    /// A question about jobs. The coordinator calls it with its own ticket when every frame before it has been opened,
    /// so that it sees the jobs in them; on a thread of the coordinator's.
    case question(@Sendable (_ ticket: Int) -> Void)
    /// The memory was refused. Nothing was answered, and nothing is retained.
    case noRoom
}
