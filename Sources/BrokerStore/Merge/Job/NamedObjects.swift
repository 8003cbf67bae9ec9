internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// Whether a step's rows name an object, as an SQL function: `_broker_is_named(key columns)`.
///
/// It needs one hash lookup for each examined row of the table, and no copy of the keys.
final class NamedObjects {
    private static let function = "_broker_is_named"

    private var tables: [(table: FrozenTable, stored: [StoredKey: Int]?)] = []
    private var entity: Entity?
    private var rowKeys: Set<Int64> = []
    /// The numbers of the named rows, where they are known by these.
    private var numbers: Set<Int64>?
    private var cells: [Cell] = []
    private let meter: WorkMeter

    /// Registers the function. This object must outlive the connection's last statement.
    init(on connection: Connection) throws(StoreError) {
        meter = connection.work
        let result = sqlite3_create_function_v2(
            connection.handle, Self.function, -1, SQLITE_UTF8, Unmanaged.passUnretained(self).toOpaque(),
            { context, count, values in
                let named = Unmanaged<NamedObjects>.fromOpaque(sqlite3_user_data(context)!).takeUnretainedValue()
                let values = UnsafeBufferPointer(start: values, count: Int(count))
                guard PredicateFunctions.charge(context, named.meter, forKeyOf: values) else { return }
                sqlite3_result_int(context, named.contains(values) ? 1 : 0)
            }, nil, nil, nil)
        guard result == SQLITE_OK else { throw connection.error(result) }
    }

    /// Sets the rows that the function examines.
    ///
    /// - Parameters:
    ///   - tables: all of the entity's table. If its columns convert staged values, the converted keys are stored.
    ///   - rowKeys: the keys of the rows, if the entity has row keys.
    /// - Returns: the condition that an object `o` is named.
    func set(
        _ tables: [FrozenTable], _ entity: Int, _ statements: EntityStatements, _ forms: ColumnAffinities,
        rowKeys: Set<Int64>
    ) throws(StoreError) -> String {
        let changes = forms.changesKey(of: entity)
        self.tables = []
        for table in tables { self.tables.append((table, changes ? try forms.rows(of: table) : nil)) }
        self.entity = statements.entity
        self.rowKeys = rowKeys
        cells = Array(repeating: .absent, count: tables.first?.columnCount ?? 0)
        return "\(Self.function)(\(statements.keyNames.map { "o.\(quoted($0))" }.joined(separator: ", ")))"
    }

    /// Sets the numbers of the rows that are named.
    ///
    /// - Returns: the condition that an object `o` is named.
    func set(_ numbers: Set<Int64>, naming plan: StagingPlan, _ entity: Int) -> String {
        self.numbers = numbers
        return "\(Self.function)(o.\(ColumnNaming(model: plan.model, layout: plan.layout).rowNumber(entity)))"
    }

    func clear() {
        tables = []
        numbers = nil
        rowKeys = []
    }

    private func contains(_ values: UnsafeBufferPointer<OpaquePointer?>) -> Bool {
        if let numbers { return numbers.contains(sqlite3_value_int64(values[0])) }
        guard let entity else { return false }
        if entity.hasRowKey { return rowKeys.contains(sqlite3_value_int64(values[0])) }
        for (position, column) in entity.identity.enumerated() where !cells.isEmpty {
            cells[column] = Cell(values[position])
        }
        return tables.contains { table, stored in
            if let stored { return stored[StoredKey(values.map { Cell($0) })] != nil }
            return cells.withUnsafeBufferPointer {
                table.find(identity: $0.baseAddress!, concreteEntity: table.entityIndex) != nil
            }
        }
    }
}
