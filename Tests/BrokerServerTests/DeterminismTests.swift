import BrokerCoordinator
import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStaging
import BrokerStore
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import BrokerServer

/// The same entries make the same store: every row of every table, and the digest, whatever the server's batches and workers are,
/// and wherever it ends.
@Suite(.timeLimit(.minutes(30))) struct DeterminismTests {
    private static let jobCount = 60

    @Test func `the same entries make the same store, however they are applied`() throws {
        let seed = SeededGenerator.testSeed()
        let seeds = (0..<Cases.count(UInt64(3), of: 40)).map { seed &+ $0 }
        var refused = (work: 0, memory: 0)
        for seed in seeds {
            guard var difference = try Self.difference(seed: seed, Self.jobCount, &refused) else { continue }
            // The job that makes it, with none after it.
            for count in 1..<Self.jobCount {
                guard let first = try Self.difference(seed: seed, count, &refused) else { continue }
                difference = first
                break
            }
            Issue.record("BROKER_RANDOM_SEED=\(seed) \(difference)")
            return
        }
        print(
            "\(seeds.count) seeds from \(seed): \(refused.work) jobs exceeded their work, \(refused.memory) their memory"
        )
        #expect(
            seeds.count < 40 || refused.work > 10 && refused.memory > 10, "few jobs exceed their budgets: \(refused)")
    }

    /// Nil when there is none.
    private static func difference(
        seed: UInt64, _ count: Int, _ refused: inout (work: Int, memory: Int)
    ) throws -> String? {
        var generator = SeededGenerator(seed: seed)
        guard let (plan, model, log) = plan(&generator), let wider = wider(model) else { return nil }
        let origin = try LoggedStore(plan)
        var configuration = LoggedStore.Configuration()
        try origin.apply(configuration)
        let entries = Array(entries(log, [plan, wider], &generator).prefix(count))
        // Small budgets, so that some jobs exceed them.
        configuration.jobWork = [nil, 5_000, 20_000, 50_000].randomElement(using: &generator)!

        // One start, of one server.
        let whole = try origin.copy()
        try whole.append(entries)
        configuration.wants(entries)
        let last = configuration
        try whole.apply(configuration)
        let expected = try whole.contents()
        refused.work += expected.outcomes(with: "more work than one job may")
        refused.memory += expected.outcomes(with: "more memory than one job may")

        // Many starts: some are killed, and some find an earlier store with the newest journal, as after a loss of power.
        var store = try origin.copy()
        var earlier = try origin.copy()
        var rest = entries[...]
        var steps: [String] = []
        while !rest.isEmpty {
            let count = min(rest.count, Int.random(in: 1...25, using: &generator))
            try store.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            configuration.wants(entries.prefix(entries.count - rest.count))
            configuration.workers = Int.random(in: 1...4, using: &generator)
            configuration.jobs = Int.random(in: 1...30, using: &generator)
            configuration.walPages = [1, 4, 2_048].randomElement(using: &generator)!
            if Int.random(in: 0..<3, using: &generator) == 0 { try store.putBack(to: earlier) }
            earlier = try store.copy()
            let turns = Bool.random(using: &generator) ? Int.random(in: 1...6, using: &generator) : nil
            steps.append("\(count) jobs, \(configuration), turns \(turns.map(String.init) ?? "all")")
            store = try store.apply(configuration, killedAfter: turns) ?? store
        }
        try store.apply(last)
        guard let difference = try store.contents().difference(from: expected) else { return nil }
        return
            "after \(count) jobs: \(difference)\n\(model)\n\(entries.last?.text ?? "")\n\(steps.joined(separator: "\n"))"
    }

    private static func plan(_ generator: inout SeededGenerator) -> (StagingPlan, String, RandomLog)? {
        // Not every random model is one.
        for _ in 0..<1_000 {
            let log = RandomLog(seed: generator.next())
            guard let model = try? ModelReader.read(JSONText(copying: Array(log.model.utf8))) else { continue }
            guard let plan = try? StagingPlan(model) else { continue }
            return (plan, log.model, log)
        }
        Issue.record("no random model is valid")
        return nil
    }

    /// The model with another attribute of its first entity.
    private static func wider(_ model: String) -> StagingPlan? {
        guard let start = model.range(of: "\"attributes\": {") else { return nil }
        let isEmpty = model[start.upperBound] == "}"
        let text = model.replacingCharacters(
            in: start, with: "\"attributes\": {\"wider\": \"string\"\(isEmpty ? "" : ", ")")
        return (try? ModelReader.read(JSONText(copying: Array(text.utf8)))).flatMap { try? StagingPlan($0) }
    }

    private static func limits(_ log: inout RandomLog) -> LoggedLimits {
        var options = StoreOptions()
        options.retention.count = log.number(1...40)
        options.mergeMemory = log.chance(2) ? log.number(100...100_000) : 128 << 20
        return LoggedLimits(options)
    }

    private static func entries(
        _ log: RandomLog, _ plans: [StagingPlan], _ generator: inout SeededGenerator
    ) -> [LoggedJob] {
        var log = log
        var entries: [LoggedJob] = []
        var time: Int64 = 1_000_000
        for position in 1...Int64(jobCount) {
            // Rarely so long that open syncs and outcomes expire.
            time += log.chance(25) ? 40 * 86_400_000 : Int64(log.number(0...1_000))
            var job = LoggedJob(position: position, time: time, body: log.job())
            if log.chance(12) {
                job.change = log.chance(2) ? .model(plans[log.number(0...1)]) : .limits(limits(&log))
                entries.append(job)
                continue
            }
            job.user = log.chance(4) ? 2 : 1
            job.mayDelete = !log.chance(12)
            if log.chance(4) {
                job.isIDMade = true
                job.id = "made \(position)"
            } else if let other = entries.last(where: { _ in log.chance(6) }), !other.isIDMade, log.chance(2) {
                job.id = other.id
                if log.chance(2) {
                    job.body = other.body
                    job.user = other.user
                }
            }
            entries.append(job)
        }
        return entries
    }
}

