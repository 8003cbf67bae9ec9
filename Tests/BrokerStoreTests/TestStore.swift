import BrokerJSON
import BrokerModel
import BrokerStaging
import CSQLite
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// A store in a folder of its own, which goes with this object, and jobs for it.
///
/// A job is an object of entity names and their `json`, in payload order, or the operations of a message.
final class TestStore {
    let folder = TemporaryFolder()
    private(set) var plan: StagingPlan
    private(set) var store: Store
    var nextSequence: Int64 = 1
    private let options: StoreOptions

    var path: String { folder.path("store.sqlite") }

    /// All jobs are applied record by record.
    static let interpretsAll = ProcessInfo.processInfo.environment["BROKER_INTERPRETER"] != nil

    /// - Parameter model: in the contract's JSON form.
    init(
        _ model: String, options: StoreOptions = StoreOptions(), _ adjust: (inout StoreOptions) -> Void = { _ in }
    ) throws {
        var options = options
        adjust(&options)
        if Self.interpretsAll { options.interpretsAll = true }
        self.options = options
        plan = try stagingPlan(model)
        store = try Store(path: folder.path("store.sqlite"), plan: plan, options: options)
        // Small jobs compare rows like large ones.
        store.merger.comparedRows = 1
    }

    /// A store that has these records.
    convenience init(_ model: String, having payload: String) throws {
        try self.init(model)
        try apply(payload)
    }

    /// Closes the store and opens it again, with another model if one is given.
    func reopen(_ model: String? = nil, removal: RemovalPolicy = .refuse) throws {
        var options = options
        options.removal = removal
        if let model { plan = try stagingPlan(model) }
        store = try Store(path: path, plan: plan, options: options)
        store.merger.comparedRows = 1
    }

    /// Opens the store with another model, and returns the reason if that is refused.
    func refusal(_ model: String, _ removal: RemovalPolicy = .refuse) throws -> String? {
        do {
            try reopen(model, removal: removal)
            return nil
        } catch let error as StoreError {
            return error.message
        }
    }

    // MARK: - Applying jobs

    /// Applies one job in a transaction of its own.
    @discardableResult
    func apply(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        now: Int64 = 0
    ) throws -> JobOutcome { try apply(job(payload, id: id, policy, wantsKeys: wantsKeys, now: now)) }

    /// Applies one job in a transaction of its own.
    @discardableResult
    func apply(_ job: StoreJob) throws -> JobOutcome {
        let end = try applyTogether([job])[0]
        store.copyWALIfDue()
        return end
    }

    /// Applies jobs one after the other in one transaction.
    ///
    /// - Parameter isUndone: it is rolled back in the end.
    @discardableResult
    func applyTogether(_ jobs: [StoreJob], isUndone: Bool = false) throws -> [JobOutcome] {
        try store.begin()
        do {
            let ends = try jobs.map { try store.apply($0) }
            if isUndone { store.rollback() } else { try store.commit() }
            return ends
        } catch {
            store.rollback()
            throw error
        }
    }

    /// Applies jobs together, runs of those that may be, in one transaction; nil when it was undone.
    func applyBatch(_ jobs: [StoreJob]) throws -> [JobOutcome]? {
        try store.begin()
        guard jobs.allSatisfy(store.canJoin), let ends = try store.applyBatch(jobs) else {
            store.rollback()
            return nil
        }
        try store.commit()
        return ends
    }

