internal import BrokerModel
internal import BrokerStaging

/// Where the columns of a changed model's tables come from.
struct TableOrigin {
    /// The table as the store has it.
    let table: String
    /// By column of the changed table, the store's; columns that are not here are new.
    private(set) var columns: [[UInt8]: String] = [:]

    init(table: String) { self.table = table }

    func old(_ column: String) -> String? { columns[Array(column.utf8)] }

    mutating func add(_ pairs: some Sequence<(String, String)>) {
        for (new, old) in pairs { columns[Array(new.utf8)] = old }
    }
}

/// The origins of a changed model's tables, told by its parts and not by names of columns, which follow them.
struct SchemaOrigins {
    /// By the name of the changed table.
    private var origins: [[UInt8]: TableOrigin] = [:]

    subscript(table: String) -> TableOrigin? { origins[Array(table.utf8)] }

    init(from old: Model, to new: Model, _ match: ModelMatch) {
        let sides = (
            old: ColumnNaming(model: old, layout: RowLayout(old)), new: ColumnNaming(model: new, layout: RowLayout(new))
        )
        for (index, entity) in new.entities.enumerated() {
            guard let found = match.entities[index].old else { continue }
            let former = old.entities[found]
            var origin = TableOrigin(table: former.table)
            if entity.hasRowKey, former.hasRowKey { origin.add([(rowKeyName, rowKeyName)]) }
            for (attribute, position) in zip(entity.attributes, match.entities[index].attributes) {
                if let position { origin.add([(attribute.name, former.attributes[position].name)]) }
            }
            for (relationship, position) in zip(entity.relationships, match.entities[index].relationships) {
                guard let position else { continue }
                let before = former.relationships[position]
                guard !relationship.isToMany, !before.isToMany else { continue }
                origin.add(zip(sides.new.linkColumns(relationship), sides.old.linkColumns(before)))
                if let place = new.positionColumn(of: relationship), let former = old.positionColumn(of: before) {
                    origin.add([(place, former)])
                }
            }
            origins[Array(entity.table.utf8)] = origin
        }
        for link in sides.new.layout.linkTables {
            guard let origin = Self.origin(of: link, old, new, match, sides) else { continue }
            origins[Array(sides.new.linkTable(link).utf8)] = origin
        }
    }

    /// A pair's links lie in the table of the side that comes first by name: renamed, it may be the other.
    private static func origin(
        of link: LinkTable, _ old: Model, _ new: Model, _ match: ModelMatch,
        _ sides: (old: ColumnNaming, new: ColumnNaming)
    ) -> TableOrigin? {
        let relationship = new.entities[link.source].relationships[link.relationship]
        let isFound: (table: Int, isReversed: Bool)?
        if let before = match.entities[link.source].relationships[link.relationship] {
            isFound = linkTable(of: before, match.entities[link.source].old, sides.old.layout, isSeenFromBehind: false)
        } else if let inverse = relationship.inverse,
            let before = match.entities[link.destination].relationships[inverse]
        {
            isFound = linkTable(
                of: before, match.entities[link.destination].old, sides.old.layout, isSeenFromBehind: true)
        } else {
            isFound = nil
        }
        guard let (table, isReversed) = isFound else { return nil }
        let former = sides.old.layout.linkTables[table]
        var origin = TableOrigin(table: sides.old.linkTable(former))
        let (columns, before) = (sides.new.linkSides(link), sides.old.linkSides(former))
        let (positions, places) = (LinkPosition.allCases, LinkPosition.allCases)
        for side in 0..<2 {
            let other = isReversed ? 1 - side : side
            guard columns[side].count == before[other].count else { return nil }
            origin.add(zip(columns[side], before[other]))
            if positions[side].isKept(by: link), places[other].isKept(by: former) {
                origin.add([(positions[side].rawValue, places[other].rawValue)])
            }
        }
        return origin
    }

    private static func linkTable(
        of relationship: Int, _ entity: Int?, _ layout: RowLayout, isSeenFromBehind: Bool
    ) -> (table: Int, isReversed: Bool)? {
        guard let entity, case .linkTable(let table, let isReversed) = layout.entities[entity].forms[relationship]
        else {
            return nil
        }
        return (table, isReversed != isSeenFromBehind)
    }
}