/// A job or a change as the journal has it.
struct LoggedJob {
    enum Change {
        case model(StagingPlan)
        case limits(LoggedLimits)
    }

    var change: Change?
    let position: Int64
    let time: Int64
    /// The message without its type and id.
    var body: String
    var id: String
    var isIDMade = false
    var user: UInt32 = 1
    var mayDelete = true

    init(position: Int64, time: Int64, body: String) {
        (self.position, self.time, self.body, id) = (position, time, body, "job-\(position)")
    }

    var text: String { "{\"type\": \"job\", \(isIDMade ? "" : "\"id\": \"\(id)\", ")\(body)}" }

    func entry() throws -> LogEntry {
        switch change {
        case .model(let plan):
            return LogEntry(.model, position: position, time: time, payload: Array("keep\n\(plan.model.text)".utf8))
        case .limits(let limits):
            return LogEntry(.limits, position: position, time: time, payload: Array(limits.text.utf8))
        case nil: break
        }
        return LogEntry(
            .job, position: position, id: id, isIDMade: isIDMade, mayDelete: mayDelete, user: user, time: time,
            payload: Array(try RawClient.frame(Array(text.utf8)).dropFirst(4)))
    }
}

/// The files of a store and its journal, to which no server has access but while ``apply(_:killedAfter:)`` runs.
struct LoggedStore {
    struct Configuration {
        var workers = 2
        var jobs = CoordinatorLimits(workers: 1).jobs
        var walPages = 2_048
        /// Units of work that one job may take; nil for the default.
        var jobWork: Int?
        /// Those of the start; nil for the store's first ones.
        var plan: StagingPlan?
        var limits: LoggedLimits?

        /// The start wants what the last changes among the entries make.
        mutating func wants(_ entries: some Sequence<LoggedJob>) {
            (plan, limits) = (nil, nil)
            for entry in entries {
                switch entry.change {
                case .model(let plan): self.plan = plan
                case .limits(let limits): self.limits = limits
                case nil: break
                }
            }
        }
    }

