import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerModel
import BrokerWire
import Foundation
import Glibc

struct JobsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs", abstract: "Lists the jobs that run, failed or were slow, or shows one.",
        subcommands: [JobsListCommand.self, JobsShowCommand.self], defaultSubcommand: JobsListCommand.self)
}

struct JobsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one job: its stage while it runs, then its client, contents, times and outcome.",
        discussion: """
            The outcome and the user are stored. The rest is known of the last 1,024 jobs that ended since the server's start. \
            The exit status is that of `broker await`. For example: broker jobs show emp-1
            """)

    @OptionGroup var connection: ConnectionOptions

    @Argument(help: "The job's id.") var id: String

    func run() async throws {
        let outcome = try await connection.connected("broker jobs") { broker -> SubmissionSummary? in
            if !connection.isLocal {
                let answer = try await broker.jobs(JobsMessage(id: id))
                let (running, ended) = try JSONDocument(fast: JSONText(copying: answer.bytes)).withRoot { root in
                    (
                        JobLists.lines(of: .running, in: root, nil, only: id),
                        root["ended"]?.elements.first { _ in true }.map(JobLists.lines(ofEnded:)) ?? []
                    )
                }
                for line in running.isEmpty ? ended : running { try Program.say(line) }
                if !running.isEmpty { return nil }
            }
            return try await broker.outcome(of: id)
        }
        try outcome?.say(asJSON: false)
    }
}

struct JobsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the jobs that run, the last ones that failed, and the last slow ones.",
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

    private func userNumber() throws -> UInt32? { try user.map(UserName.number) }

    func run() async throws {
        let lists: [JobsMessage.List] =
            if connection.isLocal || isFiltered { [.failed] } else if running || failed || slow {
                (running ? [.running] : []) + (failed ? [.failed] : []) + (slow ? [.slow] : [])
            } else { JobsMessage.List.allCases }
        let message = JobsMessage(
            lists: lists, limit: limit, since: since?.milliseconds, user: try userNumber(), code: code)
        let answer = try await connection.connected("broker jobs") { try await $0.jobs(message) }
        if json { return try Program.write(answer.description) }
        try JSONDocument(fast: JSONText(copying: answer.bytes)).withRoot { root in
            let columns = Terminal.columns(of: STDOUT_FILENO)
            for (position, list) in lists.enumerated() {
                if position > 0 { try Program.say("") }
                for line in JobLists.lines(of: list, in: root, columns) { try Program.say(line) }
            }
        }
    }
}

/// The lists of a `jobs` message as tables.
private enum JobLists {
    /// - Parameter id: of the only job that is wanted; then there is no line where it is not in the list.
    static func lines(
        of list: JobsMessage.List, in message: JSONValue, _ columns: Int?, only id: String? = nil
    ) -> [String] {
        var table: TextTable
        let none: String
        let row: (JSONValue) -> [String]
        switch list {
        case .running:
            (none, row) = ("No job is running.", running)
            table = TextTable(["running", "user", "age", "stage", "id"], right: [0, 1, 2])
        case .failed:
            (none, row) = ("There is no such failed job.", failed)
            table = TextTable(["failed", "accepted", "user", "id", "error"], right: [0, 2])
        case .slow:
            (none, row) = ("No job was slow.", slow)
            table = TextTable(
                [
                    "slow", "work", "total", "queued", "staged", "journal", "synced", "waited", "merged", "commit",
                    "user", "operations", "id",
                ], right: Set(0...10))
        }
        for job in message[list.rawValue]?.elements.map(\.self) ?? [] where id == nil || job["id"]?.string == id {
            table.add(row(job))
        }
        return table.isEmpty ? id == nil ? [none] : [] : table.lines(columns: columns)
    }

