import Broker
import BrokerInput
import BrokerJSON

/// The records of a job: where they came from and, where they may be written to a file, their texts.
struct JobRecords: Sendable {
    /// An input that has records in the job.
    struct Origin: Sendable {
        let input: Int
        let name: String
        /// The index that the first record of the input has in the job; less than 0 when it was in a job before.
        var first: Int
    }

    fileprivate(set) var origins: [Origin] = []
    /// The line on which each record begins in its input.
    fileprivate(set) var lines: [Int] = []
    /// A JSON array, and where each record begins in it; empty unless the texts are retained.
    fileprivate(set) var json: [UInt8] = []
    fileprivate(set) var starts: [Int] = []

    init() {}

    /// Records of one input, counted from 1 in it.
    init(_ numbers: ClosedRange<Int>, of name: String, input: Int = 0, lines: [Int]) {
        origins = [Origin(input: input, name: name, first: 1 - numbers.lowerBound)]
        self.lines = lines
    }

    var count: Int { lines.count }

    /// The number of the input whose records these are.
    var input: Int? { origins.last?.input }

    /// The records of a job with records of one input, counted from 1 in it.
    var range: ClosedRange<Int> {
        let first = 1 - (origins.last?.first ?? 0)
        return first...first + max(0, count - 1)
    }

    /// The place of all records of a job with records of one input.
    var place: JobPlace { .records(range, of: origins.last?.name ?? "the input") }

    /// The record that a JSON Pointer into the job's message leads to; nil when it leads to none.
    func record(at path: String?) -> JobPlace? { find(path).map { place(ofRecord: $0.index) } }

    func place(ofRecord index: Int) -> JobPlace {
        let origin = origins.last { $0.first <= index }
        let number = index - (origin?.first ?? 0) + 1
        return .records(number...number, of: origin?.name ?? "the input", line: lines[index])
    }

    /// The index of the record that a JSON Pointer into the job's message leads to, and the pointer from the record on;
    /// nil when it leads to none.
    func find(_ path: String?) -> (index: Int, path: String)? {
        // The operation may be in the job itself or in its list of operations.
        guard let path, let json = path.firstRange(of: "/json/") else { return nil }
        let rest = path[json.upperBound...]
        let end = rest.firstIndex(of: "/") ?? rest.endIndex
        guard let index = Int(rest[..<end]), lines.indices.contains(index) else { return nil }
        return (index, String(rest[end...]))
    }

    /// The text of a record on one line: strings hold no line ends, which are escaped there.
    func line(_ index: Int) -> [UInt8] {
        let end = index + 1 < starts.count ? starts[index + 1] : json.count
        var text = json[starts[index]..<end - 1]
        for position in text.indices where text[position] == UInt8(ascii: "\n") || text[position] == UInt8(ascii: "\r")
        {
            text[position] = UInt8(ascii: " ")
        }
        return Array(text)
    }
}

/// Records that will be the next job: a JSON array that grows, and where its elements came from.
struct GatheredRecords {
    private var json: [UInt8] = []
    /// Where each record begins, in the input and in `json`.
    private var starts: [(place: InputPlace, offset: Int)] = []
    /// The records that only the parser can check.
    private var unchecked: [Int] = []
    private var origins: [JobRecords.Origin] = []
    /// The index of a record with a fault that was not found while the input was divided.
    private var brokenIndex: Int?
    /// The texts of the records are retained until their job is answered.
    private let keepsTexts: Bool
    /// Records of all jobs.
    private(set) var total = 0

    init(keepsTexts: Bool = false) { self.keepsTexts = keepsTexts }

    var count: Int { starts.count }

    /// The records of the current input up to the last one, those that were skipped included.
    var position: Int { count - (origins.last?.first ?? 0) }

    /// The following records are of this input.
    mutating func begin(_ name: String, input: Int = 0) {
        if count == 0 { origins = [] }
        origins.append(JobRecords.Origin(input: input, name: name, first: count))
    }

    /// The record must begin another job.
    func isFull(before record: InputRecord, records: Int = .max, bytes: Int) -> Bool {
        count > 0 && (count == records || json.count + record.json.count > bytes)
    }

