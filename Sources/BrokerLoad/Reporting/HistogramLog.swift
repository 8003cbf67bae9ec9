internal import Foundation

/// HdrHistogram's log of intervals, as its tools for Java and Python read it: values are nanoseconds, the highest value
/// of an interval is in milliseconds. Latencies to `accepted` have the tag of that name.
package enum HistogramLog {
    package static func text(_ result: RunResult, name: String) -> String {
        var lines = [
            "#[brokerload \(name): latencies in nanoseconds]",
            "#[Histogram log format version 1.3]",
            "#[StartTime: \(RunReport.decimal(result.startedAt, 3)) (seconds since epoch), \(date(result.startedAt))]",
            #""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#,
        ]
        for interval in result.intervals {
            if let histogram = interval.completedHistogram {
                lines.append(line(interval, interval.highest, histogram))
            }
            if let histogram = interval.acceptedHistogram {
                lines.append("Tag=accepted," + line(interval, interval.acceptedHighest, histogram))
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func line(_ interval: RunInterval, _ highest: UInt64, _ histogram: [UInt8]) -> String {
        let numbers = [interval.start, interval.seconds, Double(highest) / 1e6].map { RunReport.decimal($0, 3) }
        return (numbers + [Data(histogram).base64EncodedString()]).joined(separator: ",")
    }

    private static func date(_ seconds: Double) -> String {
        ISO8601DateFormatter().string(from: Date(timeIntervalSince1970: seconds))
    }
}
