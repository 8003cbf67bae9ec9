package import BrokerJSON
package import BrokerModel
package import BrokerStaging

/// A job in the form in which the store applies it. A class: lists of jobs are passed on without copying their parts.
package final class StoreJob: Sendable {
    package enum Work: Sendable {
        case steps([StagedStep])
        /// The job could not be staged; the ledger stores the fault.
        case refused(Fault)
    }

    package let id: String
    package let owner: JobOwner
    /// Whether the owner could see the jobs of all users when the job was accepted.
    package let isPrivileged: Bool
    /// The hash of the job's content; nil when the server made the id, which therefore cannot have been used before.
    package let contentHash: [UInt8]?
    /// A hash of the content for ``StateDigest``; nil when it is ``contentHash``, or there is no journal.
    package let contentDigest: [UInt8]?
    /// The hash of the message's decoded bytes, which earlier versions wrote into the ledger. Nil when the ledger
    /// cannot have it.
    package let messageHash: [UInt8]?
    package let sequence: Int64
    package let policy: InvalidRecordPolicy
    package let wantsKeys: Bool
    /// Whether the reply has the objects of the job's records; see `Outcome.objects`.
    package let wantsObjects: Bool
    /// The form of dates in them.
    package let objectDates: FetchDates
    /// The job is applied and undone: it changes nothing, and is not recorded.
    package let isDryRun: Bool
    /// A job that deletes more objects fails.
    package let maximumDeletions: DeletionLimit?
    /// Written in the job's transaction if the job takes effect.
    package let bookmark: Bookmark?
    /// Whether the job may delete objects. Else it fails if it deleted one, other than an owned object that its owner no
    /// longer names: that is a part of the owner.
    package let mayDelete: Bool
    package let work: Work
    /// Milliseconds since 1970, for the ledger.
    package let now: Int64
    /// The allowance for the merge's memory besides the staged rows; nil grants everything.
    package let memory: (any MemoryAllowance)?

    package init(
        id: String, owner: JobOwner = .server, isPrivileged: Bool? = nil, contentHash: [UInt8]?,
        contentDigest: [UInt8]? = nil,
        messageHash: [UInt8]? = nil, sequence: Int64,
        policy: InvalidRecordPolicy,
        wantsKeys: Bool,
        wantsObjects: Bool = false, objectDates: FetchDates = .model, isDryRun: Bool = false,
        maximumDeletions: DeletionLimit? = nil, bookmark: Bookmark? = nil, mayDelete: Bool = true, work: Work,
        now: Int64, memory: (any MemoryAllowance)? = nil
    ) {
        self.id = id
        self.owner = owner
        self.isPrivileged = isPrivileged ?? owner.isPrivileged
        self.contentHash = contentHash
        self.contentDigest = contentDigest
        self.messageHash = messageHash
        self.sequence = sequence
        self.policy = policy
        self.wantsKeys = wantsKeys
        self.wantsObjects = wantsObjects
        self.objectDates = objectDates
        self.isDryRun = isDryRun
        self.maximumDeletions = maximumDeletions
        self.bookmark = bookmark
        self.mayDelete = mayDelete
        self.work = work
        self.now = now
        self.memory = memory
    }
}

extension StoreJob {
    /// Whether the recorded job has the same content, and this job's owner may see it. Every server decides that alike,
    /// whichever user it runs as.
    package func isRepetition(of recorded: StoredOutcome) -> Bool {
        guard recorded.owner == nil || recorded.owner == owner || isPrivileged else { return false }
        return recorded.contentHash == contentHash || messageHash != nil && recorded.contentHash == messageHash
    }
}

/// The outcome of a job.
// Boxed: an outcome has many parts, and is passed from list to list.
package indirect enum JobOutcome: Sendable {
    /// It took effect; a dry run would have had this effect.
    case completed(Outcome)
    case failed(Fault)
    /// The job was applied before; this time nothing is done.
    case duplicate(StoredOutcome)
    /// The job failed, because a job with other content, or of another user, is committed under its id.
    case conflict(Fault, committed: StoredOutcome)

    var isFailure: Bool {
        switch self {
        case .failed, .conflict: true
        case .completed, .duplicate: false
        }
    }

    /// Takes the keys for the feed out of the outcome: they are not retained until it is sent.
    mutating func takeFeedKeys() -> [UInt8]? {
        guard case .completed(let completed) = self, let keys = completed.feedKeys else { return nil }
        var outcome = completed
        outcome.feedKeys = nil
        self = .completed(outcome)
        return keys
    }

    /// The outcome in the ledger.
    func body(of job: StoreJob) -> [UInt8] {
        switch self {
        case .completed(let outcome): return outcome.storedObject
        case .failed(let fault), .conflict(let fault, _):
            var writer = JSONWriter()
            fault.write(to: &writer)
            return writer.bytes
        case .duplicate(let outcome): return outcome.body
        }
    }
}
