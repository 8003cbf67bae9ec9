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
        layout.fields.flatMap { departments($0, from: source) } + [records(from: source)]
            + layout.fields.flatMap { projects($0, from: source) }
    }

    private func records(from source: String) -> String {
        let fields = layout.fields.filter { $0.kind != .projectKeys }
        let names = fields.map(\.name).joined(separator: ", ")
        let values = fields.map(value).joined(separator: ", ")
        let updates = fields.dropFirst().map { "\($0.name) = excluded.\($0.name)" }.joined(separator: ", ")
        return "INSERT INTO \(layout.entity) (\(names)) SELECT \(values) FROM \(source) AS record WHERE true "
            + "ON CONFLICT (id) DO UPDATE SET \(updates)"
    }

    /// The destinations of a link, as nested objects or by their keys.
    private func departments(_ field: RecordField, from source: String) -> [String] {
        guard field.kind == .department || field.kind == .departmentKey else { return [] }
        let isWhole = field.kind == .department
        let key = value(field)
        let values = isWhole ? "\(key), \(value([field.key, "name"], "TEXT"))" : key
        return [
            "INSERT INTO Department (\(isWhole ? "id, name" : "id")) SELECT DISTINCT \(values) FROM \(source) AS record "
                + "WHERE \(key) IS NOT NULL ON CONFLICT (id) DO \(isWhole ? "UPDATE SET name = excluded.name" : "NOTHING")"
        ]
    }

    /// The objects that an array of keys names, and a row of the link table for each of them.
    private func projects(_ field: RecordField, from source: String) -> [String] {
        guard field.kind == .projectKeys, let identity = layout.fields.first else { return [] }
        let (key, elements) =
            switch dialect {
            case .sqlite: ("element.value", "json_each(record.value, '$.\(field.key)') AS element")
            case .postgres: ("element::bigint", "jsonb_array_elements_text(record.value -> '\(field.key)') AS element")
            }
        let rows = "FROM \(source) AS record, \(elements) WHERE true ON CONFLICT DO NOTHING"
        return [
            "INSERT INTO Project (id) SELECT DISTINCT \(key) \(rows)",
            "INSERT INTO \(layout.entity)_\(field.name) (source, destination) SELECT \(value(identity)), \(key) \(rows)",
        ]
    }

    private func value(_ field: RecordField) -> String {
        switch field.kind {
        case .identity, .managerKey: value([field.key], layout.keys == .uuid ? "TEXT" : "INTEGER")
        case .department: value([field.key, "id"], "INTEGER")
        case .boolean where dialect == .postgres: "(\(value([field.key], "BOOLEAN")))::int"
        default: value([field.key], field.columnType ?? "INTEGER")
        }
    }

    private func value(_ path: [String], _ type: String) -> String {
        switch dialect {
        case .sqlite: return "json_extract(record.value, '$.\(path.joined(separator: "."))')"
        case .postgres:
            let type =
                switch type {
                case "INTEGER": "bigint"
                case "REAL": "double precision"
                case "BOOLEAN": "boolean"
                default: "text"
                }
            return "(record.value #>> '{\(path.joined(separator: ","))}')::\(type)"
        }
    }
}
