import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON

struct StatsCommand: AsyncParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case text, json, prometheus
    }

    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Prints the server's counters, queue depths, latencies and memory.")

    @OptionGroup var connection: ConnectionOptions

    @Option(
        help: """
            text (a line for each number), json (the server's answer unchanged) or prometheus (its text format; brokerd \
            --metrics-file writes the same to a file).
            """)
    var format = Format.text

    @Flag(help: "The same as --format json.")
    var json = false

    func run() async throws {
        let answer = try await connection.connected("broker stats") { try await $0.statistics().json }
        if json || format == .json { return try Program.write(answer.description) }
        let document = try JSONDocument(fast: JSONText(copying: answer.bytes))
        try withExtendedLifetime(document) {
            if format == .prometheus {
                return try StandardOutput.write(Array(PrometheusText.text(document.root).utf8))
            }
            for line in lines(of: document.root, "") { try Program.say(line) }
        }
    }

    /// A line for each number, named by its path; buckets are for programs.
    private func lines(of value: JSONValue, _ path: String) -> [String] {
        guard value.kind == .object else { return ["\(path) \(String(decoding: value.bytes, as: UTF8.self))"] }
        return value.members.flatMap { key, value -> [String] in
            let key = key.string ?? ""
            if path.isEmpty, ["type", "tag", "histograms"].contains(key) { return [] }
            return lines(of: value, path.isEmpty ? key : "\(path).\(key)")
        }
    }
}
