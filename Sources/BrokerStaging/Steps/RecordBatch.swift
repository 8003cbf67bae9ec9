internal import BrokerJSON
internal import BrokerModel

/// Records of a step's own, in their order, that are staged and merged apart from the others: where one record deletes what
/// another names, one after the other.
///
/// A record is an element of an operation's `json`, with what is nested in it, or a part of a payload to which a route leads.
public struct RecordBatch: @unchecked Sendable {
    private struct Record {
        let json: JSONValue
        let operation: UInt32
        /// In `targets`; of a `process` none.
        let target: UInt32?
    }

    // Places on the document's immutable tape, which `document` keeps alive.
    private let document: JSONDocument
    private let operations: [StagingOperation]
    private let targets: [RouteTree.Target]
    private let records: ArraySlice<Record>
    private let keepsPayload: Bool
    private let refusesUnknownKeys: Bool

    public var count: Int { records.count }

    /// The place of the first operation that has a record here, among those of the step.
    public var firstOperation: Int { records.first.map { Int($0.operation) } ?? 0 }

    /// All records of a step.
    init(_ collections: [JobCollection]) {
        document = collections[0].document
        keepsPayload = collections[0].keepsPayload
        refusesUnknownKeys = collections[0].refusesUnknownKeys
        operations = collections.flatMap(\.operations)
        var targets: [RouteTree.Target] = []
        var records: [Record] = []
        for (number, operation) in operations.enumerated() {
            func add(_ json: JSONValue, _ target: UInt32?) {
                records.append(Record(json: json, operation: UInt32(number), target: target))
            }
            func addAll(_ json: JSONValue, _ target: RouteTree.Target?) {
                let place = target.map { _ in UInt32(targets.count) }
                if let target { targets.append(target) }
                guard json.kind == .array else { return add(json, place) }
                for record in json.elements { add(record, place) }
            }
            switch operation.action {
            case .process: addAll(operation.json, nil)
            case .map(let mapping, let parameters):
                addAll(operation.json, RouteTree.Target(mapping: mapping, parameters: parameters))
            case .route(let tree): tree.forEachPart(of: operation.json) { addAll($0, $1) }
            case .change, .relate, .name: add(operation.json, nil)
            }
        }
        self.targets = targets
        self.records = records[...]
    }

    private init(_ whole: RecordBatch, _ records: ArraySlice<Record>) {
        (document, operations, targets) = (whole.document, whole.operations, whole.targets)
        (keepsPayload, refusesUnknownKeys) = (whole.keepsPayload, whole.refusesUnknownKeys)
        self.records = records
    }

    /// Two batches, of which the first one comes first; of two records or more.
    public func halves() -> (RecordBatch, RecordBatch) {
        let middle = records.startIndex + records.count / 2
        return (RecordBatch(self, records[..<middle]), RecordBatch(self, records[middle...]))
    }

    /// Stages these records alone, on the calling thread.
    ///
    /// - Parameter allowance: asked for the memory of the rows, which the caller gives back when they are gone.
    public func staged(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: any StagingAllowance
    ) throws(StagingRefusal) -> StagedRows {
        var collection = JobCollection(document: document, operations: [])
        collection.keepsPayload = keepsPayload
        collection.refusesUnknownKeys = refusesUnknownKeys
        collection.batch = self
        return StagedJobRows.unite([try collection.stage(plan, policy, allowance)], plan)
    }

    var textBytes: Int { records.reduce(0) { $0 + $1.json.bytes.count } }

    func stage(in context: inout StagingContext) throws(StagingRefusal) {
        var rest = records
        while let first = rest.first {
            let operation = operations[Int(first.operation)]
            let own = rest.prefix { $0.operation == first.operation }
            try context.stage(operation, own.map { ($0.json, $0.target.map { targets[Int($0)] }) })
            rest = rest.dropFirst(own.count)
            // Those between have no records, and are told like the others.
            for number in first.operation + 1..<(rest.first?.operation ?? first.operation + 1) {
                context.beginOperation(operations[Int(number)])
            }
        }
    }
}

extension StagedRows {
    /// The records that were staged, so that they may be staged again in pieces.
    public var batch: RecordBatch { RecordBatch(collections) }
}
