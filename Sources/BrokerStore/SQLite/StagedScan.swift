internal import BrokerStaging
internal import CSQLite

/// A column of the virtual table, told as what to read from a staged row.
struct ScanColumn {
    enum Source {
        /// A cell of the row.
        case cell
        /// The store's own key of the row.
        case rowKey
        /// A key of the object that a link cell of the row means.
        case linkedCell
        case linkedRowKey
    }

    var source: Source
    /// The row's cell; of a link table 0 for its source, 1 for its destination.
    var cell: Int
    /// Entity index of the object that a link means.
    var destination = 0
    /// That object's cell.
    var destinationCell = 0
}

/// The staged rows of one entity in this job, as scans read them.
struct ScannedTable {
    var cells: UnsafePointer<Cell>?
    var columnCount = 0
    /// By row; of entities with the store's own key.
    var rowKeys: UnsafeMutablePointer<Int64>?
}

/// A part of a job's staged rows, offered to SQLite as the rows of a virtual table, and where the reading stands.
///
/// A plain struct at a fixed place: SQLite's callbacks read it millions of times a second, without any counting of
/// references. Its owner fills it, runs one statement, and knows from ``row`` which row SQLite was at.
struct StagedScan {
    var columns: UnsafePointer<ScanColumn>
    /// By entity index; the job's.
    var tables: UnsafePointer<ScannedTable>
    /// The rows of an entity: its cells, and which of them in which order.
    var cells: UnsafePointer<Cell>?
    var columnCount = 0
    var order: UnsafePointer<UInt32>?
    var rowKeys: UnsafeMutablePointer<Int64>?
    /// Or links, in their own order.
    var links: UnsafePointer<StagedLink>?
    var position = 0
    var end = 0

    /// The row that SQLite is at, of an entity's table; the link's number of a link table.
    @inline(__always) var row: Int { order.map { Int($0[position]) } ?? position }

    @inline(__always)
    func result(_ number: Int, _ context: OpaquePointer?) {
        let column = columns[number]
        switch column.source {
        case .cell: result(cells![row * columnCount + column.cell], context)
        case .rowKey: sqlite3_result_int64(context, rowKeys![row])
        case .linkedCell, .linkedRowKey:
            guard let linked = linkedRow(column.cell) else { return sqlite3_result_null(context) }
            let table = tables[column.destination]
            if column.source == .linkedRowKey { return sqlite3_result_int64(context, table.rowKeys![linked]) }
            result(table.cells![linked * table.columnCount + column.destinationCell], context)
        }
    }

    /// The row of the linked object in its own table; nil for NULL.
    @inline(__always)
    private func linkedRow(_ cell: Int) -> Int? {
        if let links { return Int(cell == 0 ? links[position].source : links[position].destination) }
        let link = cells![row * columnCount + cell]
        return link.kind == .object ? link.row : nil
    }

    @inline(__always)
    private func result(_ cell: Cell, _ context: OpaquePointer?) {
        switch cell.kind {
        case .integer: sqlite3_result_int64(context, cell.integer)
        case .real: sqlite3_result_double(context, cell.real)
        case .text:
            let start = UnsafeRawPointer(cell.bytes.baseAddress)?.assumingMemoryBound(to: CChar.self)
            broker_sqlite_result_static_text(context, start, UInt64(cell.count))
        case .blob: broker_sqlite_result_static_blob(context, cell.bytes.baseAddress, UInt64(cell.count))
        case .null, .absent, .object: sqlite3_result_null(context)
        }
    }
}

/// The virtual table module `_broker_staged`: each of its tables reads one ``StagedScan``.
enum StagedModule {
    static let name = "_broker_staged"

    /// - Parameter scans: by the number that a table's CREATE statement gives; they outlive the connection.
    static func register(on connection: Connection, _ scans: UnsafeMutablePointer<StagedModuleEntry>) throws(StoreError)
    {
        let result = sqlite3_create_module_v2(connection.handle, name, methods, scans, nil)
        guard result == SQLITE_OK else {
            throw StoreError(result, on: connection.handle)
        }
    }

    // Filled once before any use, then only read; SQLite keeps the pointer for the life of its connections.
    nonisolated(unsafe) private static let methods: UnsafePointer<sqlite3_module> = {
        var module = sqlite3_module()
        module.iVersion = 1
        module.xCreate = connect
        module.xConnect = connect
        module.xBestIndex = { _, info in
            // Rows are read whole and in their order: nothing can be searched.
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
            scan(cursor).pointee.position += 1
            return SQLITE_OK
        }
        module.xEof = { cursor in
            let scan = scan(cursor)
            return scan.pointee.position >= scan.pointee.end ? 1 : 0
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
            // Behind the module's, the database's and the table's names stands the scan's number.
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

/// What a virtual table needs to know when SQLite makes it.
struct StagedModuleEntry {
    var scan: UnsafeMutablePointer<StagedScan>
    var columnCount: Int
}
