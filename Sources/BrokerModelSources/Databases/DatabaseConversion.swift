internal import BrokerJSON

/// Makes a model of a database's tables, such that Broker's statements fit them where they are.
struct DatabaseConversion {
    private let tables: [DatabaseTable]
    private var leftOut: [String] = []
    private var entities: [DatabaseTable] = []

    init(_ tables: [DatabaseTable]) {
        self.tables = tables
        for table in tables {
            if let reason = Self.obstacle(table) {
                leftOut.append("\(table.name) (\(reason))")
            } else {
                entities.append(table)
            }
        }
    }

    /// Why a table can be no entity; nil when it can.
    private static func obstacle(_ table: DatabaseTable) -> String? {
        guard table.kind == "table" else { return "a \(table.kind == "virtual" ? "virtual table" : table.kind)" }
        let key = table.key
        guard !key.isEmpty else { return "no primary key, by which its rows could be found again" }
        guard isName(table.name), key.allSatisfy({ isName($0.name) }) else { return "a name that no model can have" }
        guard table.hasRowNumbers else { return "WITHOUT ROWID" }
        guard table.indexes.allSatisfy({ $0.origin != "pk" || $0.isPlain }) else {
            return "its key is not compared byte by byte"
        }
        guard key.allSatisfy({ !["transformable", "binary"].contains(type(of: $0).name) || $0.declaredType != "" })
        else {
            return "its key has no type"
        }
        let hidden = table.columns.first {
            !isName($0.name) && $0.isRequired && $0.defaultValue == nil && !$0.isGenerated
        }
        return hidden.map { "its required column \($0.name) has a name that no model can have" }
    }

    private static func isName(_ name: String) -> Bool {
        !name.isEmpty && !name.contains(".") && name.lowercased() != "_pk"
            && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }

    // MARK: - The model

    func model() -> ImportedModel {
        var model = ImportedModel()
        model.description = "Imported by broker from the tables of a SQLite database."
        if !leftOut.isEmpty { model.description += " Skipped: \(leftOut.joined(separator: ", "))." }
        model.entities = entities.map(entity)
        for table in entities {
            for link in links(of: table) { addInverse(of: link, from: table, to: &model) }
        }
        return model
    }

    private struct Link {
        let column: DatabaseTable.Column
        let destination: DatabaseTable
        let onDelete: String
        let inverse: String
    }

    private func entity(named name: String) -> DatabaseTable? {
        entities.first { $0.name.lowercased() == name.lowercased() }
    }

    /// Foreign keys that are to-one relationships: of one column outside the key, to the key of an entity.
    private func links(of table: DatabaseTable) -> [Link] {
        table.foreignKeys.compactMap { key in
            guard obstacle(key, of: table) == nil, let column = table.column(key.columns[0]),
                let destination = entity(named: key.table)
            else { return nil }
            let first = table.foreignKeys.first { $0.columns == key.columns }
            guard first?.table == key.table else { return nil }
            let others = table.foreignKeys.filter { $0.table == key.table }
            let plain = others.count == 1 && destination.column(table.name) == nil
            return Link(
                column: column, destination: destination, onDelete: key.onDelete,
                inverse: plain ? table.name : "\(table.name)_\(column.name)")
        }
    }

    /// Why a foreign key is no relationship; nil when it is one.
    private func obstacle(_ key: DatabaseTable.ForeignKey, of table: DatabaseTable) -> String? {
        guard key.columns.count == 1, let column = table.column(key.columns[0]) else {
            return "it has several columns, whose names are not a relationship's"
        }
        guard column.keyPosition == 0 else { return "it is a part of the primary key" }
        guard Self.isName(column.name), !column.isGenerated else { return "its column is skipped" }
        guard let destination = entity(named: key.table) else { return "\(key.table) is skipped" }
        guard destination.key.count == 1,
            key.keys[0] == nil || key.keys[0]?.lowercased() == destination.key[0].name.lowercased()
        else { return "it does not refer to the primary key" }
        return nil
    }

