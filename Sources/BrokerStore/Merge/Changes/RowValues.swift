internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// A row as the net changes need it.
struct RowValues {
    /// Bytes of a row for one unit of work, each time that it is read: before or after a change, which writes the whole
    /// row. Rewriting a row of 25 MB took 35 ms, so 1.4 ns a byte, where a unit takes 10 to 30 ns.
    private static let bytesPerUnit = 4
    /// Units for each time that a row is read: the hook and the bookkeeping take about a microsecond.
    private static let unitsPerRead = 50

    let key: StoredKey
    let content: Int
    /// The index of the object's concrete entity.
    let concreteEntity: Int
    /// Its identity, where the store has a row key and clients name the object by its identity.
    let identity: StoredKey?
    /// Units of work, for the row and for the bytes of its texts and blobs.
    let work: Int
    /// A hash of all columns that is the same on every machine; 0 when no caller asked for it.
    let digest: UInt64

    init(
        count: Int32, _ table: ChangedTables.Table, hasDigest: Bool, _ value: (Int32) -> OpaquePointer?
    ) {
        func cell(_ column: Int32) -> Cell { Cell(value(column)).stored(asReal: table.realColumns.contains(column)) }
        key = StoredKey(table.keyColumns.map(cell))
        concreteEntity =
            table.entityColumn.flatMap {
                table.concreteEntities[String(decoding: Cell(value($0)).bytes, as: UTF8.self)]
            }
            ?? table.entity
        identity = table.identities[concreteEntity].map { columns in StoredKey(columns.map(cell)) }
        var hasher = Hasher()
        var digest = RowHash(0)
        var byteCount = 0
        for column in 0..<count {
            let cell = cell(column)
            cell.hash(into: &hasher)
            if cell.kind == .text || cell.kind == .blob { byteCount += Int(cell.count) }
            if hasDigest { digest.add(cell) }
        }
        content = hasher.finalize()
        work = Self.unitsPerRead + byteCount / Self.bytesPerUnit
        self.digest = hasDigest ? digest.value : 0
    }
}

extension Cell {
    /// A value of SQLite's, valid as long as that one.
    ///
    /// - Parameter value: nil for a generated column that is not stored.
    init(_ value: OpaquePointer?) {
        guard value != nil else {
            self = .null
            return
        }
        func bytes() -> UnsafeBufferPointer<UInt8> {
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
        }
        self =
            switch sqlite3_value_type(value) {
            case SQLITE_INTEGER: .integer(sqlite3_value_int64(value))
            case SQLITE_FLOAT: .real(sqlite3_value_double(value))
            case SQLITE_TEXT: .text(bytes())
            case SQLITE_BLOB: .blob(bytes())
            default: .null
            }
    }

    /// A column of real numbers stores 5.0 as the integer 5, and returns the real number. The hook reports either form.
    func stored(asReal isReal: Bool) -> Cell { kind == .integer && isReal ? .real(Double(integer)) : self }

    func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        switch kind {
        case .integer: hasher.combine(integer)
        case .real: hasher.combine(real)
        case .text, .blob:
            hasher.combine(count)
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        case .null, .absent, .object: break
        }
    }
}
