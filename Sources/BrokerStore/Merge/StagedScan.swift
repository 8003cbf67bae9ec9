internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// A column of the virtual table: which value of a staged row it reads.
struct ScanColumn {
    enum Source {
        case cell
        case rowKey
        /// A key of the object to which a link cell of the row refers.
        case linkedCell
        case linkedRowKey
        /// The position of a link in the list of its source, or of its destination.
        case position
    }

    var source: Source
    /// The row's cell; in a link table 0 for its source, 1 for its destination.
    var cell: Int
    var destination = 0
    var destinationCell = 0
}

/// Staged rows, of one job or several, as the rows of a virtual table, and the position of the scan.
///
/// A plain struct at a fixed address: SQLite's callbacks read it millions of times a second, without any reference
/// counting. Its owner fills it, runs one statement, and reads from ``row`` at which row SQLite was.
struct StagedScan {
    private static let prefetchedRows = 8

    /// The entity whose rows it reads; nil for a link table.
    let entity: Int?
    let columns: UnsafePointer<ScanColumn>
    let entityCount: Int
    /// By job, then by entity index.
    var tables: UnsafePointer<ScannedTable>
    var order: UnsafePointer<UInt32>?
    /// By position in the order, the job of the row.
    var jobs: UnsafePointer<UInt32>?
    /// By column, the replacement where a row may lack a value.
    var absentValues: UnsafePointer<Cell>?
    /// The column `_extra` of the entity's table, and what its changes are charged to; nil without one.
    let extra: Unmanaged<ExtraColumn>?
    let meter: Unmanaged<WorkMeter>
    /// Its number in the virtual table; negative without one.
    let extraNumber: Int
    let extraColumn: Int
    /// Columns that identify the rows where several may belong to one object; else empty.
    var identity: UnsafeBufferPointer<Int>?
    /// For a link table: the links, in their own order.
    var links: UnsafePointer<StagedLink>?
    /// Two for each link, in the lists of its source and of its destination; negative for none. Nil when no link has one.
    var linkPositions: UnsafePointer<Int32>?
    private(set) var position = 0
    private(set) var end = 0
    /// Positions in the order of rows that a statement of ``Upsert`` leaves to the next one (``StagedFunctions``).
    var postponed: UnsafeMutablePointer<[UInt32]>?
    /// The cells of the current row, the tables of its job, and its number.
    private(set) var cells: UnsafePointer<Cell>?
    private(set) var jobTables: UnsafePointer<ScannedTable>
    private(set) var row = 0

    init(
        entity: Int?, columns: UnsafePointer<ScanColumn>, _ extra: (column: ExtraColumn, number: Int)?,
        charging meter: WorkMeter, entityCount: Int, tables: UnsafePointer<ScannedTable>
    ) {
        self.meter = .passUnretained(meter)
        self.entity = entity
        self.columns = columns
        self.extra = extra.map { .passUnretained($0.column) }
        extraNumber = extra?.number ?? -1
        extraColumn = extra?.column.column ?? -1
        self.entityCount = entityCount
        self.tables = tables
        jobTables = tables
    }

    /// Restricts the scan to that part of the order, or of the links.
    mutating func read(_ range: Range<Int>) {
        position = range.lowerBound
        end = range.upperBound
        jobTables = tables
        settle()
    }

    mutating func clear() {
        (order, jobs, identity, absentValues) = (nil, nil, nil, nil)
        (links, linkPositions, cells, postponed) = (nil, nil, nil, nil)
        read(0..<0)
    }

    @inline(__always) var isAtEnd: Bool { position >= end }

    @inline(__always)
    mutating func advance() {
        position += 1
        settle()
        prefetch()
    }

    /// Loads the cells of a later row and the texts of a nearer one: another processor has written them, and in the
    /// order of random identities each row is elsewhere in memory.
    @inline(__always)
    private func prefetch() {
        guard jobs != nil, position + Self.prefetchedRows < end else { return }
        let width = jobTables[entity!].columnCount
        let later = cells(at: position + Self.prefetchedRows)
        for column in stride(from: 0, to: width, by: 4) { broker_prefetch(later + column) }
        let nearer = cells(at: position + Self.prefetchedRows / 2)
        for column in 0..<width where nearer[column].kind == .text {
            broker_prefetch(nearer[column].bytes.baseAddress)
        }
    }

