package import BrokerModel

/// The type of a column: the form of its values, and the name in CREATE TABLE, which tools show and interpret.
///
/// Types with the same storage are equal: earlier programs declared the storage alone, and their tables stay as they are.
package struct ColumnType: Sendable {
    /// The names of SQLite's storage classes; each is also a declared type with that affinity.
    package enum Storage: String, Sendable {
        case integer = "INTEGER"
        case real = "REAL"
        case text = "TEXT"
        case blob = "BLOB"

        var affinity: Affinity {
            switch self {
            case .integer: .integer
            case .real: .real
            case .text: .text
            case .blob: .blob
            }
        }
    }

    package let storage: Storage
    /// It contains the storage's name and no other one, so that it has the same affinity (sqlite.org/datatype3.html,
    /// 3.1).
    package let declared: String

    /// - Parameter meaning: the part before the storage: `DATETIME` for `DATETIME_TEXT`.
    private init(_ storage: Storage, _ meaning: String = "") {
        self.storage = storage
        declared = meaning.isEmpty ? storage.rawValue : "\(meaning)_\(storage.rawValue)"
    }

    static let integer = ColumnType(.integer)
    static let text = ColumnType(.text)

    /// The type of an attribute's column. Exact decimals and dates are texts, unless the model stores them otherwise.
    init(_ attribute: Attribute) {
        switch attribute.type {
        case .integer16, .integer32, .integer64: self.init(.integer)
        case .boolean: self.init(.integer, "BOOLEAN")
        case .double, .float: self.init(.real)
        case .string: self.init(.text)
        case .decimal: self.init(attribute.decimalScale == nil ? .text : .integer, "DECIMAL")
        case .calendarDate: self.init(.text, "DATE")
        case .uuid: self.init(.text, "UUID")
        case .uri: self.init(.text, "URI")
        case .transformable: self.init(.text, "JSON")
        case .binary: self.init(.blob)
        case .date:
            switch attribute.dateStorage {
            case .iso8601: self.init(.text, "DATETIME")
            case .unix: self.init(.integer, "DATETIME")
            case .coreData: self.init(.real, "DATETIME")
            }
        }
    }
}

extension ColumnType: Equatable {
    package static func == (left: ColumnType, right: ColumnType) -> Bool { left.storage == right.storage }
}

extension Attribute {
    /// The form of its values in the store.
    package var columnStorage: ColumnType.Storage { ColumnType(self).storage }
}
