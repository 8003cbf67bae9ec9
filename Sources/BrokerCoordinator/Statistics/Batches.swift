internal import BrokerJSON
internal import Histogram

/// The numbers of jobs in the transactions, and the times of their COMMITs, since the start.
struct Batches {
    private static let mostJobs: UInt64 = 1_000_000
    /// An hour: longer times are counted as that.
    private static let mostMicroseconds: UInt64 = 3_600_000_000

    private var jobs = Histogram<UInt32>(highestTrackableValue: mostJobs, numberOfSignificantValueDigits: .two)
    private var microseconds = Histogram<UInt32>(
        highestTrackableValue: mostMicroseconds, numberOfSignificantValueDigits: .two)
    /// The times of the COMMITs.
    private(set) var commits = LatencyBuckets()

    mutating func record(jobs count: Int) { _ = jobs.record(min(Self.mostJobs, UInt64(count))) }

    mutating func record(commitMicroseconds time: Int64) {
        _ = microseconds.record(min(Self.mostMicroseconds, UInt64(max(0, time))))
        commits.record(max(0, time))
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("jobs", jobs)
            writer.member("commitMicroseconds", microseconds)
        }
    }
}
