internal import BrokerJSON

/// Runs at shares of a server's ceiling, side by side.
package struct SweepReport: Sendable {
    /// Jobs a second in a closed loop.
    package let ceiling: Double
    /// Each with its share of the ceiling in percent.
    package let steps: [(percent: Double, report: RunReport)]

    package init(ceiling: Double, steps: [(percent: Double, report: RunReport)]) {
        self.ceiling = ceiling
        self.steps = steps
    }

    private static let header =
        ["of the ceiling", "offered", "achieved"] + RunReport.percentiles.map(\.name) + ["lag p99"]

    private var rows: [[String]] {
        steps.map { percent, report in
            let result = report.result
            return [
                "\(RunReport.decimal(percent, 0)) %", RunReport.count(report.offeredRate ?? 0),
                RunReport.count(result.jobsPerSecond),
            ] + RunReport.percentiles.map { RunReport.microseconds(result.completed.percentile($0.percent)) }
                + [RunReport.microseconds(result.lag.percentile(99))]
        }
    }

    package var text: String {
        let table = [Self.header] + rows
        let widths = Self.header.indices.map { column in table.map { $0[column].count }.max() ?? 0 }
        let lines = table.map { row in
            zip(row, widths).map { cell, width in String(repeating: " ", count: width - cell.count) + cell }
                .joined(separator: "  ")
        }
        return (["ceiling: \(RunReport.count(ceiling)) jobs/s in a closed loop"] + lines).joined(separator: "\n")
    }

    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 64 << 10)
        writer.object { writer in
            writer.member("name", "sweep")
            writer.member("ceilingJobsPerSecond", ceiling)
            writer.key("steps")
            writer.array { writer in
                for (percent, report) in steps {
                    writer.object { writer in
                        writer.member("percent", percent)
                        writer.key("run")
                        report.write(to: &writer)
                    }
                }
            }
        }
        return writer.bytes
    }

    package var html: String {
        let series = [("p50", 50.0), ("p99", 99), ("max", 100)].map { name, percent in
            Plot.Series(
                name: name,
                points: steps.map { ($0.percent, Double($0.report.result.completed.percentile(percent)) / 1e3) })
        }
        let plot = Plot(
            title: "Latency by load", unit: "µs", series: series, scale: .logarithmic,
            ticks: steps.map { ($0.percent, "\(RunReport.decimal($0.percent, 0)) %") })
        var parts = [plot.svg, HTMLPage.table("Steps", Self.header, rows)]
        if let first = steps.first?.report {
            parts += [
                HTMLPage.facts("Asked for", first.settings), HTMLPage.facts("Where", first.environment.facts),
            ]
        }
        return HTMLPage(title: "brokerload sweep: a ceiling of \(RunReport.count(ceiling)) jobs a second", parts: parts)
            .html
    }
}