    /// Counts a record of the input that is not gathered.
    mutating func skip() { origins[origins.count - 1].first -= 1 }

    mutating func append(_ record: InputRecord) {
        json.append(UInt8(ascii: starts.isEmpty ? "[" : ","))
        if !record.isSound { unchecked.append(starts.count) }
        starts.append((record.place, json.count))
        json += record.json
        total += 1
    }

    /// Parses what the cutter has not checked: numbers, literals and what strings hold, where it is in doubt.
    ///
    /// - Returns: the first fault. Its record is discarded then, with those after it.
    mutating func dropBroken() -> InputFault? {
        for index in unchecked {
            let end = index + 1 < starts.count ? starts[index + 1].offset - 1 : json.count
            let start = starts[index]
            guard let fault = InputRecord(json: json[start.offset..<end], place: start.place).fault else { continue }
            brokenIndex = index
            json.removeSubrange((start.offset - 1)...)
            starts.removeSubrange(index...)
            unchecked.removeAll { $0 >= index }
            return fault
        }
        return nil
    }

    /// The input that has the fault: the one that is being read, unless it was found in what had been gathered.
    var nameOfFaulty: String {
        let origin = brokenIndex.map { index in origins.last { $0.first <= index } } ?? origins.last
        return origin?.name ?? "the input"
    }

    /// The array, complete; what was gathered is gone.
    ///
    /// Every record is valid JSON: the reader of the input has checked it, or ``dropBroken()`` has, which must be called before.
    mutating func take() -> (json: RawJSON, records: JobRecords) {
        var records = JobRecords()
        records.origins = origins
        records.lines = starts.map(\.place.line)
        guard count > 0 else { return (RawJSON("[]"), records) }
        var taken = json
        taken.append(UInt8(ascii: "]"))
        if keepsTexts { (records.json, records.starts) = (taken, starts.map(\.offset)) }
        // The next ones are about as many.
        json = []
        json.reserveCapacity(taken.count + taken.count / 8)
        origins = origins.suffix(1).map {
            JobRecords.Origin(input: $0.input, name: $0.name, first: $0.first - records.count)
        }
        starts.removeAll(keepingCapacity: true)
        unchecked.removeAll(keepingCapacity: true)
        return (RawJSON(checked: taken, depth: RecordLimits.maximumDepth + 1), records)
    }
}

/// The part of a command's input that a JSON Pointer into a job's message leads to.
enum JobPlace: Sendable, Equatable {
    /// The job as a whole, or nothing that the user gave as a part.
    case job
    /// A place in the message of a job that another command sent.
    case message(ofJob: String, path: String?)
    /// One of the keys among the arguments, counted from 1.
    case key(Int, text: String)
    /// Records of one input, counted from 1 in it. Of one record, the line on which it begins.
    case records(ClosedRange<Int>, of: String, line: Int? = nil)

    var text: String {
        switch self {
        case .job: "the job"
        case .message(let id, let path): "job \(id)" + (path.map { ", \($0)" } ?? "")
        case .key(let number, let text): "key \(number) (\(text))"
        case .records(let records, let input, let line?): "\(input), line \(line) (record \(records.lowerBound))"
        case .records(let records, let input, nil) where records.count == 1: "record \(records.lowerBound) of \(input)"
        case .records(let records, let input, nil):
            "records \(records.lowerBound) to \(records.upperBound) of \(input)"
        }
    }

    /// Writes members of an object: numbers, for programs.
    func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .job, .message: break
        case .key(let position, _): writer.member("key", position)
        case .records(let records, let input, let line):
            writer.member("file", input)
            if let line {
                writer.member("line", line)
                writer.member("record", records.lowerBound)
            } else {
                writer.key("records")
                writer.range(records)
            }
        }
    }
}

extension JSONWriter {
    /// An array of the bounds.
    mutating func range(_ range: ClosedRange<Int>) {
        array { writer in
            writer.integer(range.lowerBound)
            writer.integer(range.upperBound)
        }
    }
}
