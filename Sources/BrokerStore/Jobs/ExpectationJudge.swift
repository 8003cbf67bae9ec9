internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Judges what a client expects of an object, after the operations before it.
struct ExpectationJudge {
    /// The maximum bytes of the object in the fault.
    private static let maximumObjectBytes = 4_096

    private let merger: Merger
    private let unique: UniqueValues
    private var model: Model { merger.plan.model }

    init(_ merger: Merger, _ unique: UniqueValues) {
        self.merger = merger
        self.unique = unique
    }

    /// - Parameter rows: name the object, if it has a key.
    /// - Throws: ``MergeFailure/fault(_:)`` with `conflict` when the object is not as expected.
    func judge(_ expectation: StagedExpectation, of rows: StagedRows, at pointer: String) throws {
        let table = model.topmost(of: expectation.entity)
        let object = try rows.tables[table].flatMap { try self.object(in: $0) }
        let entity = object.map { model.isInHierarchy(table) ? $0.concreteEntity : table }
        let isThere = entity.map { $0 == expectation.entity || model.isKind($0, of: expectation.entity) } ?? false
        let isMet =
            switch expectation.condition {
            case .absent: object == nil
            case .present: isThere
            case .version(let version):
                if let object, isThere {
                    try self.version(of: object, table)?.hasSameBytes(as: version) ?? false
                } else {
                    false
                }
            case .matching(let selection):
                if let object, isThere { try matches(object, selection, at: pointer) } else { false }
            }
        guard !isMet else { return }
        var fault = Fault(
            .conflict, message(expectation, isThere: object != nil), path: pointer,
            entity: model.entities[expectation.entity].name)
        let json = try object.map { try self.json(of: $0, table) } ?? Array("null".utf8)
        if json.count <= Self.maximumObjectBytes { fault.object = json }
        throw MergeFailure.fault(fault)
    }

    private func message(_ expectation: StagedExpectation, isThere: Bool) -> String {
        let name = model.entities[expectation.entity].name
        let what =
            switch expectation.condition {
            case .absent: "There is such an object of \(name) already"
            case _ where !isThere: "There is no such object of \(name)"
            case .present: "The object is none of \(name)"
            case .version: "The object of \(name) has changed since the version that is expected"
            case .matching: "The object of \(name) does not match the `where` of `expect`"
            }
        return "\(what), so the job has changed nothing. Read the object, and decide again."
    }

    // MARK: - The object

    private func object(in table: FrozenTable) throws(StoreError) -> StoredObject? {
        let columns = merger.historyTables.longColumns[table.entityIndex]
        if let key = table.keysByRow[0] {
            return try merger.entities[table.entityIndex].find(StoredKey([.integer(key)]), charging: columns)
        }
        guard table.hasIdentity(0) else { return nil }
        let entity =
            merger.entities[table.entityIndex].hasRowKey ? table.concreteEntity(of: 0) : table.entityIndex
        return try merger.object(of: table.row(0), entity, charging: columns)
    }

    /// The object as a `fetch` with `versions` returns it.
    private func json(of object: StoredObject, _ table: Int) throws -> [UInt8] {
        // A unique value that an earlier record took is still the object's.
        try unique.restore(table, row: object.number)
        let read = try merger.entities[table].object(ObjectForm(), hasVersion: true)
        let key =
            merger.entities[table].hasRowKey
            ? StoredKey([.integer(object.number)]) : try merger.entities[table].key(ofRow: object.number)
        key?.bind(to: read.statement, from: 1)
        var writer = JSONWriter()
        try read.write(to: &writer)
        return writer.bytes
    }

    private func version(of object: StoredObject, _ table: Int) throws -> String? {
        try JSONDocument(parsing: JSONText(copying: json(of: object, table))).withRoot { $0[RowVersion.name]?.string }
    }

    private func matches(_ object: StoredObject, _ selection: StagedSelection, at pointer: String) throws -> Bool {
        guard let condition = selection.predicate else { return true }
        try unique.restore(askedBy: selection)
        let predicate = PredicateSQL(
            condition, entity: selection.entity, plan: merger.plan, alias: "o",
            charging: merger.historyTables.longColumns)
        let naming = ColumnNaming(model: model, layout: merger.plan.layout)
        let statement = try merger.connection.prepare(
            "SELECT 1 FROM \(quoted(model.table(of: selection.entity))) AS o "
                + "WHERE o.\(naming.rowNumber(selection.entity)) = ? AND (\(predicate.condition))")
        statement.bind(object.number, at: 1)
        _ = predicate.bind(to: statement, from: 2)
        do throws(StoreError) {
            return try statement.step()
        } catch {
            // A pattern takes too long.
            guard let fault = predicate.fault else { throw error }
            throw MergeFailure.fault(fault.at("\(pointer)/where"))
        }
    }
}
