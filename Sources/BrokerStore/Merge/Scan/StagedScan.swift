internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite

/// A column of the virtual table: which value of a staged row it reads.
struct ScanColumn {
    enum Source {
        /// A cell of the row.
        case cell
        /// The row key of the row.
        case rowKey
        /// A key of the object to which a link cell of the row refers.
        case linkedCell
        case linkedRowKey
    }

    var source: Source
    /// The row's cell; in a link table 0 for its source, 1 for its destination.
    var cell: Int
    /// Entity index of the object to which a link refers.
    var destination = 0
    /// That object's cell.
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
    /// The rows, in the order of the scan.
    var order: UnsafePointer<UInt32>?
    /// By position in the order, the job of the row; nil when all rows are of the first job.
    var jobs: UnsafePointer<UInt32>?
    /// By column, the replacement where a row may lack a value.
    var absentValues: UnsafePointer<Cell>?
    /// Columns that identify the rows.
    var identity: UnsafeBufferPointer<Int>?
    /// For a link table: the links, in their own order.
    var links: UnsafePointer<StagedLink>?
    private(set) var position = 0
    private(set) var end = 0
    /// Positions of rows for the next statement (``StagedFunctions``).
    var postponed: UnsafeMutablePointer<PostponedRows>?
    /// The cells of the current row, the tables of its job, and its number.
    private(set) var cells: UnsafePointer<Cell>?
    private(set) var jobTables: UnsafePointer<ScannedTable>
    private(set) var row = 0

    init(
        entity: Int?, columns: UnsafePointer<ScanColumn>, entityCount: Int, tables: UnsafePointer<ScannedTable>
    ) {
        self.entity = entity
        self.columns = columns
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

    /// Ends the scan.
    mutating func clear() {
        (order, jobs, absentValues, links, cells, postponed) = (nil, nil, nil, nil, nil, nil)
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

    /// The cells of the row at a position in the order.
    func cells(at place: Int) -> UnsafePointer<Cell> {
        let table = tables[(jobs.map { Int($0[place]) } ?? 0) * entityCount + entity!]
        return table.cells! + Int(order![place]) * table.columnCount
    }

    @inline(__always)
    private mutating func settle() {
        guard position < end, let entity, let order else { return }
        row = Int(order[position])
        if let jobs { jobTables = tables + Int(jobs[position]) * entityCount }
        let table = jobTables[entity]
        cells = table.cells! + row * table.columnCount
    }

    /// The current row's value of a column.
    @inline(__always)
    func value(_ number: Int) -> Value {
        let column = columns[number]
        switch column.source {
        case .cell:
            let cell = cells![column.cell]
            return .cell(cell)
        case .rowKey: return .key(jobTables[entity!].rowKeys![row])
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
