import Broker
import BrokerInput

/// Records that will be one job: a JSON array that grows, and where in the input its elements came from.
struct GatheredRecords {
    private(set) var json: [UInt8] = []
    /// Where each record begins, in the input and in ``json``.
    private var starts: [(place: InputPlace, offset: Int)] = []
    /// The records that only the parser can check.
    private var doubtful: [Int] = []

    var count: Int { starts.count }

    /// The record must begin another job.
    func isFull(before record: InputRecord, records: Int = .max, bytes: Int) -> Bool {
        count > 0 && (count == records || json.count + record.json.count > bytes)
    }

    mutating func append(_ record: InputRecord) {
        json.append(UInt8(ascii: starts.isEmpty ? "[" : ","))
        if !record.isSound { doubtful.append(starts.count) }
        starts.append((record.place, json.count))
        json += record.json
    }

    /// Where the records begin in ``json``.
    var offsets: [Int] { starts.map(\.offset) }

    /// The lines on which the records begin.
    var lines: [Int] { starts.map(\.place.line) }

    /// Looks at what the cutter has left to the parser: numbers, literals and what strings hold, where it is in doubt.
    ///
    /// - Returns: the first fault. Its record is discarded then, with those after it.
    mutating func dropBroken() -> InputFault? {
        for index in doubtful {
            let end = index + 1 < starts.count ? starts[index + 1].offset - 1 : json.count
            let start = starts[index]
            guard let fault = InputRecord(json: json[start.offset..<end], place: start.place).fault else { continue }
            drop(from: index)
            return fault
        }
        return nil
    }

    private mutating func drop(from index: Int) {
        json.removeSubrange((starts[index].offset - 1)...)
        starts.removeSubrange(index...)
        doubtful.removeAll { $0 >= index }
    }

    /// The array, complete; what was gathered is gone.
    ///
    /// Every record is valid JSON: the reader of the input has checked it, or ``dropBroken()`` has, which must be called before.
    mutating func take() -> RawJSON {
        var taken = json
        // The next ones are about as many.
        json = []
        json.reserveCapacity(taken.count + taken.count / 8)
        starts.removeAll(keepingCapacity: true)
        doubtful.removeAll(keepingCapacity: true)
        taken.append(UInt8(ascii: "]"))
        return RawJSON(checked: taken, depth: RecordLimits.maximumDepth + 1)
    }
}
