internal import BrokerModel

/// The origins of a changed model's tables, determined by its parts and not by names of columns, which follow from
/// them.
///
/// A table has the columns of a whole hierarchy. For each column, the search compares the earlier columns of every
/// concrete entity's rows: mostly all of them had one column, which stays; otherwise the rows of each concrete entity
/// take the values of their own.
struct SchemaOrigins {
    private var origins: [ExactText: TableOrigin] = [:]
    private let old: Model
    private let new: Model
    private let match: ModelMatch
    private let sides: (old: ColumnNaming, new: ColumnNaming)
    /// By entity with a table of its own, what becomes of its keys, if anything.
    private var keyChanges: [Int: KeyChange] = [:]
    private(set) var filledTables: [FilledTable] = []
    let carried: CarriedValues

    subscript(table: String) -> TableOrigin? { origins[table] }

    /// - Parameter fill: returns the default of an entity's attribute of the changed model, as SQL.
    init(
        from old: Model, to new: Model, _ match: ModelMatch, fill: (_ entity: Int, _ attribute: Int) -> String?,
        convert: AttributeConversion
    ) {
        (self.old, self.new, self.match) = (old, new, match)
        sides = (ColumnNaming(old), ColumnNaming(new))
        carried = CarriedValues(from: old, to: new, match)
        for index in new.tableEntities {
            guard let former = match.tables[index] else { continue }
            keyChanges[index] = keyChange(of: index, former, convert)
        }
        for index in new.tableEntities {
            guard let former = match.tables[index] else { continue }
            origins[new.entities[index].table] = origin(of: index, former, fill, convert)
        }
        for link in sides.new.layout.linkTables {
            if let origin = origin(of: link) {
                origins[sides.new.linkTable(link)] = origin
            } else if let filled = filledTable(of: link) {
                filledTables.append(filled)
            }
        }
    }

    // MARK: - Keys

    /// A change of the keys of a table, and so of the links to its rows.
    private enum KeyChange {
        /// Attributes of the identity become others of another type; by attribute of the identity.
        case converted([TableOrigin.Change?])
        /// The identity takes the place of the row key, or of another one; by attribute of the identity.
        case identity([TableOrigin.Change])
    }

    /// The topmost entities of the earlier model whose objects have other keys, or other values in their identities.
    var changedKeys: [Int] {
        new.tableEntities.filter { topmost in
            keyChanges[topmost] != nil
                || new.subentities(of: topmost).contains { member in
                    new.entities[member].identity.contains { convertsValues(of: $0, in: topmost) }
                }
        }.compactMap { match.tables[$0] }
    }

    private func convertsValues(of place: Int, in topmost: Int) -> Bool {
        guard let former = match.tables[topmost], let source = source(ofAttribute: place, in: topmost) else {
            return false
        }
        let before = old.entities[former].attributes[source].type
        return switch new.entities[topmost].attributes[place].type.change(from: before) {
        case .converted, .convertedIfExact: true
        case .sameForm, nil: false
        }
    }

    private func keyChange(of topmost: Int, _ former: Int, _ convert: AttributeConversion) -> KeyChange? {
        let (entity, before) = (new.entities[topmost], old.entities[former])
        guard !entity.hasRowKey else { return nil }
        let conversions = entity.identity.map { place -> TableOrigin.Change? in
            source(ofAttribute: place, in: topmost).flatMap {
                Self.change(from: before.attributes[$0], to: entity.attributes[place], convert)
            }
        }
        let sources = entity.identity.map { source(ofAttribute: $0, in: topmost) }
        let key = before.hasRowKey ? rowKeyName : formerKey(before, topmost).map { entity.attributes[$0].column }
        let isOther = entity.formerIdentity != nil && sources != before.identity
        guard before.hasRowKey || isOther, let key else {
            return conversions.allSatisfy { $0 == nil } ? nil : .converted(conversions)
        }
        return .identity(
            zip(entity.identity, conversions).map { place, change in
                let number: Int? = if case .converted(let number) = change { number } else { nil }
                return .identity(
                    table: entity.table, column: entity.attributes[place].column, key: key, conversion: number)
            })
    }

