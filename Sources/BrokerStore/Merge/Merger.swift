internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite

/// The statements and scans of one connection, by which staged rows, and objects one by one, get into the tables.
final class Merger {
    let plan: StagingPlan
    let connection: Connection
    /// Another program made the tables.
    let isForeign: Bool
    let scans: ScanSet
    let entities: [EntityStatements]
    let links: [LinkStatements]
    let deletions: DeletionStatements
    let objects: ObjectStatements
    let forms: ColumnAffinities
    let historyTables: ChangedTables
    let named: NamedObjects
    /// At a fixed address: SQLite's update hook writes to it.
    let tally: UnsafeMutablePointer<MergeTally>
    /// Entities in an order in which most rows come after the rows they refer to.
    let order: [Int]
    /// Entities in the order of their names, in which an outcome lists them.
    let entitiesByName: [Int]
    /// Set to an earlier value when the work that took keys since is rolled back.
    var rowKeys: RowKeys
    /// The running job renamed an object, so rows may have other numbers than before.
    var hasRenamed = false
    /// A digest of what the running job writes; nil when no caller asked for it.
    var digest: RowDigest?
    /// Each job's outcome has ``Outcome/feedKeys``.
    var keepsFeedKeys = false
    /// A batch of so many rows is not checked for foreign keys: to compile its statements again costs some hundred checks.
    var rowsWithoutChecks = 2_000
    /// Steps whose records were applied one after the other, by the reason.
    var interpretations: [InterpretationReason: Int] = [:]
    /// Every job is applied by the interpreter, for tests that compare its results.
    var interpretsAll = false
    /// So many rows of one entity are worth a statement that finds those to be written (``Upsert``). Tests lower it.
    var comparedRows = 64

    init(_ plan: StagingPlan, on connection: Connection, isForeign: Bool) throws(StoreError) {
        let scans = try ScanSet(plan, on: connection)
        self.plan = plan
        self.connection = connection
        self.isForeign = isForeign
        self.scans = scans
        forms = ColumnAffinities(plan.model, on: connection)
        // Another program's defaults are meant for new rows.
        let defaults = try isForeign ? DeclaredDefaults() : DeclaredDefaults(on: connection)
        var entities: [EntityStatements] = []
        let checked = try isForeign ? Self.tablesWithChecks(on: connection) : []
        for index in plan.model.entities.indices {
            let table = try isForeign ? ExistingTable(plan.model.table(of: index), on: connection) : nil
            if let table { forms.note(table, of: index, plan.model.entities[index]) }
            entities.append(
                EntityStatements(
                    index, plan, scans, table, defaults, checksValues: checked.contains(plan.model.table(of: index)),
                    on: connection))
        }
        self.entities = entities
        links = plan.layout.linkTables.indices.map { LinkStatements($0, plan, scans, on: connection) }
        deletions = try DeletionStatements(plan, on: connection)
        objects = ObjectStatements(plan, defaults, on: connection)
        named = try NamedObjects(on: connection)
        historyTables = try ChangedTables(entities, plan, defaults, on: connection)
        order = Self.parentsFirst(plan.layout)
        entitiesByName = plan.model.entities.indices.sorted {
            plan.model.entities[$0].name < plan.model.entities[$1].name
        }
        rowKeys = RowKeys(entityCount: entities.count)
        tally = .allocate(capacity: 1)
        tally.initialize(to: MergeTally())
        MergeTally.install(on: connection, tally)
        try StagedFunctions.install(on: connection, tally)
        try ExtraFunction.install(on: connection)
    }

    deinit { tally.deallocate() }

    /// The tables that may refuse a value for its type or its form.
    private static func tablesWithChecks(on connection: Connection) throws(StoreError) -> Set<String> {
        let read = try connection.prepare(
            "SELECT t.name FROM pragma_table_list AS t JOIN sqlite_schema AS s ON s.name = t.name "
                + "WHERE t.schema = 'main' AND (t.strict OR s.sql LIKE '%CHECK%')")
        var names: Set<String> = []
        while try read.step() { names.insert(read.text(0)) }
        return names
    }

    /// Merges the rows of a step.
    ///
    /// - Throws: ``MergeFailure/surprise(_:)``, or a ``StoreError``; the caller must then roll back. Row keys that the merge
    ///   took are released.
    func merge(_ rows: StagedRows) throws -> SetMerge {
        let keys = rowKeys
        let merge = SetMerge([rows], self, isBatch: false)
        do {
            try merge.run()
            return merge
        } catch {
            rowKeys = keys
            throw error
        }
    }

    // MARK: - Row keys

    /// The row key of the object with the identity in this row of cells; nil when there is none.
    func rowKey(of cells: UnsafePointer<Cell>, _ entity: Int) throws(StoreError) -> Int64? {
        try rowKey(entity) { entities[entity].bindIdentity(cells, to: $0, from: 1) }
    }

