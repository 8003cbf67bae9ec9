public import BrokerJSON

/// One `process` operation of a job, its entity known to the model.
public struct StagingOperation {
    public let entity: Int
    /// A record or an array of records, in the job's document.
    public let json: JSONValue

    public init(entity: Int, json: JSONValue) {
        self.entity = entity
        self.json = json
    }
}

/// Consecutive operations on one entity: what one worker stages in one context.
///
/// It holds the document that its operations point into, so it may be sent to any thread.
public struct JobCollection: @unchecked Sendable {
    let document: JSONDocument
    // Places on the document's immutable tape, which `document` keeps alive.
    let operations: [StagingOperation]

    /// A job's operations as collections, in payload order; at least one, which is empty when there are no operations.
    public static func collections(of operations: [StagingOperation], in document: JSONDocument) -> [JobCollection] {
        var collections: [JobCollection] = []
        var run: [StagingOperation] = []
        for operation in operations {
            if let last = run.last, last.entity != operation.entity {
                collections.append(JobCollection(document: document, operations: run))
                run = []
            }
            run.append(operation)
        }
        collections.append(JobCollection(document: document, operations: run))
        return collections
    }

    /// Stages the collection in a context of its own. Pure: reads no database, shares nothing, and so runs anywhere.
    ///
    /// - Parameter allowance: asked for the memory of the rows; nil takes what it needs.
    /// - Throws: the first fault, with its path, when the policy is to fail; `noRoom` when the allowance is refused.
    public func stage(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        var context = StagingContext(plan, document, policy, allowance)
        for operation in operations { try context.process(operation.json, entity: operation.entity) }
        return context.finish()
    }
}
