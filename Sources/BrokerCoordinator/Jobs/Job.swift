package import BrokerJSON
internal import BrokerJournal
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
    package var terms: JobTerms
    /// The name in the client's `hello`.
    package var client: String?
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
        _ terms: JobTerms = JobTerms(), wantsAcceptance: Bool = false, content: JSONText,
        observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        (self.id, self.owner, self.terms) = (id, owner, terms)
        (self.document, self.operations, self.content) = (document, operations, content)
        (self.wantsAcceptance, self.observer) = (wantsAcceptance, observer)
    }
}

extension Job {
    /// The hash of what the job does: of `onInvalid`, `unknown`, `names`, the operations, in whichever form they were sent, and the
    /// bookmark.
    ///
    /// Texts and names count as strings; a number, an array or an object counts byte by byte as it was sent, with the white
    /// space inside. The job's id, `tag`, `reply`, `notify`, `lenient` and unknown fields do not count.
    var contentHash: JobHash {
        withExtendedLifetime(document) {
            var hasher = FieldHasher()
            hasher.add(
                (terms.policy == .skip ? 1 : 0) | (terms.refusesUnknownKeys ? 2 : 0) | (terms.bookmark == nil ? 0 : 4)
                    | (terms.form.names == .local ? 8 : 0))
            hasher.add(UInt64(operations.count))
            for operation in operations { hasher.add(operation) }
            if let bookmark = terms.bookmark { hasher.add(bookmark) }
            return hasher.finish()
        }
    }
}

extension FieldHasher {
    fileprivate mutating func add(_ operation: JobOperation) {
        add(operation.entity)
        switch operation.action {
        case .process(let object):
            add(1)
            add(object)
            add(operation.json)
        case .relate(let object, let relationship):
            add(2)
            add(object)
            add(relationship)
            add(operation.json)
        case .sync(let predicate, let arguments, let actions, let part):
            add(3)
            add(predicate, arguments)
            add((actions.inserts ? 1 : 0) | (actions.updates ? 2 : 0) | (actions.deletes ? 4 : 0))
            add(part == nil ? 0 : part?.isLast == true ? 2 : 1)
            add(part?.id ?? "")
            add(operation.json)
        case .map(let mapping, let path):
            add(4)
            add(mapping)
            add(path)
            add(operation.json)
        case .delete:
            add(5)
            add(operation.json)
        case .deleteMatching(let predicate, let arguments):
            add(6)
            add(predicate, arguments)
        }
        // Jobs without these fields have the hash that they had before there were any. No text has so many bytes.
        if let expectation = operation.expectation {
            add(UInt64.max - 1)
            add(expectation.json)
        }
        if let adjustment = operation.adjustment {
            add(UInt64.max - 2)
            add(adjustment.increment)
            add(adjustment.append)
            add(adjustment.hasRecord ? 1 : 0)
        }
        if let links = operation.links {
            add(UInt64.max - 3)
            add(links.rawValue)
        }
    }

    fileprivate mutating func add(_ bookmark: Bookmark) {
        add(bookmark.name)
        add(bookmark.value == nil ? 0 : 1)
        add(bookmark.value ?? "")
    }

    private mutating func add(_ predicate: String?, _ arguments: JSONValue?) {
        add(predicate == nil ? 0 : 1)
        add(predicate ?? "")
        add(arguments)
    }

    private mutating func add(_ value: JSONValue?) {
        // No kind has this number.
        guard let value else { return add(UInt64.max) }
        add(UInt64(value.kind.rawValue))
        add(UnsafeRawBufferPointer(value.bytes))
    }
}

