internal import BrokerJSON
internal import Histogram

/// The times of jobs, stage by stage.
struct Latencies {
    /// An hour, in microseconds: longer times are counted as that.
    private static let highest: UInt64 = 3_600_000_000

    private var histograms: [Histogram<UInt32>]

    /// - Parameter digits: the digits that percentiles have; one takes 3 KiB for all stages, two take 96.
    init(digits: SignificantDigits = .two) {
        histograms = StageTimes.names.map { _ in
            Histogram<UInt32>(highestTrackableValue: Self.highest, numberOfSignificantValueDigits: digits)
        }
    }

    mutating func record(_ times: StageTimes) {
        let values = times.values
        for stage in StageTimes.stages(isJournaled: times.isJournaled) {
            _ = histograms[stage].record(min(Self.highest, UInt64(max(0, values[stage]))))
        }
    }

    mutating func add(_ other: Latencies) {
        for stage in histograms.indices { histograms[stage].add(other.histograms[stage]) }
    }

    func write(to writer: inout JSONWriter, isJournaled: Bool) {
        writer.object { writer in
            for stage in StageTimes.stages(isJournaled: isJournaled) {
                writer.member(StageTimes.names[stage], histograms[stage])
            }
        }
    }
}
