internal import BrokerJSON
internal import BrokerModel

/// What must be done to a database so that it is a store of a model: found out by reading alone, then done at once.
struct StoreOpening {
    private let path: String
    private let model: Model
    private let isMarked: Bool
    private let statements: [String]
    private let differences: [StoreDifference]

    /// - Throws: ``StoreError`` when the database is no store, or a newer one.
    init(of connection: Connection, path: String, to model: Model) throws(StoreError) {
        self.path = path
        self.model = model
        var stored: Model?
        switch try StoreFormat.kind(of: connection, path: path) {
        case .new, .unmarked: isMarked = false
        case .store(let text):
            isMarked = try connection.integer("PRAGMA application_id") == StoreFormat.applicationID
            stored = try Self.read(text, path)
        }
        let migration = try SchemaMigration(of: connection, from: stored.map(Schema.init), to: Schema(model))
        statements = migration.statements
        let meaning = stored.map { ModelComparison(from: $0, to: model).differences } ?? []
        // What has been told of a column in the model's words need not be told in SQL's.
        let told = Set(meaning.map(\.subject))
        differences = meaning + migration.differences.filter { !told.contains($0.subject) }
    }

    /// - Throws: ``StoreError`` `incompatible` with every difference, if there are any.
    func refuseDifferences() throws(StoreError) {
        guard !differences.isEmpty else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) does not fit the model, and cannot be made to without loss: "
                + differences.map(\.text).joined(separator: "; ")
                + ". Use the model that made it, or another store; nothing was touched.")
    }

    /// Makes what is missing, and keeps the model. Inside the caller's transaction.
    func run(on connection: Connection) throws(StoreError) {
        for sql in Ledger.tables + statements { try connection.execute(sql) }
        if !isMarked { try connection.execute("PRAGMA application_id = \(StoreFormat.applicationID)") }
        let meta = StoreMeta(connection: connection)
        try meta.set(.formatVersion, to: "\(StoreFormat.version)")
        try meta.set(.model, to: model.text)
    }

    private static func read(_ text: String, _ path: String) throws(StoreError) -> Model {
        do throws(ModelError) {
            return try ModelReader.read(JSONText(copying: Array(text.utf8)))
        } catch {
            throw StoreError(
                .incompatible,
                "The model that the store \(path) keeps cannot be read (\(error.faults.first.map(\.description) ?? "")). "
                    + "Use the Broker that made it; nothing was touched.")
        }
    }
}

/// Something in which a store and a model disagree, and that cannot be mended without loss.
struct StoreDifference: Equatable {
    /// `table.column`, or the table.
    let subject: String
    /// For people: without the full stop.
    let text: String
}
