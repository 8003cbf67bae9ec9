package import BrokerModel
package import BrokerSQLite

/// The views `<table>_readable`, one for each entity, for people and tools that read the file with SQL: decimals are
/// numbers, dates are texts, and beside the key of a linked object is its name.
///
/// A view of such a name belongs to Broker only if its text begins as Broker's do. Other tables and views of these names
/// stay as they are, and the entity has no readable view.
package struct ReadableViews {
    /// The names, by entity; nil for an entity without such a view, because the model has a table or view of the name.
    package struct Names: Sendable {
        private let names: [String?]
        /// The columns of the views, if they are too many; then there is none.
        let excess: Int?

        package init(_ naming: ColumnNaming) {
            let model = naming.model
            let taken = Set(
                (model.entities.map(\.table) + naming.layout.linkTables.map(naming.linkTable)).map(Name.init))
            // The columns of all views; those of a large hierarchy have most of its columns each.
            let columns = model.entities.reduce(0) { $0 + $1.attributeIndices.count + $1.relationshipIndices.count }
            excess = columns > ReadableViews.mostColumns ? columns : nil
            guard excess == nil else {
                names = model.entities.map { _ in nil }
                return
            }
            names = model.entities.map { entity in
                let name = entity.table + ReadableViews.suffix
                return taken.contains(Name(name)) ? nil : name
            }
        }

        package subscript(_ entity: Int) -> String? { names[entity] }
    }

    static let suffix = "_readable"
    /// SQLite parses all views whenever a connection opens, some 7 µs a column.
    private static let mostColumns = 5_000

    package struct View: Equatable {
        let name: String
        let sql: String
    }

    package let views: [View]
    /// Why there are no views, for the operator; nil when there are.
    package let note: String?

    package init(_ model: Model) {
        let naming = ColumnNaming(model: model, layout: RowLayout(model))
        let names = Names(naming)
        note = names.excess.map {
            "The model has \($0) attributes and relationships. There are readable views up to \(Self.mostColumns), because "
                + "each connection reads all views, so there is none for an entity."
        }
        views = model.entities.indices.compactMap { index in
            names[index].map { View(name: $0, sql: ReadableView(of: index, naming).sql(named: $0)) }
        }
    }

    // MARK: - In a store

    /// The ledger for readers.
    private static let jobs = View(
        name: "_broker_jobs_readable",
        sql: """
            \(beginning("_broker_jobs_readable"))
                SELECT "sequence", "id", iif("failed", 'failed', 'completed') AS "state",
                    strftime('%Y-%m-%dT%H:%M:%fZ', "ended" / 1000.0, 'unixepoch') AS "ended", "outcome", "owner"
                FROM "_broker_jobs"
            """)

    /// The beginning of the text of each of these views.
    static func beginning(_ name: String) -> String { "CREATE VIEW \(quoted(name)) AS /* made by Broker */" }

    private struct Present {
        let name: String
        let sql: String
        var isOurs: Bool { sql.utf8.starts(with: ReadableViews.beginning(name).utf8) }
    }

    /// The tables and views of a database whose names end like those of these views.
    private static func present(on connection: Connection) throws(StoreError) -> [Present] {
        let read = try connection.prepare(
            "SELECT name, sql FROM sqlite_schema "
                + "WHERE type IN ('table', 'view') AND name LIKE '%\\_readable' ESCAPE '\\'")
        var found: [Present] = []
        while try read.step() { found.append(Present(name: read.text(0), sql: read.text(1))) }
        return found
    }

    /// The names of Broker's views of this kind in a store.
    package static func names(on connection: Connection) throws(StoreError) -> [String] {
        try present(on: connection).filter(\.isOurs).map(\.name)
    }

    /// Removes Broker's views of this kind. Runs inside the caller's transaction.
    package static func drop(on connection: Connection) throws(StoreError) {
        for name in try names(on: connection) { try connection.execute("DROP VIEW \(quoted(name))") }
    }

    /// Makes the store's views those of the model. Runs inside the caller's transaction.
    ///
    /// - Returns: the names that other programs' tables and views have.
    package func update(on connection: Connection) throws(StoreError) -> [String] {
        let present = Dictionary(
            try Self.present(on: connection).map { (Name($0.name), $0) }, uniquingKeysWith: { first, _ in first })
        var staying: Set<Name> = []
        var (taken, missing): ([String], [View]) = ([], [])
        for view in views + [Self.jobs] {
            let name = Name(view.name)
            guard let found = present[name] else {
                missing.append(view)
                continue
            }
            if !found.isOurs {
                taken.append(found.name)
            } else if found.sql.hasSameBytes(as: view.sql) {
                staying.insert(name)
            } else {
                missing.append(view)
            }
        }
        for (name, found) in present where found.isOurs && !staying.contains(name) {
            try connection.execute("DROP VIEW \(quoted(found.name))")
        }
        for view in missing { try connection.execute(view.sql) }
        return taken
    }
}
