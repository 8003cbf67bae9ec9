internal import BrokerJSON

/// The result of a loop without Broker.
package struct BaselineReport: Sendable {
    package var amount: Int
    /// The counted unit: `records` or `jobs`.
    package var unit: String
    package var seconds: Double
    package var processorSeconds: Double?
    package var commits: Int?
    package var latencies: LatencyHistogram?

    package init(amount: Int, unit: String, seconds: Double, processorSeconds: Double? = nil) {
        self.amount = amount
        self.unit = unit
        self.seconds = seconds
        self.processorSeconds = processorSeconds
    }

    package var perSecond: Double { Double(amount) / seconds }

    package var text: String { "\(amount) \(unit) in \(seconds) s, \(Int(perSecond.rounded())) \(unit)/s" }

    package var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
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
