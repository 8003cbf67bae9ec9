internal import BrokerJSON

/// The types of the contract, named as in Core Data.
package enum AttributeType: String, Sendable, CaseIterable {
    case integer16, integer32, integer64, decimal, double, float, string, boolean, date, calendarDate, binary, uuid,
        uri, transformable

    package var traits: AttributeTraits { AttributeTraits.table[self]! }

    enum Family { case integer, number, date, text, other }

    /// Asked for every value of a fetch, and therefore no row of the table.
    var family: Family {
        switch self {
        case .integer16, .integer32, .integer64: .integer
        case .decimal, .double, .float: .number
        case .date, .calendarDate: .date
        case .string, .uuid, .uri: .text
        case .boolean, .binary, .transformable: .other
        }
    }

    package var isInteger: Bool { family == .integer }
    package var isNumber: Bool { isInteger || family == .number }
    /// A time or a day: texts of these have formats.
    package var isDate: Bool { family == .date }
    /// Its values are strings in JSON, and have a length.
    var isText: Bool { family == .text }

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// What a type is to models, stores and programs: one row for each.
package struct AttributeTraits: Sendable {
    /// A later value is newer.
    let isOrdered: Bool
    /// The kinds of JSON of which values can be converted; the conversion may still refuse a value.
    let sources: Set<JSONValue.Kind>
    /// The column of its values, unless the attribute has another storage: ``Attribute/columnType``.
    let column: ColumnType
    /// The form of the stored values, for people who read the file alone; nil where the type says it.
    package let form: String?
    /// Its type in Swift, and the module of that.
    let swift: (name: String, module: String?)

    private init(
        isOrdered: Bool = false, from sources: Set<JSONValue.Kind>, _ column: ColumnType, form: String? = nil,
        swift: String, of module: String? = nil
    ) {
        self.isOrdered = isOrdered
        self.sources = sources
        self.column = column
        self.form = form
        self.swift = (swift, module)
    }

    private static let scalars: Set<JSONValue.Kind> = [.string, .number, .true, .false]
    private static let all: Set<JSONValue.Kind> = scalars.union([.null, .array, .object])

    fileprivate static let table: [AttributeType: AttributeTraits] = [
        .integer16: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.integer), swift: "Int16"),
        .integer32: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.integer), swift: "Int32"),
        .integer64: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.integer), swift: "Int64"),
        .decimal: AttributeTraits(
            isOrdered: true, from: scalars, ColumnType(.text, "DECIMAL"), swift: "Decimal", of: "Foundation"),
        .double: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.real), swift: "Double"),
        .float: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.real), swift: "Float"),
        .string: AttributeTraits(isOrdered: true, from: scalars, ColumnType(.text), swift: "String"),
        .boolean: AttributeTraits(
            from: scalars, ColumnType(.integer, "BOOLEAN"), form: "boolean: 0 or 1", swift: "Bool"),
        .date: AttributeTraits(
            isOrdered: true, from: [.string, .number], ColumnType(.text, "DATETIME"), swift: "Date",
            of: "Foundation"),
        .calendarDate: AttributeTraits(
            isOrdered: true, from: [.string], ColumnType(.text, "DATE"), form: "day like 2011-12-22",
            swift: "String"),
        .binary: AttributeTraits(from: [.string], ColumnType(.blob), swift: "Data", of: "Foundation"),
        .uuid: AttributeTraits(
            from: [.string], ColumnType(.text, "UUID"), form: "UUID in upper case", swift: "UUID",
            of: "Foundation"),
        .uri: AttributeTraits(from: [.string], ColumnType(.text, "URI"), swift: "URL", of: "Foundation"),
        .transformable: AttributeTraits(
            from: all, ColumnType(.text, "JSON"), form: "JSON", swift: "RawJSON", of: "Broker"),
    ]
}

/// How the stored values of one type become values of another one without loss.
package enum TypeChange {
    /// They have the same form.
    case sameForm
    /// They become what a fetch prints of them.
    case converted
    /// The same, for whole numbers that a double holds exactly.
    case convertedIfExact
}

