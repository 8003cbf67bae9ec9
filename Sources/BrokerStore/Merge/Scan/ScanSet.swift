internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The scans of a connection: one for each entity, then one for each link table, each with a virtual table.
///
/// They are at fixed addresses for the life of this object, which must outlive the connection's last statement.
final class ScanSet {
    /// By entity index: the rows of a job that is merged alone; set for each merge.
    let tables: UnsafeMutableBufferPointer<ScannedTable>
    private let scans: UnsafeMutableBufferPointer<StagedScan>
    private let entries: UnsafeMutableBufferPointer<StagedModuleEntry>
    private var columns: [UnsafeMutableBufferPointer<ScanColumn>] = []
    let entityCount: Int

    init(_ model: Model, _ layout: RowLayout, on connection: Connection) throws(StoreError) {
        entityCount = model.entities.count
        let shapes =
            model.entities.indices.map { Self.columns(ofEntity: $0, model, layout) }
            + layout.linkTables.map { Self.columns(of: $0, model) }
        tables = .allocate(capacity: entityCount)
        tables.initialize(repeating: ScannedTable())
        scans = .allocate(capacity: shapes.count)
        entries = .allocate(capacity: shapes.count)
        for (number, shape) in shapes.enumerated() {
            let place = UnsafeMutableBufferPointer<ScanColumn>.allocate(capacity: max(1, shape.count))
            _ = place.initialize(fromContentsOf: shape)
            columns.append(place)
            scans.initializeElement(
                at: number,
                to: StagedScan(
                    entity: number < entityCount ? number : nil, columns: place.baseAddress!,
                    entityCount: entityCount, tables: tables.baseAddress!))
            entries.initializeElement(
                at: number, to: StagedModuleEntry(scan: scans.baseAddress! + number, columnCount: shape.count))
        }
        try StagedModule.register(on: connection, entries.baseAddress!)
        // The entities of a hierarchy share one scan, that of their table.
        for number in shapes.indices where number >= entityCount || model.entities[number].parent == nil {
            try connection.execute(
                "CREATE VIRTUAL TABLE temp.\(quoted(Self.tableName(number))) USING \(StagedModule.name)(\(number))")
        }
    }

    deinit {
        for place in columns { place.deallocate() }
        scans.deallocate()
        entries.deallocate()
        tables.deallocate()
    }

    func scan(entity: Int) -> UnsafeMutablePointer<StagedScan> { scans.baseAddress! + entity }
    func scan(linkTable: Int) -> UnsafeMutablePointer<StagedScan> { scans.baseAddress! + entityCount + linkTable }
    func tableName(entity: Int) -> String { "temp.\(quoted(Self.tableName(entity)))" }
    func tableName(linkTable: Int) -> String { "temp.\(quoted(Self.tableName(entityCount + linkTable)))" }

    private static func tableName(_ number: Int) -> String { "_broker_staged_\(number)" }

    /// The order of an entity's virtual columns: its row key if it has one, its attributes, then its links' keys.
    private static func columns(ofEntity index: Int, _ model: Model, _ layout: RowLayout) -> [ScanColumn] {
        let entity = model.entities[index]
        let own = entity.hasRowKey ? [ScanColumn(source: .rowKey, cell: 0)] : []
        let attributes = entity.attributes.indices.map { ScanColumn(source: .cell, cell: $0) }
        let links = layout.entities[index].links.enumerated().flatMap { position, link in
            keyColumns(of: link.destination, model, cell: entity.attributes.count + position)
        }
        return own + attributes + links
    }

    private static func columns(of link: LinkTable, _ model: Model) -> [ScanColumn] {
        keyColumns(of: link.source, model, cell: 0) + keyColumns(of: link.destination, model, cell: 1)
    }

    private static func keyColumns(of destination: Int, _ model: Model, cell: Int) -> [ScanColumn] {
        let entity = model.entities[destination]
        if entity.hasRowKey { return [ScanColumn(source: .linkedRowKey, cell: cell, destination: destination)] }
        return entity.identity.map {
            ScanColumn(source: .linkedCell, cell: cell, destination: destination, destinationCell: $0)
        }
    }
}
