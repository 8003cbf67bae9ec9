import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerWire
import Foundation
import Glibc

struct JobsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs", abstract: "Lists the jobs that run, the last ones that failed, and the last slow ones.",
        discussion: """
            The list of failed jobs begins with the newest, that of running ones with the oldest, and that of slow ones with \
            the one that had the most work of its own: those below it may only have waited for it. Users see their own \
            jobs; root and the server's own user see all. A slow job took a second or longer (brokerd --slow-job), since \
            the server's start. With --store there are failed jobs only.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "List the jobs that have not ended.")
    var running = false

    @Flag(help: "List jobs that failed, as long as their outcomes are stored.")
    var failed = false

    @Flag(help: "List slow jobs, with their work and the time of each stage.")
    var slow = false

    @Option(
        help: ArgumentHelp(
            "List failures of jobs that were accepted in that time before now, as 10m, or since a moment, as "
                + "2026-03-01T12:00:00Z.", valueName: "time"))
    var since: JobsSince?

    @Option(help: .value("user", "List failures of that user, by name or number."))
    var user: String?

    @Option(help: .value("code", "List failures with that code, such as invalidValue."))
    var code: String?

    @Option(help: .value("count", "The number of jobs in each list, at most."))
    var limit = JobsMessage.defaultLimit

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    mutating func validate() throws {
        try checkRange("--limit", limit, in: JobsMessage.limits)
        if connection.isLocal, running || slow {
            throw ValidationError("Only a server has jobs that run or were slow; with --store there are failed ones.")
        }
        if isFiltered, running || slow {
            throw ValidationError(
                "--since, --user and --code are of failed jobs: use them without --running and --slow.")
        }
        _ = try userNumber()
    }

    private var isFiltered: Bool { since != nil || user != nil || code != nil }

    private func userNumber() throws -> UInt32? {
        guard let user else { return nil }
        guard let number = UInt32(user) ?? getpwnam(user)?.pointee.pw_uid else {
            throw ValidationError("--user: this machine has no user \"\(user)\". Give the number.")
        }
        return number
    }

    func run() async throws {
        let lists: [JobsMessage.List] =
            if connection.isLocal || isFiltered { [.failed] } else if running || failed || slow {
                (running ? [.running] : []) + (failed ? [.failed] : []) + (slow ? [.slow] : [])
            } else { JobsMessage.List.allCases }
        let message = JobsMessage(
            lists: lists, limit: limit, since: since?.milliseconds, user: try userNumber(), code: code)
        let answer = try await connection.connected("broker jobs") { try await $0.jobs(message) }
        if json { return try Program.write(answer.description) }
        let document = try JSONDocument(fast: JSONText(copying: answer.bytes))
        try withExtendedLifetime(document) {
            let columns = Terminal.columns(of: STDOUT_FILENO)
            for (position, list) in lists.enumerated() {
                if position > 0 { try Program.say("") }
                for line in JobLists.lines(of: list, in: document.root, columns) { try Program.say(line) }
            }
        }
    }
}

/// The lists of a `jobs` message as tables.
enum JobLists {
    static func lines(of list: JobsMessage.List, in message: JSONValue, _ columns: Int?) -> [String] {
        let jobs = message[list.rawValue].map { Array($0.elements) } ?? []
        switch list {
        case .running: return lines(running(jobs), "No job is running.", columns)
        case .failed: return lines(failed(jobs), "There is no such failed job.", columns)
        case .slow: return lines(slow(jobs), "No job was slow.", columns)
        }
    }

    private static func lines(_ table: TextTable, _ none: String, _ columns: Int?) -> [String] {
        table.isEmpty ? [none] : table.lines(columns: columns)
    }

    private static func running(_ jobs: [JSONValue]) -> TextTable {
        var table = TextTable(["running", "user", "age", "stage", "id"], right: [0, 1, 2])
        for job in jobs {
            let age = job["ageMilliseconds"]?.int64.map { ShortText.time(milliseconds: Int($0)) } ?? ""
            table.add([sequence(job), user(job), age, job["stage"]?.string ?? "", job["id"]?.string ?? ""])
        }
        return table
    }

    private static func failed(_ jobs: [JSONValue]) -> TextTable {
        var table = TextTable(["failed", "accepted", "user", "id", "error"], right: [0, 2])
        for job in jobs {
            let error = job["error"]
            let place = error?["path"]?.string.map { " at \($0)" } ?? ""
            table.add([
                sequence(job), time(job), user(job), job["id"]?.string ?? "",
                "\(error?["code"]?.string ?? "")\(place): \(error?["message"]?.string ?? "")",
            ])
        }
        return table
    }

    private static func slow(_ jobs: [JSONValue]) -> TextTable {
        let stages = [
            "work", "total", "queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed",
        ]
        var table = TextTable(
            [
                "slow", "work", "total", "queued", "staged", "journal", "synced", "waited", "merged", "commit", "user",
                "operations", "id",
            ], right: Set(0...10))
        for job in jobs {
            let times = stages.map { stage in
                job["microseconds"]?[stage]?.int64.map { ShortText.time(microseconds: $0) } ?? ""
            }
            let names = ["operations", "entities"].map { list in
                job[list]?.elements.compactMap(\.string).joined(separator: ",") ?? ""
            }
            table.add(
                [sequence(job)] + times
                    + [
                        user(job), names.joined(separator: " "),
                        (job["id"]?.string ?? "") + (job["failed"]?.bool == true ? " (failed)" : ""),
                    ])
        }
        return table
    }

    private static func sequence(_ job: JSONValue) -> String { job["sequence"]?.int64.map { "\($0)" } ?? "-" }

    /// The name of the user, or the number where this machine has no name for it.
    private static func user(_ job: JSONValue) -> String {
        guard let number = job["user"]?.int64 else { return "-" }
        return UInt32(exactly: number).flatMap(getpwuid).map { String(cString: $0.pointee.pw_name) } ?? "\(number)"
    }

    /// In this machine's time zone.
    private static func time(_ job: JSONValue) -> String {
        guard let milliseconds = job["acceptedAt"]?.int64 else { return "-" }
        return Timestamp(seconds: Int(milliseconds / 1_000)).formatted("%m-%d %H:%M:%S", isLocal: true)
    }
}

/// A moment: given as such, or as a time before now.
struct JobsSince: ExpressibleByArgument {
    /// Since 1970.
    let milliseconds: Int64

    init?(argument: String) {
        let now = Date()
        let seconds: Double
        if let span = TimeSpan(argument: argument) {
            seconds = now.timeIntervalSince1970 - span.exactSeconds
        } else if let date = try? Date(argument, strategy: .iso8601) {
            seconds = date.timeIntervalSince1970
        } else {
            return nil
        }
        milliseconds = max(0, Int64(seconds * 1_000))
    }
}
