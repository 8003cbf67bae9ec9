/// The layout of a shape's records: their members, the model for Broker, and the tables for programs that write without
/// it.
package struct RecordLayout: Sendable {
    static let departments = 500
    static let projects = 2_000
    static let projectsOfRecord = 3

    package let entity: String
    /// The identity is the first.
    package let fields: [RecordField]
    package let keys: RecordKeys

    package init(_ options: RecordOptions) {
        keys = options.keys
        let identity = RecordField("id", .identity)
        let employee = [
            identity, RecordField("name", .text), RecordField("email", .email), RecordField("salary", .decimal),
            RecordField("score", .double), RecordField("active", .boolean),
            RecordField("hiredAt", key: "hired_at", .date), RecordField("level", .integer(12)),
        ]
        switch options.shape {
        case .flat:
            entity = "Employee"
            fields = employee + [RecordField("department", .departmentKey)]
        case .nested:
            entity = "Employee"
            fields = employee + [RecordField("department", .department)]
        case .links:
            entity = "Employee"
            fields = [
                identity, RecordField("name", .text), RecordField("department", .departmentKey),
                RecordField("manager", .managerKey), RecordField("projects", .projectKeys),
            ]
        case .ragged, .wide:
            entity = "Record"
            fields =
                [identity]
                + (0..<options.attributes).map { RecordField("a\($0 + 1)", Self.kinds[$0 % Self.kinds.count]) }
        }
    }

    /// The attributes of ragged and wide records, in turn.
    private static let kinds: [RecordField.Kind] = [.text, .integer(1_000), .double, .text, .date, .decimal]

    private var hasDepartments: Bool { fields.contains { $0.kind == .department || $0.kind == .departmentKey } }
    private var hasProjects: Bool { fields.contains { $0.kind == .projectKeys } }

    // MARK: - The model

    /// For `brokerd --model`.
    package var model: String {
        let attributes = fields.compactMap { field -> String? in
            if field.kind == .identity { return "\"id\": \"\(keys == .uuid ? "uuid" : "integer64")\"" }
            guard let type = field.modelType else { return nil }
            guard field.key != field.name else { return "\"\(field.name)\": \"\(type)\"" }
            return "\"\(field.name)\": {\"type\": \"\(type)\", \"key\": \"\(field.key)\"}"
        }
        let links = fields.compactMap { field -> String? in
            switch field.kind {
            case .department, .departmentKey: "\"\(field.name)\": {\"entity\": \"Department\"}"
            case .managerKey: "\"\(field.name)\": {\"entity\": \"\(entity)\"}"
            case .projectKeys: "\"\(field.name)\": {\"entity\": \"Project\", \"toMany\": true}"
            default: nil
            }
        }
        var entities = [
            """
              "\(entity)": {
                "identity": "id",
                "attributes": {
                  \(attributes.joined(separator: ",\n      "))}\(links.isEmpty ? "" : ",")
            """
                + (links.isEmpty
                    ? "}" : "\n    \"relationships\": {\n      \(links.joined(separator: ",\n      "))}}")
        ]
        for (name, isThere) in [("Department", hasDepartments), ("Project", hasProjects)] where isThere {
            entities.append(
                "  \"\(name)\": {\"identity\": \"id\", \"attributes\": {\"id\": \"integer64\", \"name\": \"string\"}}")
        }
        return "{\"entities\": {\n\(entities.joined(separator: ",\n"))\n}}"
    }

    // MARK: - The tables

    /// As `broker model schema` prints them for that model.
    package var tables: [String] {
        let identityType = keys == .uuid ? "TEXT" : "INTEGER"
        var tables: [String] = []
        for (name, isThere) in [("Department", hasDepartments), ("Project", hasProjects)] where isThere {
            tables.append("CREATE TABLE \(name) (id INTEGER PRIMARY KEY, name TEXT)")
        }
        let columns = fields.compactMap { field -> String? in
            switch field.kind {
            case .identity: "id \(identityType)\(keys == .uuid ? " NOT NULL" : "") PRIMARY KEY"
            case .department, .departmentKey: "\(field.name) INTEGER \(Self.reference("Department"))"
            case .managerKey: "\(field.name) \(identityType) \(Self.reference(entity))"
            case .projectKeys: nil
            default: field.columnType.map { "\(field.name) \($0)" }
            }
        }
        tables.append("CREATE TABLE \(entity) (\(columns.joined(separator: ", ")))")
        for field in fields where field.isLink && field.kind != .projectKeys {
            tables.append("CREATE INDEX \"\(entity).\(field.name)\" ON \(entity) (\(field.name))")
        }
        if hasProjects {
            tables += [
                """
                CREATE TABLE \(entity)_projects (source \(identityType) NOT NULL REFERENCES \(entity) (id)
                    ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
                    destination INTEGER NOT NULL REFERENCES Project (id)
                    ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
                    PRIMARY KEY (source, destination))
                """,
                "CREATE INDEX \"\(entity)_projects.destination\" ON \(entity)_projects (destination)",
            ]
        }
        return tables
    }

    private static func reference(_ table: String) -> String {
        "REFERENCES \(table) (id) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"
    }
}

/// One member of the generated records, and the column that it becomes.
package struct RecordField: Sendable {
    package enum Kind: Sendable, Equatable {
        case identity
        case text
        case email
        /// Stored as its digits.
        case decimal
        case double
        case boolean
        case date
        /// A whole number below the modulus.
        case integer(Int)
        /// A to-one link to a department that is nested in the record.
        case department
        /// A to-one link by the key of a department.
        case departmentKey
        /// A to-one link by the key of another record of the same entity.
        case managerKey
        /// To-many links by the keys of projects.
        case projectKeys
    }

    /// The attribute or relationship, and its column.
    package let name: String
    /// The key in records.
    package let key: String
    package let kind: Kind
    /// The key in quotes with its colon.
    let prefix: [UInt8]

    init(_ name: String, key: String? = nil, _ kind: Kind) {
        self.name = name
        self.key = key ?? name
        self.kind = kind
        prefix = Array("\"\(self.key)\":".utf8)
    }

    var isLink: Bool {
        switch kind {
        case .department, .departmentKey, .managerKey, .projectKeys: true
        default: false
        }
    }

    /// As the model names the type; nil for links.
    var modelType: String? {
        switch kind {
        case .text, .email: "string"
        case .decimal: "decimal"
        case .double: "double"
        case .boolean: "boolean"
        case .date: "date"
        case .integer: "integer32"
        case .identity, .department, .departmentKey, .managerKey, .projectKeys: nil
        }
    }

    /// As `broker model schema` prints the column's type; nil for a link, whose column is that of the identity.
    var columnType: String? {
        switch kind {
        case .text, .email, .decimal, .date: "TEXT"
        case .double: "REAL"
        case .boolean, .integer: "INTEGER"
        case .identity, .department, .departmentKey, .managerKey, .projectKeys: nil
        }
    }
}