    /// The effect of a job, see `Outcome.summary`.
    func changes(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> String {
        try outcome(payload, policy).summary
    }

    func outcome(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Outcome {
        try outcome(of: job(payload, policy))
    }

    func outcome(of job: StoreJob) throws -> Outcome {
        let end = try apply(job)
        guard let outcome = end.outcome else { throw end.fault ?? Fault(.idConflict, "the job is a duplicate") }
        return outcome
    }

    /// The fault of a job that fails; nil when it does not.
    func fault(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Fault? {
        try apply(payload, policy).fault
    }

    /// The keys that a job inserted and updated, as the contract's JSON.
    func keys(_ payload: String) throws -> String? {
        try apply(payload, wantsKeys: true).outcome?.keys.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Applies one job of several operations, and returns its effect, see `Outcome.summary`.
    ///
    /// - Parameter operations: the content of the message's array `operations`. As on the server, consecutive operations that
    ///   merge records are one step.
    @discardableResult
    func run(_ operations: String, _ policy: InvalidRecordPolicy = .fail) throws -> String {
        try outcome(ofOperations: operations, policy).summary
    }

    func outcome(ofOperations operations: String, _ policy: InvalidRecordPolicy = .fail) throws -> Outcome {
        try outcome(of: job(operations: operations, policy))
    }

    /// The units of work that the newest job took.
    var work: Int { store.connection.work.newest }

    // MARK: - Making jobs

    func job(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        now: Int64 = 0
    ) throws -> StoreJob {
        let work = try stage(JSONText(copying: Array(payload.utf8)), plan, policy)
        return job(
            work, id: id, hash: id == nil ? nil : JobHash(Array(payload.utf8)), policy, wantsKeys: wantsKeys, now: now)
    }

    func job(operations: String, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = true) throws -> StoreJob {
        let document = try JSONDocument(parsing: JSONText(copying: Array("[\(operations)]".utf8)))
        return job(try work(document, policy), policy, wantsKeys: wantsKeys)
    }

    func job(
        _ work: StoreJob.Work, id: String? = nil, hash: JobHash? = nil, _ policy: InvalidRecordPolicy = .fail,
        wantsKeys: Bool = false, now: Int64 = 0
    ) -> StoreJob {
        defer { nextSequence += 1 }
        return StoreJob(
            JobFacts(
                id: id ?? "job-\(nextSequence)", contentHash: hash, JobTerms(policy, wantsKeys: wantsKeys)),
            sequence: nextSequence, work: work, now: now)
    }

    /// A job of one `delete` with `where` for each predicate.
    func deletion(_ predicates: [String], of entity: String) throws -> StoreJob {
        let index = plan.model.index(ofEntity: entity)!
        return job(
            .steps(
                try predicates.enumerated().map { number, text in
                    StagedStep(
                        action: .deleteMatching(StagedSelection(entity: index, try predicate(text, of: entity))),
                        rows: nil, pointer: "/operations/\(number)")
                }))
    }

    private func work(_ document: JSONDocument, _ policy: InvalidRecordPolicy) throws -> StoreJob.Work {
        var plans: [StepPlan] = []
        for (number, operation) in document.root.elements.enumerated() {
            if let expected = operation["expect"] {
                plans.append(try expectation(expected, of: operation, at: "/\(number)/expect"))
            }
            let (action, staging) = try step(operation)
            if let staging, var last = plans.popLast() {
                let isAdded = if case .merge = action { last.add(staging) } else { false }
                plans.append(last)
                if isAdded { continue }
            }
            plans.append(StepPlan(action, staging.map { [$0] } ?? [], at: "/\(number)"))
        }
        do throws(StagingRefusal) {
            var steps: [StagedStep] = []
            for step in plans {
                let rows = step.operations.isEmpty ? nil : try staged(step.operations, in: document, plan, policy)
                steps.append(step.staged(rows))
            }
            return .steps(steps)
        } catch {
            guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
            return .refused(fault)
        }
    }

    private func expectation(_ expected: JSONValue, of operation: JSONValue, at pointer: String) throws -> StepPlan {
        let entity = plan.model.index(ofEntity: operation["entity"]!.string!)!
        let condition: StagedExpectation.Condition =
            switch (expected.string, expected["version"]?.string) {
            case ("absent", _): .absent
            case ("present", _): .present
            case (_, let version?): .version(version)
            default:
                .matching(
                    StagedSelection(
                        entity: entity,
                        try plan.model.predicate(expected["where"]!.string!, arguments: nil, ofEntity: entity)))
            }
        let naming =
            if let objects = operation["objects"] {
                StagingOperation(entity: entity, json: objects, .name)
            } else {
                StagingOperation(
                    entity: entity, json: operation["object"] ?? operation["json"]!,
                    .identify(isRecord: operation["object"] == nil))
            }
        return StepPlan(.expect(StagedExpectation(condition, of: entity)), [naming], at: pointer)
    }

    private func step(_ operation: JSONValue) throws -> (StepAction, StagingOperation?) {
        let entity = plan.model.index(ofEntity: operation["entity"]!.string!)!
        func staging(_ key: String, _ action: StagingOperation.Action) -> StagingOperation {
            StagingOperation(entity: entity, json: operation[key]!, action)
        }
        func selection() throws -> StagedSelection {
            let predicate = try operation["where"]?.string.map { text in
                try plan.model.predicate(text, arguments: operation["arguments"], ofEntity: entity)
            }
            return StagedSelection(entity: entity, predicate)
        }
        switch operation["op"]?.string ?? "process" {
        case "process":
            guard let object = operation["object"] else { return (.merge, staging("json", .process)) }
            let (increment, append) = (operation["increment"], operation["append"])
            guard increment != nil || append != nil else { return (.merge, staging("json", .change(object: object))) }
            let hasRecord = operation["json"] != nil
            let adjustment = JobAdjustment(increment: increment, append: append, hasRecord: hasRecord)
            return (.merge, staging(hasRecord ? "json" : "object", .adjust(object: object, adjustment)))
        case "relate":
            let name = operation["relationship"]!.string!
            let relationship = plan.model.entities[entity].relationships.firstIndex { $0.name == name }!
            var related = staging("json", .relate(object: operation["object"]!, relationship: relationship))
            related.links = operation["links"]?.string.flatMap(LinkChange.init)
            return (.merge, related)
        case "sync":
            let part = operation["part"].map {
                let definition = Array((operation["where"]?.string ?? "").utf8)
                return SyncPart(id: $0["id"]!.string!, isLast: $0["last"]?.bool == true, definition: definition)
            }
            var sync = StagedSync(try selection(), part: part)
            if let actions = operation["actions"].map({ $0.elements.compactMap(\.string) }) {
                sync.inserts = actions.contains("insert")
                sync.updates = actions.contains("update")
                sync.deletes = actions.contains("delete")
            }
            return (.sync(sync), StagingOperation(entity: entity, json: operation["json"]!))
        case "delete" where operation["objects"] != nil: return (.delete(entity: entity), staging("objects", .name))
        case "delete": return (.deleteMatching(try selection()), nil)
        default: throw Fault(.unsupportedMessage, "no such operation")
        }
    }

    // MARK: - Reading beside the store

    /// The rows that a reader sees: columns with `|` between them, `NULL` and `x'00'` as SQL writes them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }

    /// The rows that the store's connection sees, also inside a transaction.
    func ownRows(_ sql: String) throws -> [String] { try SQLRows.of(sql, on: store.connection) }

    /// Runs SQL on a connection of its own.
    func execute(_ sql: String) throws { try Connection(store: path).execute(sql) }

    /// Every row refers to what exists, and the file is sound.
    func isSound() throws -> Bool {
        try rows("PRAGMA foreign_key_check").isEmpty && rows("PRAGMA integrity_check") == ["ok"]
    }

    /// Bytes that a job adds to the write-ahead log: what it wrote, in pages, ledger and all.
    func logGrowth(_ payload: String) throws -> Int {
        try execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try apply(payload)
        let attributes = try FileManager.default.attributesOfItem(atPath: path + "-wal")
        return attributes[.size] as? Int ?? 0
    }
}

extension Trait where Self == ConditionTrait {
    /// For jobs that are merged as sets.
    static var mergesSets: Self { .disabled(if: TestStore.interpretsAll, "the interpreter applies records one by one") }
}

// MARK: - Fetching

extension TestStore {
    /// The result of a fetch, as JSON text.
    ///
    /// - Parameter object: the key of the one object to fetch.
    func fetch(
        _ entity: String, object: String? = nil, _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> String {
        let document = try JSONDocument(parsing: JSONText(copying: Array((object ?? "0").utf8)))
        return try withExtendedLifetime(document) {
            let objects = try fetched(entity) { description in
                if object != nil { description.object = document.root }
                adjust(&description)
            }
            return String(decoding: objects.bytes, as: UTF8.self)
        }
    }

    func fetched(
        _ entity: String, limits: FetchLimits = .long, _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> FetchedObjects { try reader().fetch(request(entity, adjust), limits: limits) }

    func request(_ entity: String, _ adjust: (inout FetchDescription) -> Void = { _ in }) throws -> FetchRequest {
        var description = FetchDescription(entity: entity)
        adjust(&description)
        return try plan.fetchRequest(description)
    }

    func reader() throws -> StoreReader { try StoreReader(path: path, plan: plan) }

    /// The key of the last object follows the objects on a line of its own.
    static let keyEnvelope = FetchEnvelope(beginning: []) { _, last in Array("\n".utf8) + (last ?? []) }

    func fetch(_ entity: String, after: String, _ adjust: (inout FetchDescription) -> Void = { _ in }) throws -> String
    { try page(entity, after: after, adjust).objects }

    /// One page, and the key of its last object if there are more.
    func page(
        _ entity: String, after: String?, limits: FetchLimits = .long,
        _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> (objects: String, last: String?) {
        let document = try JSONDocument(parsing: JSONText(copying: Array((after ?? "0").utf8)))
        return try withExtendedLifetime(document) {
            let request = try request(entity) {
                if after != nil { $0.after = document.root }
                adjust(&$0)
            }
            let found = try reader().fetch(request, limits: limits, in: Self.keyEnvelope)
            let text = String(decoding: found.bytes, as: UTF8.self)
            let end = text.lastIndex(of: "\n")!
            let last = text[text.index(after: end)...]
            #expect(last.isEmpty == !found.hasMore, "\(text)")
            return (String(text[..<end]), last.isEmpty ? nil : String(last))
        }
    }

    /// The values of one member in all objects, fetched page by page.
    func pages(
        _ entity: String, _ member: String, of count: Int, _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> [String] {
        var values: [String] = []
        var last: String?
        repeat {
            let page = try page(entity, after: last) {
                ($0.limit, $0.names) = (count, .local)
                adjust(&$0)
            }
            let document = try JSONDocument(parsing: JSONText(copying: Array(page.objects.utf8)))
            withExtendedLifetime(document) {
                values += document.root.elements.map {
                    String(decoding: $0[member]?.bytes ?? .init(start: nil, count: 0), as: UTF8.self)
                }
            }
            last = page.last
            // A page that repeats an object would never end.
        } while last != nil && values.count < 1_000
        return values
    }
}

extension FetchedObjects {
    var text: String { String(decoding: bytes, as: UTF8.self) }

    /// How many there are.
    func count() throws -> Int {
        let document = try JSONDocument(parsing: JSONText(copying: bytes))
        return withExtendedLifetime(document) { Array(document.root.elements).count }
    }
}

// MARK: - Predicates

extension TestStore {
    func predicate(_ text: String, _ arguments: String? = nil, of entity: String) throws -> BrokerModel.Predicate {
        let index = plan.model.index(ofEntity: entity)!
        let document = try arguments.map { try JSONDocument(parsing: JSONText(copying: Array($0.utf8))) }
        return try withExtendedLifetime(document) {
            try plan.model.predicate(text, arguments: document?.root, ofEntity: index)
        }
    }

    func sql(_ text: String, _ arguments: String? = nil, of entity: String) throws -> PredicateSQL {
        PredicateSQL(
            try predicate(text, arguments, of: entity), entity: plan.model.index(ofEntity: entity)!, plan: plan,
            alias: "object")
    }

    /// The `id` of the rows that match, in their order.
    func matching(_ text: String, _ arguments: String? = nil, of entity: String = "Employee") throws -> [Int64] {
        try matching(try sql(text, arguments, of: entity), of: entity)
    }

    func matching(_ sql: PredicateSQL, of entity: String) throws -> [Int64] {
        try results(sql, of: entity, "", " ORDER BY id") { $0.integer(0) }
    }

    /// How SQLite would find the rows.
    func queryPlan(_ text: String, _ arguments: String? = nil, of entity: String = "Employee") throws -> String {
        try results(try sql(text, arguments, of: entity), of: entity, "EXPLAIN QUERY PLAN ", "") { $0.text(3) }
            .joined(separator: "\n")
    }

    private func results<Value>(
        _ sql: PredicateSQL, of entity: String, _ beginning: String, _ end: String, _ value: (Statement) -> Value
    ) throws -> [Value] {
        let connection = try Connection(store: path, .read)
        let table = plan.model.entities[plan.model.index(ofEntity: entity)!].table
        let statement = try connection.prepare(
            "\(beginning)SELECT id FROM \(quoted(table)) AS object WHERE \(sql.condition)\(end)")
        _ = sql.bind(to: statement, from: 1)
        var values: [Value] = []
        while try statement.step() { values.append(value(statement)) }
        return values
    }
}

// MARK: - Outcomes

extension JobOutcome {
    /// Of a job that took effect.
    var outcome: Outcome? { if case .completed(let outcome) = self { outcome } else { nil } }

    /// Of a job that failed by itself.
    var fault: Fault? { if case .failed(let fault) = self { fault } else { nil } }

    /// `code path` of its fault; empty without one.
    var failure: String { fault.map { "\($0.code.rawValue) \($0.path ?? "nowhere")" } ?? "" }

    /// The remembered outcome of the same job.
    var earlier: StoredOutcome? { if case .duplicate(let outcome) = self { outcome } else { nil } }

    var isConflict: Bool { if case .conflict = self { true } else { false } }
}

extension Outcome {
    /// `Bee +1 ~2 =3 -4 !5` for each entity: inserted, updated, unchanged, deleted and rejected, without the numbers that are 0.
    var described: [String] {
        changes.compactMap { entity, counts in
            let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
            let texts = zip("+~=-!", numbers).filter { $1 != 0 }.map { "\($0)\($1)" }
            return texts.isEmpty ? nil : "\(entity) \(texts.joined(separator: " "))"
        }
    }

    var summary: String { described.joined(separator: ", ") }

    /// `code path`, as listed.
    var rejections: [String] { rejected.map { "\($0.code.rawValue) \($0.path ?? "nowhere")" } }
}

extension StoreJob {
    /// The same job with other options.
    func with(
        isDryRun: Bool = false, _ limit: DeletionLimit? = nil, bookmark: Bookmark? = nil, mayDelete: Bool? = nil,
        hash: JobHash? = nil, memory: (any MemoryAllowance)? = nil
    ) -> StoreJob {
        var terms = terms
        terms.isDryRun = isDryRun
        if let limit { terms.maximumDeletions = limit }
        if let bookmark { terms.bookmark = bookmark }
        if let mayDelete { terms.mayDelete = mayDelete }
        return StoreJob(
            JobFacts(id: id, owner: owner, contentHash: hash ?? contentHash, contentDigest: contentDigest, terms),
            sequence: sequence, work: work, now: now, memory: memory ?? self.memory)
    }
}

/// Grants up to a limit, and notes the most that was used.
final class TestAllowance: MemoryAllowance {
    private let limit: Int
    private let bytes = Mutex((used: 0, most: 0))

    init(_ limit: Int) { self.limit = limit }

    var used: Int { bytes.withLock { $0.used } }
    var most: Int { bytes.withLock { $0.most } }

    func take(_ count: Int) -> Bool {
        bytes.withLock { bytes in
            guard bytes.used + count <= limit else { return false }
            bytes.used += count
            bytes.most = max(bytes.most, bytes.used)
            return true
        }
    }

    func giveBack(_ count: Int) { bytes.withLock { $0.used -= count } }
}

// MARK: - Payloads

/// The payload of one entity's records.
func payload(_ entity: String, _ records: some Sequence<String>) -> String {
    "{\"\(entity)\": [\(records.joined(separator: ","))]}"
}

/// The effect of a job with that payload: an object of entity names and their `json`.
func stage(_ text: JSONText, _ plan: StagingPlan, _ policy: InvalidRecordPolicy = .fail) throws -> StoreJob.Work {
    let document = try JSONDocument(parsing: text)
    let operations = withExtendedLifetime(document) {
        document.root.members.map { key, value in
            StagingOperation(entity: plan.model.index(ofEntity: key.string!)!, json: value)
        }
    }
    do throws(StagingRefusal) {
        return .steps([StagedStep(action: .merge, rows: try staged(ShortList(operations), in: document, plan, policy))])
    } catch {
        guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
        return .refused(fault)
    }
}

private func staged(
    _ operations: ShortList<StagingOperation>, in document: JSONDocument, _ plan: StagingPlan,
    _ policy: InvalidRecordPolicy
) throws(StagingRefusal) -> StagedRows {
    var parts: [StagedPart] = []
    for collection in JobCollection.collections(of: operations, in: document) {
        parts.append(try collection.stage(plan, policy))
    }
    return StagedJobRows.unite(parts, plan)
}

func stagingPlan(_ model: String) throws -> StagingPlan {
    try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
}

enum SQLRows {
    static func of(_ sql: String, in path: String) throws -> [String] {
        try of(sql, on: Connection(store: path, .read))
    }

    static func of(_ sql: String, on connection: Connection) throws -> [String] {
        let statement = try connection.prepare(sql)
        var rows: [String] = []
        while try statement.step() {
            let columns = (0..<Int(sqlite3_column_count(statement.handle))).map { text(statement.cell($0)) }
            rows.append(columns.joined(separator: "|"))
        }
        return rows
    }

    private static func text(_ cell: Cell) -> String {
        switch cell.kind {
        case .integer: "\(cell.integer)"
        case .real: "\(cell.real)"
        case .text: String(decoding: cell.bytes, as: UTF8.self)
        case .blob: "x'\(cell.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())'"
        case .null, .absent, .object: "NULL"
        }
    }
}

/// A claim about jobs, as a script: its name after `#`, and below it jobs with their effects, and rows after them.
///
/// ```
/// # links without an inverse keep the order of their source
/// {"Album": {"id": 7, "tags": ["c", "a"]}}
/// tags :: 7|0|c, 7|1|a
/// skip {"Album": {"id": 7, "tags": ["a", 5]}} => Album =1, Tag =1 !1; invalidValue /Album/tags/1
/// ```
///
/// A job is a payload, or operations as a message has them. After `=>` stands its effect, see `Outcome.summary`, and after `;` the
/// rejected records; or the code and the path of its fault. The word `keys` or `warnings` before a job asks for these instead.
/// After `::` stand the rows of a query, which may have a name. An indented line continues the one before it. A claim begins with
/// an empty store, or with what the suite has in it.
struct Claim: CustomTestStringConvertible, Sendable {
    let testDescription: String
    private var lines: [String] = []

    static func list(_ script: String) -> [Claim] {
        var claims: [Claim] = []
        for line in script.split(separator: "\n") {
            if line.hasPrefix("# ") {
                claims.append(Claim(testDescription: String(line.dropFirst(2))))
            } else if line.hasPrefix(" ") {
                claims[claims.count - 1].lines.append(
                    claims[claims.count - 1].lines.removeLast() + " " + line.trimmingPrefix { $0 == " " })
            } else {
                claims[claims.count - 1].lines.append(String(line))
            }
        }
        return claims
    }

    /// - Parameters:
    ///   - queries: by name.
    ///   - wantsKeys: of jobs of operations. Without keys, what delete rules delete may be counted alone.
    func check(_ store: TestStore, _ queries: [String: String] = [:], wantsKeys: Bool = true) throws {
        for line in lines {
            if let separator = line.firstRange(of: " ::") {
                let name = String(line[..<separator.lowerBound])
                let rows = try store.rows(queries[name] ?? name).joined(separator: ", ")
                #expect(rows == line[separator.upperBound...].trimmingPrefix(" "), "\(name)")
            } else {
                let parts = line.split(separator: " => ", maxSplits: 1)
                let (end, isFailure) = try end(of: parts[0], store, wantsKeys)
                if parts.count == 2 {
                    #expect(end == parts[1], "\(line)")
                } else {
                    #expect(!isFailure, "\(line): \(end)")
                }
            }
        }
        #expect(try store.isSound())
    }

    private func end(
        of line: Substring, _ store: TestStore, _ wantsKeys: Bool
    ) throws -> (text: String, isFailure: Bool) {
        let start = line.firstIndex(of: "{")!
        let (words, text) = (line[..<start].split(separator: " "), String(line[start...]))
        let policy = words.contains("skip") ? InvalidRecordPolicy.skip : .fail
        let hasOperations = text.hasPrefix(#"{"op":"#) || text.hasPrefix(#"{"entity":"#)
        let listsKeys = words.contains("keys")
        let job =
            try hasOperations
            ? store.job(operations: text, policy, wantsKeys: wantsKeys || listsKeys)
            : store.job(text, policy, wantsKeys: listsKeys)
        let end = try store.apply(job)
        guard let outcome = end.outcome else {
            return ("\(end.fault?.code.rawValue ?? "not applied") \(end.fault?.path ?? "nowhere")", true)
        }
        if listsKeys { return (String(decoding: outcome.keys ?? [], as: UTF8.self), false) }
        if words.contains("warnings") {
            let warnings = outcome.warnings.map { "\($0.code.rawValue) \($0.entity).\($0.key ?? "") \($0.count)" }
            return (warnings.isEmpty ? "none" : warnings.joined(separator: ", "), false)
        }
        let effect = outcome.summary.isEmpty ? "nothing" : outcome.summary
        return (
            ([effect] + (outcome.rejections.isEmpty ? [] : [outcome.rejections.joined(separator: ", ")])).joined(
                separator: "; "), false
        )
    }
}
