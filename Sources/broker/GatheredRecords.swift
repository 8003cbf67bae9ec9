import BrokerFormats
import BrokerJSON

/// Records that will be one job: a JSON array that grows, and where in the input its elements came from.
struct GatheredRecords {
    private(set) var json: [UInt8] = []
    /// Where each record begins, in the input and in ``json``.
    private var starts: [(place: InputPlace, offset: Int)] = []

    var count: Int { starts.count }

    mutating func append(_ record: InputRecord) {
        json.append(UInt8(ascii: starts.isEmpty ? "[" : ","))
        starts.append((record.place, json.count))
        json += record.json
    }

    /// The lines on which the records begin.
    var lines: [Int] { starts.map(\.place.line) }

    /// Looks at everything that the cutter does not: numbers, literals, what strings hold.
    ///
    /// - Returns: the first fault. The record that it is in is gone then, with those behind it.
    mutating func dropBroken() -> InputFault? {
        do throws(JSONError) {
            _ = try JSONDocument(parsing: JSONText(copying: json + [UInt8(ascii: "]")]))
            return nil
        } catch {
            for index in starts.indices {
                let end = index + 1 < starts.count ? starts[index + 1].offset - 1 : json.count
                let start = starts[index]
                let record = InputRecord(json: Array(json[start.offset..<end]), place: start.place)
                guard let fault = record.fault else { continue }
                drop(from: index)
                return fault
            }
            // No record alone is too much, but all of them together.
            let fault = InputFault(reason: error.reason, place: starts[0].place)
            drop(from: 0)
            return fault
        }
    }

    private mutating func drop(from index: Int) {
        json.removeSubrange((starts[index].offset - 1)...)
        starts.removeSubrange(index...)
    }

    /// The array, complete; what was gathered is gone.
    mutating func take() -> [UInt8] {
        defer {
            json.removeAll(keepingCapacity: true)
            starts.removeAll(keepingCapacity: true)
        }
        return json + [UInt8(ascii: "]")]
    }
}