    private let folder = TemporaryFolder()
    private let plan: StagingPlan
    private var path: String { folder.path("store.sqlite") }

    /// - Throws: when the store cannot be made.
    init(_ plan: StagingPlan) throws { self.plan = plan }

    /// All files as they are.
    func copy() throws -> LoggedStore {
        let copy = try LoggedStore(plan)
        try Self.copy(from: folder, to: copy.folder)
        return copy
    }

    private static func copy(from: TemporaryFolder, to: TemporaryFolder) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: from.path("")) where !name.hasSuffix("-shm") {
            try FileManager.default.copyItem(atPath: from.path(name), toPath: to.path(name))
        }
    }

    /// The store becomes that of an earlier copy; the journal stays.
    func putBack(to earlier: LoggedStore) throws {
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
            guard suffix != "-shm", FileManager.default.fileExists(atPath: earlier.path + suffix) else { continue }
            try FileManager.default.copyItem(atPath: earlier.path + suffix, toPath: path + suffix)
        }
    }

    /// Appends jobs to the journal, as a server that accepted them and was killed has.
    func append(_ jobs: [LoggedJob]) throws {
        guard let first = jobs.first else { return }
        let identity = try SQLRows.of("SELECT value FROM _broker_meta WHERE key = 'log'", in: path)
        let journal = try Journal(
            path: path + ".journal", expected: JournalIdentity(identity[0]), applied: first.position - 1,
            idOfApplied: nil, mode: 0o600, system: PosixSystem())
        try journal.append(jobs.map { try $0.entry() })
    }

    /// Starts a server, which applies what the journal has, and stops it.
    ///
    /// - Parameter turns: the server is killed when its writer has gone round so often, or at the end.
    /// - Returns: the files of the killed server.
    @discardableResult
    func apply(_ configuration: Configuration, killedAfter turns: Int? = nil) throws -> LoggedStore? {
        var limits = CoordinatorLimits(workers: configuration.workers)
        limits.jobs = configuration.jobs
        if let memory = configuration.limits?.mergeMemory { limits.jobMemory = memory }
        var options = CoordinatorOptions(storePath: path, limits: limits)
        options.keepsJournal = true
        options.store.synchronous = .off
        options.store.walPages = configuration.walPages
        options.store.removal = .keep
        if let work = configuration.jobWork { options.store.jobWork = work }
        configuration.limits?.set(in: &options.store)
        let logger = Logger(label: "test") { _ in RecordedLog() }
        let coordinator = try Coordinator(plan: configuration.plan ?? plan, options: options, logger: logger)
        let server = ServerOptions(socketPath: nil)
        let codecs = FrameCodecs(limits: server.frameLimits, answers: server.answerLimits)
        let messages = MessageHandler(coordinator, codecs, server, ServerLog(logger))
        let killed = try turns.map { _ in try LoggedStore(plan) }
        let (copied, failure) = (DispatchSemaphore(value: 0), CopyFailure())
        if let turns, let killed {
            let folder = folder
            Self.after(turns, of: coordinator) {
                do { try Self.copy(from: folder, to: killed.folder) } catch { failure.set(error) }
                copied.signal()
            }
        }
        try coordinator.start(logger) { logged, memory in
            logged.payload.withUnsafeBytes { messages.reopen($0, from: logged.owner, memory) }
        }
        if killed != nil { copied.wait() }
        coordinator.stop()
        if let error = failure.error { throw error }
        return killed
    }

    /// Calls the body on the writer's thread, where the files belong together.
    private static func after(_ turns: Int, of coordinator: Coordinator, _ body: @escaping @Sendable () -> Void) {
        coordinator.history { _ in turns > 1 ? after(turns - 1, of: coordinator, body) : body() }
    }

    private final class CopyFailure: Sendable {
        private let first = Mutex<(any Error)?>(nil)

        var error: (any Error)? { first.withLock { $0 } }
        func set(_ error: any Error) { first.withLock { $0 = error } }
    }

    // MARK: - Contents

    /// All rows.
    struct Contents {
        fileprivate var tables: [String: [String]] = [:]

        /// The stored outcomes that have that text.
        func outcomes(with text: String) -> Int { tables["_broker_jobs"]?.count { $0.contains(text) } ?? 0 }

        func difference(from other: Contents) -> String? {
            for table in Set(tables.keys).union(other.tables.keys).sorted() where tables[table] != other.tables[table] {
                let (own, others) = (tables[table] ?? [], other.tables[table] ?? [])
                return
                    "\(table) has \(own.filter { !others.contains($0) }), should have \(others.filter { !own.contains($0) })"
            }
            return nil
        }
    }

    func contents() throws -> Contents {
        var contents = Contents()
        let names = try SQLRows.of("SELECT name FROM sqlite_schema WHERE type = 'table'", in: path)
        for name in names {
            let columns = try SQLRows.of("SELECT name FROM pragma_table_info('\(name)')", in: path)
            let list = columns.map { "quote(\"\($0)\")" }.joined(separator: ", ")
            contents.tables[name] = try SQLRows.of("SELECT \(list) FROM \"\(name)\" ORDER BY \(list)", in: path)
        }
        contents.tables["sqlite_schema"] = try SQLRows.of(
            "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2", in: path)
        // A server reserves sequences at its start, of which it uses none where a journal assigns them.
        contents.tables["_broker_meta"]?.removeAll { $0.hasPrefix("'reservedSequence'|") }
        let lines = try SQLRows.of("SELECT CAST(keys AS TEXT) FROM _broker_feed ORDER BY sequence", in: path)
        // It has one row for each COMMIT, with the lines of its jobs; which jobs share a COMMIT is the server's own. The row goes
        // when the outcomes of all its jobs have expired.
        let first = try Int(SQLRows.of("SELECT ifnull(min(sequence), 0) FROM _broker_jobs", in: path)[0])!
        contents.tables["_broker_feed"] = lines.joined().split(separator: "\n").map(String.init)
            .filter { Int($0.prefix { $0 != " " })! >= first }
        return contents
    }
}

