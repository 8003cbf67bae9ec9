internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema

/// Makes a model of a database's tables, such that Broker's statements fit them where they are.
struct DatabaseConversion {
    private var leftOut: [String] = []
    private var entities: [DatabaseTable] = []

    init(_ tables: [DatabaseTable]) {
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
        let kind = table.existing.kind
        guard kind == "table" else { return "a \(kind == "virtual" ? "virtual table" : kind)" }
        let key = table.key
        guard !key.isEmpty else { return "no primary key, by which its rows could be found again" }
        guard isName(table.name), key.allSatisfy({ isName($0.name) }) else { return "a name that no model can have" }
        guard table.existing.hasRowNumbers else { return "WITHOUT ROWID" }
        guard table.existing.indexes.allSatisfy({ $0.origin != "pk" || $0.isPlain }) else {
            return "its key is not compared byte by byte"
        }
        guard !key.contains(where: { [.transformable, .binary].contains($0.guess.type) && $0.declaredType.isEmpty })
        else { return "its key has no type" }
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

    /// The model in its JSON form.
    func model() -> ModelValue {
        var text = "Imported by broker from the tables of a SQLite database."
        if !leftOut.isEmpty { text += " Skipped: \(leftOut.joined(separator: ", "))." }
        // By destination, the relationships from there.
        var inverses: [String: DocumentWriter] = [:]
        for table in entities {
            for link in links(of: table) {
                inverses[link.destination.name, default: DocumentWriter()].add(link.inverse, link.inverseValue(table))
            }
        }
        var written = DocumentWriter()
        for table in entities { written.add(table.name, entity(table, inverses[table.name] ?? DocumentWriter())) }
        var writer = DocumentWriter()
        writer.add("description", text)
        writer.add("entities", written.object)
        return writer.object
    }

    private struct Link {
        let column: DatabaseTable.Column
        let destination: DatabaseTable
        let onDelete: String
        let inverse: String

        /// The relationship of the column.
        var value: ModelValue {
            var keys = [column.name]
            if column.name.lowercased().hasSuffix("_id"), column.name.count > 3 {
                keys.append(String(column.name.dropLast(3)))
            }
            var writer = DocumentWriter()
            writer.add("entity", destination.name)
            writer.add("inverse", inverse)
            writer.add("key", paths: keys.map { [$0] })
            writer.add(
                "description",
                "a foreign key" + (column.isRequired ? "; the column is NOT NULL, so records must bring it" : ""))
            return writer.object
        }

        /// The relationship of the destination.
        func inverseValue(_ table: DatabaseTable) -> ModelValue {
            let rules = ["CASCADE": "cascade", "SET NULL": "nullify"]
            var writer = DocumentWriter()
            writer.add("entity", table.name)
            writer.add("toMany", true)
            writer.add("inverse", column.name)
            writer.add("deleteRule", rules[onDelete] ?? "deny")
            writer.add("description", "the other side of \(table.name).\(column.name), ON DELETE \(onDelete)")
            return writer.object
        }
    }

    private func entity(named name: String) -> DatabaseTable? {
        entities.first { $0.name.lowercased() == name.lowercased() }
    }

    /// Foreign keys that are to-one relationships: of one column outside the key, to the key of an entity.
    private func links(of table: DatabaseTable) -> [Link] {
        table.existing.foreignKeys.compactMap { key in
            guard obstacle(key, of: table) == nil, let column = table.column(key.columns[0]),
                let destination = entity(named: key.table)
            else { return nil }
            let first = table.existing.foreignKeys.first { $0.columns == key.columns }
            guard first?.table == key.table else { return nil }
            let others = table.existing.foreignKeys.filter { $0.table == key.table }
            let plain = others.count == 1 && destination.column(table.name) == nil
            return Link(
                column: column, destination: destination, onDelete: key.onDelete,
                inverse: plain ? table.name : "\(table.name)_\(column.name)")
        }
    }

    /// Why a foreign key is no relationship; nil when it is one.
    private func obstacle(_ key: Schema.ForeignKey, of table: DatabaseTable) -> String? {
        guard key.columns.count == 1, let column = table.column(key.columns[0]) else {
            return "it has several columns, whose names are not a relationship's"
        }
        guard column.keyPosition == 0 else { return "it is a part of the primary key" }
        guard Self.isName(column.name), !column.isGenerated else { return "its column is skipped" }
        guard let destination = entity(named: key.table) else { return "\(key.table) is skipped" }
        guard destination.key.count == 1, key.keys[0].lowercased() == destination.key[0].name.lowercased() else {
            return "it does not refer to the primary key"
        }
        return nil
    }

    private func entity(_ table: DatabaseTable, _ inverses: DocumentWriter) -> ModelValue {
        var notes: [String] = []
        var (attributes, relationships) = (DocumentWriter(), DocumentWriter())
        let links = links(of: table)
        for column in table.columns {
            if column.isGenerated || !Self.isName(column.name) {
                notes.append(
                    "the column \(column.name) is skipped: \(column.isGenerated ? "it is generated" : "its name")")
            } else if let link = links.first(where: { $0.column.name == column.name }) {
                relationships.add(column.name, link.value)
            } else {
                attributes.add(column.name, column.attribute)
            }
        }
        for inverse in inverses.members { relationships.add(inverse.key, inverse.value) }
        for key in table.existing.foreignKeys {
            guard let reason = obstacle(key, of: table) else { continue }
            notes.append("the foreign key \(key.columns.joined(separator: ", ")) is no relationship: \(reason)")
        }
        let keyNames = Set(table.key.map { $0.name.lowercased() })
        if table.existing.foreignKeys.count > 1,
            table.existing.foreignKeys.flatMap(\.columns).allSatisfy({ keyNames.contains($0.lowercased()) })
        {
            notes.append("it joins tables, and its rows are objects that both keys identify")
        }
        if table.hasTriggers { notes.append("its triggers do not fire for what Broker writes") }
        let text = notes.joined(separator: "; ")

        var writer = DocumentWriter()
        if !text.isEmpty { writer.add("description", text.prefix(1).uppercased() + text.dropFirst() + ".") }
        writer.add("identity", table.key.map(\.name))
        let names = Set(attributes.members.map(\.key))
        for (member, isUnique) in [("unique", true), ("indexes", false)] {
            let lists = table.existing.indexes.filter { $0.isUnique == isUnique && $0.origin != "pk" }.compactMap {
                index in
                let columns = index.columns.compactMap { $0 }
                let fits = !index.isPartial && index.isPlain && columns.count == index.columns.count
                return fits && names.isSuperset(of: columns) ? columns : nil
            }
            writer.add(member, lists: lists.filter { Set($0) != Set(table.key.map(\.name)) })
        }
        writer.add("attributes", nonEmpty: attributes)
        writer.add("relationships", nonEmpty: relationships)
        return writer.object
    }
}

extension DatabaseTable.Column {
    fileprivate var attribute: ModelValue {
        let guess = guess
        var writer = DocumentWriter()
        guess.add(to: &writer)
        var reasons = [existing.declaredType.isEmpty ? "no declared type" : existing.declaredType, guess.reason]
        if existing.keyPosition == 0 {
            let value = existing.defaultValue.flatMap { Self.literal($0, guess.type) }
            writer.add("default", value)
            if existing.defaultValue != nil, value == nil, existing.defaultValue?.uppercased() != "NULL" {
                reasons.append("the default \(existing.defaultValue!) is SQLite's to give")
            }
            if existing.isRequired, existing.defaultValue == nil || value != nil { writer.add("optional", false) }
        }
        writer.add("description", reasons.filter { !$0.isEmpty }.joined(separator: "; "))
        return writer.object
    }

