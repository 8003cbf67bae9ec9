import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerSQLite
import BrokerStore
import Glibc

struct UndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo", abstract: "Deletes what a load has inserted, if nothing later has touched it.",
        discussion: """
            A load is the jobs of one run of submit, sync or load: the part of their ids before the last dash, which is \
            that of --id, too. One job is given by its whole id. Without an id, the last loads are listed. A load that has \
            updated or deleted other objects than its own cannot be undone, nor one whose objects a later job has changed, \
            or refers to, or whose keys are not stored any more (protocol/feed.md).
            For example: broker undo --store app.sqlite 140df815c3ce3828
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Try it: say what it would delete, and delete nothing.")
    var dryRun = false

    @Flag(help: "Delete without asking. Only a person at a terminal is asked.")
    var yes = false

    @Argument(help: "The id of a load or a job. Default: the last loads are listed.")
    var id: String?

    mutating func validate() throws {
        guard connection.isLocal else {
            throw ValidationError("What came later must be known, so undo opens the store itself: give --store.")
        }
    }

    func run() async throws {
        guard let store = connection.store else { return }
        try await connection.connected("broker undo", isDryRun: dryRun) { broker in
            let model = try await broker.model()
            let feed = try StoreFeed(of: store, model.entities.keys)
            guard let id else { return try list(feed) }
            var load = LoadedObjects(id, model)
            try feed.forEach { commit throws(CommandFailure) in try load.add(commit) }
            try await undo(load, in: store, by: broker)
        }
    }

    private func undo(_ load: LoadedObjects, in store: String, by broker: RemoteBroker) async throws {
        guard load.hasJobs else {
            throw CommandFailure(
                "No job of \(load.id) that changed objects is stored; without an id, undo lists the last loads.")
        }
        let loaded = load.keys.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
        var job = Job([])
        job.operations = try loaded.map { entity, keys in
            try .delete(entity, keys: keys.sorted { $0.description < $1.description })
        }
        guard !loaded.isEmpty else {
            throw CommandFailure("Nothing is there any more that \(load.id) has inserted.")
        }
        var trial = job
        trial.isDryRun = true
        let expected = try await broker.process(trial)
        try load.check(expected)
        if !dryRun {
            guard yes || !Confirmation.isPossible || DeletionOptions.agrees(to: expected) else {
                throw CommandFailure("nothing was deleted")
            }
            // A page of the load is requested again as one that is not known, whatever happens then.
            for name in try bookmarks(of: load, in: store) {
                var forgetting = Job(.process(json: "[]", as: job.operations[0].entity))
                forgetting.bookmark = Job.Bookmark(name, nil)
                try await broker.process(forgetting)
            }
            try await broker.process(job)
        }
        let parts = loaded.map { "\(ShortText.count($0.value.count)) \($0.key)" }
        try Program.say(
            "\(parts.joined(separator: ", ")) \(dryRun ? "would be deleted; nothing was written" : "deleted")")
    }

    /// The names of those that the jobs of the load have written.
    private func bookmarks(of load: LoadedObjects, in store: String) throws -> [String] {
        let query = try ReadOnlyQuery(
            "SELECT b.name, j.id FROM _broker_bookmarks b JOIN _broker_jobs j ON j.sequence = b.sequence", path: store)
        var names: [String] = []
        while try query.step() {
            if case .text(let name) = query.value(0), case .text(let id) = query.value(1), load.isOwn(id) {
                names.append(name)
            }
        }
        return names
    }

    private static let mostListed = 20

    private func list(_ feed: StoreFeed) throws {
        var loads: [(id: String, jobs: Int, changes: [String: [String: Int]])] = []
        try feed.forEach { commit throws(CommandFailure) in
            let id = commit.id.map(LoadedObjects.load) ?? "of another user"
            if loads.last?.id != id { loads.append((id, 0, [:])) }
            let last = loads.count - 1
            loads[last].jobs += 1
            for (entity, counts) in commit.changes {
                for (word, count) in counts { loads[last].changes[word, default: [:]][entity, default: 0] += count }
            }
        }
        var table = TextTable(["load", "jobs", "changes"], right: [1])
        for load in loads.suffix(Self.mostListed).reversed() {
            let changes = load.changes.sorted { $0.key < $1.key }.map { word, entities in
                "\(word): " + entities.sorted { $0.key < $1.key }.map { "\($1) \($0)" }.joined(separator: ", ")
            }
            table.add([load.id, "\(load.jobs)", changes.joined(separator: "; ")])
        }
        guard !table.isEmpty else { return Program.report("broker: no job that changed objects is stored") }
        for line in table.lines(columns: Terminal.columns(of: STDOUT_FILENO)) { try Program.say(line) }
    }
}

/// The jobs of a store that changed objects, in their order, with the keys of these.
private struct StoreFeed {
    struct Commit {
        let id: String?
        /// By entity and change.
        let changes: [String: [String: Int]]
        /// The same with the keys; nil when they are not stored any more.
        let keys: [String: [String: [RawJSON]]]?
    }

    private let reader: FeedReader
    private let selection: FeedSelection

    init(of store: String, _ entities: some Sequence<String>) throws {
        reader = try FeedReader(path: store)
        selection = FeedSelection(entities: entities, wantsKeys: true, asker: JobOwner(user: geteuid()))
    }

    func forEach(_ take: (Commit) throws(CommandFailure) -> Void) throws {
        var position = try reader.bounds().oldest
        while let part = try reader.part(after: position, selection) {
            for commit in part.commits {
                try take(
                    Commit(
                        id: commit.id, changes: try RawJSON(commit.changes).decode(),
                        keys: try commit.keys.map { try RawJSON($0).decode() }))
            }
            position = part.position
            if part.isLast { return }
        }
    }
}

/// The objects that a load has inserted, and that no other job has touched.
private struct LoadedObjects {
    let id: String
    private let model: ModelDescription
    /// By the topmost entity.
    private(set) var keys: [String: Set<RawJSON>] = [:]
    private(set) var hasJobs = false

    init(_ id: String, _ model: ModelDescription) { (self.id, self.model) = (id, model) }

    /// The id of a job without its number.
    static func load(ofJob id: String) -> String {
        guard let dash = id.lastIndex(of: "-"), dash > id.startIndex else { return id }
        let number = id[dash...].dropFirst()
        return !number.isEmpty && number.allSatisfy(\.isNumber) ? String(id[..<dash]) : id
    }

    func isOwn(_ job: String?) -> Bool { job.map { $0 == id || Self.load(ofJob: $0) == id } ?? false }

    private func topmost(_ entity: String) -> String { model.lineage(of: entity).last ?? entity }

    mutating func add(_ commit: StoreFeed.Commit) throws(CommandFailure) {
        let isOwn = isOwn(commit.id)
        hasJobs = hasJobs || isOwn
        let name = "job \(commit.id ?? "of another user")"
        let isConcerned = commit.changes.keys.contains { keys[topmost($0)]?.isEmpty == false }
        guard isOwn || isConcerned else { return }
        guard let changed = commit.keys else {
            throw failure("the keys that \(name) has changed are not stored any more")
        }
        for (entity, lists) in changed {
            let entity = topmost(entity)
            let known = keys[entity] ?? []
            if isOwn { keys[entity, default: []].formUnion(lists["inserted"] ?? []) }
            for (word, list) in lists {
                for key in list
                where isOwn ? word != "inserted" && keys[entity]?.contains(key) != true : known.contains(key) {
                    throw failure("\(isOwn ? "its" : "the later") \(name) has \(word) \(entity) \(key)")
                }
            }
            if isOwn { keys[entity]?.subtract(lists["deleted"] ?? []) }
        }
    }

    /// - Parameter trial: of the deletion of the objects.
    func check(_ trial: Completion) throws(CommandFailure) {
        var changed: [String: (updated: Int, deleted: Int)] = keys.mapValues { _ in (0, 0) }
        for (entity, changes) in trial.changes {
            changed[topmost(entity), default: (0, 0)].updated += changes.updated
            changed[topmost(entity), default: (0, 0)].deleted += changes.deleted
        }
        for (entity, counts) in changed.sorted(by: { $0.key < $1.key }) {
            let own = keys[entity]?.count ?? 0
            guard counts.updated > 0 || counts.deleted != own else { continue }
            let others = max(counts.updated, counts.deleted - own)
            throw failure(
                others > 0
                    ? "\(Program.counted(others, "other object")) of \(entity) would be changed or deleted with its own"
                    : "not all objects of \(entity) that it has inserted are there")
        }
    }

    private func failure(_ reason: String) -> CommandFailure {
        CommandFailure("\(id) cannot be undone: \(reason). Nothing was deleted.")
    }
}