    /// The attribute that identified the objects before, alone.
    private func formerKey(_ before: Entity, _ topmost: Int) -> Int? {
        guard before.identity.count == 1 else { return nil }
        return new.entities[topmost].attributes.indices.first {
            source(ofAttribute: $0, in: topmost) == before.identity[0]
        }
    }

    /// - Parameter isMoved: by a type that does not hold every value.
    private static func change(
        from old: Attribute, to new: Attribute, isMoved: Bool = false, _ convert: AttributeConversion
    ) -> TableOrigin.Change? {
        guard !isMoved, old.type != new.type else {
            return !isMoved && old.isStored(like: new) ? nil : .converted(convert(old, new))
        }
        return switch new.type.change(from: old.type) {
        case .converted, .convertedIfExact: .converted(convert(old, new))
        case .sameForm, nil: nil
        }
    }

    /// The earlier columns of links to an entity of the changed model, as origins of its link columns.
    private func linkSources(_ count: Int, _ former: [String], to destination: Int) -> [TableOrigin.Source] {
        switch keyChanges[new.topmost(of: destination)] {
        case .identity(let changes) where former.count == 1 && changes.count == count:
            changes.map { TableOrigin.Source(column: former[0], change: $0) }
        case .converted(let changes) where changes.count == former.count:
            zip(former, changes).map { TableOrigin.Source(column: $0, change: $1) }
        default: former.map { TableOrigin.Source(column: $0) }
        }
    }

    // MARK: - Tables of entities

    private struct Member {
        let new: Int
        let old: Int
        let hasRows: Bool
    }

    private func origin(
        of topmost: Int, _ former: Int, _ fill: (Int, Int) -> String?, _ convert: AttributeConversion
    ) -> TableOrigin {
        let members = new.subentities(of: topmost).compactMap { index -> Member? in
            guard let found = match.entities[index].old, old.topmost(of: found) == former else { return nil }
            return Member(new: index, old: found, hasRows: !old.entities[found].isAbstract)
        }
        var origin = TableOrigin(
            table: old.entities[former].table, hasConcreteEntities: old.isInHierarchy(former),
            concreteEntities: members.filter(\.hasRows).map { (old.entities[$0.old].name, new.entities[$0.new].name) })
        if case .identity = keyChanges[topmost] { origin.hasNewKey = true }
        let (entity, before) = (new.entities[topmost], old.entities[former])
        if entity.hasRowKey, before.hasRowKey { origin.add(rowKeyName, from: rowKeyName) }
        if old.isInHierarchy(former), new.isInHierarchy(topmost) {
            origin.add(entityColumnName, from: entityColumnName)
        }
        let attributes = Sources(.attribute, members, old, match)
        let isMoved = { match.moved.contains(old.part(.attribute, $0, of: former)) }
        origin.extra = entity.attributes.first(where: \.isExtra)?.column
        for (place, attribute) in entity.attributes.enumerated() {
            let source = source(ofAttribute: place, in: topmost)
            if let source, before.attributes[source].type != attribute.type { origin.retypes = true }
            if let source, isMoved(source) {
                origin.moved.append(
                    (
                        TableOrigin.Source(column: before.attributes[source].column),
                        convert(before.attributes[source], attribute)
                    ))
            }
            let former = { (source: Int) in
                let change = Self.change(
                    from: before.attributes[source], to: attribute, isMoved: isMoved(source), convert)
                return [TableOrigin.Source(column: before.attributes[source].column, change: change)]
            }
            attributes.add(
                [attribute.column], from: place, former, to: &origin,
                carried: { member, _ in self.carried(place, of: member, convert) }
            ) { member, source, _ in
                guard new.entities[member.new].attributeIndices.contains(place) else { return nil }
                guard let source else { return fill(member.new, place) }
                let isTightened =
                    old.entities[member.old].attributes[source].isOptional
                    && !new.entities[member.new].attributes[place].isOptional
                return isTightened ? fill(member.new, place) : nil
            }
        }
        addLinks(of: entity, before, members, to: &origin)
        origin.moved += extra(of: topmost, former, convert)
        for column in ownerColumns(of: topmost, before) { origin.add(column) }
        return origin
    }

