internal import BrokerJSON
internal import BrokerModel

/// A run of a step's own records that is staged and merged separately. A step is divided into batches where one record
/// deletes an object that another record names.
///
/// A record is an element of an operation's `json`, with its nested records, or a part of a payload to which a route
/// leads.
package struct RecordBatch: @unchecked Sendable {
    struct Record {
        let json: JSONValue
        let operation: UInt32
        /// Index in `targets`; nil for `process`.
        let target: UInt32?
    }

    // Values on the document's immutable tape, which `document` keeps alive.
    let document: JSONDocument
    let operations: [StagingOperation]
    let targets: [RouteTree.Target]
    let records: ArraySlice<Record>
    let keepsPayload: Bool
    let refusesUnknownKeys: Bool

    package var count: Int { records.count }

    /// The index, in the step's operations, of the first operation with a record in this batch.
    package var firstOperation: Int { records.first.map { Int($0.operation) } ?? 0 }

    /// All records of a step.
    init(_ collections: ShortList<JobCollection>) {
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
                let index = target.map { _ in UInt32(targets.count) }
                if let target { targets.append(target) }
                guard json.kind == .array else { return add(json, index) }
                for record in json.elements { add(record, index) }
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

    /// Splits a batch of two or more records into its first and second half.
    package func halves() -> (RecordBatch, RecordBatch) {
        let middle = records.startIndex + records.count / 2
        return (RecordBatch(self, records[..<middle]), RecordBatch(self, records[middle...]))
    }

    var textBytes: Int { records.reduce(0) { $0 + $1.json.bytes.count } }
}
