import Broker
import BrokerInput
import BrokerJSON

/// The records of a job: where they came from and, where they may be written to a file, their texts.
struct JobRecords: Sendable {
    /// An input that has records in the job.
    fileprivate struct Origin: Sendable {
        let input: Int
        let name: String
        /// The index that the first record of the input has in the job; less than 0 when it was in a job before.
        var first: Int
    }

    fileprivate var origins: [Origin] = []
    /// The line on which each record begins in its input.
    fileprivate var lines: [Int] = []
    /// A JSON array, and where each record begins in it; empty unless the texts are retained.
    fileprivate var json: [UInt8] = []
    fileprivate(set) var starts: [Int] = []

    init() {}

    /// Records of one input, counted from 1 in it.
    init(_ numbers: ClosedRange<Int>, of name: String, lines: [Int]) {
        origins = [Origin(input: 0, name: name, first: 1 - numbers.lowerBound)]
        self.lines = lines
    }

    var count: Int { lines.count }

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

    /// Where the text of a record is in the array, with the comma or bracket after it.
    fileprivate func extent(of index: Int) -> Range<Int> {
        starts[index]..<(index + 1 < starts.count ? starts[index + 1] : json.count)
    }

    /// The text of a record on one line: strings hold no line ends, which are escaped there.
    func line(_ index: Int) -> [UInt8] {
        let lineEnds = [UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        return json[extent(of: index).dropLast()].map { lineEnds.contains($0) ? UInt8(ascii: " ") : $0 }
    }
}

/// Records that will be the next job: a JSON array that grows, and where its elements came from.
struct GatheredRecords {
    /// Always with the texts; the array is not closed.
    private var records = JobRecords()
    /// The records that only the parser can check.
    private var unchecked: [(index: Int, place: InputPlace)] = []
    /// The texts of the records are retained until their job is answered.
    private let keepsTexts: Bool
    /// Records of all jobs.
    private(set) var total = 0

    init(keepsTexts: Bool = false) { self.keepsTexts = keepsTexts }

    var count: Int { records.count }

    /// The records of the current input up to the last one, those that were skipped included.
    var position: Int { count - (records.origins.last?.first ?? 0) }

    /// The following records are of this input.
    mutating func begin(_ name: String, input: Int = 0) {
        if count == 0 { records.origins = [] }
        records.origins.append(JobRecords.Origin(input: input, name: name, first: count))
    }

    /// The record must begin another job.
    func isFull(before record: InputRecord, records most: Int = .max, bytes: Int) -> Bool {
        count > 0 && (count == most || records.json.count + record.json.count > bytes)
    }

    /// Counts a record of the input that is not gathered.
    mutating func skip() { records.origins[records.origins.count - 1].first -= 1 }

    mutating func append(_ record: InputRecord) {
        records.json.append(UInt8(ascii: count == 0 ? "[" : ","))
        if !record.isSound { unchecked.append((count, record.place)) }
        records.lines.append(record.place.line)
        records.starts.append(records.json.count)
        records.json += record.json
        total += 1
    }

    /// Parses what the cutter has not checked: numbers, literals and what strings hold, where it is in doubt.
    ///
    /// - Returns: the first fault. Its record is discarded then, with those after it.
    mutating func dropBroken() -> InputFault? {
        defer { unchecked.removeAll(keepingCapacity: true) }
        for (index, place) in unchecked {
            let isLast = index + 1 == count
            let extent = records.extent(of: index).dropLast(isLast ? 0 : 1)
            guard let fault = InputRecord(json: records.json[extent], place: place).fault else { continue }
            records.json.removeSubrange((extent.lowerBound - 1)...)
            records.lines.removeSubrange(index...)
            records.starts.removeSubrange(index...)
            return fault
        }
        return nil
    }

    /// The array, complete; what was gathered is gone.
    ///
    /// Every record is valid JSON: the reader of the input has checked it, or ``dropBroken()`` has, which must be called before.
    mutating func take() -> (json: RawJSON, records: JobRecords) {
        guard count > 0 else { return (RawJSON("[]"), records) }
        var taken = records
        records = JobRecords()
        taken.json.append(UInt8(ascii: "]"))
        let json = taken.json
        if !keepsTexts { (taken.json, taken.starts) = ([], []) }
        // The next ones are about as many.
        records.json.reserveCapacity(json.count + json.count / 8)
        records.origins = taken.origins.suffix(1)
        records.origins[0].first -= taken.count
        return (RawJSON(checked: json, depth: RecordLimits.maximumDepth + 1), taken)
    }

    /// As ``take()``, of the first records: as many as have no more than that many bytes, but at least one. The others stay.
    mutating func take(firstBytes most: Int) -> (json: RawJSON, records: JobRecords) {
        // A record ends before the comma that the next one follows.
        let fitting = records.starts.dropFirst().prefix { $0 - 1 <= most }.count
        let end = records.json.count <= most ? count : max(1, fitting)
        guard end < count else { return take() }
        let start = records.starts[end]
        var others = JobRecords()
        others.json = [UInt8(ascii: "[")] + records.json[start...]
        others.lines = Array(records.lines[end...])
        others.starts = records.starts[end...].map { $0 - start + 1 }
        let own = records.origins.prefix { $0.first < end }
        others.origins = records.origins.dropFirst(max(own.count - 1, 0)).map {
            JobRecords.Origin(input: $0.input, name: $0.name, first: $0.first - end)
        }
        records.json.removeSubrange((start - 1)...)
        records.lines.removeSubrange(end...)
        records.starts.removeSubrange(end...)
        records.origins = Array(own)
        let taken = take()
        records = others
        return taken
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
    /// A line that is no record; nil where it is unknown.
    case line(Int?, of: String)

    var text: String {
        switch self {
        case .job: "the job"
        case .message(let id, let path): "job \(id)" + (path.map { ", \($0)" } ?? "")
        case .key(let number, let text): "key \(number) (\(text))"
        case .records(let records, let input, let line?): "\(input), line \(line) (record \(records.lowerBound))"
        case .records(let records, let input, nil): "\(records.recordText) of \(input)"
        case .line(let line, let input): input + (line.map { ", line \($0)" } ?? "")
        }
    }

    /// Writes members of an object: numbers, for programs.
    func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .job, .message: break
        case .key(let position, _): writer.member("key", position)
        case .line(let line, let input):
            writer.member("file", input)
            writer.member("line", line)
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

extension ClosedRange<Int> {
    var recordText: String { count == 1 ? "record \(lowerBound)" : "records \(lowerBound) to \(upperBound)" }
}

extension JSONWriter {
    mutating func range(_ range: ClosedRange<Int>) {
        array { writer in
            writer.integer(range.lowerBound)
            writer.integer(range.upperBound)
        }
    }
}
