import BrokerJSON
import BrokerModel
import BrokerSQLite

/// The changes of a store's tables to those of a changed model: determined by reading alone.
struct StorePlan {
    /// Changes besides those that the comparison of the models reports.
    private(set) var changes: [StoreChange] = []
    /// The subjects about which the removal policy decides.
    private(set) var decided: Set<ExactText> = []
    private(set) var tables: [TableMigration] = []
    private(set) var newTables: [Schema.Table] = []
    private(set) var goneTables: [String] = []
    /// Tables from which rows of others take values: those that are gone are needed until then.
    private(set) var carriedTables: Set<ExactText> = []
    /// Views of subentities that are changed or removed.
    private(set) var goneViews: [Schema.View] = []
    private(set) var newViews: [Schema.View] = []
    private(set) var ownerStatements: [String] = []
    private(set) var fillings: [String] = []
    private(set) var presentTables: [String]
    let comments: SchemaComments
    private let connection: Connection

    /// - Parameter wanted: the wanted model, to whose indices `defaults` refers.
    init(
        of connection: Connection, from stored: Model, to held: EffectiveModel, _ wanted: Model,
        _ defaults: AttributeDefaults, _ convert: AttributeConversion, removal: RemovalPolicy
    ) throws(StoreError) {
        self.connection = connection
        let schema = Schema(held.model)
        comments = SchemaComments(held.model)
        let present = try StoredTables(connection, of: Schema(stored))
        changes = present.differences
        presentTables = present.tables.map(\.name)
        let origins = SchemaOrigins(
            from: stored, to: held.model, held.match, fill: { Self.fill(held.model, $0, $1, wanted, defaults) },
            convert: convert)
        var staying: [ExactText: (name: String, origin: TableOrigin)] = [:]
        for table in schema.tables {
            guard let origin = origins[table.name], present.table(named: origin.table) != nil else { continue }
            staying[origin.table] = (table.name, origin)
        }
        let views = Schema(stored).views
        let known = try Set(
            (presentTables + views.map(\.name) + ReadableViews.names(on: connection)).map(FoldedName.init))
        for table in schema.tables {
            refuseTaken(table.name, "the table \(table.name)", known, present)
            guard let origin = origins[table.name], let old = present.table(named: origin.table) else {
                newTables.append(table)
                continue
            }
            tables.append(TableMigration(from: old, to: table, origin, staying))
        }
        goneViews = views.filter { !schema.views.contains($0) && present.has(["view"], $0.name) }
        for view in schema.views {
            refuseTaken(view.name, view.name, known, present)
            if !views.contains(view) || !present.has(["view"], view.name) { newViews.append(view) }
        }
        goneTables = presentTables.filter { staying[$0] == nil }
        for table in tables { try report(table, removal) }
        for name in origins.ownedTables {
            ownerStatements += tables.first { $0.new.name.hasSameBytes(as: name) }?.ownerStatements ?? []
        }
        carriedTables = origins.carried.tables
        fillings = origins.carried.statements(convert)
        fillings += origins.filledTables.compactMap { filled in
            tables.first { $0.new.name.hasSameBytes(as: filled.entityTable) }.map(filled.sql)
        }
        try refuseOpenSyncs(
            of: origins.changedKeys.flatMap { stored.subentities(of: $0).map { stored.entities[$0].name } })
    }

    private mutating func change(
        _ verdict: StoreChange.Verdict, _ subject: String, _ text: String, remedy: String? = nil
    ) {
        changes.append(StoreChange(verdict, subject, text, remedy: remedy))
    }

    /// Refuses other keys for objects that a sync in parts has named by their keys.
    private mutating func refuseOpenSyncs(of entities: [String]) throws(StoreError) {
        let syncs = OpenSyncs(on: connection)
        for name in entities where try syncs.has(entity: name) {
            change(
                .refused, name, "\(name) has other keys in the model, and a sync in parts of it is open",
                remedy: "send its last part with the model before")
        }
    }

    /// The default of an attribute of the effective model, found by name in the wanted one; nil for retained attributes.
    private static func fill(
        _ held: Model, _ entity: Int, _ attribute: Int, _ wanted: Model, _ defaults: AttributeDefaults
    ) -> String? {
        let name = held.entities[entity].attributes[attribute].name
        guard let wantedEntity = wanted.index(ofEntity: held.entities[entity].name),
            let index = wanted.entities[wantedEntity].index(ofAttribute: name)
        else { return nil }
        return defaults(wantedEntity, index)
    }

    /// Refuses a new table or view whose name another program's has.
    private mutating func refuseTaken(
        _ name: String, _ what: String, _ known: Set<FoldedName>, _ present: StoredTables
    ) {
        guard !known.contains(FoldedName(name)), present.has(["table", "view"], name) else { return }
        change(
            .refused, name, "\(what) is there already, and not the model's that made the store",
            remedy: "drop it, or give the entity another \"table\"")
    }

    // MARK: - Changes seen in the tables