    func cells(at place: Int) -> UnsafePointer<Cell> {
        let table = tables[Int(jobs![place]) * entityCount + entity!]
        return table.cells! + Int(order![place]) * table.columnCount
    }

    @inline(__always)
    private mutating func settle() {
        guard position < end, let entity, let order, let jobs else { return }
        row = Int(order[position])
        jobTables = tables + Int(jobs[position]) * entityCount
        let table = jobTables[entity]
        cells = table.cells! + row * table.columnCount
    }

    @inline(__always)
    func value(_ number: Int) -> Value {
        let column = columns[number]
        switch column.source {
        case .cell:
            let cell = cells![column.cell]
            return .cell(cell)
        case .rowKey: return .key(jobTables[entity!].rowKeys![row])
        case .position:
            let place = linkPositions.map { $0[2 * position + column.cell] } ?? -1
            return place < 0 ? .cell(.null) : .key(Int64(place))
        case .linkedCell, .linkedRowKey:
            let linked: Int
            if let links {
                linked = Int(column.cell == 0 ? links[position].source : links[position].destination)
            } else {
                let link = cells![column.cell]
                guard link.kind == .object else { return .cell(link) }
                linked = link.row
            }
            let table = jobTables[column.destination]
            if column.source == .linkedRowKey { return .key(table.rowKeys![linked]) }
            return .cell(table.cells![linked * table.columnCount + column.destinationCell])
        }
    }

    enum Value {
        case cell(Cell)
        case key(Int64)
    }

    @inline(__always)
    func result(_ number: Int, _ context: OpaquePointer?) {
        switch value(number) {
        case .key(let key): sqlite3_result_int64(context, key)
        case .cell(let cell):
            let isStoodFor = cell.kind == .absent && absentValues != nil
            (isStoodFor ? absentValues![number] : cell).give(to: context)
        }
    }
}

extension Cell {
    /// Sets the value as the result of a virtual table's column or of a function. The bytes are not copied.
    @inline(__always)
    func give(to context: OpaquePointer?) {
        switch kind {
        case .integer: sqlite3_result_int64(context, integer)
        case .real: sqlite3_result_double(context, real)
        case .text:
            let start = UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: CChar.self)
            broker_sqlite_result_static_text(context, start, UInt64(count))
        case .blob: broker_sqlite_result_static_blob(context, bytes.baseAddress, UInt64(count))
        case .null, .absent, .object: sqlite3_result_null(context)
        }
    }
}

/// The staged rows of one entity in one job, as scans read them.
struct ScannedTable {
    var cells: UnsafePointer<Cell>?
    var columnCount = 0
    var rowKeys: UnsafePointer<Int64>?
    /// By row, the ``MergeTally/RowState`` of the row itself.
    var states: UnsafeMutablePointer<UInt8>?
    /// By row, ``MergeTally/RowState/updated`` where a record of the object changed a link in a link table.
    var linkStates: UnsafeMutablePointer<UInt8>?

    @inline(__always)
    func state(of row: Int) -> UInt8 {
        states![row] == MergeTally.RowState.unchanged.rawValue ? linkStates![row] : states![row]
    }
}

/// Counts what the statements of a merge do to rows, with SQLite's update hook.
///
/// The counts are exact and need no extra statements: the hook distinguishes inserts from updates, and the scan knows
/// the staged row and its job.
struct MergeTally {
    enum RowState: UInt8 {
        case unchanged = 0
        case inserted = 1
        case updated = 2
    }

    enum Counting {
        case off
        /// Rows of an entity's table are merged from its scan.
        case entityRows
        /// Links are merged from a link table's scan. The values are the entities at its two ends.
        case linkRows(Int, Int)
    }

