internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// What must be done to a database so that it is a store of a model: found out by reading alone, then done at once.
struct StoreOpening {
    /// What differs and what becomes of it; empty for a store that is new.
    let changes: [StoreChange]
    private let path: String
    private let model: Model
    private let held: HeldModel
    private let isMarked: Bool
    private let isNew: Bool
    private let plan: StorePlan
    private let renamedEntities: [(old: String, new: String)]

    /// - Throws: ``StoreError`` when the database is no store, or a newer one.
    init(
        of connection: Connection, path: String, to staging: StagingPlan, removal: RemovalPolicy = .refuse
    ) throws(StoreError) {
        self.path = path
        model = staging.model
        var inForce = Model(entities: [])
        var stored = inForce
        switch try StoreFormat.kind(of: connection, path: path) {
        case .new: (isMarked, isNew) = (false, true)
        case .unmarked:
            (isMarked, isNew) = (false, false)
            // Which model made it is not known: what is there is taken for the wanted one's.
            (inForce, stored) = (model, model)
        case .store(let text, let heldText):
            isMarked = try connection.integer("PRAGMA application_id") == StoreFormat.applicationID
            isNew = false
            inForce = try Self.read(text, path)
            stored = try heldText.map { text throws(StoreError) in try Self.read(text, path) } ?? inForce
        }
        let match = ModelMatch(from: stored, to: model)
        let meaning = ModelComparison(from: stored, inForce: inForce, to: model, match, removal).changes
        held = HeldModel(model, keepingFrom: stored, match, inForce: inForce, removal: removal)
        plan = try StorePlan(of: connection, from: stored, to: held, staging, removal: removal)
        let told = Set(meaning.filter { $0.verdict == .refused }.map(\.subject))
        // What has been refused in the model's words need not be told in SQL's.
        var changes = isNew ? [] : meaning + plan.changes.filter { !told.contains($0.subject) }
        if isNew { changes = plan.changes.filter { $0.verdict == .refused } }
        if held.keepsParts, let fault = Self.fault(in: held.model) {
            changes.append(
                StoreChange(
                    .refused, path, "what is kept of models before does not go with the model: \(fault)",
                    remedy: "rename what is new, or drop what is kept with --migrate drop"))
        }
        self.changes = changes
        renamedEntities = match.entities.enumerated().compactMap { [model] index, entity in
            guard let old = entity.old.map({ stored.entities[$0].name }) else { return nil }
            return old.hasSameBytes(as: model.entities[index].name) ? nil : (old, model.entities[index].name)
        }
    }

    /// - Throws: ``StoreError`` `incompatible` with everything that is refused, if there is anything.
    func refuseDifferences() throws(StoreError) {
        let refused = changes.filter { $0.verdict == .refused }
        guard !refused.isEmpty else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) does not fit the model, and cannot be made to without loss: "
                + refused.map(\.told).joined(separator: "; ")
                + ". Use the model that made it, or another store; nothing was touched.")
    }

    /// Makes what is missing, and keeps the model. Inside the caller's transaction, with `foreign_keys` off.
    func run(on connection: Connection) throws(StoreError) {
        for sql in Ledger.tables { try connection.execute(sql) }
        let migration = MigrationRun(plan, on: connection)
        if !plan.isIdle { try migration.run() }
        try migration.renameOpenSyncs(renamedEntities)
        if !isMarked { try connection.execute("PRAGMA application_id = \(StoreFormat.applicationID)") }
        let meta = StoreMeta(connection: connection)
        try meta.set(.formatVersion, to: "\(StoreFormat.version)")
        try meta.set(.model, to: model.text)
        try meta.set(.heldModel, to: held.keepsParts ? held.model.text : nil)
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

    /// Why the model cannot be; nil when it can.
    private static func fault(in model: Model) -> String? {
        do throws(ModelError) {
            _ = try ModelReader.read(JSONText(copying: Array(model.text.utf8)))
            return nil
        } catch {
            return error.faults.first.map(\.message) ?? "\(error)"
        }
    }
}