    /// By the declared type as SQLite reads it (sqlite.org/datatype3.html, 3.1), and what is stored.
    var guess: TypeGuess {
        let declared = existing.declaredType.uppercased()
        switch declared.prefix(while: \.isLetter) {
        case "BOOLEAN", "BOOL":
            return storedTypes.isSubset(of: ["integer"])
                ? TypeGuess(.boolean) : TypeGuess(.string, "holds other values than 0 and 1")
        case "DATE", "DATETIME", "TIMESTAMP": return dateGuess
        case "UUID", "GUID":
            return hasOurUUIDs ? TypeGuess(.uuid) : TypeGuess(.string, "not all values are UUIDs in upper case")
        case "JSON":
            return existing.keyPosition == 0
                ? TypeGuess(.transformable) : TypeGuess(.string, "a key is compared byte by byte")
        // Other decimals have NUMERIC affinity, below.
        case "DECIMAL" where declared == "DECIMAL_TEXT":
            return hasOurDecimals ? TypeGuess(.decimal) : TypeGuess(.string, "not all values are decimals")
        case "URI" where declared == "URI_TEXT": return TypeGuess(.uri)
        default: break
        }
        if declared.contains("INT") { return numberGuess(.integer64, ["integer"]) }
        if ["CHAR", "CLOB", "TEXT"].contains(where: declared.contains) {
            return jsonGuess ?? TypeGuess(.string, field: Self.length(declared))
        }
        if declared.contains("BLOB") { return TypeGuess(.binary) }
        if declared.isEmpty { return untypedGuess }
        // REAL affinity; and NUMERIC, where SQLite makes numbers of decimal texts, with the digits of a double.
        return numberGuess(.double, ["integer", "real"])
    }

