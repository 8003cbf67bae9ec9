internal import BrokerSchema
internal import BrokerSQLite
internal import BrokerStaging
internal import CSQLite

extension Statement {
    /// Binds without a copy: the cell's bytes must stay valid until the statement is reset or bound again.
    func bind(_ cell: Cell, at index: Int) {
        let index = Int32(index)
        switch cell.kind {
        case .integer: sqlite3_bind_int64(handle, index, cell.integer)
        case .real: sqlite3_bind_double(handle, index, cell.real)
        case .text:
            cell.bytes.withMemoryRebound(to: CChar.self) {
                _ = broker_sqlite_bind_static_text(handle, index, $0.baseAddress, UInt64($0.count))
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
