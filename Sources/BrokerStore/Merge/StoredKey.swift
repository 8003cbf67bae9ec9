internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// How columns of another program's tables convert values: a numeric column stores 1.0 as the integer 1, and the text
/// `12` as 12 (sqlite.org/datatype3.html, 3).
///
/// SQL compares such values correctly. Code that compares staged values with stored ones in memory must convert both
/// first; otherwise it takes one object for two.
final class ColumnAffinities {
    /// By entity index and attribute. Empty where no value is converted, so empty for all of Broker's own tables.
    private var columns: [[Int: Affinity]]
    private let identities: [[Int]]
    private let connection: Connection
    private var conversion: Statement?

    init(_ model: Model, on connection: Connection) {
        self.connection = connection
        columns = Array(repeating: [:], count: model.entities.count)
        identities = model.entities.map(\.identity)
    }

    func note(_ table: ExistingTable, of index: Int, _ entity: Entity) {
        for attribute in entity.attributeIndices {
            let (storage, name) = (entity.attributes[attribute].columnStorage, entity.attributes[attribute].column)
            guard let affinity = table.column(name)?.affinity, affinity.changes(storage) else { continue }
            columns[index][attribute] = affinity
        }
    }

    /// Whether the stored identity of an object may differ from the staged one.
    func changesKey(of entity: Int) -> Bool { identities[entity].contains { columns[entity][$0] != nil } }

    func key(_ identity: [Cell], of entity: Int) throws(StoreError) -> StoredKey {
        StoredKey(try stored(identity, of: entity))
    }

    /// The same values, converted by the columns' affinities; valid as long as the originals are.
    func stored(_ identity: [Cell], of entity: Int) throws(StoreError) -> [Cell] {
        guard !columns[entity].isEmpty else { return identity }
        var stored: [Cell] = []
        for (cell, attribute) in zip(identity, identities[entity]) {
            stored.append(
                try columns[entity][attribute].map { affinity throws(StoreError) in try form(cell, affinity) } ?? cell)
        }
        return stored
    }

    /// The staged rows that have an identity, keyed by the converted identity.
    func rows(of table: FrozenTable) throws(StoreError) -> [StoredKey: Int] {
        var rows: [StoredKey: Int] = [:]
        for row in 0..<table.rowCount where table.hasIdentity(row) {
            let key = try key(table.identity(ofRow: row), of: table.entityIndex)
            if rows[key] == nil { rows[key] = row }
        }
        return rows
    }

    private func form(_ cell: Cell, _ affinity: Affinity) throws(StoreError) -> Cell {
        switch cell.kind {
        case .text: try number(cell).map { Self.form($0, affinity) } ?? cell
        case .integer, .real: Self.form(cell, affinity)
        case .null, .absent, .object, .blob: cell
        }
    }

    private static func form(_ number: Cell, _ affinity: Affinity) -> Cell {
        if number.kind == .integer { return affinity == .real ? .real(Double(number.integer)) : number }
        // The two ends of the range are not converted (SQLite's sqlite3VdbeIntegerAffinity).
        guard affinity != .real, let integer = Int64(exactly: number.real), integer != .min, integer != .max else {
            return number
        }
        return .integer(integer)
    }

    /// The number that a numeric column stores for the text; nil if it stores the text. SQLite decides, to the last bit.
    private func number(_ text: Cell) throws(StoreError) -> Cell? {
        if conversion == nil {
            conversion = try connection.prepare("SELECT CAST(?1 AS NUMERIC) WHERE CAST(?1 AS NUMERIC) = ?1")
        }
        let number = conversion!
        number.bind(text, at: 1)
        defer { number.reset() }
        return try number.step() ? number.cell(0) : nil
    }
}

extension Affinity {
    /// Whether a column of this declared type may return a value with another type than was stored.
    fileprivate func changes(_ storage: ColumnType.Storage) -> Bool {
        switch self {
        case .integer, .numeric: storage == .real || storage == .text
        case .real: storage == .text
        case .text, .blob: false
        }
    }
}

struct ObjectName: Hashable {
    let entity: Int
    let key: StoredKey
}

/// Values of columns to compare and to look up by: types and bytes, equal where SQLite finds them equal in a column.
struct StoredKey: Hashable {
    private(set) var bytes: [UInt8] = []

    init(_ cells: [Cell]) {
        // One allocation for keys of numbers, which most are.
        bytes.reserveCapacity(9 * cells.count)
        for cell in cells {
            bytes.append(cell.kind.rawValue)
            switch cell.kind {
            case .integer: append(UInt64(bitPattern: cell.integer))
            case .real: append(cell.real.bitPattern)
            case .text, .blob:
                append(UInt64(cell.count))
                bytes += cell.bytes
            case .null, .absent, .object: break
            }
        }
    }

    /// The stored name of an object with a row key that is named by its identity; no row key is equal to it.
    static func naming(_ identity: [Cell]) -> StoredKey { StoredKey([.null] + identity) }

    /// Binds the values, from the parameter `first` on.
    func bind(to statement: Statement, from first: Int) {
        var index = first
        forEachCell { cell in
            statement.bind(copying: cell, at: index)
            index += 1
        }
    }

    var integer: Int64? {
        guard bytes.count == 9, bytes[0] == Cell.Kind.integer.rawValue else { return nil }
        return bytes.withUnsafeBytes { Int64(bigEndian: $0.loadUnaligned(fromByteOffset: 1, as: Int64.self)) }
    }

    /// Calls `body` with each value in order. The value is valid during the call.
    func forEachCell(_ body: (Cell) -> Void) {
        bytes.withUnsafeBufferPointer { bytes in
            var place = 0
            func word() -> UInt64 {
                defer { place += 8 }
                let bytes = UnsafeRawBufferPointer(bytes)
                return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
            }
            while place < bytes.count, let kind = Cell.Kind(rawValue: bytes[place]) {
                place += 1
                switch kind {
                case .integer: body(.integer(Int64(bitPattern: word())))
                case .real: body(.real(Double(bitPattern: word())))
                case .text, .blob:
                    let count = Int(word())
                    let content = UnsafeBufferPointer(rebasing: bytes[place..<place + count])
                    body(kind == .text ? .text(content) : .blob(content))
                    place += count
                case .null, .absent, .object: body(.null)
                }
            }
        }
    }

    /// Calls `body` with all values. They are valid during the call.
    func withCells<Result>(_ body: ([Cell]) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { _ in
            var cells: [Cell] = []
            forEachCell { cells.append($0) }
            return body(cells)
        }
    }

    var described: String {
        var words: [String] = []
        forEachCell { cell in
            switch cell.kind {
            case .integer: words.append(String(cell.integer))
            case .real: words.append(cell.real.description)
            case .text: words.append(String(decoding: cell.bytes, as: UTF8.self).quotedBriefly)
            default: words.append("(binary)")
            }
        }
        return words.joined(separator: ", ")
    }

    /// The highest byte comes first, so that keys of rows in ascending order are ascending, too, and cheap to store.
    private mutating func append(_ word: UInt64) {
        withUnsafeBytes(of: word.bigEndian) { bytes += $0 }
    }
}
