package import BrokerJSON

/// The measurements of a server in Prometheus' text format, version 0.0.4
/// (prometheus.io/docs/instrumenting/exposition_formats).
package enum PrometheusText {
    /// How every text begins, of every version.
    package static let beginning = "# HELP broker_info "

    /// - Parameter stats: the `stats` message.
    package static func text(_ stats: JSONValue) -> String {
        ServerMetric.all.map { metric in
            let lines = metric.samples(stats).map { line(metric.name + $0.suffix, $0) }
            guard !lines.isEmpty else { return "" }
            return "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
                + lines.joined()
        }.joined()
    }

    private static func line(_ name: String, _ sample: ServerMetric.Sample) -> String {
        let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",")
        return name + (labels.isEmpty ? "" : "{\(labels)}") + " \(sample.value)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }
}
