package import Broker
internal import Synchronization

/// Makes the ids of jobs that have none.
package final class JobIDs: Sendable {
    /// Random, so that these ids differ from those of other clients and of other runs.
    private let prefix: String
    private let lastNumber = Atomic(-1)

    package init() {
        let random = String(UInt64.random(in: 0...UInt64.max), radix: 16)
        prefix = String(repeating: "0", count: 16 - random.utf8.count) + random + "-"
    }

    package func next() -> JobID { JobID(prefix + String(lastNumber.add(1, ordering: .relaxed).newValue)) }
}
