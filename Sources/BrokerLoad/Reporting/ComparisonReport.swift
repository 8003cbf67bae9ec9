internal import BrokerJSON

/// Broker and its peers, side by side.
package struct ComparisonReport: Sendable {
    package let results: [PeerResult]
    package let settings: [(name: String, value: String)]

    package init(results: [PeerResult], settings: [(name: String, value: String)]) {
        self.results = results
        self.settings = settings
    }

    /// How often as fast as the peer Broker is at the same work; nil when one of them was not run.
    package func ratio(_ result: PeerResult) -> Double? {
        guard let median = result.median, median > 0,
            let broker = results.first(where: { $0.peer == .broker && $0.work == result.work })?.median
        else { return nil }
        return broker / median
    }

    package var text: String {
        var lines: [String] = []
        for (work, title) in [
            (PeerResult.Work.bulk, "all records, records a second"),
            (.oneByOne, "one record at a time, each durable, records a second"),
        ] {
            let results = results.filter { $0.work == work }
            guard !results.isEmpty else { continue }
            lines.append(title)
            for result in results {
                let name = "  " + result.peer.rawValue.padded(to: 14)
                guard let median = result.median else {
                    lines.append(name + "skipped: \(result.skipped ?? "")")
                    continue
                }
                let ratio = result.peer == .broker ? nil : ratio(result)
                let count = RunReport.count(median)
                let blanks = String(repeating: " ", count: max(0, 9 - count.count))
                let broker = ratio.map { "  Broker × \(RunReport.decimal($0, 2))" } ?? ""
                lines.append(name + blanks + count + "  " + broker.padded(to: 18) + result.means)
            }
        }
        lines.append("asked: " + settings.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        return lines.joined(separator: "\n")
    }

    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 4 << 10)
        writer.object { writer in
            writer.member("name", "compare")
            writer.key("results")
            writer.array { writer in
                for result in results { write(result, to: &writer) }
            }
            writer.member("settings", settings)
        }
        return writer.bytes
    }

    private func write(_ result: PeerResult, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("peer", result.peer.rawValue)
            writer.member("work", result.work.rawValue)
            writer.member("means", result.means)
            if let skipped = result.skipped { writer.member("skipped", skipped) }
            if let median = result.median { writer.member("recordsPerSecond", median) }
            if let ratio = ratio(result) { writer.member("brokerRatio", ratio) }
        }
    }
}