    /// The value of another object that a row takes along a link.
    private func carried(_ place: Int, of member: Member, _ convert: AttributeConversion) -> TableOrigin.Source? {
        guard let found = carried.flattened[member.new]?[place],
            let columns = carried.columns(of: found, in: member.old)
        else { return nil }
        let (before, now) = (
            old.entities[found.destination].attributes[found.attribute], new.entities[member.new].attributes[place]
        )
        return TableOrigin.Source(
            column: columns.link,
            change: .identity(
                table: columns.table, column: before.column, key: columns.key,
                conversion: before.isStored(like: now) ? nil : convert(before, now)))
    }

    /// What `_extra` of an object that goes has, below the key of the link to it.
    private func extra(
        of index: Int, _ former: Int, _ convert: AttributeConversion
    ) -> [(source: TableOrigin.Source, conversion: Int)] {
        var taken: [Int: CarriedValues.Flattened] = [:]
        for found in (carried.flattened[index] ?? [:]).values where carried.emptied.contains(found.destination) {
            taken[found.link] = found
        }
        return taken.values.sorted { $0.link < $1.link }.compactMap { found in
            guard let columns = carried.columns(of: found, in: former),
                let extra = old.entities[found.destination].attributes.first(where: \.isExtra),
                var target = new.entities[index].attributes.first(where: \.isExtra)
            else { return nil }
            target.keyPaths = Array(old.entities[former].relationships[found.link].keyPaths.prefix(1))
            return (
                TableOrigin.Source(
                    column: columns.link,
                    change: .identity(table: columns.table, column: extra.column, key: columns.key, conversion: nil)),
                convert(extra, target)
            )
        }
    }

    /// The columns of an owned entity's identity that its rows take from their owner, which has an identity now.
    private func ownerColumns(of index: Int, _ before: Entity) -> [OwnerColumn] {
        guard let owner = new.holders.owners[index],
            case .identity(let changes) = keyChanges[new.topmost(of: owner.entity)]
        else { return [] }
        let identity = new.entities[owner.entity].identity.map { new.entities[owner.entity].attributes[$0].name }
        return new.entities[index].attributes.enumerated().compactMap { place, attribute in
            guard let link = match.ownerLink(for: place, of: index, old, new) else { return nil }
            var change: TableOrigin.Change?
            if case .attribute(let name) = attribute.holderValue {
                guard let part = identity.firstIndex(where: { $0.hasSameBytes(as: name) }) else { return nil }
                change = changes[part]
            }
            return OwnerColumn(
                name: attribute.column, type: attribute.columnStorage.rawValue,
                link: sides.old.linkColumns(before.relationships[link])[0], identity: change)
        }
    }

    /// Names of tables whose rows take columns from their owner, owners first.
    var ownedTables: [String] {
        func depth(_ entity: Int) -> Int { new.holders.owners[entity].map { depth($0.entity) + 1 } ?? 0 }
        return new.holders.owners.keys.sorted { (depth($0), $0) < (depth($1), $1) }.map { new.entities[$0].table }
    }

    private func addLinks(of entity: Entity, _ before: Entity, _ members: [Member], to origin: inout TableOrigin) {
        let links = Sources(.relationship, members, old, match)
        for (place, relationship) in entity.relationships.enumerated() where !relationship.isToMany {
            let position = new.positionColumn(of: relationship)
            let names = sides.new.linkColumns(relationship) + [position].compactMap { $0 }
            let former = { (source: Int) -> [TableOrigin.Source] in
                let found = before.relationships[source]
                guard !found.isToMany else { return [] }
                let place = position == nil ? nil : old.positionColumn(of: found)
                let count = names.count - (position == nil ? 0 : 1)
                return linkSources(count, sides.old.linkColumns(found), to: relationship.destination)
                    + [place].compactMap { $0.map { TableOrigin.Source(column: $0) } }
            }
            links.add(names, from: place, former, to: &origin) { member, _, column in
                let values = self.carried.links(ofOwner: member.new, place) ?? []
                return column < values.count ? values[column] : nil
            }
        }
    }

    /// The sources of a hierarchy's columns: indices of the earlier hierarchy, by indices of the changed one.
    private struct Sources {
        private let kind: PartKind
        private let members: [Member]
        private let old: Model
        private let match: ModelMatch
        /// By earlier index, the indices that take values from it.
        private var targets: [Int: Set<Int>] = [:]

