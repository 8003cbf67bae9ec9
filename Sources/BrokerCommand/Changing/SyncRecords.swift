import Broker
import BrokerClient
import BrokerInput

/// The records of a sync's inputs that will be its next job, and where each came from.
struct SyncRecords {
    private var gathered = GatheredRecords()
    private var lines: [Int] = []
    /// The texts of what was taken are retained in ``texts``.
    var keepsTexts = false
    private(set) var texts: JobRecords?
    /// With the index that the first record of each has, less than 0 when it was in a job before.
    private var inputs: [(name: String, first: Int)] = []
    /// A record with a fault that was not found while the input was divided.
    private var brokenIndex: Int?
    /// Records of all jobs.
    private(set) var total = 0
    /// Records of the next job.
    var count: Int { gathered.count }

    /// The following records are of this input.
    mutating func begin(_ name: String) { inputs.append((name, gathered.count)) }

    func isFull(before record: InputRecord, maximumBytes: Int) -> Bool {
        gathered.isFull(before: record, bytes: maximumBytes)
    }

    mutating func append(_ record: InputRecord) {
        gathered.append(record)
        total += 1
    }

    /// The array of the gathered records.
    mutating func take() throws(InputFault) -> RawJSON {
        lines = gathered.lines
        guard count > 0 else { return RawJSON("[]") }
        if let fault = gathered.dropBroken() {
            brokenIndex = gathered.count
            throw fault
        }
        let offsets = keepsTexts ? gathered.offsets : []
        let json = gathered.take()
        if keepsTexts { texts = JobRecords(json: json.bytes, starts: offsets) }
        return json
    }

    /// The job of what was taken is committed.
    mutating func next() {
        guard let last = inputs.last else { return }
        inputs = [(last.name, last.first - lines.count)]
    }

    /// The record that a JSON Pointer into the job's message leads to.
    func place(at path: String?) -> JobPlace? {
        guard let tokens = path?.split(separator: "/"), tokens.count > 1, tokens[0] == "json",
            let index = Int(tokens[1]), lines.indices.contains(index)
        else { return nil }
        let input = inputs.last { $0.first <= index }
        let number = index - (input?.first ?? 0) + 1
        return .records(number...number, of: input?.name ?? "the input", line: lines[index])
    }

    /// The input that has the fault: the one that is being read, unless it was found in what had been gathered.
    func name(ofFault fault: InputFault) -> String {
        let input = brokenIndex.map { index in inputs.last { $0.first <= index } } ?? inputs.last
        return input?.name ?? "the input"
    }
}
