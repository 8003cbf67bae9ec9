@testable import BrokerSchema
import BrokerJSON
import BrokerModel
import BrokerStaging
import CSQLite
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// A store in a folder of its own, which goes with this object, and jobs for it.
///
/// A job is an object of entity names and their `json`, in payload order.
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
    init(_ model: String, options: StoreOptions = StoreOptions()) throws {
        var options = options
        if Self.interpretsAll { options.interpretsAll = true }
        self.options = options
        plan = try stagingPlan(model)
        store = try Store(path: folder.path("store.sqlite"), plan: plan, options: options)
        // Small jobs compare rows like large ones.
        store.merger.comparedRows = 1
    }

    /// Closes the store and opens it again, with another model if one is given.
    func reopen(_ model: String? = nil, removal: RemovalPolicy = .refuse) throws {
        var options = options
        options.removal = removal
        if let model { plan = try stagingPlan(model) }
        store = try Store(path: path, plan: plan, options: options)
        store.merger.comparedRows = 1
    }

    // MARK: - Jobs

    /// Applies one job in a transaction of its own.
    @discardableResult
    func apply(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        now: Int64 = 0
    ) throws -> JobOutcome {
        try apply(job(payload, id: id, policy, wantsKeys: wantsKeys, now: now))
    }

    /// Applies one job in a transaction of its own.
    @discardableResult
    func apply(_ job: StoreJob) throws -> JobOutcome {
        try store.begin()
        do {
            let end = try store.apply(job)
            try store.commit()
            store.copyWALIfDue()
            return end
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

    /// The effect of a job: `Employee +1 ~2 =3 !4` for inserted, updated, unchanged and rejected.
    func changes(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        try outcome(payload, policy).described
    }

    func outcome(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Outcome {
        switch try apply(payload, policy) {
        case .completed(let outcome): return outcome
        case .failed(let fault), .conflict(let fault, _): throw fault
        case .duplicate: throw Fault(.idConflict, "a job without an id cannot be a duplicate")
        }
    }

    /// The fault of a job that fails; nil when it does not.
    func fault(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Fault? {
        if case .failed(let fault) = try apply(payload, policy) { fault } else { nil }
    }

    /// The keys that a job inserted and updated, as the contract's JSON.
    func keys(_ payload: String) throws -> String? {
        guard case .completed(let outcome) = try apply(payload, wantsKeys: true) else { return nil }
        return outcome.keys.map { String(decoding: $0, as: UTF8.self) }
    }

    func job(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        now: Int64 = 0
    ) throws -> StoreJob {
        defer { nextSequence += 1 }
        let text = JSONText(copying: Array(payload.utf8))
        return StoreJob(
            id: id ?? "job-\(nextSequence)", contentHash: id == nil ? nil : JobHash(Array(payload.utf8)),
            sequence: nextSequence, policy: policy, wantsKeys: wantsKeys, work: try stage(text, plan, policy), now: now)
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

extension Outcome {
    var described: [String] {
        changes.map { "\($0) +\($1.inserted) ~\($1.updated) =\($1.unchanged) !\($1.rejected)" }
    }

    /// `code path`, as listed.
    var rejections: [String] { rejected.map { "\($0.code.rawValue) \($0.path ?? "nowhere")" } }
}

/// The effect of a job with that payload: an object of entity names and their `json`.
func stage(
    _ text: JSONText, _ plan: StagingPlan, _ policy: InvalidRecordPolicy = .fail
) throws -> StoreJob.Work {
    let document = try JSONDocument(parsing: text)
    let operations = withExtendedLifetime(document) {
        document.root.members.map { key, value in
            StagingOperation(entity: plan.model.index(ofEntity: key.string!)!, json: value)
        }
    }
    do throws(StagingRefusal) {
        var parts: [StagedPart] = []
        for collection in JobCollection.collections(of: ShortList(operations), in: document) {
            parts.append(try collection.stage(plan, policy))
        }
        return .steps([StagedStep(action: .merge, rows: StagedJobRows.unite(parts, plan))])
    } catch {
        guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
        return .refused(fault)
    }
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
