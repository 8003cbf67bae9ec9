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
}
