/// The types of the contract, by Core Data's names.
package enum AttributeType: String, Sendable, CaseIterable {
    case integer16, integer32, integer64, decimal, double, float, string, boolean, date, binary, uuid, uri,
        transformable

    package var isInteger: Bool { self == .integer16 || self == .integer32 || self == .integer64 }
    package var isNumber: Bool { isInteger || self == .decimal || self == .double || self == .float }
}

/// How a date lies in its column.
package enum DateStorage: String, Sendable, CaseIterable {
    /// TEXT, `2011-12-22T02:24:51.000Z`.
    case iso8601
    /// INTEGER, seconds since 1970.
    case unix
    /// REAL, seconds since 2001, as Core Data stores them.
    case coreData
}

package enum Transform: String, Sendable, CaseIterable {
    case trim, uppercase, lowercase
}

/// What becomes of a value that cannot be converted or is not valid.
package enum InvalidValuePolicy: String, Sendable, CaseIterable {
    /// The record is invalid.
    case fail
    /// As if the record had not brought the value.
    case skip
    /// As if it were null.
    case null
}

/// What a valid value must keep to; nil and empty mean no limit. The numbers and values are JSON text, converted by
/// the attribute's type where they are used, so that no digit is lost.
package struct ValueConstraints: Sendable, Equatable {
    package var minimum: JSONFragment?
    package var maximum: JSONFragment?
    /// Characters (Unicode scalars) of a string.
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

/// A piece of the model's JSON, as it was written.
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
    /// Where a record may hold the value, most preferred first; each is a path of keys.
    package var keyPaths: [[String]]
    package var isOptional: Bool
    /// For inserts that bring no value.
    package var defaultValue: JSONFragment?
    /// A record that does not bring the attribute brings its default, also to an object that exists.
    package var usesDefaultWhenMissing = false
    /// Unicode date patterns (UTS 35), tried in order; none means ISO 8601.
    package var dateFormats: [String]
    /// The zone of dates that name none: an IANA name or an offset; nil is UTC.
    package var timeZone: String?
    package var dateStorage: DateStorage
    package var constraints: ValueConstraints
    /// Applied to strings in order, before they are checked.
    package var transforms: [Transform]
    package var onInvalid: InvalidValuePolicy
    /// The name before: a store that knows the attribute by it keeps its values.
    package var renamedFrom: String?
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
}