    private func entity(_ table: DatabaseTable) -> ImportedModel.Entity {
        var entity = ImportedModel.Entity(name: table.name)
        var notes: [String] = []
        entity.members.append(("identity", ImportedModel.json(table.key.map(\.name))))
        let links = links(of: table)
        for column in table.columns {
            guard Self.isName(column.name), !column.isGenerated else {
                notes.append(
                    "the column \(column.name) is skipped: \(column.isGenerated ? "it is generated" : "its name")")
                continue
            }
            if let link = links.first(where: { $0.column.name == column.name }) {
                entity.relationships.append(Self.relationship(link))
            } else {
                entity.attributes.append(Self.attribute(column))
            }
        }
        for key in table.foreignKeys {
            guard let reason = obstacle(key, of: table) else { continue }
            notes.append("the foreign key \(key.columns.joined(separator: ", ")) is no relationship: \(reason)")
        }
        let attributes = Set(entity.attributes.map(\.name))
        for (member, isUnique) in [("unique", true), ("indexes", false)] {
            let lists = table.indexes.filter { $0.isUnique == isUnique && $0.origin != "pk" }.compactMap { index in
                let names = index.columns.compactMap { $0 }
                let fits = !index.isPartial && index.isPlain && names.count == index.columns.count
                return fits && attributes.isSuperset(of: names) ? names : nil
            }
            let distinct = lists.filter { Set($0) != Set(table.key.map(\.name)) }
            if !distinct.isEmpty {
                entity.members.append((member, "[\(distinct.map(ImportedModel.json).joined(separator: ", "))]"))
            }
        }
        if table.foreignKeys.count > 1,
            table.foreignKeys.flatMap(\.columns).allSatisfy({ name in
                table.key.contains { $0.name.lowercased() == name.lowercased() }
            })
        {
            notes.append("it joins tables, and its rows are objects that both keys identify")
        }
        if table.triggers > 0 { notes.append("its triggers do not fire for what Broker writes") }
        entity.description =
            notes.isEmpty
            ? ""
            : notes.joined(separator: "; ").prefix(1).uppercased() + notes.joined(separator: "; ").dropFirst() + "."
        return entity
    }

    private static func relationship(_ link: Link) -> ImportedModel.Property {
        var keys = [link.column.name]
        if link.column.name.lowercased().hasSuffix("_id"), link.column.name.count > 3 {
            keys.append(String(link.column.name.dropLast(3)))
        }
        return ImportedModel.Property(
            name: link.column.name,
            members: [
                ("entity", ImportedModel.json(link.destination.name)), ("inverse", ImportedModel.json(link.inverse)),
                ("key", ImportedModel.json(keys)),
            ],
            description: "a foreign key"
                + (link.column.isRequired ? "; the column is NOT NULL, so records must bring it" : ""))
    }

    private func addInverse(of link: Link, from table: DatabaseTable, to model: inout ImportedModel) {
        guard let index = model.entities.firstIndex(where: { $0.name == link.destination.name }) else { return }
        let rule =
            switch link.onDelete {
            case "CASCADE": "cascade"
            case "SET NULL": "nullify"
            default: "deny"
            }
        model.entities[index].relationships.append(
            ImportedModel.Property(
                name: link.inverse,
                members: [
                    ("entity", ImportedModel.json(table.name)), ("toMany", "true"),
                    ("inverse", ImportedModel.json(link.column.name)), ("deleteRule", ImportedModel.json(rule)),
                ], description: "the other side of \(table.name).\(link.column.name), ON DELETE \(link.onDelete)"))
    }
}

extension DatabaseConversion {
    static func attribute(_ column: DatabaseTable.Column) -> ImportedModel.Property {
        let type = type(of: column)
        var members: [(key: String, json: String)] = [("type", ImportedModel.json(type.name))]
        members += type.members
        var reasons = [column.declaredType.isEmpty ? "no declared type" : column.declaredType, type.reason]
        let isKey = column.keyPosition > 0
        if let value = column.defaultValue, !isKey {
            if let json = literal(value, type.name) {
                members.append(("default", json))
                if column.isRequired { members.append(("optional", "false")) }
            } else if value.uppercased() != "NULL" {
                reasons.append("the default \(value) is SQLite's to give")
            }
        } else if column.isRequired, !isKey {
            members.append(("optional", "false"))
        }
        return ImportedModel.Property(
            name: column.name, members: members,
            description: reasons.filter { !$0.isEmpty }.joined(separator: "; "))
    }