extension AttributeType {
    /// The change from another type; nil when some of its values would be lost.
    package func change(from other: AttributeType) -> TypeChange? {
        switch (other, self) {
        case (.integer16, .integer32), (.integer16, .integer64), (.integer32, .integer64): .sameForm
        case (.float, .double), (.uuid, .string), (.uri, .string): .sameForm
        case (_, .double) where other.isInteger: .convertedIfExact
        case (_, .decimal) where other.isNumber: .converted
        case (.boolean, .string), (.date, .string), (.calendarDate, .string), (.calendarDate, .date): .converted
        case (_, .string) where other.isNumber: .converted
        case (_, .transformable): .converted
        default: nil
        }
    }
}

/// The type of a column: the form of its values, and the name in CREATE TABLE, which tools show and interpret.
///
/// Types with the same storage are equal: an attribute may become one of another type with the same form, and its column
/// stays as it was declared.
package struct ColumnType: Sendable, Equatable {
    /// The names of SQLite's storage classes; each is also a declared type with that affinity.
    package enum Storage: String, Sendable {
        case integer = "INTEGER"
        case real = "REAL"
        case text = "TEXT"
        case blob = "BLOB"
    }

    package let storage: Storage
    /// It contains the storage's name and no other one, so that it has the same affinity (sqlite.org/datatype3.html,
    /// 3.1).
    package let declared: String

    /// - Parameter meaning: the part before the storage: `DATETIME` for `DATETIME_TEXT`.
    package init(_ storage: Storage, _ meaning: String = "") {
        self.storage = storage
        declared = meaning.isEmpty ? storage.rawValue : "\(meaning)_\(storage.rawValue)"
    }

    package static let integer = ColumnType(.integer)
    package static let text = ColumnType(.text)

    package static func == (left: ColumnType, right: ColumnType) -> Bool { left.storage == right.storage }
}

package enum DateStorage: String, Sendable, CaseIterable {
    /// TEXT, `2011-12-22T02:24:51.000Z`.
    case iso8601
    /// INTEGER, seconds since 1970.
    case unix
    /// REAL, seconds since 2001, as Core Data stores them.
    case coreData
}

package enum DecimalStorage: String, Sendable, CaseIterable {
    /// TEXT: all digits, as many as there are.
    case text
    /// INTEGER: the value times ten to the power of the attribute's scale.
    case scaled
}

package enum Transform: String, Sendable, CaseIterable {
    case trim, uppercase, lowercase
}

/// The treatment of a value that cannot be converted or is not valid.
package enum InvalidValuePolicy: String, Sendable, CaseIterable {
    /// The record is invalid.
    case fail
    /// As if the record lacked the value.
    case skip
    case null
}

/// The rules for valid values; nil and empty mean no limit. The numbers and values are JSON text, converted by the
/// attribute's type where they are used, so that no digit is lost.
package struct ValueConstraints: Sendable, Equatable {
    package var minimum: JSONFragment?
    package var maximum: JSONFragment?
    /// The number of characters (Unicode scalars) of a string.
    package var minimumLength: Int?
    package var maximumLength: Int?
    /// A regular expression (RE2's syntax) that must match somewhere in the string.
    package var pattern: String?
    package var allowed: [JSONFragment]

    package init(
        minimum: JSONFragment? = nil, maximum: JSONFragment? = nil, minimumLength: Int? = nil,
        maximumLength: Int? = nil, pattern: String? = nil, allowed: [JSONFragment] = []
    ) {
        self.minimum = minimum
        self.maximum = maximum
        self.minimumLength = minimumLength
        self.maximumLength = maximumLength
        self.pattern = pattern
        self.allowed = allowed
    }

    package var isEmpty: Bool { self == ValueConstraints() }
}

/// A part of the model's JSON, unchanged.
package struct JSONFragment: Sendable, Equatable {
    package let text: String
    package init(_ text: String) { self.text = text }
}

