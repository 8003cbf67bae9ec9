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
        try await withBrokerClient(.unixSocket(socket), configuration: .init(name: "importer")) { broker in
            for file in arguments.dropFirst(2) { try await importFile(file, as: entity, by: broker) }
        }
    }

    static func importFile(_ file: String, as entity: String, by broker: some BrokerProtocol) async throws {
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
