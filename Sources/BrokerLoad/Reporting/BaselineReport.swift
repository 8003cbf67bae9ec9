internal import BrokerJSON

/// The result of a loop without Broker, or of another program.
package struct BaselineReport: Sendable {
    package var name: String
    package var amount: Int
    /// The counted unit: `records` or `jobs`.
    package var unit: String
    package var seconds: Double
    package var processorSeconds: Double?
    package var commits: Int?
    package var latencies: LatencyHistogram?

    package init(name: String, amount: Int, unit: String, seconds: Double, processorSeconds: Double? = nil) {
        self.name = name
        self.amount = amount
        self.unit = unit
        self.seconds = seconds
        self.processorSeconds = processorSeconds
    }

    package var perSecond: Double { Double(amount) / seconds }

    package var text: String {
        var line = "\(name): \(amount) \(unit) in \(RunReport.decimal(seconds, 3)) s"
        line += ", \(RunReport.count(perSecond)) \(unit)/s"
        if let commits {
            line += ", \(RunReport.decimal(Double(amount) / Double(max(1, commits)), 1)) \(unit) in a commit"
        }
        if let latencies { line += "; latency \(RunReport.latencies(latencies))" }
        return line
    }

    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("name", name)
            writer.member(unit, amount)
            writer.member("seconds", seconds)
            writer.member("\(unit)PerSecond", perSecond)
            if let processorSeconds { writer.member("processorSeconds", processorSeconds) }
            if let commits { writer.member("commits", commits) }
            if let latencies { writer.member("latencyMicroseconds", latencies) }
        }
        return writer.bytes
    }
}