        init(_ kind: PartKind, _ members: [Member], _ old: Model, _ match: ModelMatch) {
            (self.kind, self.members, self.old, self.match) = (kind, members, old, match)
            for member in members {
                for (place, source) in match.entities[member.new][kind].enumerated() {
                    if let source { targets[source, default: []].insert(place) }
                }
            }
        }

        /// - Parameter fill: returns the SQL of the value that replaces NULL in rows of an entity.
        func add(
            _ columns: [String], from place: Int, _ former: (Int) -> [TableOrigin.Source],
            to origin: inout TableOrigin, carried: (Member, Int) -> TableOrigin.Source? = { _, _ in nil },
            fill: (_ member: Member, _ source: Int?, _ column: Int) -> String?
        ) {
            let sources = Set(members.compactMap { match.entities[$0.new][kind][place] })
            // All rows with the attribute had it in one column, and no other column takes values from that.
            let only = sources.count == 1 && targets[sources.first!] == [place] ? sources.first : nil
            for (index, column) in columns.enumerated() {
                func found(_ source: Int) -> TableOrigin.Source? { former(source).dropFirst(index).first }
                let stays = only.flatMap(found).flatMap { $0.isReplaced ? nil : $0 }
                if let stays { origin.add(column, from: stays) }
                let values = members.filter(\.hasRows).map { member in
                    let source = match.entities[member.new][kind][place]
                    let fill = fill(member, source, index)
                    var taken = source.map(found) ?? carried(member, index)
                    // Rows that did not have the attribute have NULL in the column that stays.
                    if source == nil, fill == nil, let only, !old.entities[member.old].indices(of: kind).contains(only)
                    {
                        taken = stays.map { TableOrigin.Source(column: $0.column) }
                    }
                    return TableOrigin.EntityValue(entity: old.entities[member.old].name, source: taken, fill: fill)
                }
                if !values.allSatisfy({ $0.source?.column == stays?.column && $0.fill == nil }) {
                    origin.add(column, values)
                }
            }
        }
    }

    // MARK: - Tables of links

    /// For an attribute of a hierarchy, its index in the earlier one; nil when it is new.
    private func source(ofAttribute place: Int, in topmost: Int) -> Int? {
        new.subentities(of: topmost).lazy.compactMap { match.entities[$0].attributes[place] }.first
    }

    /// For a relationship of a hierarchy, the earlier topmost entity and the index there; nil when it is new.
    private func source(ofRelationship place: Int, in topmost: Int) -> (topmost: Int, relationship: Int)? {
        for member in new.subentities(of: topmost) {
            if let found = match.entities[member].old, let source = match.entities[member].relationships[place] {
                return (old.topmost(of: found), source)
            }
        }
        return nil
    }

    /// The links are in the table of the side whose name comes first: after a renaming, that may be the other side.
    private func origin(of link: LinkTable) -> TableOrigin? {
        let relationship = new.entities[link.source].relationships[link.relationship]
        let own = source(ofRelationship: link.relationship, in: link.source)
        let inverse = relationship.inverse.flatMap { source(ofRelationship: $0, in: link.destination) }
        guard let before = own ?? inverse,
            case .linkTable(let table, let isSeenFromBehind) =
                sides.old.layout.entities[before.topmost].forms[before.relationship]
        else { return nil }
        let isReversed = isSeenFromBehind != (own == nil)
        let former = sides.old.layout.linkTables[table]
        var origin = TableOrigin(table: sides.old.linkTable(former))
        let (columns, formerColumns) = (sides.new.linkSides(link), sides.old.linkSides(former))
        let positions = LinkPosition.allCases
        for side in 0..<2 {
            let other = isReversed ? 1 - side : side
            let entity = side == 0 ? link.source : link.destination
            let sources = linkSources(columns[side].count, formerColumns[other], to: entity)
            guard columns[side].count == sources.count else { return nil }
            for (column, source) in zip(columns[side], sources) {
                if source.isReplaced {
                    origin.add(column, [TableOrigin.EntityValue(entity: "", source: source, fill: nil)])
                } else {
                    origin.add(column, from: source)
                }
            }
            if positions[side].isUsed(by: link), positions[other].isUsed(by: former) {
                origin.add(positions[side].rawValue, from: positions[other].rawValue)
            }
        }
        return origin
    }

