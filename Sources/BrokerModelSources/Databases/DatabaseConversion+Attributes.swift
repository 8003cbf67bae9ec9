internal import BrokerJSON

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
