package import BrokerJSON

/// Consecutive operations, mostly on one entity, that one worker stages in one context.
///
/// It holds the document that its operations point into, so it may be sent to any thread.
package struct JobCollection: @unchecked Sendable {
    /// Maximum number of collections of one job: more than workers, and few enough that the cost of uniting them is
    /// negligible.
    private static let maximumCount = 16

    let document: JSONDocument
    // Values on the document's immutable tape, which `document` keeps alive.
    let operations: ShortList<StagingOperation>
    /// The rows have ``StagedRows/payload``.
    var keepsPayload = false
    /// Staged instead of whole operations.
    var batch: RecordBatch?
    /// A record with a key that the model does not name is at fault.
    var refusesUnknownKeys = false

    /// - Parameters:
    ///   - keepsPayload: the rows have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    package init(
        _ operations: ShortList<StagingOperation>, in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) {
        self.document = document
        self.operations = operations
        self.keepsPayload = keepsPayload
        self.refusesUnknownKeys = refusesUnknownKeys
    }

    /// Divides a job's operations into collections, in payload order. Without operations, returns one empty collection.
    ///
    /// A change of the entity begins a new collection; if it changes often, neighbours share a collection.
    package static func collections(
        of operations: ShortList<StagingOperation>, in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) -> [JobCollection] {
        let collection = { (gathered: ShortList<StagingOperation>) in
            JobCollection(gathered, in: document, keepsPayload: keepsPayload, refusesUnknownKeys: refusesUnknownKeys)
        }
        let runs = 1 + zip(operations, operations.dropFirst()).count { $0.entity != $1.entity }
        let smallest = runs <= maximumCount ? 0 : document.text.count / maximumCount
        var collections: [JobCollection] = []
        var gathered = ShortList<StagingOperation>()
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
}
