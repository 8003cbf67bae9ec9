import Broker
import BrokerClient
import Foundation

/// Stores files of one JSON record a line, in jobs of 1,000 lines.
///
///     BatchImporter SOCKET ENTITY FILE...
///
/// The id of a job is the file's name and the offset of its first line. So a run that was ended in the middle is run again from
/// the start: the server applies no job twice. A changed file needs another name.
@main struct BatchImporter {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count >= 3 else { fatalError("usage: BatchImporter SOCKET ENTITY FILE...") }
        let (socket, entity) = (arguments[1], arguments[2])
        try await withRemoteBroker(.unixSocket(socket), configuration: .init(name: "importer")) { broker in
            for file in arguments.dropFirst(2) { try await importFile(file, as: entity, by: broker) }
        }
    }

    static func importFile(_ file: String, as entity: String, by broker: some BrokerService) async throws {
        let url = URL(filePath: file)
        var unanswered: [(batch: Batch, job: SubmittedJob)] = []
        var report = Report()
        for batch in Batches(data: try Data(contentsOf: url, options: .mappedIfSafe)) {
            // `submit` returns when the job has its place: the jobs are applied in the order of the file.
            let job = Job(
                .process(json: batch.json, as: entity), id: JobID("\(url.lastPathComponent)@\(batch.offset)"),
                onInvalid: .skip)
            unanswered.append((batch, try await broker.submit(job)))
            if unanswered.count == 16 {
                let (batch, job) = unanswered.removeFirst()
                report.add(try await job.completion, of: batch)
            }
        }
        for (batch, job) in unanswered { report.add(try await job.completion, of: batch) }
        print("\(url.lastPathComponent): \(report)")
    }
}

/// Lines of a file as one JSON array.
struct Batch {
    /// The position of its first line in the file.
    let offset: Int
    /// The numbers of the lines.
    private(set) var lines: [Int] = []
    private var text: [UInt8] = []

    init(offset: Int) { self.offset = offset }

    var json: RawJSON { RawJSON([UInt8(ascii: "[")] + text + [UInt8(ascii: "]")]) }

    mutating func append(_ record: Data, line: Int) {
        if !lines.isEmpty { text.append(UInt8(ascii: ",")) }
        text += record
        lines.append(line)
    }
}

/// The lines of a file, 1,000 at a time.
struct Batches: Sequence, IteratorProtocol {
    private let data: Data
    private var offset: Data.Index
    private var line = 0

    init(data: Data) {
        self.data = data
        offset = data.startIndex
    }

    mutating func next() -> Batch? {
        var batch = Batch(offset: offset)
        while batch.lines.count < 1_000, offset < data.endIndex {
            let end = data[offset...].firstIndex(of: UInt8(ascii: "\n")) ?? data.endIndex
            line += 1
            if end > offset { batch.append(data[offset..<end], line: line) }
            offset = Swift.min(end + 1, data.endIndex)
        }
        return batch.lines.isEmpty ? nil : batch
    }
}

/// The outcome of a file's records.
struct Report: CustomStringConvertible {
    private var jobs = 0
    private var duplicates = 0
    private var inserted = 0
    private var rejected = 0

    mutating func add(_ completion: Completion, of batch: Batch) {
        jobs += 1
        if completion.isDuplicate { duplicates += 1 }
        inserted += completion.changes.values.reduce(0) { $0 + $1.inserted }
        for rejection in completion.rejections {
            rejected += 1
            // The path begins with /json/INDEX.
            let parts = (rejection.path ?? "").split(separator: "/")
            let line = parts.count > 1 ? Int(parts[1]).map { batch.lines[$0] } : nil
            print("line \(line ?? 0): \(rejection.code): \(rejection.message)")
        }
    }

    var description: String {
        "\(jobs) jobs, \(duplicates) of them applied before; \(inserted) records inserted, \(rejected) rejected"
    }
}
