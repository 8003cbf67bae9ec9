public import BrokerJSON

/// One operation of a job that brings records or keys, its names known to the model.
public struct StagingOperation {
    public enum Action {
        /// `json` is a record, or an array of records.
        case process
        /// `json` is what that mapping reads: a record, an array of records, or a dictionary of them.
        case map(mapping: Int, PathParameters?)
        /// `json` is a payload in which the objects are where the routes say.
        case route(RouteTree)
        /// `json` is a record for the object of that key.
        case change(object: JSONValue)
        /// `json` is what a record of the object of that key would hold at the relationship.
        case relate(object: JSONValue, relationship: Int)
        /// `json` is an array of keys, which only name objects.
        case name
    }

    public let entity: Int
    /// A value in the job's document.
    public let json: JSONValue
    public let action: Action
    /// It is to be known of which objects the `json` names its entity's, also inside records whose contents do not count.
    let gathersNames: Bool

    public init(entity: Int, json: JSONValue, _ action: Action = .process, gathersNames: Bool = false) {
        self.entity = entity
        self.json = json
        self.action = action
        self.gathersNames = gathersNames
    }

    /// Of the objects that its `json` describes, the entity in whose table they are; nil where each may be in another.
    func objectTable(_ plan: StagingPlan) -> Int? {
        switch action {
        case .relate(_, let relationship): plan.entities[entity].relationships[relationship].destinationTable
        case .map, .route: nil
        case .process, .change, .name: plan.model.topmost(of: entity)
        }
    }

    var isMerged: Bool {
        switch action {
        case .process, .map, .route: true
        case .change, .relate, .name: false
        }
    }
}

/// Consecutive operations, mostly on one entity: what one worker stages in one context.
///
/// It holds the document that its operations point into, so it may be sent to any thread.
public struct JobCollection: @unchecked Sendable {
    /// Collections of one job at most: more than workers, few enough that uniting them costs nothing beside staging.
    private static let maximumCount = 16

    let document: JSONDocument
    // Places on the document's immutable tape, which `document` keeps alive.
    let operations: [StagingOperation]
    /// It is to be known which objects the records are.
    var keepsPayload = false
    /// Staged in the place of whole operations.
    var batch: RecordBatch?
    /// A record with a key that the model does not name is at fault.
    var refusesUnknownKeys = false

    /// All of a job's operations as one collection, for a job that is not worth dividing.
    ///
    /// - Parameters:
    ///   - keepsPayload: the rows are to have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    public static func whole(
        _ operations: [StagingOperation], in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) -> JobCollection {
        JobCollection(
            document: document, operations: operations, keepsPayload: keepsPayload,
            refusesUnknownKeys: refusesUnknownKeys)
    }

    /// A job's operations as collections, in payload order; at least one, which is empty when there are no operations.
    ///
    /// Where the entity changes a new one begins; where it changes often, neighbours stay together.
    ///
    /// - Parameters:
    ///   - keepsPayload: the rows are to have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    public static func collections(
        of operations: [StagingOperation], in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) -> [JobCollection] {
        let collection = { (gathered: [StagingOperation]) in
            whole(gathered, in: document, keepsPayload: keepsPayload, refusesUnknownKeys: refusesUnknownKeys)
        }
        let runs = 1 + zip(operations, operations.dropFirst()).count { $0.entity != $1.entity }
        let smallest = runs <= maximumCount ? 0 : document.text.count / maximumCount
        var collections: [JobCollection] = []
        var gathered: [StagingOperation] = []
        var bytes = 0
        for operation in operations {
            if let last = gathered.last, last.entity != operation.entity, bytes >= smallest {
                collections.append(collection(gathered))
                gathered = []
                bytes = 0
            }
            gathered.append(operation)
            bytes += operation.json.bytes.count
        }
        collections.append(collection(gathered))
        return collections
    }

    /// Bytes of the values that are read.
    var textBytes: Int { operations.reduce(batch?.textBytes ?? 0) { $0 + $1.json.bytes.count } }

    /// Stages the collection in a context of its own. Pure: reads no database, shares nothing, and so runs anywhere.
    ///
    /// - Parameters:
    ///   - allowance: asked for the memory of the rows; nil takes what it needs.
    ///   - exclusions: what is passed over, as if it had not been said.
    /// - Throws: the first fault in the text, with its path, when the policy is to fail; `noRoom` when the allowance is
    ///   refused.
    public func stage(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil,
        without exclusions: StagedExclusions? = nil
    ) throws(StagingRefusal) -> StagedPart {
        var memory = StagingMemory(allowance)
        guard memory.take(StagingContext.memory(plan)) else { throw .noRoom }
        var context = StagingContext(plan, self, policy, memory, exclusions)
        for operation in operations { try context.stage(operation) }
        try batch?.stage(in: &context)
        return context.finish()
    }
}