    /// A table of the links of a to-one relationship that is to-many now; nil for a relationship that is new.
    private func filledTable(of link: LinkTable) -> FilledTable? {
        guard let before = source(ofRelationship: link.relationship, in: link.source),
            case .column = sides.old.layout.entities[before.topmost].forms[before.relationship]
        else { return nil }
        let former = sides.old.linkColumns(old.entities[before.topmost].relationships[before.relationship])
        let columns = sides.new.linkSides(link)
        return FilledTable(
            table: sides.new.linkTable(link), entityTable: new.entities[link.source].table, source: columns[0],
            keys: sides.new.keyColumns(link.source).map(\.name), destination: columns[1],
            links: linkSources(columns[1].count, former, to: link.destination),
            position: link.isOrdered ? LinkPosition.position.rawValue : nil)
    }
}

/// A new table of links, which takes those that were in a column of an entity's table.
struct FilledTable {
    let table: String
    let entityTable: String
    let source: [String]
    let keys: [String]
    /// The columns of the link table for the destination, and where they come from.
    let destination: [String]
    let links: [TableOrigin.Source]
    let position: String?

    /// The statement that fills it, while the entity's table has its earlier columns under their new names.
    func sql(_ migration: TableMigration) -> String {
        let current = { (column: String) in migration.renamings.current(column) }
        let columns = source + destination + [position].compactMap { $0 }
        let values =
            keys.map { migration.expression(for: $0, isRenamed: true) }
            + links.map { $0.expression(current: current) } + (position == nil ? [] : ["0"])
        return "INSERT INTO \(quoted(table)) (\(quotedList(columns))) SELECT \(values.joined(separator: ", ")) "
            + "FROM \(quoted(entityTable)) AS \(TableOrigin.rowAlias) "
            + "WHERE \(quoted(current(links[0].column))) IS NOT NULL"
    }
}

struct TableOrigin {
    enum Change: Equatable {
        /// They become values of another type, by the conversion of that number.
        case converted(Int)
        /// They are the keys of another table, in a column that it keeps, and become the values of its new identity.
        case identity(table: String, column: String, key: String, conversion: Int?)

        fileprivate func sql(of column: String) -> String {
            switch self {
            case .converted(let number): Self.converted(quoted(column), number)
            case .identity(let table, let identity, let key, let number):
                "(SELECT \(number.map { Self.converted(quoted(identity), $0) } ?? quoted(identity)) FROM \(quoted(table)) "
                    + "WHERE \(quoted(key)) = \(TableOrigin.rowAlias).\(quoted(column)))"
            }
        }

        private static func converted(_ value: String, _ number: Int) -> String {
            "\(conversionFunction)(\(number), \(value))"
        }
    }

    struct Source: Equatable {
        let column: String
        var change: Change?

        /// The column itself does not stay: values of another table replace its own.
        var isReplaced: Bool {
            if case .identity = change { true } else { false }
        }

        func expression(current: (String) -> String) -> String {
            change?.sql(of: current(column)) ?? quoted(current(column))
        }
    }

    /// The name of the table in statements that read its rows.
    static let rowAlias = "_broker_row"

    /// The values of one concrete entity's rows in a column of the changed table.
    struct EntityValue: Equatable {
        let entity: String
        let source: Source?
        let fill: String?
    }

    let table: String
    /// Its rows have the name of their concrete entity.
    var hasConcreteEntities = false
    /// The names of the concrete entities of stored rows, before and now.
    var concreteEntities: [(old: String, new: String)] = []
    /// Its rows get another key.
    var hasNewKey = false
    /// By column of the changed table: the store's column, for columns that stay. Other columns are new.
    private(set) var staying: [ExactText: Source] = [:]
    /// By column of the changed table, where some rows need another value than that of the column that stays.
    private(set) var values: [ExactText: [EntityValue]] = [:]
    /// The column `_extra`, and the columns and conversions of values that go there where they are not held any more.
    var extra: String?
    var moved: [(source: Source, conversion: Int)] = []
    /// An attribute has another type, which the declaration and the comment of its column name.
    var retypes = false
    /// Columns that stored rows take from their owner: they are added before anything else changes.
    private(set) var ownerColumns: [OwnerColumn] = []

    func old(_ column: String) -> String? { staying[column]?.column }

    mutating func add(_ column: String, from source: Source) { staying[column] = source }