    private var counting = Counting.off
    private(set) var scan: UnsafeMutablePointer<StagedScan>?

    /// Counts while `body` runs a statement over the scan. SQLite's callbacks reach the tally through the same pointer.
    static func counting(
        _ tally: UnsafeMutablePointer<MergeTally>, to scan: UnsafeMutablePointer<StagedScan>, of what: Counting,
        _ body: () throws(StoreError) -> Void
    ) throws(StoreError) {
        tally.pointee.scan = scan
        tally.pointee.counting = what
        defer { tally.pointee = MergeTally() }
        try body()
    }

    @inline(__always)
    static func mark(_ state: RowState, _ row: Int, _ states: UnsafeMutablePointer<UInt8>?) {
        // An inserted object stays inserted, even if the same job changes it again.
        if let states, states[row] == RowState.unchanged.rawValue { states[row] = state.rawValue }
    }

    static func install(on connection: Connection, _ tally: UnsafeMutablePointer<MergeTally>) {
        sqlite3_update_hook(
            connection.handle,
            { context, operation, _, _, _ in
                let tally = context!.assumingMemoryBound(to: MergeTally.self)
                guard let scan = tally.pointee.scan else { return }
                switch tally.pointee.counting {
                case .off: return
                case .entityRows:
                    let state = operation == SQLITE_INSERT ? RowState.inserted : .updated
                    MergeTally.mark(
                        state, scan.pointee.row, scan.pointee.jobTables[scan.pointee.entity!].states)
                case .linkRows(let source, let destination):
                    let link = scan.pointee.links![scan.pointee.position]
                    let tables = scan.pointee.jobTables
                    if link.isNamedByDestination {
                        MergeTally.mark(.updated, Int(link.destination), tables[destination].linkStates)
                    }
                    if link.isNamedBySource {
                        MergeTally.mark(.updated, Int(link.source), tables[source].linkStates)
                    }
                }
            }, tally)
    }
}

extension ChangeCounts {
    /// - Parameter state: a ``MergeTally/RowState``.
    @inline(__always)
    mutating func add(_ state: UInt8) {
        switch state {
        case MergeTally.RowState.inserted.rawValue: inserted += 1
        case MergeTally.RowState.updated.rawValue: updated += 1
        default: unchanged += 1
        }
    }
}

/// The scans of a connection: one for each entity, then one for each link table, each with a virtual table.
///
/// They are at fixed addresses for the life of this object, which must outlive the connection's last statement.
final class ScanSet {
    /// Without rows: of scans that are not in use.
    private let tables: UnsafeMutableBufferPointer<ScannedTable>
    private let scans: UnsafeMutableBufferPointer<StagedScan>
    private let entries: UnsafeMutableBufferPointer<StagedModuleEntry>
    private var columns: [UnsafeMutableBufferPointer<ScanColumn>] = []
    let entityCount: Int

    /// - Parameter plan: it must outlive this object.
    init(_ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        let (model, layout) = (plan.model, plan.layout)
        entityCount = model.entities.count
        let shapes =
            model.entities.indices.map { Self.columns(ofEntity: $0, model, layout) }
            + layout.linkTables.map { Self.columns(of: $0, model) }
        tables = .allocate(capacity: entityCount)
        tables.initialize(repeating: ScannedTable())
        scans = .allocate(capacity: shapes.count)
        entries = .allocate(capacity: shapes.count)
        for (number, shape) in shapes.enumerated() {
            let place = UnsafeMutableBufferPointer<ScanColumn>.allocate(capacity: max(1, shape.count))
            _ = place.initialize(fromContentsOf: shape)
            columns.append(place)
            let extra = number < entityCount ? plan.extraColumns[number] : nil
            let hasRowKey = number < entityCount && model.entities[number].hasRowKey
            scans.initializeElement(
                at: number,
                to: StagedScan(
                    entity: number < entityCount ? number : nil, columns: place.baseAddress!,
                    extra.map { ($0, $0.column + (hasRowKey ? 1 : 0)) },
                    charging: connection.work, entityCount: entityCount,
                    tables: tables.baseAddress!))
            entries.initializeElement(
                at: number, to: StagedModuleEntry(scan: scans.baseAddress! + number, columnCount: shape.count))
        }
        try StagedModule.register(on: connection, entries.baseAddress!)
        // The entities of a hierarchy share one scan, that of their table.
        for number in shapes.indices where number >= entityCount || model.entities[number].parent == nil {
            try connection.execute(
                "CREATE VIRTUAL TABLE temp.\(quoted(Self.tableName(number))) USING \(StagedModule.name)(\(number))")
        }
    }