    private func numberGuess(_ type: AttributeType, _ stored: Set<String>) -> TypeGuess {
        storedTypes.isSubset(of: stored) ? TypeGuess(type) : TypeGuess(.string, "holds values that are no such numbers")
    }

    private var dateGuess: TypeGuess {
        switch storedTypes {
        case []: TypeGuess(.date, "no value yet, so it gets ISO 8601")
        case ["integer"]:
            TypeGuess(.date, "whole numbers, taken for seconds since 1970", field: ("storage", .text("unix")))
        case ["real"] where existing.declaredType.uppercased() == "DATETIME_REAL":
            TypeGuess(.date, "numbers, taken for seconds since 2001", field: ("storage", .text("coreData")))
        case ["text"] where hasOurDates: TypeGuess(.date)
        case ["text"] where hasDays: TypeGuess(.calendarDate, "all values are days")
        default:
            TypeGuess(
                .string,
                "its values are not as Broker writes dates (2011-12-22T02:24:51.000Z) and days (2011-12-22)")
        }
    }

    private var untypedGuess: TypeGuess {
        switch storedTypes {
        case ["integer"]: TypeGuess(.integer64, "all values are whole numbers")
        case ["real"]: TypeGuess(.double, "all values are numbers")
        case ["blob"]: TypeGuess(.binary, "all values are blobs")
        default: jsonGuess ?? TypeGuess(.string)
        }
    }

    /// JSON that another program stores as a text. A key is compared byte by byte, and so remains a text.
    private var jsonGuess: TypeGuess? {
        hasJSON && existing.keyPosition == 0 ? TypeGuess(.transformable, "all values are JSON objects or arrays") : nil
    }

    /// `VARCHAR(20)` holds 20 characters.
    private static func length(_ declared: String) -> (String, ModelValue)? {
        guard let match = declared.wholeMatch(of: #/[A-Z ]*CHAR[A-Z ]*\(\s*(\d{1,9})\s*\)/#), let length = Int(match.1)
        else { return nil }
        return ("maxLength", ModelValue(.number("\(length)"), at: .unknown))
    }

    /// A literal of SQL; nil for an expression.
    private static func literal(_ sql: String, _ type: AttributeType) -> ModelValue? {
        let made = { (content: ModelValue.Content) in ModelValue(content, at: .unknown) }
        if let number = Int64(sql) {
            switch type {
            case .boolean: return number == 0 || number == 1 ? made(.bool(number == 1)) : nil
            case .integer64, .double: return made(.number("\(number)"))
            case .string: return .text(sql)
            default: return nil
            }
        }
        if type == .double, let number = Double(sql), number.isFinite { return made(.number("\(number)")) }
        if type == .boolean { return ["TRUE": made(.bool(true)), "FALSE": made(.bool(false))][sql.uppercased()] }
        guard type == .string || type == .transformable, sql.count >= 2, sql.first == "'", sql.last == "'" else {
            return nil
        }
        let parts = sql.dropFirst().dropLast().split(separator: "''", omittingEmptySubsequences: false)
        guard !parts.contains(where: { $0.contains("'") }) else { return nil }
        let value = parts.joined(separator: "'")
        return type == .string
            ? .text(value) : try? ModelDocument(parsing: JSONText(copying: Array(value.utf8))).root
    }
}
