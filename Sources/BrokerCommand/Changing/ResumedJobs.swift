import Broker
import BrokerClient
import BrokerStore
import Foundation

/// The ids of `--resume`, by which a later run recognises the jobs that an earlier one has committed.
///
/// An id follows from everything that decides the effect of the job: the options that are part of it, the input's name, the
/// position of its first record there, and the texts of its records. So a job is skipped only if the same records came from
/// the same place, and a record that was corrected since makes another job.
struct ResumedJobs: Sendable {
    private let options: [String]

    /// - Parameter options: those that are part of each job.
    init(options: [String]) { self.options = options }

    func id(of records: [UInt8], from input: String, at first: Int) -> JobID {
        let name = input == "-" ? input : URL(filePath: input).standardizedFileURL.path
        // No option and no name contains a zero.
        var head = Array((options + [name, "\(first)"]).joined(separator: "\0").utf8)
        head.append(0)
        let hashes = [head, records].map { $0.withUnsafeBytes { ContentHash.hash($0) } }
        let hash = (hashes[0] + hashes[1]).withUnsafeBytes { ContentHash.hash($0) }
        return JobID("resume-" + hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "-\(first)")
    }

    /// The completion of the job, if an earlier run has committed it; nil when it is to be sent: it is unknown, or failed.
    static func committed(_ id: JobID, on broker: BrokerClient) async -> Completion? {
        // An error of the connection is found again when the job is sent.
        guard var completion = try? await broker.await(id) else { return nil }
        completion.isDuplicate = true
        return completion
    }

    /// The line about rows that a later run may insert again; nil for none.
    static func warning(_ entity: String, of model: ModelDescription) -> String? {
        guard model.entities[entity] != nil else { return nil }
        var name: String? = entity
        // A subentity has the identity of its parent.
        while let found = name.flatMap({ model.entities[$0] }) {
            if !found.identity.isEmpty, found.identityOptional != true { return nil }
            name = found.parent
        }
        return
            "objects of \(entity) may have no identity: when the input or an option has changed, --resume inserts the "
            + "records of each changed job again; correct records in the file of --rejects instead, and submit that"
    }
}