/// A value of an object: one column.
package struct Attribute: Sendable {
    package var name: String
    /// The name of its column: its own, unless relatives in the same table have another attribute of that name.
    package var column: String
    package var type: AttributeType
    /// The key paths of the value in a record, most preferred first.
    package var keyPaths: [[String]]
    package var isOptional = true
    /// The value for inserts of records without one.
    package var defaultValue: JSONFragment?
    /// A record that lacks the attribute sets its default, also in an existing object.
    package var usesDefaultWhenMissing = false
    /// Unicode date patterns (UTS 35) of a date or calendar date, tried in order; empty means ISO 8601.
    package var dateFormats: [String]
    /// The time zone of dates that name none: an IANA name or an offset; nil is UTC.
    package var timeZone: String?
    package var dateStorage: DateStorage
    /// The digits of a second's fraction of a date that is stored as text.
    package var precision = Attribute.defaultPrecision
    /// The digits after the point of a decimal that is stored as an integer; nil for one that is stored as text.
    package var decimalScale: Int?
    package var constraints: ValueConstraints
    /// Applied to strings in order, before they are checked.
    package var transforms: [Transform]
    package var onInvalid = InvalidValuePolicy.fail
    /// The former name: a store that has the attribute under that name retains its values.
    package var renamedFrom: String?
    /// The link and the attribute of a former name that is a path: the value was another object's, at the end of that link.
    package var formerPath: (link: String, attribute: String)? {
        guard let parts = renamedFrom?.split(separator: ".", omittingEmptySubsequences: false), parts.count == 2 else {
            return nil
        }
        return (String(parts[0]), String(parts[1]))
    }
    /// It has the keys of records that the model does not name, and the values that other attributes cannot hold: the entity
    /// says `extra`.
    package private(set) var isExtra = false
    /// For people.
    package var description: String?
    package var place: ModelPlace

    /// The attribute of an entity that says `extra`.
    package static func extra(at place: ModelPlace) -> Attribute {
        var attribute = Attribute(name: extraName, type: .transformable, place: place)
        attribute.isExtra = true
        return attribute
    }

    package static let extraName = "_extra"

    package init(
        name: String, type: AttributeType, defaultValue: JSONFragment? = nil, dateFormats: [String] = [],
        timeZone: String? = nil, dateStorage: DateStorage = .iso8601,
        constraints: ValueConstraints = ValueConstraints(), transforms: [Transform] = [], place: ModelPlace = .unknown
    ) {
        self.name = name
        column = name
        self.type = type
        keyPaths = [[name]]
        self.defaultValue = defaultValue
        self.dateFormats = dateFormats
        self.timeZone = timeZone
        self.dateStorage = dateStorage
        self.constraints = constraints
        self.transforms = transforms
        self.place = place
    }

    /// Milliseconds.
    package static let defaultPrecision = 3

    /// Exact decimals and dates are texts, unless the model stores them otherwise.
    package var columnType: ColumnType {
        switch (type, dateStorage) {
        case (.decimal, _) where decimalScale != nil: ColumnType(.integer, "DECIMAL")
        case (.date, .unix): ColumnType(.integer, "DATETIME")
        case (.date, .coreData): ColumnType(.real, "DATETIME")
        default: type.traits.column
        }
    }

    package var columnStorage: ColumnType.Storage { columnType.storage }

    /// Whether equal values of both are stored alike.
    package func isStored(like other: Attribute) -> Bool {
        type == other.type && dateStorage == other.dateStorage && precision == other.precision
            && decimalScale == other.decimalScale
    }

    /// Whether every stored value of an earlier form of this attribute can become one of its own.
    package func holdsAll(of old: Attribute) -> Bool {
        if type == .decimal, let decimalScale { return old.type == .decimal && old.decimalScale == decimalScale }
        guard type == old.type else {
            return switch type.change(from: old.type) {
            case .sameForm, .converted: true
            case .convertedIfExact, nil: false
            }
        }
        return type != .date || dateStorage == old.dateStorage && precision >= old.precision
    }

    /// The type by which the stored values are compared: scaled decimals are integers.
    package var comparedType: AttributeType { decimalScale == nil ? type : .integer64 }
}

