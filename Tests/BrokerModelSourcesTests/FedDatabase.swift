import BrokerModelSources
import BrokerJSON
import BrokerModel
import BrokerStaging
import CSQLite
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// A database that plain SQL made, and jobs for it. Its model is the imported one, unless another is given.
final class FedDatabase {
    let folder = TemporaryFolder()
    private(set) var plan: StagingPlan
    private var store: Store?
    private var nextSequence: Int64 = 0
    /// The code and the count of each warning of the last completed job.
    private(set) var warnings: [String] = []
    /// The last fault of a job or of one of its records.
    private(set) var fault: Fault?

    var path: String { folder.path("existing.sqlite") }

    /// - Parameter changing: the text of the imported model, to what it is to be.
    init(_ sql: String, changing: (String) -> String = { $0 }) throws {
        plan = try StagingPlan(Model(entities: []))
        try execute(sql)
        plan = try imported(changing)
    }

    func imported(_ changing: (String) -> String = { $0 }) throws -> StagingPlan {
        let text = changing(try DatabaseModel.modelText(ofDatabaseAt: path))
        return try StagingPlan(ModelReader.read(JSONText(copying: Array(text.utf8))))
    }

    /// As another program does it, which enforces no foreign keys.
    func execute(_ sql: String) throws {
        var handle: OpaquePointer?
        try #require(sqlite3_open(path, &handle) == SQLITE_OK)
        defer { sqlite3_close(handle) }
        try #require(
            sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle)))")
    }

    // MARK: - The store

    @discardableResult
    func open() throws -> Store {
        store = nil
        let store = try Store(path: path, plan: plan)
        self.store = store
        nextSequence = try store.lastSequence()
        return store
    }

    func close() { store = nil }

    /// Why the database is not fed; and that neither it nor its folder has changed.
    func refusal() throws -> String {
        let before = try contents()
        let error = try #require(throws: StoreError.self) { try Store(path: path, plan: plan) }
        #expect(error.code == .incompatible && !error.message.contains("\n"))
        #expect(try contents() == before)
        return error.message
    }

    func contents() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path("")) {
            contents[name] = try Data(contentsOf: URL(filePath: folder.path(name)))
        }
        return contents
    }

    // MARK: - Jobs

    /// The effect of a job that processes records, or its fault, each in a list: `Employee +1 ~2 =3 -4 !5`, without what is 0.
    func process(_ entity: String, _ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        try run([processing(entity, json, policy)], policy)
    }

    /// - Parameter part: of the sync `s`.
    func sync(_ entity: String, _ json: String, part: SyncPart? = nil) throws -> [String] {
        try run([syncing(entity, json, part: part)])
    }

    static func part(isLast: Bool) -> SyncPart { SyncPart(id: "s", isLast: isLast, definition: []) }

    func delete(_ entity: String, _ keys: String) throws -> [String] {
        let index = try #require(plan.model.index(ofEntity: entity))
        return try run([step(.delete(entity: index), .name, entity, keys)])
    }

    // MARK: - Steps of a job

    func processing(_ entity: String, _ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> StagedStep {
        try step(.merge, .process, entity, json, policy)
    }

    func syncing(_ entity: String, _ json: String, part: SyncPart? = nil) throws -> StagedStep {
        let index = try #require(plan.model.index(ofEntity: entity))
        return try step(.sync(StagedSync(StagedSelection(entity: index, nil), part: part)), .process, entity, json)
    }

    private func step(
        _ action: StepAction, _ operation: StagingOperation.Action, _ entity: String, _ json: String,
        _ policy: InvalidRecordPolicy = .fail
    ) throws -> StagedStep {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        let index = try #require(plan.model.index(ofEntity: entity))
        let rows = try withExtendedLifetime(document) {
            let operations = [StagingOperation(entity: index, json: document.root, operation)]
            let parts = try JobCollection.collections(of: ShortList(operations), in: document).map {
                try $0.stage(plan, policy)
            }
            return StagedJobRows.unite(parts, plan)
        }
        return StagedStep(action: action, rows: rows)
    }

    /// The effect of a job of these steps, in the form of ``process(_:_:_:)``.
    func run(_ steps: [StagedStep], _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        let store = try #require(store)
        nextSequence += 1
        let job = StoreJob(
            id: "job-\(nextSequence)", contentHash: nil, sequence: nextSequence, policy: policy, wantsKeys: false,
            work: .steps(steps), now: 0)
        try store.begin()
        let end: JobOutcome
        do {
            end = try store.apply(job)
            try store.commit()
        } catch {
            store.rollback()
            throw error
        }
        switch end {
        case .completed(let outcome):
            fault = outcome.rejected.last
            warnings = outcome.warnings.map { "\($0.code.rawValue) \($0.count)" }
            return outcome.changes.map { entity, counts in
                let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
                let texts = zip("+~=-!", numbers).filter { $1 != 0 }.map { " \($0)\($1)" }
                return entity + texts.joined()
            } + outcome.rejected.map(\.message)
        case .failed(let fault), .conflict(let fault, _):
            self.fault = fault
            return ["\(fault.code.rawValue): \(fault.message)"]
        case .duplicate: return ["duplicate"]
        }
    }

    // MARK: - Reading

    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }

    func fetch(_ entity: String) throws -> String {
        let request = try plan.fetchRequest(FetchDescription(entity: entity))
        return String(decoding: try StoreReader(path: path, plan: plan).fetch(request).bytes, as: UTF8.self)
    }

    /// Another program's declarations, and the header's marks.
    func foreignObjects() throws -> [String] {
        try rows(
            "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE '\\_broker\\_%' ESCAPE '\\' ORDER BY rowid"
        )
            + rows("PRAGMA application_id") + rows("PRAGMA user_version")
    }
}