    /// All that the server knows of a job that has ended, but for the outcome.
    static func lines(ofEnded job: JSONValue) -> [String] {
        let client = [user(job), job["client"]?.string].compactMap(\.self).joined(separator: ", ")
        guard let times = job["microseconds"] else {
            return [
                "client      \(client)",
                "The client's name, the operations, the records and the times of the stages are not known any more.",
            ]
        }
        let stages = times.members.map { "\($0.string ?? "") \(ShortText.time(microseconds: $1.int64 ?? 0))" }
        return [
            "client      \(client)", "accepted    \(job["acceptedAt"]?.int64.map(ShortText.moment) ?? "-")",
            "operations  \(joined("operations", of: job))", "entities    \(joined("entities", of: job))",
            "records     \(job["records"]?.int64 ?? 0)", "stages      \(stages.joined(separator: ", "))",
        ]
    }

    private static func joined(_ list: String, of job: JSONValue, _ separator: String = ", ") -> String {
        job[list]?.elements.compactMap(\.string).joined(separator: separator) ?? ""
    }

    private static func running(_ job: JSONValue) -> [String] {
        let age = job["ageMilliseconds"]?.int64.map { ShortText.time(milliseconds: Int($0)) } ?? ""
        return [sequence(job), user(job), age, job["stage"]?.string ?? "", job["id"]?.string ?? ""]
    }

    private static func failed(_ job: JSONValue) -> [String] {
        let error = job["error"]
        let place = BrokerError.place(error?["path"]?.string)
        let time = job["acceptedAt"]?.int64.map(ShortText.moment)
        return [
            sequence(job), time ?? "-", user(job), job["id"]?.string ?? "",
            "\(error?["code"]?.string ?? "")\(place): \(error?["message"]?.string ?? "")",
        ]
    }

    private static func slow(_ job: JSONValue) -> [String] {
        let stages = [
            "work", "total", "queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed",
        ]
        let times = stages.map { stage in
            job["microseconds"]?[stage]?.int64.map { ShortText.time(microseconds: $0) } ?? ""
        }
        let names = ["operations", "entities"].map { joined($0, of: job, ",") }
        let id = (job["id"]?.string ?? "") + (job["failed"]?.bool == true ? " (failed)" : "")
        return [sequence(job)] + times + [user(job), names.joined(separator: " "), id]
    }

    private static func sequence(_ job: JSONValue) -> String { job["sequence"]?.int64.map { "\($0)" } ?? "-" }

    private static func user(_ job: JSONValue) -> String { job["user"]?.int64.map(UserName.text) ?? "-" }
}

/// A moment: given as such, or as a time before now.
struct JobsSince: ExpressibleByArgument {
    /// Since 1970.
    let milliseconds: Int64

    init?(argument: String) {
        let span = TimeSpan(argument: argument)
        guard let date = span.map({ Date() - $0.exactSeconds }) ?? (try? Date(argument, strategy: .iso8601)) else {
            return nil
        }
        milliseconds = max(0, Int64(date.timeIntervalSince1970 * 1_000))
    }
}

