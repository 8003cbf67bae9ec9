internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The names of an entity's staged columns in its table, and in the virtual table over its staged rows.
struct EntityColumns {
    /// A column of the table, and its number in the virtual table.
    struct Column {
        let name: String
        let number: Int
    }

    let index: Int
    let plan: StagingPlan
    let naming: ColumnNaming
    let entity: Entity
    /// The quoted name of the table; for a hierarchy, that of its topmost entity.
    let table: String
    /// The columns of the virtual table before those of each link, without the key and the attributes; then all of them.
    private let linkOffsets: [Int]

    init(_ index: Int, _ plan: StagingPlan) {
        self.index = index
        self.plan = plan
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        entity = plan.model.entities[index]
        table = quoted(plan.model.entities[plan.model.topmost(of: index)].table)
        let layout = plan.layout.entities[index]
        var offsets = [0]
        for column in layout.attributeCount..<layout.columnCount {
            let relationship = entity.relationships[layout.link(atColumn: column).relationship]
            offsets.append(offsets[offsets.count - 1] + naming.keyColumns(relationship.destination).count)
        }
        linkOffsets = offsets
    }

    private var layout: EntityLayout { plan.layout.entities[index] }

    /// Names of the columns that identify an object.
    var keyNames: [String] { naming.keyColumns(index).map(\.name) }

    var key: [Column] {
        entity.hasRowKey ? [Column(name: rowKeyName, number: 0)] : entity.identity.flatMap { columns($0) }
    }

    /// The SQL name of the row number, in a table whose columns may have any name.
    var rowNumber: String { naming.rowNumber(index) }

    /// The staged columns that its objects have: attributes, then links.
    var all: [Int] {
        let links = (layout.attributeCount..<layout.columnCount).filter {
            entity.relationshipIndices.contains(layout.link(atColumn: $0).relationship)
        }
        return entity.attributeIndices + links
    }

    /// The staged columns without the key.
    func others(_ staged: [Int]) -> [Int] { staged.filter { entity.hasRowKey || !entity.identity.contains($0) } }

    /// Staged columns that are part of an index: an UPDATE that sets one is slow, even if the value does not change.
    var indexed: Set<Int> {
        let attributes = (entity.unique + entity.indexes).joined()
        return Set(attributes).union(entity.identity).union(layout.attributeCount..<layout.columnCount)
    }

    /// The number of columns of the virtual table.
    var virtualColumnCount: Int {
        (entity.hasRowKey ? 1 : 0) + layout.attributeCount + linkOffsets[linkOffsets.count - 1]
    }

    /// The table columns of a staged column; several for a link whose key has several.
    func columns(_ staged: Int) -> [Column] {
        let first = entity.hasRowKey ? 1 : 0
        let attributes = entity.attributes.count
        if staged < attributes { return [Column(name: entity.attributes[staged].column, number: first + staged)] }
        let before = first + attributes + linkOffsets[staged - attributes]
        return linkNames(staged).enumerated().map { Column(name: $1, number: before + $0) }
    }

    func linkNames(_ column: Int) -> [String] {
        naming.linkColumns(entity.relationships[layout.link(atColumn: column).relationship])
    }

    /// The position columns of the links at these staged columns.
    func positionNames(_ columns: [Int]) -> [String] {
        columns.filter { $0 >= layout.attributeCount }.compactMap { column in
            plan.model.positionColumn(of: entity.relationships[layout.link(atColumn: column).relationship])
        }
    }

    /// The model's name of a staged column.
    func nameInModel(_ column: Int) -> String {
        guard column >= layout.attributeCount else { return entity.attributes[column].name }
        return entity.relationships[layout.link(atColumn: column).relationship].name
    }

    /// The default of an attribute; nil when it has none.
    func defaultCell(_ attribute: Int) -> Cell? { plan.defaultCell(entity: index, attribute: attribute) }

    /// Resets the position of an object whose link changes to another ordered relationship: it has no position there
    /// yet (``JobMerge/mergeListPositions()``).
    ///
    /// - Parameters:
    ///   - row: the SQL name of the stored row.
    ///   - differs: returns the condition that the link at a column changes.
    func clearingPositions(_ present: [Int], of row: String, _ differs: (Int) -> String) -> [String] {
        present.flatMap { column in
            positionNames([column]).map { position in
                "\(quoted(position)) = CASE WHEN \(differs(column)) THEN NULL ELSE \(row).\(quoted(position)) END"
            }
        }
    }
}
