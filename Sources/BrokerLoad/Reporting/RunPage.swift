/// A run as one page with plots.
package struct RunPage {
    private let report: RunReport

    package init(_ report: RunReport) { self.report = report }

    package var html: String {
        let result = report.result
        return HTMLPage(
            title: "brokerload \(report.name): \(RunReport.count(result.jobsPerSecond)) jobs a second",
            parts: [
                tiles, throughput.svg, latency.svg, curve.svg, processor.svg, latencies,
                HTMLPage.facts("Jobs", jobs), HTMLPage.facts("Server", report.serverLines),
                HTMLPage.facts("Asked for", report.settings),
                HTMLPage.facts("Where", report.environment.facts),
            ]
        ).html
    }

    private var tiles: String {
        let result = report.result
        return HTMLPage.tiles([
            ("jobs a second", RunReport.count(result.jobsPerSecond)),
            ("records a second", RunReport.count(result.recordsPerSecond)),
            ("p50", RunReport.microseconds(result.completed.percentile(50))),
            ("p99", RunReport.microseconds(result.completed.percentile(99))),
            ("p99.9", RunReport.microseconds(result.completed.percentile(99.9))),
            ("failed or lost", "\(result.totals.failed + result.lost)"),
        ])
    }

    private var throughput: Plot {
        Plot(
            title: "Throughput", unit: "jobs a second",
            series: [
                Plot.Series(
                    name: "jobs",
                    points: intervals.map { ($0.start + $0.seconds, Double($0.jobs) / $0.seconds) })
            ])
    }

    /// Without the part after the last whole interval: its time is too short for a meaningful rate.
    private var intervals: [RunInterval] {
        let all = report.result.intervals
        let longest = all.map(\.seconds).max() ?? 0
        return all.filter { $0.seconds > longest / 2 }
    }

    private var latency: Plot {
        func series(_ name: String, _ value: KeyPath<RunInterval, UInt64>) -> Plot.Series {
            Plot.Series(
                name: name, points: intervals.map { ($0.start + $0.seconds, Double($0[keyPath: value]) / 1e3) })
        }
        return Plot(
            title: "Latency until completed", unit: "µs",
            series: [series("p50", \.p50), series("p99", \.p99), series("max", \.highest)], scale: .logarithmic)
    }

    private var curve: Plot {
        var series = [Self.curve("completed", report.result.completed)]
        if report.result.accepted.count > 0 { series.append(Self.curve("accepted", report.result.accepted)) }
        let ticks = [
            ("0 %", 1.0), ("50 %", 2), ("90 %", 10), ("99 %", 100), ("99.9 %", 1_000), ("99.99 %", 10_000),
            ("99.999 %", 100_000), ("99.9999 %", 1_000_000),
        ]
        return Plot(
            title: "Latency by percentile", unit: "µs", series: series, scale: .logarithmic,
            ticks: ticks.map { (Plot.logarithm($0.1), $0.0) })
    }

    /// By the doubled distance to 100 %, so that the rare ones have room.
    private static func curve(_ name: String, _ histogram: LatencyHistogram) -> Plot.Series {
        let count = Double(max(1, histogram.count))
        return Plot.Series(
            name: name,
            points: histogram.percentileCurve().map { point in
                let distance = max(1 - point.percent / 100, 1 / (count * 2))
                return (Plot.logarithm(1 / distance), Double(point.value) / 1e3)
            })
    }

    private var processor: Plot {
        let samples = report.result.server.samples
        let points = zip(samples, samples.dropFirst()).compactMap { before, after -> (x: Double, y: Double)? in
            guard after.at > before.at else { return nil }
            let seconds = Double(after.at - before.at) / 1e9
            return (
                Double(after.at) / 1e9, max(0, after.processorSeconds - before.processorSeconds) / seconds * 100
            )
        }
        return Plot(
            title: "The server's processor", unit: "% of one", series: [Plot.Series(name: "server", points: points)])
    }

    private var latencies: String {
        var rows = [("completed", report.result.completed)]
        if report.result.accepted.count > 0 { rows.append(("accepted", report.result.accepted)) }
        rows.append(("late in sending", report.result.lag))
        rows += zip(RunReport.stageNames, report.result.stages).map { ("in the server: \($0)", $1) }
        return HTMLPage.table(
            "Times", [""] + RunReport.percentiles.map(\.name),
            rows.map { name, histogram in
                [name] + RunReport.percentiles.map { RunReport.microseconds(histogram.percentile($0.percent)) }
            })
    }

    private var jobs: [(name: String, value: String)] {
        let (result, totals) = (report.result, report.result.totals)
        var facts = [
            ("sent", "\(totals.sent)"), ("ok", "\(totals.ok)"), ("with rejects", "\(totals.withRejects)"),
            ("failed", "\(totals.failed)"), ("busy", "\(totals.busy)"), ("lost", "\(result.lost)"),
            ("duplicate", "\(totals.duplicate)"), ("answered twice", "\(totals.repeatedAnswers)"),
            ("JSON", RunReport.megabytes(result.contentBytes)), ("frames", RunReport.megabytes(result.frameBytes)),
            ("measured", "\(RunReport.decimal(result.seconds, 3)) s"),
        ]
        if let rate = report.offeredRate { facts.insert(("offered", "\(RunReport.count(rate)) jobs a second"), at: 0) }
        return facts
    }
}