    func rowKey(_ entity: Int, _ bind: (Statement) -> Void) throws(StoreError) -> Int64? {
        let find = try entities[entity].findRowKey()
        bind(find)
        return try find.first { $0.integer(0) }
    }

    /// - Parameter key: the values of the entity's identity, or the store's own key.
    func storedKey(_ key: [Cell], of entity: Int) throws(StoreError) -> StoredKey? {
        let table = plan.model.topmost(of: entity)
        guard entities[table].hasRowKey, !entities[entity].entity.isNamedByRowKey else {
            return try forms.key(key, of: table)
        }
        let identity = StoredKey(key)
        return try rowKey(entity) { identity.bind(to: $0, from: 1) }.map { StoredKey([.integer($0)]) }
    }

    func object(
        of cells: UnsafePointer<Cell>, _ entity: Int, charging columns: LongColumns? = nil
    ) throws(StoreError) -> StoredObject? {
        guard entities[entity].hasRowKey else {
            return try entities[entity].find(charging: columns) {
                entities[entity].bindIdentity(cells, to: $0, from: 1)
            }
        }
        guard let key = try rowKey(of: cells, entity) else { return nil }
        return try entities[entity].find(charging: columns) { $0.bind(key, at: 1) }
    }

    func takeRowKey(_ entity: Int) throws(StoreError) -> Int64 {
        try rowKeys.take(entities[entity], entity, on: connection)
    }

    /// Called before objects are deleted: reads the newest keys while their objects are there.
    func readRowKeys() throws(StoreError) {
        for entity in entities.indices
        where entities[entity].hasRowKey && plan.model.topmost(of: entity) == entity {
            try rowKeys.read(entities[entity], entity, on: connection)
        }
    }

    /// Called before COMMIT, so that keys that were taken are never assigned again.
    func writeRowKeys() throws(StoreError) { try rowKeys.write(entities, on: connection) }

    /// Called after a rollback: the newest keys are read from the store again.
    func resetRowKeys() { rowKeys = RowKeys(entityCount: entities.count) }

    /// Depth first over to-one relationships. Cycles are cut where they close; deferred foreign keys handle the rest.
    private static func parentsFirst(_ layout: RowLayout) -> [Int] {
        var order: [Int] = []
        var visited = Set<Int>()
        func visit(_ entity: Int) {
            guard visited.insert(entity).inserted else { return }
            for link in layout.entities[entity].links { visit(link.destination) }
            order.append(entity)
        }
        for entity in layout.entities.indices { visit(entity) }
        return order
    }
}

/// The row keys (`_pk`), which the store assigns: one counter for each table, which rises by one with each new object.
///
/// The newest key of each table is written in the transaction that took it. So the next key depends only on the jobs
/// that were applied, and not on shared transactions, failed jobs or restarts. A committed key is never assigned again,
/// whatever is deleted.
///
/// A value type: restoring an earlier value releases the keys that were taken since.
struct RowKeys {
    /// By entity index: the newest key of the table; nil before it is read.
    private var newest: [Int64?]
    /// By entity index: the newest key according to the store; nil before it is read.
    private var stored: [Int64?]
    private var hasChanges = false

    init(entityCount: Int) {
        newest = Array(repeating: nil, count: entityCount)
        stored = newest
    }

    mutating func take(_ entity: EntityStatements, _ index: Int, on connection: Connection) throws(StoreError) -> Int64
    {
        try read(entity, index, on: connection)
        newest[index]! += 1
        hasChanges = true
        return newest[index]!
    }

    mutating func read(_ entity: EntityStatements, _ index: Int, on connection: Connection) throws(StoreError) {
        guard newest[index] == nil else { return }
        let table = entity.entity.table
        let inTable = try connection.integer("SELECT max(\(rowKeyName)) FROM \(quoted(table))") ?? 0
        let meta = StoreMeta(connection: connection)
        let own = try meta.newestRowKey(of: table)
        let common = own == nil ? try meta.value(of: .rowKeys).flatMap { Int64($0) } : nil
        newest[index] = max(inTable, own ?? common ?? 0)
        stored[index] = own ?? 0
        hasChanges = hasChanges || newest[index] != stored[index]
    }

    mutating func write(_ entities: [EntityStatements], on connection: Connection) throws(StoreError) {
        guard hasChanges else { return }
        let meta = StoreMeta(connection: connection)
        for (index, key) in newest.enumerated() where key != nil && key != stored[index] {
            try meta.set(newestRowKey: key!, of: entities[index].entity.table)
            stored[index] = key
        }
        hasChanges = false
    }
}

/// Whether a step names an object, as an SQL function: `_broker_is_named(key columns)`.
///
/// It needs one lookup for each examined row of the table, and no copy of the keys.
final class NamedObjects {
    private static let function = "_broker_is_named"

    private var isNamed: (([Cell]) -> Bool)?
    private let meter: WorkMeter

