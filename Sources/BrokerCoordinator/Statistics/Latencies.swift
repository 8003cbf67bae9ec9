internal import BrokerJSON
internal import Histogram

/// The times of jobs, stage by stage, since the start.
struct Latencies {
    /// An hour, in microseconds: longer times are counted as that.
    private static let highest: UInt64 = 3_600_000_000

    private var stages: [(name: String, histogram: Histogram<UInt32>)] =
        ["queued", "staged", "merged", "committed", "total"].map {
            ($0, Histogram<UInt32>(highestTrackableValue: Self.highest, numberOfSignificantValueDigits: .two))
        }

    mutating func record(queued: Int64, staged: Int64, merged: Int64, committed: Int64, total: Int64) {
        for (stage, value) in [queued, staged, merged, committed, total].enumerated() {
            _ = stages[stage].histogram.record(min(Self.highest, UInt64(max(0, value))))
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            for (name, histogram) in stages { writer.member(name, histogram) }
        }
    }
}