/// The events of a job, in this order.
package enum JobEvent: Sendable {
    case accepted(id: String, sequence: Int64)
    /// The numbers of rows staged and of those merged; sent now and then, or never.
    case progress(id: String, staged: Int, merged: Int)
    /// The transaction is durable, or the job changed nothing. The last event.
    case ended(JobCompletion)
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

/// Reports the progress of a job, ten times a second at most: numbers that are not sent then are sent with the next
/// ones, or never. A client that wants `accepted` is sent that first.
final class JobProgress: Sendable {
    private struct State {
        var staged = 0
        var merged = 0
        var reportedAt: Int64?
        var waitsForAcceptance: Bool
    }

    private static let pauseMicroseconds: Int64 = 100_000

    private let state: Monitor<State>
    private let id: String
    private let completions: SerialThread
    private let observer: @Sendable (JobEvent) -> Void

    init(
        _ id: JobID, waitsForAcceptance: Bool, _ completions: SerialThread,
        _ observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        state = Monitor(State(waitsForAcceptance: waitsForAcceptance))
        self.id = id.text
        self.completions = completions
        self.observer = observer
    }

    /// `accepted` has been sent; the numbers known by then are sent next. Called where events are sent.
    func accepted() {
        let event = change { state in
            state.waitsForAcceptance = false
            return state.staged > 0 || state.merged > 0
        }
        if let event { observer(event) }
    }

    /// Adds rows that were staged or merged. May be called from any thread.
    func note(staged: Int = 0, merged: Int = 0) {
        let event = change { state in
            state.staged += staged
            state.merged += merged
            return !state.waitsForAcceptance
        }
        if let event { completions.run { [observer] in observer(event) } }
    }

    private func change(_ change: (inout State) -> Bool) -> JobEvent? {
        let now = monotonicMicroseconds()
        return state.withLock { state in
            guard change(&state) else { return nil }
            if let reportedAt = state.reportedAt, now - reportedAt < Self.pauseMicroseconds { return nil }
            state.reportedAt = now
            return .progress(id: id, staged: state.staged, merged: state.merged)
        }
    }
}

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

extension JobCompletion {
    /// The completion of an outcome in the ledger.
    ///
    /// - Parameter timing: that of the message that is answered; nil when the message is not a job.
    init(stored outcome: StoredOutcome, id: String, isDuplicate: Bool, timing: StageTimes?) {
        // The ledger's object without its braces.
        let members = Array(outcome.body.dropFirst().dropLast())
        self.init(
            id: id, owner: outcome.owner, sequence: outcome.sequence,
            result: outcome.isFailure
                ? .failed(error: outcome.body)
                : .completed(members: members, isDuplicate: isDuplicate))
        self.timing = timing
    }

    var isCommitted: Bool {
        switch result {
        case .completed: true
        case .failed: false
        }
    }
}

extension Fault {
    init(_ error: StoreError) { self.init(error.faultCode, error.message) }
}

extension StoreError {
    package var faultCode: FaultCode {
        switch code {
        case .full: .storeFull
        case .unavailable, .incompatible: .storeUnavailable
        case .constraint: .constraintViolation
        case .defect: .internal
        case .overworked: .busy
        }
    }
}

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

    /// The `timing` of a `completed` message: all stages but the total.
    package func write(to writer: inout JSONWriter) {
        let values = values
        writer.object { writer in
            for stage in Self.stages(isJournaled: isJournaled).dropLast() {
                writer.member(Self.names[stage], values[stage])
            }
        }
    }
}

/// A summary of a job for people: its operations, and the entities that these name. Costs no allocation for one operation.
struct JobContents: Sendable {
    static let mostEntities = 8
    private static let longestName = 80
    /// In the order of the protocol.
    private static let operations = ["process", "relate", "sync", "map", "delete"]

    private var operations = ShortList<String>()
    private var entities = ShortList<String>()

    init(_ operations: ShortList<JobOperation>) {
        for operation in operations {
            Self.add(operation.action.name, to: &self.operations)
            if entities.count < Self.mostEntities { Self.add(operation.entity, to: &entities) }
        }
    }

    /// A client may name an entity of any length, which no model has.
    private static func add(_ name: String, to names: inout ShortList<String>) {
        let name =
            name.utf8.count <= longestName
            ? name : String(String.UnicodeScalarView(name.unicodeScalars.prefix(longestName)))
        if !names.contains(where: { name.hasSameBytes(as: $0) }) { names.append(name) }
    }

    /// The job names mappings, which name the entities.
    var hasMappings: Bool { operations.contains("map") }

    var operationNames: [String] { Self.operations.filter { operations.contains($0) } }

    /// - Parameter changed: entities that the job changed; those of a `map` are only known then.
    func entityNames(_ changed: [String]) -> [String] {
        var names = entities
        for name in changed { Self.add(name, to: &names) }
        return Array(names.lazy.filter { !$0.isEmpty }.prefix(Self.mostEntities))
    }
}

extension JobOperation.Action {
    /// In the protocol.
    fileprivate var name: String {
        switch self {
        case .process: "process"
        case .relate: "relate"
        case .sync: "sync"
        case .map: "map"
        case .delete, .deleteMatching: "delete"
        }
    }
}

/// A job that has not ended, for a list of those.
package struct RunningJob: Sendable {
    package enum Stage: String, Sendable {
        /// It waits for a worker, or one stages it.
        case staging
        /// It waits for its turn with the writer.
        case staged
        /// The writer merges it, or makes it durable.
        case merging
        /// It was cancelled, and keeps its place in the order until its turn comes.
        case cancelled
    }

    package let id: String
    /// Nil while frames before it are not opened, and while the writer has the job.
    package let sequence: Int64?
    package let owner: JobOwner
    package let stage: Stage
    /// Microseconds since its frame was complete.
    package let age: Int64
}

package enum Cancellation: Sendable {
    /// The job has failed with `cancelled`, which its observer has received, and it retains its ticket.
    case cancelled
    /// The merge of the job has begun, or the job has ended, which the completion is of.
    case tooLate(JobCompletion?)
    case unknown
    case failed(StoreError)
}

extension Cancellation {
    /// Why it is too late to cancel a job, and the sequence of a committed one.
    ///
    /// - Parameter end: nil while the job is merged.
    package static func explanation(
        _ end: JobCompletion?, of id: String
    ) -> (message: String, committedAs: Int64?) {
        guard let end else {
            return (
                "The merge of the job \"\(id)\" has begun, and cannot be stopped. `await` returns how the job ends.",
                nil
            )
        }
        guard end.isCommitted else {
            return ("The job \"\(id)\" has failed already, and has changed nothing. `await` returns why.", nil)
        }
        return (
            "The job \"\(id)\" is committed already, with the sequence \(end.sequence ?? 0). Only another job can undo it.",
            end.sequence
        )
    }
}
