internal import CSQLite

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

/// The data that SQLite needs to create a virtual table.
struct StagedModuleEntry {
    var scan: UnsafeMutablePointer<StagedScan>
    var columnCount: Int
}