    private mutating func report(_ table: TableMigration, _ removal: RemovalPolicy) throws(StoreError) {
        let named = { (list: [String]) in "\(table.new.name) (\(list.joined(separator: ", ")))" }
        if let identity = table.newIdentity { try report(identity: identity, named(identity), table) }
        for list in table.newUniqueLists {
            let name = named(list)
            let text = "\(name) is unique in the model, but not in the store"
            let values = list.map { table.expression(for: $0, isRenamed: false) }
            if let collisions = try collisions(of: values, in: table) {
                change(
                    .refused, name, "\(text), where \(collisions)", remedy: "change these rows, or take the list out")
            } else {
                change(.migrated, name, text)
            }
        }
        for list in table.convertedUniqueLists {
            guard let collisions = try equalAfterConversion(list, in: table) else { continue }
            change(
                .refused, named(list), "\(named(list)) is unique in the model, where \(collisions) would be equal",
                remedy: "change these rows, or keep the type and the storage")
        }
        for list in table.goneUniqueLists {
            let name = named(list)
            let text = "\(name) is unique in the store, but not in the model"
            let reason = ", and cannot be retained: it would refuse rows that the model allows"
            decided.insert(ExactText(name))
            switch removal.choice(for: name) {
            case .drop: change(.dropped, name, text)
            case .keep: change(.refused, name, text + reason, remedy: StoreChange.remedyByDropping)
            case .refuse: change(.refused, name, text, remedy: StoreChange.remedyByDropping)
            }
        }
        for (columns, old, new) in table.changedReferences {
            let name = "\(table.new.name).\(columns.joined(separator: ", "))"
            change(
                .migrated, name, "\(name) refers to \(old.target) in the store, and to \(new.target) in the model")
        }
        for name in table.newIndexes.map(named) { change(.migrated, name, "the index of \(name) is new") }
        for name in table.droppedIndexes.map(named) {
            change(.dropped, name, "the index of \(name) is in the store, but not in the model")
        }
    }

    private mutating func report(
        identity: [String], _ name: String, _ table: TableMigration
    ) throws(StoreError) {
        let text = "\(name) is the identity in the model, but not in the store"
        // Until the rows have the columns of their owner, the link to it distinguishes them as well.
        let columns = table.origin.ownerColumns
        let others = identity.filter { name in !columns.contains { $0.name.hasSameBytes(as: name) } }
        let values =
            columns.prefix(1).map { quoted($0.link) } + others.map { table.expression(for: $0, isRenamed: false) }
        let nulls = values.map { "\($0) IS NULL" }
        let count = try connection.integer(
            "SELECT count(*) FROM \(quoted(table.old.name)) WHERE \(nulls.joined(separator: " OR "))")
        // Positions among the objects of one owner are different.
        let isUnique = columns.contains { $0.identity == nil }
        var faults = try isUnique ? [] : collisions(of: values, in: table).map { [$0] } ?? []
        if let count, count > 0 { faults.insert("\(count) \(count == 1 ? "row has" : "rows have") none", at: 0) }
        guard !faults.isEmpty else { return change(.migrated, name, text) }
        change(
            .refused, name, "\(text), where \(faults.joined(separator: ", and "))",
            remedy: "change these rows, or choose another identity")
    }

    /// Stored values of a unique list that become the same, for people; nil when there are none.
    private func equalAfterConversion(_ list: [String], in table: TableMigration) throws(StoreError) -> String? {
        let stored = list.map { "quote(\(quoted(table.origin.old($0) ?? $0)))" }.joined(separator: " || ', ' || ")
        return try groups(
            of: list.map { table.expression(for: $0, isRenamed: false) }, in: table,
            showing: { _ in "substr(group_concat(\(stored), ' and '), 1, 120)" }
        ) { $0.text(0) }
    }

    private static let maximumCollisions = 3

    /// Rows that would have the same values, for people; nil when there are none.
    private func collisions(of values: [String], in table: TableMigration) throws(StoreError) -> String? {
        try groups(
            of: values, in: table,
            showing: { $0.map { "substr(quote(\($0)), 1, 60)" }.joined(separator: ", ") + ", count(*)" }
        ) { statement in
            "\(values.indices.map(statement.text).joined(separator: ", ")) in \(statement.integer(values.count)) rows"
        }
    }

    /// Groups of rows with the same values, for people, as SQL over the names of the values shows them; nil when there are none.
    private func groups(
        of values: [String], in table: TableMigration, showing shown: ([String]) -> String,
        _ text: (Statement) -> String
    ) throws(StoreError) -> String? {
        let names = values.indices.map { "_broker_value\($0)" }
        let statement = try connection.prepare(
            """
            SELECT \(shown(names)) FROM (
                SELECT \((zip(values, names).map { "\($0) AS \($1)" } + ["*"]).joined(separator: ", "))
                FROM \(quoted(table.old.name)) AS \(TableOrigin.rowAlias)
            ) WHERE \(names.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
            GROUP BY \(names.joined(separator: ", ")) HAVING count(*) > 1 LIMIT \(Self.maximumCollisions + 1)
            """)
        var groups: [String] = []
        while try statement.step() { groups.append(text(statement)) }
        guard !groups.isEmpty else { return nil }
        let more = groups.count > Self.maximumCollisions ? " and more" : ""
        return groups.prefix(Self.maximumCollisions).joined(separator: ", ") + more
    }

