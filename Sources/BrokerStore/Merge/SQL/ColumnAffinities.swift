internal import BrokerModel
internal import BrokerStaging

/// What the columns of another program's tables make of values that come back as something else: a numeric column keeps 1.0 as
/// the integer 1, and the text `12` as 12 (sqlite.org/datatype3.html, 3).
///
/// SQL compares such values as it should. Whoever compares in memory what was staged with what is stored brings both into this
/// form before, or takes one object for two.
final class ColumnAffinities {
    /// By entity index and attribute. None where nothing is changed, so none of Broker's own tables.
    private var columns: [[Int: Affinity]]
    private let identities: [[Int]]
    private let connection: Connection
    private var conversion: Statement?

    init(_ model: Model, on connection: Connection) {
        self.connection = connection
        columns = Array(repeating: [:], count: model.entities.count)
        identities = model.entities.map(\.identity)
    }

    /// - Parameter table: the entity's, which another program made.
    func note(_ table: ExistingTable, of index: Int, _ entity: Entity) {
        for attribute in entity.attributeIndices {
            let (type, name) = (entity.attributes[attribute].columnType, entity.attributes[attribute].column)
            guard let affinity = table.column(name)?.affinity, affinity.changes(type) else { continue }
            columns[index][attribute] = affinity
        }
    }

    /// Whether the identity that finds an object may be another than was staged.
    func changesKey(of entity: Int) -> Bool { identities[entity].contains { columns[entity][$0] != nil } }

    /// - Parameter identity: a value for each of the entity's attributes that identify.
    func key(_ identity: [Cell], of entity: Int) throws(StoreError) -> StoredKey {
        StoredKey(try stored(identity, of: entity))
    }

    /// The same values, as the columns keep them; valid as long as those are.
    func stored(_ identity: [Cell], of entity: Int) throws(StoreError) -> [Cell] {
        try stored(identity, of: entity, identities[entity])
    }

    /// - Parameter cells: a value for each of the attributes.
    func key(_ cells: [Cell], of entity: Int, _ attributes: [Int]) throws(StoreError) -> StoredKey {
        StoredKey(try stored(cells, of: entity, attributes))
    }

    private func stored(_ cells: [Cell], of entity: Int, _ attributes: [Int]) throws(StoreError) -> [Cell] {
        guard !columns[entity].isEmpty else { return cells }
        var stored: [Cell] = []
        for (cell, attribute) in zip(cells, attributes) {
            stored.append(
                try columns[entity][attribute].map { affinity throws(StoreError) in try form(cell, affinity) } ?? cell)
        }
        return stored
    }

    /// The staged rows that have an identity, by what their columns make of that.
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
        // The two ends of the range stay what they are (SQLite's sqlite3VdbeIntegerAffinity).
        guard affinity != .real, let integer = Int64(exactly: number.real), integer != .min, integer != .max else {
            return number
        }
        return .integer(integer)
    }

    /// What a numeric column makes of the text; nil when it keeps that. SQLite is asked, as the last bit may count.
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
    /// Whether a value of one of Broker's own column types may come back as something of another kind.
    fileprivate func changes(_ type: String) -> Bool {
        switch self {
        case .integer, .numeric: type == "REAL" || type == "TEXT"
        case .real: type == "TEXT"
        case .text, .blob: false
        }
    }
}