/// The replay of accepted jobs that a newer version of the protocol refuses.
@Suite(.timeLimit(.minutes(5))) struct ReplayTests {
    private let folder = TemporaryFolder()

    private func start() async throws {
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(RunningServer.model.utf8))))
        let logger = Logger(label: "test") { _ in RecordedLog() }
        var options = CoordinatorOptions(storePath: folder.path("store.sqlite"), limits: CoordinatorLimits(workers: 2))
        options.keepsJournal = true
        let coordinator = try Coordinator(plan: plan, options: options, logger: logger)
        let server = try await BrokerServer.start(
            coordinator, options: ServerOptions(socketPath: folder.path("broker.sock")), logger: logger)
        try await server.stop()
    }

    @Test func `a journaled job whose path is longer than the limit stops the start, which names it`() async throws {
        try await start()
        let meta = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key = 'log'", in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(meta[0]), applied: 0, idOfApplied: nil,
            mode: 0o600, system: PosixSystem())
        func job(_ id: String, pathBytes: Int) throws -> [UInt8] {
            let path = String(repeating: "p", count: pathBytes)
            let text = #"{"type": "job", "id": "\#(id)", "op": "map", "path": "\#(path)", "json": {}}"#
            return Array(try RawClient.frame(Array(text.utf8)).dropFirst(4))
        }
        try journal.append([
            LogEntry(.job, position: 1, id: "short", time: 0, payload: try job("short", pathBytes: 8_192)),
            LogEntry(.job, position: 2, id: "long", time: 0, payload: try job("long", pathBytes: 8_193)),
        ])
        for _ in 0..<2 {
            let error = try await #require(throws: ServerError.self) { try await start() }
            let message = "\(error)"
            #expect(message.contains("Job 2 of the log (id \"long\") cannot be applied"), "\(message)")
            #expect(message.contains("8,192 bytes"), "\(message)")
        }
        #expect(try SQLRows.of("SELECT id FROM _broker_jobs", in: folder.path("store.sqlite")) == ["short"])
    }
}

