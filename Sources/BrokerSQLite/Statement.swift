internal import CSQLite

/// A prepared statement. Belongs to its connection's thread; each user resets it before use.
package final class Statement {
    package let handle: OpaquePointer
    private let connection: Connection
    private let sql: String

    package init(_ sql: String, on connection: Connection) throws(StoreError) {
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

    /// Returns whether there is a row. After the last one, and after an error, the statement is reset.
    package func step() throws(StoreError) -> Bool {
        let result = sqlite3_step(handle)
        if result == SQLITE_ROW { return true }
        // The connection keeps the message until the next call, so it is read before the reset.
        let error = result == SQLITE_DONE ? nil : connection.error(result, running: sql)
        reset()
        if let error { throw error }
        return false
    }

    /// Runs the statement to its end. It is `overworked`, before it has done anything, when the job's work budget is spent.
    package func run() throws(StoreError) {
        try connection.meter?.check()
        while try step() {}
    }

    package func reset() {
        sqlite3_reset(handle)
        let instructions = UInt32(bitPattern: sqlite3_stmt_status(handle, SQLITE_STMTSTATUS_VM_STEP, 1))
        if instructions != 0 { connection.meter?.charge(ended: Int(instructions)) }
    }

    // MARK: - Binding, from 1

    package func bind(_ value: Int64, at index: Int) { sqlite3_bind_int64(handle, Int32(index), value) }

    package func bind(_ value: String, at index: Int) {
        var value = value
        value.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                _ = broker_sqlite_bind_text(
                    handle, Int32(index), characters.baseAddress, UInt64(characters.count))
            }
        }
    }

    package func bind(blob: [UInt8]?, at index: Int) {
        guard let blob else {
            sqlite3_bind_null(handle, Int32(index))
            return
        }
        blob.withUnsafeBytes { _ = broker_sqlite_bind_blob(handle, Int32(index), $0.baseAddress, UInt64($0.count)) }
    }

    package func bind(text: [UInt8], at index: Int) {
        text.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            _ = broker_sqlite_bind_text(handle, Int32(index), start, UInt64(bytes.count))
        }
    }

    /// Binds text that the caller retains while the statement runs, and that SQLite therefore does not copy.
    package func bind(borrowed text: UnsafeBufferPointer<UInt8>, at index: Int) {
        text.withMemoryRebound(to: CChar.self) { characters in
            _ = broker_sqlite_bind_static_text(handle, Int32(index), characters.baseAddress, UInt64(characters.count))
        }
    }

    package func bind(borrowed blob: UnsafeRawBufferPointer?, at index: Int) {
        guard let blob else {
            sqlite3_bind_null(handle, Int32(index))
            return
        }
        _ = broker_sqlite_bind_static_blob(handle, Int32(index), blob.baseAddress, UInt64(blob.count))
    }

    // MARK: - Columns of the current row, from 0

    package func isNull(_ column: Int) -> Bool { sqlite3_column_type(handle, Int32(column)) == SQLITE_NULL }
    package func integer(_ column: Int) -> Int64 { sqlite3_column_int64(handle, Int32(column)) }

    /// In UTF-8, whatever the encoding of the database is; NULL is empty.
    package func text(_ column: Int) -> String {
        let start = sqlite3_column_text(handle, Int32(column))
        let count = Int(sqlite3_column_bytes(handle, Int32(column)))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// Neither changes the database nor reads it: it begins or ends a transaction or a savepoint.
    package var isTransactional: Bool { columnCount == 0 && sqlite3_stmt_readonly(handle) != 0 }

    package var columnCount: Int { Int(sqlite3_column_count(handle)) }

    /// In the encoding of the database. Valid until the next step, reset or conversion of the column.
    package func bytes(_ column: Int) -> UnsafeBufferPointer<UInt8> {
        let start = sqlite3_column_blob(handle, Int32(column))?.assumingMemoryBound(to: UInt8.self)
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, Int32(column))))
    }
}
