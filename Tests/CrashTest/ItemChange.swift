import TestSupport

/// The effect of a job on objects of `Item`: many at once, or a few whose codes are unique.
enum ItemChange {
    struct Record {
        let id: Int
        /// nil: the record says nothing of it.
        var code: String??
    }

    case process([Record], stamp: String, isMapped: Bool)
    case delete(Range<Int>)

    init(stamp: String, using generator: inout SeededGenerator) {
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        switch number(0...9) {
        case 0, 1:
            let first = number(0...2_000)
            let records = (first..<first + number(200...3_000)).map { Record(id: $0) }
            self = .process(records, stamp: stamp, isMapped: false)
        case 2:
            let first = number(0...4_000)
            self = .delete(first..<first + number(1...500))
        default:
            let records = (1...10).shuffled(using: &generator).prefix(number(1...4)).map { id in
                Record(
                    id: id,
                    code: number(0...3) == 0
                        ? .some(nil) : Array("abcdefghijkl").randomElement(using: &generator).map(String.init))
            }
            self = .process(records, stamp: stamp, isMapped: number(0...1) == 0)
        }
    }

    /// The operation.
    var json: String {
        switch self {
        case .delete(let ids):
            return #"{"op": "delete", "entity": "Item", "where": "id >= %@ AND id < %@", "#
                + #""arguments": [\#(ids.lowerBound), \#(ids.upperBound)]}"#
        case .process(let records, let stamp, let isMapped):
            let texts = records.map { record in
                let code = record.code.map { #", "code": \#($0.map { "\"\($0)\"" } ?? "null")"# } ?? ""
                return #"{"id": \#(record.id), "stamp": "\#(stamp)"\#(code)}"#
            }
            let json = "[\(texts.joined(separator: ", "))]"
            return isMapped
                ? #"{"op": "map", "json": {"items": \#(json)}}"#
                : #"{"op": "process", "entity": "Item", "json": \#(json)}"#
        }
    }
}