    deinit {
        for place in columns { place.deallocate() }
        scans.deallocate()
        entries.deallocate()
        tables.deallocate()
    }

    func scan(entity: Int) -> UnsafeMutablePointer<StagedScan> { scans.baseAddress! + entity }
    func scan(linkTable: Int) -> UnsafeMutablePointer<StagedScan> { scans.baseAddress! + entityCount + linkTable }
    func tableName(entity: Int) -> String { "temp.\(quoted(Self.tableName(entity)))" }
    func tableName(linkTable: Int) -> String { "temp.\(quoted(Self.tableName(entityCount + linkTable)))" }

    private static func tableName(_ number: Int) -> String { "_broker_staged_\(number)" }

    /// The order of an entity's virtual columns: its row key if it has one, its attributes, then its links' keys.
    private static func columns(ofEntity index: Int, _ model: Model, _ layout: RowLayout) -> [ScanColumn] {
        let entity = model.entities[index]
        let own = entity.hasRowKey ? [ScanColumn(source: .rowKey, cell: 0)] : []
        let attributes = entity.attributes.indices.map { ScanColumn(source: .cell, cell: $0) }
        let links = layout.entities[index].links.enumerated().flatMap { position, link in
            keyColumns(of: link.destination, model, cell: entity.attributes.count + position)
        }
        return own + attributes + links
    }

    private static func columns(of link: LinkTable, _ model: Model) -> [ScanColumn] {
        keyColumns(of: link.source, model, cell: 0) + keyColumns(of: link.destination, model, cell: 1)
            + link.orderedSides.map { ScanColumn(source: .position, cell: $0) }
    }

    private static func keyColumns(of destination: Int, _ model: Model, cell: Int) -> [ScanColumn] {
        let entity = model.entities[destination]
        if entity.hasRowKey { return [ScanColumn(source: .linkedRowKey, cell: cell, destination: destination)] }
        return entity.identity.map {
            ScanColumn(source: .linkedCell, cell: cell, destination: destination, destinationCell: $0)
        }
    }
}

/// The virtual table module `_broker_staged`: each of its tables reads one ``StagedScan``.
enum StagedModule {
    static let name = "_broker_staged"

    /// - Parameter scans: by the number in a table's CREATE statement; they outlive the connection.
    static func register(on connection: Connection, _ scans: UnsafeMutablePointer<StagedModuleEntry>) throws(StoreError)
    {
        let result = sqlite3_create_module_v2(connection.handle, name, methods, scans, nil)
        guard result == SQLITE_OK else {
            throw connection.error(result)
        }
    }

