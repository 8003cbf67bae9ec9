import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON

struct StatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Prints the server's counters, queue depths, latencies and memory.")

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    func run() async throws {
        let answer = try await connection.connected("broker stats") { broker in
            do {
                return try await broker.statistics().json
            } catch {
                throw CommandFailure(error)
            }
        }
        if json { return try Program.write(answer.description) }
        let document = try JSONDocument(fast: JSONText(copying: answer.bytes))
        for line in lines(of: document.root, "") { try Program.say(line) }
        withExtendedLifetime(document) {}
    }

    /// A line for each number, named by its path.
    private func lines(of value: JSONValue, _ path: String) -> [String] {
        guard value.kind == .object else { return ["\(path) \(String(decoding: value.bytes, as: UTF8.self))"] }
        return value.members.flatMap { key, value -> [String] in
            let key = key.string ?? ""
            if path.isEmpty, key == "type" || key == "tag" { return [] }
            return lines(of: value, path.isEmpty ? key : "\(path).\(key)")
        }
    }
}

struct AwaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "await", abstract: "Waits for the end of a job, and prints its outcome.")

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the outcome as JSON.")
    var json = false

    @Argument(help: "The job's id.")
    var id: String

    func run() async throws {
        let completion = try await connection.connected("broker await") { broker in
            do {
                return try await broker.await(JobID(id))
            } catch {
                throw CommandFailure(error)
            }
        }
        var summary = SubmissionSummary()
        summary.add(completion, records: 0) { .message(ofJob: id, path: $0) }
        if json {
            var writer = JSONWriter()
            writer.object { writer in summary.writeMembers(to: &writer) }
            try Program.write(String(decoding: writer.bytes, as: UTF8.self))
        } else {
            try summary.say(countsRecords: false)
        }
        if summary.rejectedCount > 0 { throw CommandFailure(.rejected) }
    }
}