/// A random model, and random messages of jobs for it: what the log of a server may have.
struct RandomLog {
    private struct Entity {
        let name: String
        /// The names of the attributes, with whether they are numbers.
        var identity: [(name: String, isNumber: Bool)] = []
        var isIdentityOptional = false
        var parent: String?
        /// The names of the attributes beside the identity, as they are declared.
        var attributes: [(name: String, isNumber: Bool, json: String)] = []
        var options: [String] = []
        var relationships: [Relationship] = []
    }

    private struct Relationship {
        let name: String
        let destination: String
        let isToMany: Bool
        var options: [String]
    }

    private var entities: [Entity] = []
    private var generator: SeededGenerator
    /// One of so many values is wrong.
    private var wrongness = 30
    private var skips = false

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        for name in ["A", "B", "C", "D"].prefix(number(2...4)) { entities.append(topmost(name)) }
        for name in ["E", "F", "G"].prefix(number(0...3)) { entities.append(inheriting(name)) }
        for number in 0..<number(3...9) { addRelationship(number) }
    }

    // MARK: - The model

    /// It may be one that is refused, then another seed makes another.
    var model: String {
        let texts = entities.map { entity in
            var identity = entity.identity.map { "\"\($0.name)\": \"\($0.isNumber ? "integer64" : "string")\"" }
            if entity.parent != nil { identity = [] }
            let relationships = entity.relationships.map {
                "\"\($0.name)\": {\((["\"entity\": \"\($0.destination)\""] + $0.options).joined(separator: ", "))}"
            }
            var members = entity.options
            if entity.parent == nil, !identity.isEmpty {
                members.append("\"identity\": [\(entity.identity.map { "\"\($0.name)\"" }.joined(separator: ", "))]")
            }
            let attributes = identity + entity.attributes.map { "\"\($0.name)\": {\($0.json)}" }
            members.append("\"attributes\": {\(attributes.joined(separator: ", "))}")
            members.append("\"relationships\": {\(relationships.joined(separator: ",\n    "))}")
            return "\"\(entity.name)\": {\(members.joined(separator: ",\n  "))}"
        }
        return "{\"entities\": {\n\(texts.joined(separator: ",\n"))}}"
    }

    private mutating func topmost(_ name: String) -> Entity {
        var entity = Entity(name: name)
        switch number(0...8) {
        case 0...3: entity.identity = [("id", true)]
        case 4: entity.identity = [("id", false)]
        case 5: entity.identity = [("k1", true), ("k2", false)]
        case 6:
            entity.identity = [("id", false)]
            entity.isIdentityOptional = true
            entity.options = [#""identityOptional": true"#]
        default: break
        }
        entity.attributes = [
            ("p", false, #""type": "string""# + pick(["", "", #", "unique": true"#, #", "onInvalid": "null""#])),
            (
                "q", true,
                #""type": "integer64", "max": 9"# + pick(["", #", "optional": false"#, #", "onInvalid": "skip""#])
            ),
        ]
        if chance(3) { entity.options.append(#""unique": [["p", "q"]]"#) }
        if chance(2) { entity.attributes.append(("d", true, #""type": "double", "default": 2"#)) }
        guard !entity.identity.isEmpty else { return entity }
        if chance(3) {
            entity.attributes.append(("at", true, #""type": "integer64""#))
            entity.options.append(#""modified": "at""#)
        }
        if chance(3) {
            entity.attributes.append(("gone", true, #""type": "boolean""#))
            entity.options.append(#""tombstone": "gone == YES""#)
        }
        return entity
    }

    private mutating func inheriting(_ name: String) -> Entity {
        let parent = pick(entities)
        var entity = Entity(
            name: name, identity: parent.identity, isIdentityOptional: parent.isIdentityOptional, parent: parent.name)
        entity.options = ["\"parent\": \"\(parent.name)\""]
        entity.attributes = [("own\(name)", false, #""type": "string""# + (chance(4) ? #", "unique": true"# : ""))]
        return entity
    }

    private mutating func addRelationship(_ number: Int) {
        let (from, to) = (
            entities.indices.randomElement(using: &generator)!, entities.indices.randomElement(using: &generator)!
        )
        var there = relationship("r\(number)", to: entities[to].name)
        if chance(3) {
            entities[from].relationships.append(there)
            return
        }
        var back = relationship("s\(number)", to: entities[from].name)
        if there.isToMany, chance(5) {
            there.options.append(#""owned": true"#)
        } else {
            if there.options.contains(Self.ordered) { back.options.removeAll { $0 == Self.ordered } }
            there.options.append("\"inverse\": \"\(back.name)\"")
            entities[to].relationships.append(back)
        }
        entities[from].relationships.append(there)
    }

    private static let ordered = #""ordered": true"#

    private mutating func relationship(_ name: String, to destination: String) -> Relationship {
        let isToMany = chance(2)
        var options = ["\"deleteRule\": \"\(pick(["nullify", "nullify", "cascade", "deny", "noAction"]))\""]
        if isToMany {
            options.append(#""toMany": true"#)
            if chance(3) { options.append(Self.ordered) }
            if chance(3) { options.append(#""assignment": "replace""#) }
        }
        if chance(3) { options.append("\"missing\": \"\(pick(["ignore", "fail"]))\"") }
        return Relationship(name: name, destination: destination, isToMany: isToMany, options: options)
    }

    // MARK: - Jobs

    /// A job's message, without the id.
    mutating func job() -> String {
        wrongness = pick([5, 30, 1_000])
        skips = chance(2)
        let operations = (0..<(chance(2) ? 1 : number(2...4))).map { _ in operation() }
        var members = ["\"operations\": [\(operations.joined(separator: ", "))]"]
        if skips { members.append(#""onInvalid": "skip""#) }
        if chance(5) { members.append(#""reply": "keys""#) }
        if chance(6) {
            members.append("\"bookmark\": {\"name\": \"\(pick(["x", "y"]))\", \"value\": \"\(number(1...99))\"}")
        }
        if chance(15) { members.append(#""dryRun": true"#) }
        if chance(15) { members.append("\"maximumDeletions\": \(number(0...2))") }
        return members.joined(separator: ", ")
    }

    private mutating func operation() -> String {
        let entity = pick(entities)
        func json(_ op: String, _ members: String...) -> String {
            "{\((["\"op\": \"\(op)\"", "\"entity\": \"\(entity.name)\""] + members).joined(separator: ", "))}"
        }
        switch number(0...14) {
        case 0 where !skips:
            return json("process", "\"json\": \(record(entity, depth: 1))", expectation())
        case 0...6: return json("process", "\"json\": \(records(entity, 1...5))")
        case 7 where !skips:
            let record = chance(2) ? "" : ", \"json\": \(record(entity, depth: 1))"
            return json(
                "process",
                "\"object\": \(key(entity)), \"increment\": {\"q\": \(number(-3...3))}, \"append\": {\"p\": \"a\"}\(record), \(expectation())"
            )
        case 7: return json("process", "\"object\": \(key(entity))", "\"json\": \(record(entity, depth: 1))")
        case 8:
            guard let relationship = links(entity).randomElement(using: &generator) else {
                return json("process", "\"json\": \(records(entity, 0...2))")
            }
            return json(
                "relate", "\"object\": \(key(entity))", "\"relationship\": \"\(relationship.name)\"",
                "\"json\": \(value(relationship, depth: 1))"
                    + (skips || !relationship.isToMany ? "" : ", \"links\": \"\(pick(["add", "replace", "remove"]))\""))
        case 9 where !skips: return json("delete", "\"objects\": [\(key(entity))]", expectation())
        case 9, 10:
            let keys = (0..<number(0...3)).map { _ in key(entity) }
            return json("delete", "\"objects\": [\(keys.joined(separator: ", "))]")
        case 11: return json("delete", condition())
        case 12: return json("sync", "\"json\": \(records(entity, 0...5))", condition())
        case 13:
            let actions = ["insert", "update", "delete"].filter { _ in !chance(3) }.map { "\"\($0)\"" }
            return json(
                "sync", "\"json\": \(records(entity, 0...5))", condition(),
                "\"actions\": [\(actions.joined(separator: ", "))]")
        default:
            // Parts of one sync agree on their entity.
            let first = entities[0]
            return
                #"{"op": "sync", "entity": "\#(first.name)", "json": \#(records(first, 0...4)), "where": "q != 4", "part": {"id": "\#(pick(["x", "y"]))", "last": \#(chance(3))}}"#
        }
    }

    private mutating func expectation() -> String {
        "\"expect\": \(pick(["\"absent\"", "\"present\"", "{\(condition())}", "{\"version\": \"\(String(repeating: "0", count: 32))\"}"]))"
    }

    private mutating func condition() -> String {
        "\"where\": \"\(pick(["q == \(number(1...4))", "q < 4", "p == 'a'", "p != 'b'"]))\""
    }

    private mutating func records(_ entity: Entity, _ count: ClosedRange<Int>) -> String {
        "[\((0..<number(count)).map { _ in record(entity, depth: 2) }.joined(separator: ", "))]"
    }

    private mutating func record(_ entity: Entity, depth: Int) -> String {
        var members: [String] = []
        if !entity.isIdentityOptional || !chance(3), !chance(wrongness) {
            members += entity.identity.map { "\"\($0.name)\": \(identity($0.isNumber))" }
        }
        for attribute in inherited(entity).flatMap(\.attributes) where attribute.name == "q" || chance(2) {
            members.append("\"\(attribute.name)\": \(value(attribute))")
        }
        for relationship in links(entity) where depth > 0 && chance(3) {
            members.append("\"\(relationship.name)\": \(value(relationship, depth: depth - 1))")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func value(_ attribute: (name: String, isNumber: Bool, json: String)) -> String {
        if chance(wrongness) { return attribute.isNumber ? #""?""# : "{}" }
        if attribute.name == "gone" { return chance(6) ? "true" : "false" }
        if chance(8) { return "null" }
        return attribute.isNumber ? "\(number(1...5))" : "\"\(pick(["a", "b", "c", "d", "e", "f", "g", "h"]))\""
    }

    private mutating func value(_ relationship: Relationship, depth: Int) -> String {
        if chance(8) { return "null" }
        let destination = entities.first { $0.name == relationship.destination }!
        func element(_ log: inout RandomLog) -> String {
            destination.identity.count == 1 && log.chance(2)
                ? log.identity(destination.identity[0].isNumber) : log.record(destination, depth: depth)
        }
        guard relationship.isToMany else { return element(&self) }
        return "[\((0..<number(0...3)).map { _ in element(&self) }.joined(separator: ", "))]"
    }

    private mutating func key(_ entity: Entity) -> String {
        if entity.identity.isEmpty || entity.isIdentityOptional { return "\(number(1...9))" }
        if entity.identity.count == 1 { return identity(entity.identity[0].isNumber) }
        return "{\(entity.identity.map { "\"\($0.name)\": \(identity($0.isNumber))" }.joined(separator: ", "))}"
    }

    private mutating func identity(_ isNumber: Bool) -> String {
        isNumber ? "\(number(1...6))" : "\"\(pick(["a", "b", "c", "d", "e"]))\""
    }

    private func links(_ entity: Entity) -> [Relationship] { inherited(entity).flatMap(\.relationships) }

    /// From its topmost entity down.
    private func inherited(_ entity: Entity) -> [Entity] {
        guard let parent = entities.first(where: { $0.name == entity.parent }) else { return [entity] }
        return inherited(parent) + [entity]
    }

    // MARK: - Chance

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
    mutating func chance(_ one: Int) -> Bool { number(1...one) == 1 }
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
}