    /// How long it takes to write the rows of large tables again, and how much more of the disk meanwhile. More than is free is refused.
    ///
    /// - Parameter freeBytes: nil where it is unknown.
    func forecasts(freeBytes: Int64?) throws(StoreError) -> [StoreChange] {
        var forecasts: [StoreChange] = []
        let unused =
            try connection.integer(
                "SELECT f.freelist_count * p.page_size FROM pragma_freelist_count AS f, pragma_page_size AS p") ?? 0
        var (written, largest): (Int64, Int64) = (0, 0)
        for table in tables where table.needsRebuild || table.newIdentity != nil || !table.updates.isEmpty {
            let name = table.new.name
            guard let bytes = try bytes(of: table.old.name), bytes >= Self.leastForecast,
                let rows = try connection.integer("SELECT count(*) FROM \(quoted(table.old.name))")
            else { continue }
            // The WAL gets every page, and a copy is in the file beside the table that it replaces.
            let isCopied = table.needsRebuild || table.newIdentity != nil
            let copied = isCopied ? max(0, bytes - unused) : 0
            written += bytes
            largest = max(largest, copied)
            forecasts.append(
                StoreChange(
                    .migrated, name,
                    "\(rows) rows of \(name) are written again: \(Self.megabytes(bytes)), in about "
                        + "\(max(1, bytes / Self.bytesPerSecond)) s, and \(Self.megabytes(bytes + copied)) more of the disk "
                        + "meanwhile"))
        }
        if let freeBytes, written + largest > freeBytes {
            forecasts.append(
                StoreChange(
                    .refused, "disk",
                    "the migration takes \(Self.megabytes(written + largest)) more of the disk meanwhile, and "
                        + "\(Self.megabytes(freeBytes)) are free", remedy: "free some space"))
        }
        return forecasts
    }

    private static func megabytes(_ bytes: Int64) -> String { "\(bytes / 1_000_000) MB" }

    /// A table of fewer bytes takes no time to speak of.
    private static let leastForecast: Int64 = 10_000_000
    /// SQLite copied 1,000,000 rows of 170 MB in 1 to 2 seconds, on a machine with two processors and a fast disk.
    private static let bytesPerSecond: Int64 = 100_000_000

    /// Of the table with its indexes; nil where SQLite was built without its table of statistics.
    private func bytes(of table: String) throws(StoreError) -> Int64? {
        guard try connection.integer("SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'") != nil else {
            return nil
        }
        return try connection.integer(
            "SELECT sum(d.pgsize) FROM sqlite_schema AS s CROSS JOIN dbstat AS d ON d.name = s.name "
                + "WHERE s.tbl_name = \(textLiteral(table)) AND s.rootpage > 0 AND d.aggregate = 1")
    }

    var isIdle: Bool {
        newTables.isEmpty && goneTables.isEmpty && goneViews.isEmpty && newViews.isEmpty
            && tables.allSatisfy(\.isIdle)
    }
}

/// The default of an attribute of the wanted model, by entity and attribute, as an SQL literal; nil without one.
package typealias AttributeDefaults = (_ entity: Int, _ attribute: Int) -> String?

/// The syncs whose parts are still arriving. The definition of each begins with the name of its entity.
struct OpenSyncs {
    private let connection: Connection

    init(on connection: Connection) { self.connection = connection }

    /// Renames their entities: the next part will have the new name.
    func rename(_ renamed: [(old: String, new: String)]) throws(StoreError) {
        guard !renamed.isEmpty else { return }
        var changed: [(number: Int64, definition: [UInt8])] = []
        for (number, definition) in try definitions() {
            for (old, new) in renamed where definition.starts(with: Self.beginning(old)) {
                changed.append((number, Self.beginning(new) + definition.dropFirst(Self.beginning(old).count)))
            }
        }
        guard !changed.isEmpty else { return }
        let write = try connection.prepare("UPDATE _broker_open_syncs SET definition = ?2 WHERE number = ?1")
        for (number, definition) in changed {
            write.bind(number, at: 1)
            write.bind(blob: definition, at: 2)
            try write.run()
        }
    }

    /// Whether one is a sync of the entity of that name.
    func has(entity: String) throws(StoreError) -> Bool {
        try definitions().contains { $0.definition.starts(with: Self.beginning(entity)) }
    }

    private func definitions() throws(StoreError) -> [(number: Int64, definition: [UInt8])] {
        guard try connection.integer("SELECT 1 FROM sqlite_schema WHERE name = '_broker_open_syncs'") != nil else {
            return []
        }
        let read = try connection.prepare("SELECT number, definition FROM _broker_open_syncs")
        var found: [(number: Int64, definition: [UInt8])] = []
        while try read.step() { found.append((read.integer(0), Array(read.bytes(1)))) }
        return found
    }

    /// The beginning of the definition of a sync of that entity: `["Employee",`.
    private static func beginning(_ entity: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.array { $0.string(entity) }
        return writer.bytes.dropLast() + [UInt8(ascii: ",")]
    }
}
