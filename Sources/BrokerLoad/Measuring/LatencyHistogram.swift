internal import Histogram

/// Times in nanoseconds, with three digits, up to an hour.
package struct LatencyHistogram: Sendable {
    static let highest: UInt64 = 3_600_000_000_000

    private(set) var counts = Histogram<UInt32>(highestTrackableValue: highest, numberOfSignificantValueDigits: .three)

    package init() {}

    /// Longer than an hour is counted as an hour.
    package mutating func record(_ nanoseconds: UInt64) { _ = counts.record(min(Self.highest, nanoseconds)) }

    mutating func add(_ other: LatencyHistogram) { counts.add(other.counts) }

    mutating func reset() { counts.reset() }

    package var count: Int { Int(counts.totalCount) }

    /// Nanoseconds below which that share of the values is; 0 when there are none.
    package func percentile(_ percent: Double) -> UInt64 {
        counts.totalCount == 0 ? 0 : counts.valueAtPercentile(percent)
    }

    package var highestRecorded: UInt64 { counts.totalCount == 0 ? 0 : counts.max }

    package var mean: Double { counts.totalCount == 0 ? 0 : counts.mean }
}
