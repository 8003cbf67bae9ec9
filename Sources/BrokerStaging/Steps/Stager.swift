package import BrokerJSON

/// One operation of a job with records or keys; the model knows its names.
package struct StagingOperation {
    package enum Action {
        /// `json` is a record, or an array of records.
        case process
        /// `json` is read by that mapping: a record, an array of records, or a dictionary of records.
        case map(mapping: Int, PathParameters?)
        /// `json` is a payload; the routes say where its objects are.
        case route(RouteTree)
        /// `json` is a record for the object of that key.
        case change(object: JSONValue)
        /// `json` is the value of that relationship for the object of that key.
        case relate(object: JSONValue, relationship: Int)
        /// `json` is an array of keys, which only name objects.
        case name
    }

    package let entity: Int
    /// A value in the job's document.
    package let json: JSONValue
    package let action: Action
    /// Staging notes each object of the entity that the `json` names, also inside records whose contents do not count.
    let gathersNames: Bool

    package init(entity: Int, json: JSONValue, _ action: Action = .process, gathersNames: Bool = false) {
        self.entity = entity
        self.json = json
        self.action = action
        self.gathersNames = gathersNames
    }

    /// Returns the entity whose table has the objects of the `json`; nil if their tables differ.
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

/// Consecutive operations, mostly on one entity, that one worker stages in one context.
///
/// It holds the document that its operations point into, so it may be sent to any thread.
package struct JobCollection: @unchecked Sendable {
    /// Maximum number of collections of one job: more than workers, and few enough that the cost of uniting them is
    /// negligible.
    private static let maximumCount = 16

    let document: JSONDocument
    // Values on the document's immutable tape, which `document` keeps alive.
    let operations: [StagingOperation]
    /// The rows have ``StagedRows/payload``.
    var keepsPayload = false
    /// Staged instead of whole operations.
    var batch: RecordBatch?
    /// A record with a key that the model does not name is at fault.
    var refusesUnknownKeys = false

    /// Returns all of a job's operations as one collection, for a job that is not worth dividing.
    ///
    /// - Parameters:
    ///   - keepsPayload: the rows have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    package static func whole(
        _ operations: [StagingOperation], in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) -> JobCollection {
        JobCollection(
            document: document, operations: operations, keepsPayload: keepsPayload,
            refusesUnknownKeys: refusesUnknownKeys)
    }

    /// Divides a job's operations into collections, in payload order. Without operations, returns one empty collection.
    ///
    /// A change of the entity begins a new collection; if it changes often, neighbours share a collection.
    ///
    /// - Parameters:
    ///   - keepsPayload: the rows have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    package static func collections(
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

    /// Size in bytes of the values that are read.
    var textBytes: Int { operations.reduce(batch?.textBytes ?? 0) { $0 + $1.json.bytes.count } }

    /// Stages the collection in a context of its own. Pure: reads no database and shares no state, so it runs on any
    /// thread.
    ///
    /// - Parameters:
    ///   - allowance: asked for the memory of the rows; nil grants all.
    ///   - exclusions: records and objects that staging ignores, as if the job did not have them.
    /// - Throws: the first fault in the text, with its path, when the policy is `fail`; `noRoom` when the allowance
    ///   refuses the memory.
    package func stage(
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
