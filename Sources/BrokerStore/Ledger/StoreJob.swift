package import BrokerJSON
package import BrokerModel
package import BrokerStaging

/// The facts of a job that do not depend on its place among the others; immutable.
package protocol JobFacts: AnyObject, Sendable {
    var id: String { get }
    var owner: JobOwner { get }
    /// Whether the owner could see the jobs of all users when the job was accepted.
    var isPrivileged: Bool { get }
    /// The hash of the job's content; nil when the server made the id, which therefore cannot have been used before.
    var contentHash: JobHash? { get }
    /// A hash of the content for ``StateDigest``; nil when it is ``contentHash``, or there is no journal.
    var contentDigest: JobHash? { get }
    var policy: InvalidRecordPolicy { get }
    var wantsKeys: Bool { get }
    /// Whether the reply has the objects of the job's records; see `Outcome.objects`.
    var wantsObjects: Bool { get }
    /// The form of dates in them.
    var objectDates: FetchDates { get }
    /// The job is applied and undone: it changes nothing, and is not recorded.
    var isDryRun: Bool { get }
    /// A job that deletes more objects fails.
    var maximumDeletions: DeletionLimit? { get }
    /// Written in the job's transaction if the job takes effect.
    var bookmark: Bookmark? { get }
    /// Whether the job may delete objects. Else it fails if it deleted one, other than an owned object that its owner no
    /// longer names: that is a part of the owner.
    var mayDelete: Bool { get }
}

/// The facts alone.
private final class PlainJobFacts: JobFacts {
    let id: String
    let owner: JobOwner
    let isPrivileged: Bool
    let contentHash: JobHash?
    let contentDigest: JobHash?
    let policy: InvalidRecordPolicy
    let wantsKeys: Bool
    let wantsObjects: Bool
    let objectDates: FetchDates
    let isDryRun: Bool
    let maximumDeletions: DeletionLimit?
    let bookmark: Bookmark?
    let mayDelete: Bool

    init(
        id: String, owner: JobOwner, isPrivileged: Bool, contentHash: JobHash?, contentDigest: JobHash?,
        policy: InvalidRecordPolicy, wantsKeys: Bool, wantsObjects: Bool,
        objectDates: FetchDates, isDryRun: Bool, maximumDeletions: DeletionLimit?, bookmark: Bookmark?, mayDelete: Bool
    ) {
        self.id = id
        self.owner = owner
        self.isPrivileged = isPrivileged
        self.contentHash = contentHash
        self.contentDigest = contentDigest
        self.policy = policy
        self.wantsKeys = wantsKeys
        self.wantsObjects = wantsObjects
        self.objectDates = objectDates
        self.isDryRun = isDryRun
        self.maximumDeletions = maximumDeletions
        self.bookmark = bookmark
        self.mayDelete = mayDelete
    }
}

/// A job in the form in which the store applies it.
package struct StoreJob: Sendable {
    package enum Work: Sendable {
        /// One step, of the records of the job itself.
        case merge(StagedRows)
        case steps([StagedStep])
        /// The job could not be staged; the ledger stores the fault.
        indirect case refused(Fault)

        /// Empty for a job that could not be staged.
        package var steps: [StagedStep] {
            switch self {
            case .merge(let rows): [StagedStep(action: .merge, rows: rows)]
            case .steps(let steps): steps
            case .refused: []
            }
        }
    }

    package let facts: any JobFacts
    package let sequence: Int64
    package let work: Work
    /// Milliseconds since 1970, for the ledger.
    package let now: Int64
    /// The allowance for the merge's memory besides the staged rows; nil grants everything.
    package let memory: (any MemoryAllowance)?

    package init(_ facts: any JobFacts, sequence: Int64, work: Work, now: Int64, memory: (any MemoryAllowance)?) {
        self.facts = facts
        self.sequence = sequence
        self.work = work
        self.now = now
        self.memory = memory
    }

    package init(
        id: String, owner: JobOwner = .server, isPrivileged: Bool? = nil, contentHash: JobHash?,
        contentDigest: JobHash? = nil,
        sequence: Int64,
        policy: InvalidRecordPolicy,
        wantsKeys: Bool,
        wantsObjects: Bool = false, objectDates: FetchDates = .model, isDryRun: Bool = false,
        maximumDeletions: DeletionLimit? = nil, bookmark: Bookmark? = nil, mayDelete: Bool = true, work: Work,
        now: Int64, memory: (any MemoryAllowance)? = nil
    ) {
        let facts = PlainJobFacts(
            id: id, owner: owner, isPrivileged: isPrivileged ?? owner.isPrivileged, contentHash: contentHash,
            contentDigest: contentDigest, policy: policy, wantsKeys: wantsKeys,
            wantsObjects: wantsObjects, objectDates: objectDates, isDryRun: isDryRun,
            maximumDeletions: maximumDeletions, bookmark: bookmark, mayDelete: mayDelete)
        self.init(facts, sequence: sequence, work: work, now: now, memory: memory)
    }

    package var id: String { facts.id }
    package var owner: JobOwner { facts.owner }
    package var isPrivileged: Bool { facts.isPrivileged }
    package var contentHash: JobHash? { facts.contentHash }
    package var contentDigest: JobHash? { facts.contentDigest }
    package var policy: InvalidRecordPolicy { facts.policy }
    package var wantsKeys: Bool { facts.wantsKeys }
    package var wantsObjects: Bool { facts.wantsObjects }
    package var objectDates: FetchDates { facts.objectDates }
    package var isDryRun: Bool { facts.isDryRun }
    package var maximumDeletions: DeletionLimit? { facts.maximumDeletions }
    package var bookmark: Bookmark? { facts.bookmark }
    package var mayDelete: Bool { facts.mayDelete }
}

extension StoreJob {
    /// Whether the recorded job has the same content, and this job's owner may see it. Every server decides that alike,
    /// whichever user it runs as.
    package func isRepetition(of recorded: StoredOutcome) -> Bool {
        guard recorded.owner == nil || recorded.owner == owner || isPrivileged else { return false }
        return recorded.contentHash == contentHash
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