    // Filled once before any use, then only read; SQLite uses the pointer for the life of its connections.
    nonisolated(unsafe) private static let methods: UnsafePointer<sqlite3_module> = {
        var module = sqlite3_module()
        module.iVersion = 1
        module.xCreate = connect
        module.xConnect = connect
        module.xBestIndex = { _, info in
            // Scans read all rows in their order: no search is possible.
            info!.pointee.estimatedCost = 1_000_000
            return SQLITE_OK
        }
        module.xDisconnect = disconnect
        module.xDestroy = disconnect
        module.xOpen = { table, cursor in
            let opened = UnsafeMutablePointer<broker_staged_cursor>.allocate(capacity: 1)
            opened.initialize(to: broker_staged_cursor())
            opened.pointee.source = table!.withMemoryRebound(to: broker_staged_table.self, capacity: 1) {
                $0.pointee.source
            }
            cursor!.pointee = UnsafeMutableRawPointer(opened).assumingMemoryBound(to: sqlite3_vtab_cursor.self)
            return SQLITE_OK
        }
        module.xClose = { cursor in
            UnsafeMutableRawPointer(cursor!).assumingMemoryBound(to: broker_staged_cursor.self).deallocate()
            return SQLITE_OK
        }
        module.xFilter = { _, _, _, _, _ in SQLITE_OK }
        module.xNext = { cursor in
            scan(cursor).pointee.advance()
            return SQLITE_OK
        }
        module.xEof = { cursor in
            scan(cursor).pointee.isAtEnd ? 1 : 0
        }
        module.xColumn = { cursor, context, column in
            scan(cursor).pointee.result(Int(column), context)
            return SQLITE_OK
        }
        module.xRowid = { cursor, rowid in
            rowid!.pointee = Int64(scan(cursor).pointee.position)
            return SQLITE_OK
        }
        let place = UnsafeMutablePointer<sqlite3_module>.allocate(capacity: 1)
        place.initialize(to: module)
        return UnsafePointer(place)
    }()

    private static let connect:
        @convention(c) (
            OpaquePointer?, UnsafeMutableRawPointer?, Int32, UnsafePointer<UnsafePointer<CChar>?>?,
            UnsafeMutablePointer<UnsafeMutablePointer<sqlite3_vtab>?>?,
            UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        ) -> Int32 = { database, client, count, arguments, table, _ in
            // The scan's number follows the names of the module, the database and the table.
            guard count == 4, let text = arguments![3], let number = Int(String(cString: text)) else {
                return SQLITE_ERROR
            }
            let entry = client!.assumingMemoryBound(to: StagedModuleEntry.self)[number]
            let names = (0..<entry.columnCount).map { "c\($0)" }.joined(separator: ", ")
            let result = sqlite3_declare_vtab(database, "CREATE TABLE staged (\(names))")
            guard result == SQLITE_OK else { return result }
            let made = UnsafeMutablePointer<broker_staged_table>.allocate(capacity: 1)
            made.initialize(to: broker_staged_table())
            made.pointee.source = UnsafeMutableRawPointer(entry.scan)
            table!.pointee = UnsafeMutableRawPointer(made).assumingMemoryBound(to: sqlite3_vtab.self)
            return SQLITE_OK
        }

    private static let disconnect: @convention(c) (UnsafeMutablePointer<sqlite3_vtab>?) -> Int32 = { table in
        UnsafeMutableRawPointer(table!).assumingMemoryBound(to: broker_staged_table.self).deallocate()
        return SQLITE_OK
    }

    @inline(__always)
    private static func scan(_ cursor: UnsafeMutablePointer<sqlite3_vtab_cursor>?) -> UnsafeMutablePointer<StagedScan> {
        UnsafeMutableRawPointer(cursor!).assumingMemoryBound(to: broker_staged_cursor.self).pointee.source
            .assumingMemoryBound(to: StagedScan.self)
    }
}

struct StagedModuleEntry {
    var scan: UnsafeMutablePointer<StagedScan>
    var columnCount: Int
}

/// SQL functions about the current row of a merge's scan. Rows may have values for different columns, and SQL alone
/// cannot distinguish a row without a value from one with NULL.
///
/// Columns are named by their numbers in the virtual table. The functions are not deterministic: each call refers to
/// the current row of the scan.
enum StagedFunctions {
    /// `_broker_value(number, old)`: the row's value of the column, or the old one if the row has none.
    static let value = "_broker_value"
    /// `_broker_differs(first, old…)`: 1 if a column from that number on differs for which the row has a value.
    static let differs = "_broker_differs"
    /// `_broker_postpones(first, old…)`: as ``differs``; such a row is also recorded, for the next statement.
    static let postpones = "_broker_postpones"
    /// `_broker_extra(old)`: the column `_extra` after the row.
    static let extra = "_broker_extra"
    /// Columns that one call can compare: SQLite takes 127 arguments at most.
    static let columnsPerCall = 120

