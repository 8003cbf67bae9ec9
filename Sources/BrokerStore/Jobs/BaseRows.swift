internal import BrokerModel
internal import BrokerStaging

/// The rows of a job's first step, found by the keys of their objects.
final class BaseRows {
    private let rows: StagedRows
    private let merged: MergedRows
    private let entities: [EntityStatements]
    private var lookups = StagedLookups()
    /// By entity index, for entities whose columns convert staged values.
    private var stored: [Int: [StoredKey: Int]] = [:]

    init(_ rows: StagedRows, _ merged: MergedRows, _ merger: Merger) throws(MergeFailure) {
        self.rows = rows
        self.merged = merged
        entities = merger.entities
        try storing { () throws(StoreError) in
            for case let table? in rows.tables where merger.forms.changesKey(of: table.entityIndex) {
                stored[table.entityIndex] = try merger.forms.rows(of: table)
            }
        }
    }

    /// The staged row of the object; nil when the step did not name it.
    func row(of key: StoredKey, _ entity: Int) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        if let stored = stored[entity] { return stored[key] }
        let model = entities[entity].entity
        var found: Int?
        // The cells are valid only inside the closure.
        key.withCells { key in
            if model.hasRowKey {
                found = lookups.row(ofKey: key[0].integer, entity, merged.rowKeys)
                return
            }
            found = table.find(identity: key, concreteEntity: entity)
        }
        return found
    }
}