    /// By the declared type as SQLite reads it (sqlite.org/datatype3.html, 3.1), and what is stored.
    static func type(
        of column: DatabaseTable.Column
    ) -> (name: String, members: [(key: String, json: String)], reason: String) {
        let declared = column.declaredType.uppercased()
        let stem = declared.prefix { $0.isLetter }
        switch stem {
        case "BOOLEAN", "BOOL":
            return column.storedTypes.isSubset(of: ["integer"])
                ? ("boolean", [], "") : ("string", [], "holds other values than 0 and 1")
        case "DATE", "DATETIME", "TIMESTAMP": return dateType(column)
        case "UUID", "GUID":
            return column.hasOurUUIDs ? ("uuid", [], "") : ("string", [], "not all values are UUIDs in upper case")
        case "JSON": return ("transformable", [], "")
        // Other decimals have NUMERIC affinity, below.
        case "DECIMAL" where declared == "DECIMAL_TEXT":
            return column.hasOurDecimals ? ("decimal", [], "") : ("string", [], "not all values are decimals")
        case "URI" where declared == "URI_TEXT": return ("uri", [], "")
        default: break
        }
        if declared.contains("INT") { return numberType(column, "integer64", ["integer"]) }
        if declared.contains("CHAR") || declared.contains("CLOB") || declared.contains("TEXT") {
            return textType(column) ?? ("string", length(declared), "")
        }
        if declared.contains("BLOB") { return ("binary", [], "") }
        if declared.contains("REAL") || declared.contains("FLOA") || declared.contains("DOUB") {
            return numberType(column, "double", ["integer", "real"])
        }
        if declared.isEmpty { return untyped(column) }
        // NUMERIC affinity: SQLite makes numbers of decimal texts, with the digits of a double.
        return numberType(column, "double", ["integer", "real"])
    }

    private static func numberType(
        _ column: DatabaseTable.Column, _ type: String, _ stored: Set<String>
    ) -> (name: String, members: [(key: String, json: String)], reason: String) {
        guard column.storedTypes.isSubset(of: stored) else {
            return ("string", [], "holds values that are no such numbers")
        }
        return (type, [], "")
    }

    private static func dateType(
        _ column: DatabaseTable.Column
    ) -> (name: String, members: [(key: String, json: String)], reason: String) {
        switch column.storedTypes {
        case []: return ("date", [], "no value yet, so it gets ISO 8601")
        case ["integer"]: return ("date", [("storage", "\"unix\"")], "whole numbers, taken for seconds since 1970")
        case ["real"] where column.declaredType.uppercased() == "DATETIME_REAL":
            return ("date", [("storage", "\"coreData\"")], "numbers, taken for seconds since 2001")
        case ["text"] where column.hasOurDates: return ("date", [], "")
        case ["text"] where column.hasDays: return ("calendarDate", [], "all values are days")
        default:
            return (
                "string", [],
                "its values are not as Broker writes dates (2011-12-22T02:24:51.000Z) and days (2011-12-22)"
            )
        }
    }

    private static func untyped(
        _ column: DatabaseTable.Column
    ) -> (name: String, members: [(key: String, json: String)], reason: String) {
        switch column.storedTypes {
        case ["integer"]: ("integer64", [], "all values are whole numbers")
        case ["real"]: ("double", [], "all values are numbers")
        case ["blob"]: ("binary", [], "all values are blobs")
        default: textType(column) ?? ("string", [], "")
        }
    }

    /// JSON that another program stores as a text. A key is compared byte by byte, and so remains a text.
    private static func textType(
        _ column: DatabaseTable.Column
    ) -> (name: String, members: [(key: String, json: String)], reason: String)? {
        guard column.hasJSON, column.keyPosition == 0 else { return nil }
        return ("transformable", [], "all values are JSON objects or arrays")
    }

    /// `VARCHAR(20)` holds 20 characters.
    private static func length(_ declared: String) -> [(key: String, json: String)] {
        guard let match = declared.wholeMatch(of: #/[A-Z ]*CHAR[A-Z ]*\(\s*(\d{1,9})\s*\)/#) else { return [] }
        return [("maxLength", String(match.1))]
    }

    /// JSON for a literal of SQL; nil for an expression.
    private static func literal(_ sql: String, _ type: String) -> String? {
        if let number = Int64(sql) {
            if type == "boolean" { return number == 0 ? "false" : number == 1 ? "true" : nil }
            return type == "integer64" || type == "double"
                ? "\(number)" : type == "string" ? ImportedModel.json(sql) : nil
        }
        if let number = Double(sql), number.isFinite, type == "double" { return "\(number)" }
        switch sql.uppercased() {
        case "TRUE" where type == "boolean": return "true"
        case "FALSE" where type == "boolean": return "false"
        default: break
        }
        guard type == "string" || type == "transformable", sql.count >= 2, sql.first == "'", sql.last == "'" else {
            return nil
        }
        let text = sql.dropFirst().dropLast()
        let parts = text.split(separator: "''", omittingEmptySubsequences: false)
        guard !parts.contains(where: { $0.contains("'") }) else { return nil }
        let value = parts.joined(separator: "'")
        guard type == "transformable" else { return ImportedModel.json(value) }
        return (try? JSONDocument(parsing: JSONText(copying: Array(value.utf8)))) == nil ? nil : value
    }
}