    mutating func add(_ column: String, from old: String) { staying[column] = Source(column: old) }

    mutating func add(_ column: OwnerColumn) {
        ownerColumns.append(column)
        add(column.name, from: column.name)
    }

    mutating func add(_ column: String, _ values: [EntityValue]) { self.values[column] = values }

    /// The SQL of `_extra`, which takes values that are not held any more.
    ///
    /// - Parameter value: what is there before.
    func taking(_ value: String, current: (String) -> String) -> String {
        moved.reduce(value) { "\(extraFunction)(\($1.conversion), \($0), \($1.source.expression(current: current)))" }
    }

    /// Every column of the store whose values are taken; not those that values of another table replace.
    var sources: Set<ExactText> {
        let others = values.values.joined().compactMap(\.source).filter { !$0.isReplaced }
        return Set((Array(staying.values) + others).map { ExactText($0.column) })
    }

    /// A column takes values of several that do not stay, or one is divided.
    var mixesColumns: Bool {
        values.contains { column, values in staying[column] == nil && values.contains { $0.source != nil } }
    }

    /// The SQL of a column's value, over rows with the store's names of concrete entities.
    func expression(for column: String, isConcreteEntity: Bool, current: (String) -> String) -> String {
        if isConcreteEntity { return concreteEntityExpression }
        guard let values = values[column] else {
            return staying[column]?.expression(current: current) ?? "NULL"
        }
        let branches = values.map { value in
            let found = value.source?.expression(current: current)
            let filled = found.flatMap { found in value.fill.map { "coalesce(\(found), \($0))" } }
            return (value.entity, filled ?? found ?? value.fill ?? "NULL")
        }
        return choice(branches)
    }

    /// The SQL of the value that every row gets in a new column, if it depends on nothing.
    func constant(_ column: String) -> String? {
        guard let values = values[column], let fill = values.first?.fill else { return nil }
        return values.allSatisfy { $0.source == nil && $0.fill == fill } ? fill : nil
    }

    private var concreteEntityExpression: String {
        guard hasConcreteEntities else { return concreteEntities.first.map { textLiteral($0.new) } ?? "NULL" }
        let renamed = concreteEntities.filter { !$0.old.hasSameBytes(as: $0.new) }
        guard !renamed.isEmpty else { return quoted(entityColumnName) }
        let branches = renamed.map { "WHEN \(textLiteral($0.old)) THEN \(textLiteral($0.new))" }
        return "CASE \(quoted(entityColumnName)) \(branches.joined(separator: " ")) "
            + "ELSE \(quoted(entityColumnName)) END"
    }

    private func choice(_ branches: [(entity: String, expression: String)]) -> String {
        guard let first = branches.first else { return "NULL" }
        if !hasConcreteEntities || branches.allSatisfy({ $0.expression.hasSameBytes(as: first.expression) }) {
            return first.expression
        }
        let list = branches.filter { $0.expression != "NULL" }.map {
            "WHEN \(textLiteral($0.entity)) THEN \($0.expression)"
        }
        return "CASE \(quoted(entityColumnName)) \(list.joined(separator: " ")) END"
    }
}

/// A column of an owned entity's identity, which its stored rows take from their owner.
struct OwnerColumn {
    let name: String
    let type: String
    /// The store's column with the owner's row key.
    let link: String
    /// From the link to the value of the owner's identity; nil for the position among the owner's objects.
    let identity: TableOrigin.Change?

    func statements(_ table: String, current: (String) -> String) -> [String] {
        let link = TableOrigin.Source(column: link, change: identity)
        let (rows, key) = (TableOrigin.rowAlias, quoted(rowKeyName))
        let update =
            identity == nil
            ? "UPDATE \(quoted(table)) AS \(rows) SET \(quoted(name)) = p.n FROM (SELECT \(key) AS k, row_number() OVER "
                + "(PARTITION BY \(link.expression(current: current)) ORDER BY \(key)) - 1 AS n FROM \(quoted(table))) "
                + "AS p WHERE p.k = \(rows).\(key)"
            : "UPDATE \(quoted(table)) AS \(rows) SET \(quoted(name)) = \(link.expression(current: current))"
        return ["ALTER TABLE \(quoted(table)) ADD COLUMN \(quoted(name)) \(type)", update]
    }
}