/// A value that a nested record takes from its holder: the record that contains it as the value of a relationship.
///
/// It is a key path of an attribute that begins with `@parent` or `@record`. No other path can be one: an `@` alone is an
/// ordinary key, as of XML's attributes, which have no keys below them.
package enum HolderValue: Sendable, Equatable {
    /// `@parent.<attribute>`: an attribute of the holder's identity.
    case attribute(String)
    /// `@parent.@index`: the record's position in the array that contains it, from 0.
    case position
    /// `@record.@content`: a hash of the record itself.
    case content

    private static let first = "@parent"
    private static let positionKey = "@index"
    private static let contentPath = ["@record", "@content"]

    /// Nil for the path of an ordinary key.
    package init?(_ path: [String]) {
        guard Self.isHolderPath(path), path.count == 2 else { return nil }
        guard path[0].hasSameBytes(as: Self.first) else {
            guard path[1].hasSameBytes(as: Self.contentPath[1]) else { return nil }
            self = .content
            return
        }
        self = path[1].hasSameBytes(as: Self.positionKey) ? .position : .attribute(path[1])
    }

    package var path: [String] {
        switch self {
        case .attribute(let name): [Self.first, name]
        case .position: [Self.first, Self.positionKey]
        case .content: Self.contentPath
        }
    }

    var text: String { path.joined(separator: ".") }

    static func isHolderPath(_ path: [String]) -> Bool { path.count > 1 && isReserved(path[0]) }

    /// Paths through this key of a record mean something else than its values.
    package static func isReserved(_ key: String) -> Bool {
        key.hasSameBytes(as: first) || key.hasSameBytes(as: contentPath[0])
    }
}

extension Attribute {
    /// The value that is none of the record's own keys': of its holder, or of its content; nil for an attribute of which only
    /// these are read.
    package var holderValue: HolderValue? { keyPaths.lazy.compactMap(HolderValue.init).first }

    /// The holder's value precedes those of the record's own keys.
    package var prefersHolder: Bool { keyPaths.first.flatMap(HolderValue.init) != nil }

    /// The key paths in the record itself, most preferred first.
    package var recordPaths: [[String]] { keyPaths.filter { HolderValue($0) == nil } }
}

/// The rule by which the JSON key of an attribute or relationship follows from its name when the model gives none.
package enum KeyStyle: String, Sendable, CaseIterable {
    case exact
    /// `hiredAt` ← `hired_at`; a run of capitals is one word: `userID` ← `user_id`, `URLString` ← `url_string`.
    case snakeCase

    package func key(forName name: String) -> String {
        switch self {
        case .exact: name
        case .snakeCase: Self.snakeCase(name)
        }
    }

    private static func snakeCase(_ name: String) -> String {
        let characters = Array(name)
        var key = ""
        for (index, character) in characters.enumerated() {
            if index > 0, beginsWord(at: index, in: characters) { key.append("_") }
            key += character.lowercased()
        }
        return key
    }

    private static func beginsWord(at index: Int, in characters: [Character]) -> Bool {
        let previous = characters[index - 1]
        guard characters[index].isUppercase, previous != "_" else { return false }
        guard previous.isUppercase else { return true }
        // Inside a run of capitals only the last one can begin a word, when small letters follow: `URL|String`.
        guard index + 1 < characters.count, characters[index + 1].isLowercase else { return false }
        return !isPlural(at: index + 1, in: characters)
    }

    /// The small `s` of `userIDs` belongs to the preceding capitals.
    private static func isPlural(at index: Int, in characters: [Character]) -> Bool {
        characters[index] == "s" && (index + 1 == characters.count || !characters[index + 1].isLowercase)
    }
}
