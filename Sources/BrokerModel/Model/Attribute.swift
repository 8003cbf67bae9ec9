/// The types of the contract, named as in Core Data.
package enum AttributeType: String, Sendable, CaseIterable {
    case integer16, integer32, integer64, decimal, double, float, string, boolean, date, calendarDate, binary, uuid,
        uri, transformable

    package var isInteger: Bool { self == .integer16 || self == .integer32 || self == .integer64 }
    package var isNumber: Bool { isInteger || self == .decimal || self == .double || self == .float }
    /// A time or a day: texts of these have formats.
    package var isDate: Bool { self == .date || self == .calendarDate }
}

/// The form of a date in its column.
package enum DateStorage: String, Sendable, CaseIterable {
    /// TEXT, `2011-12-22T02:24:51.000Z`.
    case iso8601
    /// INTEGER, seconds since 1970.
    case unix
    /// REAL, seconds since 2001, as Core Data stores them.
    case coreData
}

/// The form of a decimal in its column.
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
    /// As if it were null.
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
    package var isOptional: Bool
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
    package var onInvalid: InvalidValuePolicy
    /// The former name: a store that has the attribute under that name retains its values.
    package var renamedFrom: String?
    /// For people.
    package var description: String?
    package var place: ModelPlace

    package init(
        name: String, type: AttributeType, keyPaths: [[String]]? = nil, isOptional: Bool = true,
        defaultValue: JSONFragment? = nil, dateFormats: [String] = [], timeZone: String? = nil,
        dateStorage: DateStorage = .iso8601, constraints: ValueConstraints = ValueConstraints(),
        transforms: [Transform] = [], onInvalid: InvalidValuePolicy = .fail, renamedFrom: String? = nil,
        place: ModelPlace = .unknown
    ) {
        self.name = name
        column = name
        self.type = type
        self.keyPaths = keyPaths ?? [[name]]
        self.isOptional = isOptional
        self.defaultValue = defaultValue
        self.dateFormats = dateFormats
        self.timeZone = timeZone
        self.dateStorage = dateStorage
        self.constraints = constraints
        self.transforms = transforms
        self.onInvalid = onInvalid
        self.renamedFrom = renamedFrom
        self.place = place
    }

    /// Milliseconds.
    package static let defaultPrecision = 3

    /// Whether equal values of both are stored alike.
    package func isStored(like other: Attribute) -> Bool {
        type == other.type && dateStorage == other.dateStorage && precision == other.precision
            && decimalScale == other.decimalScale
    }

    /// The type by which the stored values are compared: scaled decimals are integers.
    package var comparedType: AttributeType { decimalScale == nil ? type : .integer64 }
}