    /// - Parameter tally: knows the current scan; at an address that outlives the connection.
    static func install(
        on connection: Connection, _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) {
        try connection.addFunction(value, 2, SQLITE_DIRECTONLY, tally, giveValue)
        try connection.addFunction(differs, -1, SQLITE_DIRECTONLY, tally, findDifferences)
        try connection.addFunction(postpones, -1, SQLITE_DIRECTONLY, tally, postpone)
        try connection.addFunction(extra, 1, SQLITE_DIRECTONLY, tally, giveExtra)
    }

    private static let giveValue: Connection.Function = { context, _, arguments in
        let scan = scan(context)
        switch scan.pointee.value(Int(sqlite3_value_int(arguments![0]))) {
        case .key(let key): sqlite3_result_int64(context, key)
        case .cell(let cell) where cell.kind == .absent: sqlite3_result_value(context, arguments![1])
        case .cell(let cell): cell.give(to: context)
        }
    }

    private static let findDifferences: Connection.Function = { context, count, arguments in
        sqlite3_result_int(context, differs(scan(context), count, arguments!) ? 1 : 0)
    }

    private static let postpone: Connection.Function = { context, count, arguments in
        let scan = scan(context)
        guard let postponed = scan.pointee.postponed else { return sqlite3_result_int(context, 0) }
        let place = scan.pointee.position
        // A row that follows a postponed row of the same object must be postponed, too.
        let last = postponed.pointee.last.map { Int($0) }
        if last == place { return sqlite3_result_int(context, 1) }
        let follows = last == place - 1 && isSame(scan, place, place - 1)
        guard follows || differs(scan, count, arguments!) else { return sqlite3_result_int(context, 0) }
        postponed.pointee.append(UInt32(place))
        sqlite3_result_int(context, 1)
    }

    private static let giveExtra: Connection.Function = { context, _, arguments in
        guard let entries = extraEntries(scan(context), arguments![0]) else {
            return sqlite3_result_value(context, arguments![0])
        }
        ExtraFunction.give(entries, arguments![0], to: context)
    }

    /// What the current row changes in the column `_extra`; nil for nothing.
    @inline(__always)
    private static func extraEntries(_ scan: UnsafeMutablePointer<StagedScan>, _ old: OpaquePointer?) -> [UInt8]? {
        guard let extra = scan.pointee.extra, let cells = scan.pointee.cells else { return nil }
        let isNew = sqlite3_value_type(old) == SQLITE_NULL
        if isNew, cells[scan.pointee.extraColumn].kind == .absent { return nil }
        let entries = extra._withUnsafeGuaranteedRef { $0.entries(of: cells, isNew: isNew) }
        guard !entries.isEmpty else { return nil }
        scan.pointee.meter._withUnsafeGuaranteedRef { ExtraFunction.charge(entries.count, old, to: $0) }
        return entries
    }

    private static func isSame(_ scan: UnsafeMutablePointer<StagedScan>, _ place: Int, _ other: Int) -> Bool {
        guard let identity = scan.pointee.identity, !identity.isEmpty else { return false }
        let (left, right) = (scan.pointee.cells(at: place), scan.pointee.cells(at: other))
        return identity.allSatisfy { left[$0].isSame(as: right[$0]) }
    }

    @inline(__always)
    private static func scan(_ context: OpaquePointer?) -> UnsafeMutablePointer<StagedScan> {
        sqlite3_user_data(context)!.assumingMemoryBound(to: MergeTally.self).pointee.scan!
    }

    @inline(__always)
    private static func differs(
        _ scan: UnsafeMutablePointer<StagedScan>, _ count: Int32, _ arguments: UnsafeMutablePointer<OpaquePointer?>
    ) -> Bool {
        let first = Int(sqlite3_value_int(arguments[0])) - 1
        for argument in 1..<Int(count) {
            let old = arguments[argument]
            if first + argument == scan.pointee.extraNumber {
                if let entries = extraEntries(scan, old), ExtraFunction.changes(old, entries) { return true }
                continue
            }
            switch scan.pointee.value(first + argument) {
            case .key(let key):
                if sqlite3_value_type(old) != SQLITE_INTEGER || sqlite3_value_int64(old) != key { return true }
            case .cell(let cell):
                if cell.kind != .absent, !cell.isStored(as: old) { return true }
            }
        }
        return false
    }
}

