package import BrokerJSON
package import BrokerModel
package import BrokerStaging
package import BrokerStore

/// A client's request, decoded but not yet staged. A class, because it is passed on many times. Its maker sets the options
/// before it passes it on; after that they do not change.
package final class Job: @unchecked Sendable {
    /// The client's id; nil asks for one of the coordinator's, and for at most once instead of exactly once. Ids that
    /// begin with `broker-` are the coordinator's: a server refuses them from clients.
    package let id: String?
    package let owner: JobOwner
    package let document: JSONDocument
    // Offsets into the immutable tape of `document`, which is retained here beside them.
    package let operations: ShortList<JobOperation>
    package let policy: InvalidRecordPolicy
    /// Whether a record with a key that the model does not name is rejected, as `policy` says.
    package var refusesUnknownKeys = false
    /// The job is applied and undone; see `StoreJob/isDryRun`.
    package var isDryRun = false
    /// A job that deletes more objects fails.
    package var maximumDeletions: DeletionLimit?
    /// Written with the job's changes.
    package var bookmark: Bookmark?
    /// False for a client that may not delete objects; see `StoreJob/mayDelete`.
    package var mayDelete = true
    package let wantsKeys: Bool
    /// Whether `JobCompletion.objects` are wanted.
    package let wantsObjects: Bool
    /// The form of dates in them.
    package var objectDates = FetchDates.model
    /// The observer wants ``JobEvent/accepted(id:sequence:)``.
    package let wantsAcceptance: Bool
    /// The observer wants ``JobEvent/progress(id:staged:merged:)``.
    package var wantsProgress = false
    /// The decoded message as it was sent, also when `document` was parsed from a copy without trailing commas.
    package let content: JSONText
    /// Called for everything that happens to the job, on a thread of the coordinator's; must not block.
    package let observer: @Sendable (JobEvent) -> Void

    package init(
        id: String?, owner: JobOwner = .server, document: JSONDocument, operations: ShortList<JobOperation>,
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
