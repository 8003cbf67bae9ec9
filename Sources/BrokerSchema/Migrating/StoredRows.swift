package import BrokerSQLite
package import BrokerModel

/// Finds in a store's rows what decides whether a changed model loses something.
package struct StoredRows {
    private let connection: Connection
    private let stored: Model
    private let naming: ColumnNaming

    package init(of connection: Connection, _ stored: Model) {
        self.connection = connection
        self.stored = stored
        naming = ColumnNaming(model: stored, layout: RowLayout(stored))
    }

    /// Entities of the stored model with rows in a table that stays, which are missing or abstract in the wanted model.
    package func populated(_ wanted: Model, _ match: ModelMatch) throws(StoreError) -> Set<Int> {
        var populated: Set<Int> = []
        let staying = Set(match.tables.compactMap { $0 })
        for (index, entity) in stored.entities.enumerated()
        where !entity.isAbstract && staying.contains(stored.topmost(of: index)) {
            let mayHaveRows = match.entity(for: index).map { !wanted.entities[$0].isAbstract } ?? false
            guard !mayHaveRows else { continue }
            let concreteEntity = stored.isInHierarchy(index) ? entity.name : nil
            if try hasRows(stored.table(of: index), concreteEntity) { populated.insert(index) }
        }
        return populated
    }

    private func hasRows(_ table: String, _ concreteEntity: String?) throws(StoreError) -> Bool {
        guard try has(concreteEntity == nil ? nil : entityColumnName, in: table) else { return false }
        return try hasRow(
            in: table, where: concreteEntity.map { "\(quoted(entityColumnName)) = \(textLiteral($0))" } ?? "1")
    }

    // MARK: - Parts without values

    /// Those of the parts that are null in every row, or have no links.
    package func empty(_ parts: Set<StoredPart>) throws(StoreError) -> Set<StoredPart> {
        var empty: Set<StoredPart> = []
        for part in parts where try isEmpty(part) { empty.formUnion(stored.both(part)) }
        return empty
    }

    private func isEmpty(_ part: StoredPart) throws(StoreError) -> Bool {
        let entity = stored.entities[part.topmost]
        guard part.kind == .relationship else {
            return try isEmpty(entity.attributes[part.index].column, of: part.topmost)
        }
        let relationship = entity.relationships[part.index]
        switch naming.layout.entities[part.topmost].forms[part.index] {
        case .column: return try isEmpty(naming.linkColumns(relationship)[0], of: part.topmost)
        case .destinationColumn:
            guard let inverse = stored.inverse(of: relationship) else { return false }
            return try isEmpty(naming.linkColumns(inverse)[0], of: relationship.destination)
        case .linkTable(let number, _):
            let table = naming.linkTable(naming.layout.linkTables[number])
            guard try has(nil, in: table) else { return false }
            return try !hasRow(in: table, where: "1")
        }
    }

    private func isEmpty(_ column: String, of entity: Int) throws(StoreError) -> Bool {
        guard try has(column, in: stored.table(of: entity)) else { return false }
        return try !hasRow(in: stored.table(of: entity), where: "\(quoted(column)) IS NOT NULL")
    }

    // MARK: - Numbers

    /// For attributes of whole numbers that would become doubles, one number that no double holds for certain; for
    /// attributes that would become scaled decimals, one value with too many digits.
    ///
    /// - Parameter convert: see ``AttributeConversion``.
    package func inexact(
        _ wanted: Model, _ match: ModelMatch, _ convert: AttributeConversion
    ) throws(StoreError) -> [StoredPart: String] {
        var inexact: [StoredPart: String] = [:]
        var checked: Set<StoredPart> = []
        for (new, entity) in match.entities.enumerated() {
            guard let old = entity.old else { continue }
            for (place, source) in entity.attributes.enumerated() {
                guard let source else { continue }
                let part = stored.part(.attribute, source, of: old)
                let attribute = stored.entities[old].attributes[source]
                guard checked.insert(part).inserted,
                    let search = Self.search(attribute, becoming: wanted.entities[new].attributes[place], convert),
                    try has(attribute.column, in: stored.table(of: old))
                else { continue }
                inexact[part] = try connection.text(
                    "SELECT \(search.value) FROM \(quoted(stored.table(of: old))) WHERE \(search.condition) LIMIT 1")
            }
        }
        return inexact
    }

    /// The search for a value that is lost; nil when none can be.
    private static func search(
        _ old: Attribute, becoming new: Attribute, _ convert: AttributeConversion
    ) -> (value: String, condition: String)? {
        let name = quoted(old.column)
        if new.decimalScale != nil {
            let isSameForm = old.type == .decimal && old.decimalScale == new.decimalScale
            guard !isSameForm, old.type == .decimal || new.type.change(from: old.type) != nil else { return nil }
            // A value that does not fit becomes the text of all its digits.
            let value = "\(conversionFunction)(\(convert(old, new)), \(name))"
            return (value, "typeof(\(value)) NOT IN ('integer', 'null')")
        }
        if old.type == .date, new.type == .date {
            // The digits that are cut off begin there in `2011-12-22T02:24:51.123456Z`.
            let end = new.precision == 0 ? 20 : 21 + new.precision
            return new.precision < old.precision ? (name, "trim(substr(\(name), \(end)), '.0Z') <> ''") : nil
        }
        guard case .convertedIfExact = new.type.change(from: old.type) else { return nil }
        return (name, "\(name) NOT BETWEEN -\(largestExact) AND \(largestExact)")
    }

    /// A double holds every whole number up to this one.
    private static let largestExact = 1 << 53

    // MARK: - Reading

    /// Whether the file has the table, with that column.
    private func has(_ column: String?, in table: String) throws(StoreError) -> Bool {
        let condition = column.map { " WHERE name = \(textLiteral($0))" } ?? ""
        let find = try connection.prepare("SELECT 1 FROM pragma_table_info(?1)\(condition) LIMIT 1", table)
        defer { find.reset() }
        return try find.step()
    }

    private func hasRow(in table: String, where condition: String) throws(StoreError) -> Bool {
        let statement = try connection.prepare("SELECT 1 FROM \(quoted(table)) WHERE \(condition) LIMIT 1")
        defer { statement.reset() }
        return try statement.step()
    }
}
