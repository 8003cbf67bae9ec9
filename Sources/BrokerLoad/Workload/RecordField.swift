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