struct EntitiesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "entities",
        abstract: "Prints the entities of the model: objects, identity, attributes and relationships.",
        discussion: """
            A line for each entity, or all about those that are named: broker entities Employee
            The objects of subentities count for their parents, too. --no-count is for a large store.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print JSON: an object for each entity, with its objects, and the rest as in the model.")
    var json = false

    @Flag(inversion: .prefixedNo, help: "Count the objects.")
    var count = true

    @Argument(help: .value("entity", "The entities. Default: all of the model, briefly."), completion: .entity)
    var entities: [String] = []

    func run() async throws {
        let (model, listed) = try await connection.connected("broker entities", isReading: true) { broker in
            let model = try JSONDocument(fast: JSONText(copying: try await broker.model().json.bytes))
            let all = ListedEntity.all(model.root)
            var listed = try entities.isEmpty ? all : entities.map { try find($0, all) }
            for index in listed.indices where count {
                listed[index].count = try await broker.fetchCount(of: listed[index].name)
            }
            return (model, listed)
        }
        try withExtendedLifetime(model) {
            if json { return try ListedEntity.write(listed) }
            let columns = Terminal.columns(of: STDOUT_FILENO)
            let lines =
                entities.isEmpty ? ListedEntity.table(listed, columns) : listed.flatMap { $0.lines(columns ?? 80) }
            for line in lines { try Program.say(line) }
        }
    }

    private func find(_ name: String, _ all: [ListedEntity]) throws -> ListedEntity {
        guard let entity = all.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
            let ending = NearMiss.ending(name, among: all.map(\.name))
            throw CommandFailure("The model has no entity \"\(name)\"\(ending) `broker entities` lists them.")
        }
        return entity
    }
}

/// An entity of the model, with the number of its objects.
struct ListedEntity {
    let name: String
    /// Nil when they are not counted.
    var count: Int?
    private let entity: JSONValue

    static func all(_ model: JSONValue) -> [ListedEntity] {
        model["entities"]?.members.map { ListedEntity(name: $0.string ?? "", entity: $1) } ?? []
    }

    private init(name: String, entity: JSONValue) { (self.name, self.entity) = (name, entity) }

    private var identity: [String] { entity["identity"]?.elements.compactMap(\.string) ?? [] }
    private var parent: String? { entity["parent"]?.string }
    private var shownCount: String { count.map(ShortText.count) ?? "-" }

    private func members(_ key: String) -> [(name: String, value: JSONValue)] {
        entity[key]?.members.map { ($0.string ?? "", $1) } ?? []
    }

    /// Each as `name type`, with `?` where it may be null.
    private var attributes: [String] {
        members("attributes").map {
            "\($0.name) \($0.value["type"]?.string ?? "")\($0.value["optional"]?.bool == false ? "" : "?")"
        }
    }

    private var relationships: [String] {
        members("relationships").map {
            let arrow = Self.isToMany($0.value) ? "⇉" : "→"
            return "\($0.name) \(arrow) \($0.value["entity"]?.string ?? "")"
        }
    }

    private static func isToMany(_ relationship: JSONValue) -> Bool { relationship["toMany"]?.bool == true }

    /// Each with its entity in parentheses.
    private func relationships(toMany: Bool) -> [String] {
        members("relationships").filter { Self.isToMany($0.value) == toMany }
            .map { "\($0.name) (\($0.value["entity"]?.string ?? ""))" }
    }

    static func table(_ entities: [ListedEntity], _ columns: Int?) -> [String] {
        var table = TextTable(["entity", "objects", "identity", "attributes and relationships"], right: [1])
        for entity in entities {
            let own = entity.members("attributes").map(\.name) + entity.relationships
            table.add([
                entity.name + (entity.parent.map { " (\($0))" } ?? ""), entity.shownCount,
                entity.identity.joined(separator: ","), own.joined(separator: ", "),
            ])
        }
        return table.isEmpty ? ["The model has no entities."] : table.lines(columns: columns)
    }

    /// All about it.
    func lines(_ columns: Int) -> [String] {
        var lines = [name + (count == nil ? "" : ": \(shownCount) object\(count == 1 ? "" : "s")")]
        let parts: [(String, [String])] = [
            ("parent", parent.map { [$0] } ?? []), ("identity", identity), ("attributes", attributes),
            ("to one", relationships(toMany: false)), ("to many", relationships(toMany: true)),
        ]
        for (title, items) in parts where !items.isEmpty {
            let name = "  " + title + String(repeating: " ", count: 12 - title.count)
            let words = items.enumerated().map { $1 + ($0 + 1 < items.count ? "," : "") }
            lines += TextTable.wrapped(words, after: name.count, columns: columns).enumerated().map {
                $0 == 0 ? name + $1 : $1
            }
        }
        return lines
    }

    static func write(_ entities: [ListedEntity]) throws(CommandFailure) {
        try Program.writeJSON { writer in
            writer.objects(of: entities) { entity, writer in
                writer.member("name", entity.name)
                writer.nullable("objects", entity.count)
                for (key, value) in entity.entity.members { writer.member(key.string ?? "", value) }
            }
        }
    }
}