/// `broker_extra(old, entries)`: the column `_extra` after these entries, for statements of single rows.
enum ExtraFunction {
    static let name = "broker_extra"

    static func install(on connection: Connection) throws(StoreError) {
        let meter = Unmanaged.passUnretained(connection.work).toOpaque()
        try connection.addFunction(name, 2, SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, meter, call)
    }

    private static let call: Connection.Function = { context, _, arguments in
        let old = arguments![0]
        guard let entries = text(arguments![1]), !entries.isEmpty else { return sqlite3_result_value(context, old) }
        charge(entries.count, old, to: WorkMeter.of(sqlite3_user_data(context)))
        give(entries, old, to: context)
    }

    /// Bytes that are read, hashed and written for one unit.
    private static let bytesPerUnit = 8

    static func charge(_ entryBytes: Int, _ old: OpaquePointer?, to meter: WorkMeter) {
        meter.budget.charge((entryBytes + Int(sqlite3_value_bytes(old))) / bytesPerUnit)
    }

    /// The values of columns by parameters: their own, or for `_extra` its entries.
    ///
    /// - Parameter names: quoted.
    static func values(_ names: [String], of entity: Entity) -> [String] {
        let extra = entity.extra.map { quoted(entity.attributes[$0].column) }
        return names.enumerated().map { $1 == extra ? "\(name)(\($1), ?\($0 + 1))" : "?\($0 + 1)" }
    }

    static func give(_ entries: some Collection<UInt8>, _ old: OpaquePointer?, to context: OpaquePointer?) {
        let value: [UInt8]?
        do throws(TooManyExtraKeys) {
            value = try ExtraValues.applied(entries, to: text(old))
        } catch {
            return sqlite3_result_error_toobig(context)
        }
        guard let value else { return sqlite3_result_null(context) }
        value.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            broker_sqlite_result_text(context, start, UInt64(bytes.count))
        }
    }

    static func changes(_ old: OpaquePointer?, _ entries: [UInt8]) -> Bool {
        do throws(TooManyExtraKeys) {
            return try ExtraValues.applied(entries, to: text(old)) != text(old).map { Array($0) }
        } catch {
            // The statement that writes it fails.
            return true
        }
    }

    /// Nil for NULL.
    private static func text(_ value: OpaquePointer?) -> UnsafeBufferPointer<UInt8>? {
        guard sqlite3_value_type(value) != SQLITE_NULL else { return nil }
        return UnsafeBufferPointer(start: sqlite3_value_text(value), count: Int(sqlite3_value_bytes(value)))
    }
}

extension Cell {
    /// Whether a column that holds the cell's type has the same value; numbers are compared by their values.
    @inline(__always)
    fileprivate func isStored(as value: OpaquePointer?) -> Bool {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER:
            if kind == .integer { return sqlite3_value_int64(value) == integer }
            return kind == .real && sqlite3_value_double(value) == real
        case SQLITE_FLOAT:
            if kind == .real { return sqlite3_value_double(value) == real }
            return kind == .integer && sqlite3_value_double(value) == Double(integer)
        case SQLITE_TEXT: return kind == .text && hasBytes(sqlite3_value_text(value), sqlite3_value_bytes(value))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return kind == .blob && hasBytes(start, sqlite3_value_bytes(value))
        default: return kind == .null || kind == .object
        }
    }

    @inline(__always)
    private func hasBytes(_ start: UnsafePointer<UInt8>?, _ count: Int32) -> Bool {
        self.count == UInt32(count) && (count == 0 || memcmp(bytes.baseAddress!, start!, Int(count)) == 0)
    }
}
