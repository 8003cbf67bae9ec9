/// The tables of a layout in SQL that SQLite and PostgreSQL understand, and how a record's JSON becomes their rows.
struct PeerTables {
    enum Dialect { case sqlite, postgres }

    let layout: RecordLayout
    let dialect: Dialect

    var create: [String] {
        switch dialect {
        case .sqlite: layout.tables
        case .postgres:
            layout.tables.map { table in
                table.replacing("REAL", with: "DOUBLE PRECISION").replacing("INTEGER", with: "BIGINT")
            }
        }
    }

    /// - Parameter source: what gives the records, a row each: `json_each('…')`, or a table.
    func upserts(from source: String) -> [String] {
        var statements: [String] = []
        let link = layout.fields.first { $0.kind == .department || $0.kind == .departmentKey }
        if let link {
            let isTold = link.kind == .department
            let key = value(isTold ? [link.key, "id"] : [link.key], "INTEGER")
            let columns = isTold ? "id, name" : "id"
            let values = isTold ? "\(key), \(value([link.key, "name"], "TEXT"))" : key
            statements.append(
                "INSERT INTO Department (\(columns)) SELECT DISTINCT \(values) FROM \(source) WHERE \(key) IS NOT NULL "
                    + "ON CONFLICT (id) DO \(isTold ? "UPDATE SET name = excluded.name" : "NOTHING")")
        }
        let fields = layout.fields.filter { $0.kind != .projectKeys }
        let names = fields.map(\.name).joined(separator: ", ")
        let values = fields.map { field in
            switch field.kind {
            case .identity, .managerKey: value([field.key], layout.keys == .uuid ? "TEXT" : "INTEGER")
            case .department: value([field.key, "id"], "INTEGER")
            case .boolean where dialect == .postgres: "(\(value([field.key], "BOOLEAN")))::int"
            default: value([field.key], field.columnType ?? "INTEGER")
            }
        }
        let updates = fields.dropFirst().map { "\($0.name) = excluded.\($0.name)" }.joined(separator: ", ")
        statements.append(
            "INSERT INTO \(layout.entity) (\(names)) SELECT \(values.joined(separator: ", ")) FROM \(source) "
                + "WHERE true ON CONFLICT (id) DO UPDATE SET \(updates)")
        return statements
    }

    private func value(_ path: [String], _ type: String) -> String {
        switch dialect {
        case .sqlite: return "json_extract(value, '$.\(path.joined(separator: "."))')"
        case .postgres:
            let type =
                switch type {
                case "INTEGER": "bigint"
                case "REAL": "double precision"
                case "BOOLEAN": "boolean"
                default: "text"
                }
            return "(value #>> '{\(path.joined(separator: ","))}')::\(type)"
        }
    }
}
