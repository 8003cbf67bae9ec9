package import BrokerSQLite
internal import BrokerJSON
package import BrokerModel

/// The changes that make a database a store of a model: determined by reading alone, then made at once.
package struct StoreOpening {
    /// The differences and their treatment; empty for a new store.
    package let changes: [StoreChange]
    private let path: String
    private let model: Model
    private let held: EffectiveModel
    private let isMarked: Bool
    private let isNew: Bool
    /// Nil for another program's database, whose tables do not change.
    private let plan: StorePlan?
    private let foreignContents: String?
    private let renamedEntities: [(old: String, new: String)]
    /// Nil for another program's database.
    private let losses: StoreLosses?

    /// - Parameter defaults: the values that a migration gives to rows without the attribute.
    package init(
        of connection: Connection, path: String, to model: Model, removal: RemovalPolicy = .refuse,
        defaults: AttributeDefaults, convert: AttributeConversion
    ) throws(StoreError) {
        self.path = path
        self.model = model
        let kind = try StoreFormat.kind(of: connection, path: path)
        if case .foreign(let wasFed) = kind {
            (isMarked, isNew, plan, renamedEntities, losses) = (wasFed, false, nil, [], nil)
            foreignContents = try StoreFormat.contents(of: connection)
            let match = ModelMatch(from: model, to: model)
            held = EffectiveModel(model, keepingFrom: model, match, inForce: model, removal: .refuse)
            changes = try ExistingTables(connection, of: model, checksRows: !wasFed).faults
            return
        }
        foreignContents = nil
        var inForce = Model(entities: [])
        var stored = inForce
        switch kind {
        case .foreign: preconditionFailure("it has been seen to above")
        case .new: (isMarked, isNew) = (false, true)
        case .store(let text, let heldText):
            (isMarked, isNew) = (true, false)
            inForce = try Self.read(text, path)
            stored = try heldText.map { text throws(StoreError) in try Self.read(text, path) } ?? inForce
        }
        var match = ModelMatch(from: stored, to: model)
        let comparison = try Self.compare(
            connection, from: stored, inForce: inForce, to: model, &match, removal, convert)
        let meaning = comparison.changes
        match.moved = comparison.converted
        losses = StoreLosses(
            stored: stored, wanted: model, match: match, removed: comparison.removed, moved: comparison.moved)
        held = EffectiveModel(model, keepingFrom: stored, match, inForce: inForce, removal: removal)
        let plan = try StorePlan(of: connection, from: stored, to: held, model, defaults, convert, removal: removal)
        self.plan = plan
        let reported = Set(meaning.filter { $0.verdict == .refused }.map(\.subject))
        // A change that is refused in terms of the model is not reported in terms of SQL, too.
        var changes = isNew ? [] : meaning + plan.changes.filter { !reported.contains($0.subject) }
        if isNew { changes = plan.changes.filter { $0.verdict == .refused } }
        for subject in removal.subjects
        where !comparison.decided.contains(ExactText(subject)) && !plan.decided.contains(ExactText(subject)) {
            changes.append(
                StoreChange(
                    .refused, subject, "\(subject) was named, and is no part that the model removes from the store",
                    remedy: "name what the other lines show, as they show it"))
        }
        if let fault = held.fault {
            changes.append(
                StoreChange(
                    .refused, path, "what is retained from earlier models does not fit the model: \(fault)",
                    remedy: "rename the new parts, or drop the retained ones with `broker migrate --drop`"))
        }
        self.changes = changes
        renamedEntities = match.entities.enumerated().compactMap { [model] index, entity in
            guard let old = entity.old.map({ stored.entities[$0].name }) else { return nil }
            return old.hasSameBytes(as: model.entities[index].name) ? nil : (old, model.entities[index].name)
        }
    }

    /// Compares the models. Parts without values that are in the way of a change are separated from their counterparts.
    private static func compare(
        _ connection: Connection, from stored: Model, inForce: Model, to model: Model, _ match: inout ModelMatch,
        _ removal: RemovalPolicy, _ convert: AttributeConversion
    ) throws(StoreError) -> ModelComparison {
        let rows = StoredRows(of: connection, stored)
        let populated = try rows.populated(model, match)
        while true {
            let comparison = ModelComparison(
                from: stored, inForce: inForce, to: model, match, removal, populated: populated,
                inexact: try rows.inexact(model, match, convert, readsAll: removal.drops))
            // Each round releases some more parts: others may only be in the way once these are gone.
            let empty = try rows.empty(comparison.obstacles.subtracting(match.released))
            guard !empty.isEmpty else { return comparison }
            match.release(empty, of: stored)
        }
    }

    /// The changes, with what is lost by each that drops a part, or would be if it were dropped, and what writing large
    /// tables again takes. Reads the rows.
    ///
    /// - Parameter freeBytes: of the disk; nil where it is unknown.
    package func changesWithLosses(
        on connection: Connection, freeBytes: Int64?
    ) throws(StoreError) -> [StoreChange] {
        guard let losses, let plan else { return changes }
        return try losses.adding(to: changes, on: connection)
            + (changes.isEmpty ? [] : plan.forecasts(freeBytes: freeBytes))
    }

    /// Refuses a migration for which the disk has no room, before it begins.
    package func refuseLackOfSpace(freeBytes: Int64?) throws(StoreError) {
        guard !isNew, let plan, !plan.isIdle, let freeBytes else { return }
        guard let lack = try plan.forecasts(freeBytes: freeBytes).first(where: { $0.verdict == .refused }) else {
            return
        }
        throw StoreError(.full, "The store \(path) cannot be migrated: \(lack.line). Nothing was touched.")
    }

    package func refuseDifferences() throws(StoreError) {
        let refused = changes.filter { $0.verdict == .refused }
        guard !refused.isEmpty else { return }
        if let foreignContents { throw misfit(refused, foreignContents) }
        throw StoreError(
            .incompatible,
            "The store \(path) does not fit the model, and cannot be made to without loss: "
                + refused.map(\.line).joined(separator: "; ")
                + ". Use the model that made it, or another store; nothing was touched.")
    }

    private func misfit(_ refused: [StoreChange], _ contents: String) -> StoreError {
        let faults = refused.prefix(Self.maximumReported).map(\.line).joined(separator: "; ")
        let more = refused.count > Self.maximumReported ? "; and \(refused.count - Self.maximumReported) more" : ""
        let remedy =
            isMarked
            ? "Broker feeds this database and never changes its tables: use a model that fits them"
            : "To feed the database as it is, begin with the model that `broker model import` makes of it; to have a "
                + "store of Broker's own, name another file"
        return StoreError(
            .incompatible,
            "\(path) is a database, but not one that Broker made (\(contents)), and its tables do not fit the model: "
                + "\(faults)\(more). \(remedy). Nothing was touched.")
    }

    private static let maximumReported = 20

    /// The changes that Broker made to another program's database, and the limits of its use; nil for a store.
    package func notes(on connection: Connection) throws(StoreError) -> [String] {
        guard foreignContents != nil else { return [] }
        var notes: [String] = []
        if !isMarked {
            notes.append(
                "\(path) was made by another program, and is fed as it is: Broker added its own tables, whose names "
                    + "begin with _broker_, and set the journal mode WAL, which the file keeps. Nothing else in it is changed."
            )
        }
        let triggers = try connection.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'") ?? 0
        if triggers > 0 {
            notes.append("The triggers in \(path) (\(triggers)) do not fire for what Broker writes.")
        }
        return notes
    }

    /// Creates the missing tables, and stores the model. Runs inside the caller's transaction, with `foreign_keys` off. Changes get
    /// a time in milliseconds since 1970, or the clock's. Returns what it could not do, for the operator: sentences.
    package func run(on connection: Connection, at time: Int64? = nil) throws(StoreError) -> [String] {
        // In a new store the entities' tables come first: many tools list tables in the order in which they were made.
        if isNew, let plan { try MigrationRun(plan: plan, connection: connection).run() }
        try LedgerTables.prepare(connection)
        let meta = StoreMeta(connection: connection)
        var notes: [String] = []
        if let plan {
            if !isNew, !plan.isIdle {
                try meta.uniteRowKeys()
                try MigrationRun(plan: plan, connection: connection).run()
            }
            if !isNew { try record(at: time, on: connection) }
            try OpenSyncs(on: connection).rename(renamedEntities)
            if !isMarked { try connection.execute("PRAGMA application_id = \(StoreFormat.applicationID)") }
            try meta.set(.formatVersion, to: "\(StoreFormat.version)")
            let views = ReadableViews(model)
            notes = [views.note].compactMap { $0 }
            notes += try views.update(on: connection).map {
                "\(path) has a table or view \($0) that Broker did not make, so there is no readable view of that name."
            }
        } else {
            try meta.set(.tables, to: StoreMeta.foreign)
            try meta.set(.formatVersion, to: "\(StoreFormat.foreignVersion)")
        }
        try meta.set(.model, to: model.text)
        try meta.set(.heldModel, to: held.keepsParts ? held.model.text : nil)
        return notes
    }

    /// Records the changes, if there are any, and after which job they came.
    private func record(at time: Int64?, on connection: Connection) throws(StoreError) {
        let made = changes.filter { $0.verdict == .migrated || $0.verdict == .dropped }
        guard !made.isEmpty else { return }
        var writer = JSONWriter()
        writer.array(of: made) { $1.string("\($0.verdict.rawValue): \($0.line)") }
        let insert = try connection.prepare(
            """
            INSERT INTO "_broker_migrations" ("after", "time", "changes")
                SELECT coalesce(max("sequence"), 0),
                    coalesce(
                        strftime('%Y-%m-%dT%H:%M:%fZ', ?2 / 1000.0, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
                    ?1
                FROM "_broker_jobs"
            """, String(decoding: writer.bytes, as: UTF8.self))
        if let time { insert.bind(time, at: 2) }
        try insert.run()
    }

    package static func read(_ text: String, _ path: String) throws(StoreError) -> Model {
        do throws(ModelError) {
            let document = try ModelDocument(parsing: JSONText(copying: Array(text.utf8)))
            return try ModelReader.read(document.readingStoredPaths())
        } catch {
            throw unreadable(error, path)
        }
    }

    package static func unreadable(_ error: ModelError, _ path: String) -> StoreError {
        StoreError(
            .incompatible,
            "The model stored in \(path) cannot be read (\(error.faults.first.map(\.description) ?? "")). "
                + "Use the Broker that made it; nothing was touched.")
    }
}
