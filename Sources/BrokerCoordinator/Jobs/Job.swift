public import BrokerJSON
public import BrokerModel
public import BrokerStaging
public import BrokerStore

/// What a client asks the coordinator to do, decoded but not yet staged.
public struct Job: @unchecked Sendable {
    public struct Operation {
        /// What is to be done; names are as the client wrote them, and the model may not know them.
        public enum Action {
            case process(object: JSONValue?)
            case relate(object: JSONValue, relationship: JSONValue)
            /// - Parameters:
            ///   - actions: whether it may insert, update and delete.
            ///   - part: the name of the sync that this is a part of, and whether it is the last one.
            case sync(
                where: String?, arguments: JSONValue?, actions: (inserts: Bool, updates: Bool, deletes: Bool),
                part: (id: String, isLast: Bool)?)
            /// `json` is a whole payload, read by the mapping of that name, or by the routes for that path, or by those
            /// for no path.
            case map(mapping: JSONValue?, path: JSONValue?)
            /// `json` is an array of keys.
            case delete
            case deleteMatching(where: String?, arguments: JSONValue?)

            /// It may look at all objects of its entity, or rename what all objects of another one refer to, however few
            /// its bytes are.
            var isSearch: Bool {
                switch self {
                case .sync(_, _, let actions, let part): actions.deletes && part?.isLast ?? true
                case .deleteMatching: true
                case .process(let object): object != nil
                case .relate, .map, .delete: false
                }
            }
        }

        /// As the client wrote it; the model may not know it. Empty of a `map`.
        public var entity: String
        public var json: JSONValue
        public var action: Action
        /// Where the message names the entity: a JSON Pointer (RFC 6901).
        public var entityPointer: String
        /// Where the operation's fields stand: a JSON Pointer.
        public var pointer: String

        public init(
            entity: String, json: JSONValue, _ action: Action = .process(object: nil), entityPointer: String,
            pointer: String = ""
        ) {
            self.entity = entity
            self.json = json
            self.action = action
            self.entityPointer = entityPointer
            self.pointer = pointer
        }
    }

    /// The client's; nil asks for one of the coordinator's, and for at most once instead of exactly once. Those that
    /// begin with `broker-` are the coordinator's: whoever takes jobs from outside refuses them.
    public var id: String?
    public var owner: JobOwner
    public var document: JSONDocument
    // Places on the immutable tape of `document`, which is held here beside them.
    public var operations: [Operation]
    public var policy: InvalidRecordPolicy
    /// A record with a key that the model does not name is at fault, as ``policy`` says.
    public var refusesUnknownKeys = false
    public var wantsKeys: Bool
    /// ``JobCompletion/objects`` are to be told.
    public var wantsObjects: Bool
    /// The observer wants ``JobEvent/accepted(id:sequence:)``.
    public var wantsAcceptance: Bool
    /// The observer wants ``JobEvent/progress(id:staged:merged:)``.
    public var wantsProgress = false
    /// The decoded message as it was sent, also when `document` was parsed from a copy without trailing commas.
    public var content: JSONText
    /// Called for everything that happens to the job, on a thread of the coordinator's; must not block.
    public var observer: @Sendable (JobEvent) -> Void

    public init(
        id: String?, owner: JobOwner = .server, document: JSONDocument, operations: [Operation],
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

/// What happens to a job, in this order.
public enum JobEvent: Sendable {
    /// It has its sequence: its place among all jobs.
    case accepted(id: String, sequence: Int64)
    /// So many of its rows are staged, and so many of those merged; told now and then, or never.
    case progress(id: String, staged: Int, merged: Int)
    /// Its transaction is durable, or it changed nothing. The last event.
    case ended(JobCompletion)
}

/// How a job ended, ready to be told.
public struct JobCompletion: Sendable {
    public enum Result: Sendable {
        /// JSON members of `completed` after `id`, `sequence` and `duplicate`.
        case completed(members: [UInt8], isDuplicate: Bool)
        /// The `error` object: JSON.
        case failed(error: [UInt8])
    }

    public var id: String
    /// Whose job it is; nil when that is not known, and then anybody may be told.
    public var owner: JobOwner?
    /// Nil when the job was refused before it had a sequence.
    public var sequence: Int64?
    public var result: Result
    /// The objects of the job's own records, told once, to the one that asked for them with the job.
    public var objects: ToldObjects?

    public init(id: String, owner: JobOwner?, sequence: Int64?, result: Result) {
        self.id = id
        self.owner = owner
        self.sequence = sequence
        self.result = result
    }

    public static func failed(_ fault: Fault, id: String, owner: JobOwner?, sequence: Int64?) -> JobCompletion {
        var writer = JSONWriter()
        fault.write(to: &writer)
        return JobCompletion(id: id, owner: owner, sequence: sequence, result: .failed(error: writer.bytes))
    }
}

/// What a frame turned out to be, once it was opened on a worker.
public enum Opened: Sendable {
    case job(Job)
    /// Something that has been answered already, or cannot be.
    case nothing
    /// A question about jobs: asked when every frame before it has been opened, so that it sees the jobs in them.
    /// Called with its own place in the order of frames, on a thread of the coordinator's.
    case question(@Sendable (_ place: Int) -> Void)
    /// The memory was refused. Nothing was answered, and nothing is kept.
    case noRoom
}
