internal import BrokerStaging
internal import CSQLite

/// A prepared statement. Belongs to its connection's thread; reset by whoever begins to use it.
final class Statement {
    let handle: OpaquePointer
    private let connection: Connection
    private let sql: String

    init(_ sql: String, on connection: Connection) throws(StoreError) {
        var handle: OpaquePointer?
        let result = sqlite3_prepare_v3(
            connection.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard result == SQLITE_OK, let handle else {
            throw connection.error(result, running: sql)
        }
        self.handle = handle
        self.connection = connection
        self.sql = sql
    }

    deinit {
        reset()
        sqlite3_finalize(handle)
    }

    /// Whether there is a row. After the last one, and after an error, the statement is reset.
    func step() throws(StoreError) -> Bool {
        let result = sqlite3_step(handle)
        if result == SQLITE_ROW { return true }
        // The message is the connection's until the next call, so it is read before the reset.
        let error = result == SQLITE_DONE ? nil : connection.error(result, running: sql)
        reset()
        if let error { throw error }
        return false
    }

    /// Runs the statement to its end.
    ///
    /// - Throws: `overworked`, before it has done anything, when the job's work is spent.
    func run() throws(StoreError) {
        try connection.work.check()
        while try step() {}
    }

    func reset() {
        sqlite3_reset(handle)
        let instructions = UInt32(bitPattern: sqlite3_stmt_status(handle, SQLITE_STMTSTATUS_VM_STEP, 1))
        if instructions != 0 { connection.work.charge(ended: Int(instructions)) }
    }

    // MARK: - Binding, from 1

    func bind(_ value: Int64, at index: Int) { sqlite3_bind_int64(handle, Int32(index), value) }

    func bind(_ value: String, at index: Int) {
        var value = value
        value.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                _ = broker_sqlite_bind_text(
                    handle, Int32(index), characters.baseAddress ?? emptyText, UInt64(characters.count))
            }
        }
    }

    func bind(blob: [UInt8]?, at index: Int) {
        guard let blob else {
            sqlite3_bind_null(handle, Int32(index))
            return
        }
        blob.withUnsafeBytes { _ = broker_sqlite_bind_blob(handle, Int32(index), $0.baseAddress, UInt64($0.count)) }
    }

    func bind(text: [UInt8], at index: Int) {
        text.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self) ?? emptyText
            _ = broker_sqlite_bind_text(handle, Int32(index), start, UInt64(bytes.count))
        }
    }

    /// Binds without a copy: the cell's bytes must stay until the statement is reset or bound anew.
    func bind(_ cell: Cell, at index: Int) {
        let index = Int32(index)
        switch cell.kind {
        case .integer: sqlite3_bind_int64(handle, index, cell.integer)
        case .real: sqlite3_bind_double(handle, index, cell.real)
        case .text:
            cell.bytes.withMemoryRebound(to: CChar.self) {
                _ = broker_sqlite_bind_static_text(handle, index, $0.baseAddress ?? emptyText, UInt64($0.count))
            }
        case .blob: broker_sqlite_bind_static_blob(handle, index, cell.bytes.baseAddress, UInt64(cell.count))
        case .null, .absent: sqlite3_bind_null(handle, index)
        case .object: preconditionFailure("a link is bound by its destination's key")
        }
    }

    /// Binds a copy of the cell's bytes.
    func bind(copying owned: OwnedCell, at index: Int) {
        let cell = owned.cell
        switch cell.kind {
        case .text: bind(text: Array(cell.bytes), at: index)
        case .blob: bind(blob: Array(cell.bytes), at: index)
        default: bind(cell, at: index)
        }
    }

    // MARK: - Columns of the current row, from 0

    func isNull(_ column: Int) -> Bool { sqlite3_column_type(handle, Int32(column)) == SQLITE_NULL }
    func integer(_ column: Int) -> Int64 { sqlite3_column_int64(handle, Int32(column)) }
    func text(_ column: Int) -> String { String(decoding: bytes(column), as: UTF8.self) }

    /// Valid until the next step, reset or conversion of the column.
    func bytes(_ column: Int) -> UnsafeBufferPointer<UInt8> {
        let start = sqlite3_column_blob(handle, Int32(column))?.assumingMemoryBound(to: UInt8.self)
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(column))))
    }

    /// Valid as ``bytes(_:)`` is.
    func cell(_ column: Int) -> Cell {
        switch sqlite3_column_type(handle, Int32(column)) {
        case SQLITE_INTEGER: .integer(integer(column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(handle, Int32(column)))
        case SQLITE_TEXT: .text(bytes(column))
        case SQLITE_BLOB: .blob(bytes(column))
        default: .null
        }
    }
}

/// A text of no bytes: SQLite takes a null pointer for NULL.
// A C string literal: immutable for the life of the process.
nonisolated(unsafe) private let emptyText: UnsafePointer<CChar> = {
    let text = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    text.pointee = 0
    return UnsafePointer(text)
}()