    /// Registers the function. This object must outlive the connection's last statement.
    init(on connection: Connection) throws(StoreError) {
        meter = connection.work
        let own = Unmanaged.passUnretained(self).toOpaque()
        try connection.addFunction(Self.function, -1, 0, own) { context, count, values in
            let named = Unmanaged<NamedObjects>.fromOpaque(sqlite3_user_data(context)!).takeUnretainedValue()
            let values = UnsafeBufferPointer(start: values, count: Int(count))
            guard PredicateFunctions.charge(context, named.meter, forKeyOf: values) else { return }
            sqlite3_result_int(context, named.isNamed?(values.map { Cell($0) }) ?? false ? 1 : 0)
        }
    }

    /// The condition that an object `o` is named, by the values of these columns. `isNamed` is used until ``clear()``.
    func set(_ columns: [String], _ isNamed: @escaping ([Cell]) -> Bool) -> String {
        self.isNamed = isNamed
        return "\(Self.function)(\(columns.map { "o.\($0)" }.joined(separator: ", ")))"
    }

    func clear() { isNamed = nil }
}

struct ReportedFaults {
    private(set) var rejected: [Fault] = []
    /// By the name of the entity, the number of rejections that are not listed.
    private(set) var unlisted: [String: Int] = [:]
    var warnings: [Warning] = []

    private static let maximumCompared = 1_000

    mutating func add(_ rows: StagedRows) { add(rows.rejected, rows.unlistedRejections, rows.warnings) }

    mutating func add(_ interpreter: Interpreter) {
        add(interpreter.rejected, interpreter.unlistedRejections, interpreter.warnings)
    }

    private mutating func add(_ rejected: [Fault], _ unlisted: [String: Int], _ warnings: [Warning]) {
        if !unlisted.isEmpty { self.unlisted.merge(unlisted, uniquingKeysWith: +) }
        for fault in rejected {
            if self.rejected.count < RejectionList.maximumListed {
                self.rejected.append(fault)
            } else {
                self.unlisted[fault.entity ?? "", default: 0] += 1
            }
        }
        for warning in warnings { add(warning) }
    }

    private mutating func add(_ warning: Warning) {
        let known = warnings.firstIndex { known in
            known.code == warning.code && known.entity.hasSameBytes(as: warning.entity)
                && (known.key ?? "").hasSameBytes(as: warning.key ?? "")
        }
        // A job of few steps reports each key once; comparing many warnings with each other would take too long.
        if let known, warnings.count <= Self.maximumCompared {
            warnings[known].add(warning)
        } else {
            warnings.append(warning)
        }
    }

    var rejectedCounts: [String: Int] {
        var counts = unlisted
        for fault in rejected { counts[fault.entity ?? "", default: 0] += 1 }
        return counts
    }
}

extension Outcome {
    /// The reported faults without later changes.
    init(_ reported: ReportedFaults) {
        self.init()
        if !reported.rejected.isEmpty { rejected = reported.rejected }
        if !reported.warnings.isEmpty { warnings = reported.warnings }
        let unlisted = reported.unlisted.values.reduce(0, +)
        if unlisted > 0 { warnings.append(Warning(.rejectedNotListed, entity: "", count: unlisted)) }
    }
}

/// The memory that one job takes besides its staged rows: what the interpreter reads, parked values, and the changes that are
/// recorded. It is given back at the job's end.
///
/// Used by the one thread that merges the job.
final class MergeMemory: StagingAllowance, @unchecked Sendable {
    private let allowance: (any MemoryAllowance)?
    private let limit: Int
    private var used = 0
    /// The part of the used memory that belongs to a growing table.
    private var held = 0

    /// - Parameters:
    ///   - allowance: nil grants everything.
    ///   - limit: holds whatever staging has taken, so that a job of a log ends alike wherever it is merged.
    init(_ allowance: (any MemoryAllowance)?, limit: Int?) {
        self.allowance = allowance
        self.limit = limit ?? .max
    }

    deinit { allowance?.giveBack(used) }

    func take(_ bytes: Int) -> Bool {
        guard bytes <= limit - used, allowance?.take(bytes) ?? true else { return false }
        used += bytes
        return true
    }

    /// Like ``take(_:)``, for a table that now has so many bytes.
    func hold(_ bytes: Int) -> Bool {
        guard bytes > held else { return true }
        let step = max(bytes - held, 64 << 10)
        guard take(step) else { return false }
        held += step
        return true
    }

    static let refusal = Fault.busy(
        "Skipping the records that cannot be stored needs more memory than one job may take. Split it into several "
            + "jobs, or raise the server's limit.")
}

enum MergeFailure: Error {
    case fault(Fault)
    /// Applying the records one after the other may have another result: nothing is repaired, and the interpreter applies them.
    case surprise(InterpretationReason)

    init(_ refusal: StagingRefusal) {
        switch refusal {
        case .fault(let fault): self = .fault(fault)
        case .noRoom: self = .fault(MergeMemory.refusal)
        }
    }
}
