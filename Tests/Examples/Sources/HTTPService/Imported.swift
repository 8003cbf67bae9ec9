import Broker
import Hummingbird

/// The outcome of the records of a request.
struct Imported: ResponseEncodable {
    var sequence: Int64
    var isDuplicate: Bool
    var inserted: Int
    var updated: Int

    init(_ completion: Completion) {
        sequence = completion.sequence
        isDuplicate = completion.isDuplicate
        inserted = completion.changes.values.reduce(0) { $0 + $1.inserted }
        updated = completion.changes.values.reduce(0) { $0 + $1.updated }
    }
}
