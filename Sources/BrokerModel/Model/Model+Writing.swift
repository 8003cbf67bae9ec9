package import BrokerJSON

extension Model {
    /// Writes the model in force in the form that ``ModelReader`` reads, with everything resolved: reading it returns
    /// an equal model.
    package func write(to writer: inout JSONWriter) { write(to: &writer, inferred: inferred) }

    /// - Parameter inferred: the mark to write; nil writes none.
    package func write(to writer: inout JSONWriter, inferred: String?) {
        writer.object { writer in
            // Every key path is written, so no key style applies.
            writer.member("keyStyle", KeyStyle.exact.rawValue)
            if let description { writer.member("description", description) }
            if let inferred { writer.member("inferred", inferred) }
            writer.key("entities")
            writer.object { writer in
                for entity in entities { write(entity, to: &writer) }
            }
            writeMappings(to: &writer)
        }
    }

    private func write(_ entity: Entity, to writer: inout JSONWriter) {
        let names = { (indices: [Int]) in indices.map { entity.attributes[$0].name } }
        let parent = entity.parent.map { entities[$0] }
        writer.key(entity.name)
        writer.object { writer in
            if let description = entity.description { writer.member("description", description) }
            writer.member("table", entity.table)
            if let parent { writer.member("parent", parent.name) }
            if entity.isAbstract { writer.member("abstract", true) }
            if let root = entity.root { writer.member("root", root) }
            if !entity.ignoredPaths.isEmpty {
                writer.member("ignore", entity.ignoredPaths.map { $0.joined(separator: ".") })
            }
            if let name = entity.renamedFrom { writer.member("renamedFrom", name) }
            if !entity.identity.isEmpty, parent?.identity.isEmpty ?? true {
                writer.member("identity", names(entity.identity))
                if entity.isIdentityOptional { writer.member("identityOptional", true) }
            }
            writer.key("attributes")
            writer.object { writer in
                for index in entity.attributeIndices.dropFirst(parent?.attributeIndices.count ?? 0) {
                    entity.attributes[index].write(to: &writer)
                }
            }
            let relationships = entity.relationshipIndices.dropFirst(parent?.relationshipIndices.count ?? 0)
            if !relationships.isEmpty {
                writer.key("relationships")
                writer.object { writer in
                    for index in relationships { write(entity.relationships[index], to: &writer) }
                }
            }
            if let tombstone = entity.tombstone, parent?.tombstone != tombstone {
                writer.member("tombstone", tombstone)
            }
            if let modified = entity.modified, parent == nil {
                writer.member("modified", entity.attributes[modified].name)
            }
            for (key, lists) in lists(of: entity) where !lists.isEmpty {
                writer.key(key)
                writer.array { writer in
                    for list in lists { writer.strings(names(list)) }
                }
            }
        }
    }

    /// Each list of a hierarchy is written with the first entity that has all its attributes.
    private func lists(of entity: Entity) -> [(key: String, lists: [[Int]])] {
        let parent = entity.parent.map { Set(entities[$0].attributeIndices) } ?? []
        let own = Set(entity.attributeIndices)
        let isOwn = { (list: [Int]) in
            own.isSuperset(of: list) && (entity.parent == nil || !parent.isSuperset(of: list))
        }
        return [("unique", entity.unique.filter(isOwn)), ("indexes", entity.indexes.filter(isOwn))]
    }

    private func write(_ relationship: Relationship, to writer: inout JSONWriter) {
        writer.key(relationship.name)
        writer.object { writer in
            if let description = relationship.description { writer.member("description", description) }
            writer.member("entity", entities[relationship.destination].name)
            writer.member("toMany", relationship.isToMany)
            if let inverse = inverse(of: relationship) { writer.member("inverse", inverse.name) }
            writer.member("key", relationship.keyPaths.map { $0.joined(separator: ".") })
            writer.member("deleteRule", relationship.deleteRule.rawValue)
            if relationship.isToMany { writer.member("assignment", relationship.assignment.rawValue) }
            if relationship.isOwned { writer.member("owned", true) }
            if relationship.isOrdered { writer.member("ordered", true) }
            writer.member("missing", relationship.missing.rawValue)
            writer.member("none", relationship.none)
            if let name = relationship.renamedFrom { writer.member("renamedFrom", name) }
            if let mapping = relationship.mapping { writer.member("mapping", mappings[mapping].name) }
        }
    }
}

extension Attribute {
    /// Key and value; defaults are omitted, except the type, the keys and `optional`.
    fileprivate func write(to writer: inout JSONWriter) {
        writer.key(name)
        writer.object { writer in
            if let description { writer.member("description", description) }
            writer.member("type", type.rawValue)
            writer.member("key", keyPaths.map { $0.joined(separator: ".") })
            writer.member("optional", isOptional)
            if let defaultValue { writer.member("default", defaultValue) }
            if usesDefaultWhenMissing { writer.member("defaultWhenMissing", true) }
            if !dateFormats.isEmpty { writer.member("formats", dateFormats) }
            if let timeZone { writer.member("timeZone", timeZone) }
            if type == .date { writer.member("storage", dateStorage.rawValue) }
            if precision != Self.defaultPrecision {
                writer.key("precision")
                writer.integer(precision)
            }
            if let decimalScale {
                writer.member("storage", DecimalStorage.scaled.rawValue)
                writer.key("scale")
                writer.integer(decimalScale)
            }
            constraints.writeMembers(to: &writer)
            if !transforms.isEmpty { writer.member("transform", transforms.map(\.rawValue)) }
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if let renamedFrom { writer.member("renamedFrom", renamedFrom) }
        }
    }
}

extension ValueConstraints {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        if let minimum { writer.member("min", minimum) }
        if let maximum { writer.member("max", maximum) }
        for (key, length) in [("minLength", minimumLength), ("maxLength", maximumLength)] {
            guard let length else { continue }
            writer.key(key)
            writer.integer(length)
        }
        if let pattern { writer.member("pattern", pattern) }
        writer.member("enum", allowed)
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: String) {
        self.key(key)
        string(value)
    }

    mutating func member(_ key: String, _ value: Bool) {
        self.key(key)
        bool(value)
    }

    fileprivate mutating func member(_ key: String, _ values: [String]) {
        self.key(key)
        strings(values)
    }

    fileprivate mutating func member(_ key: String, _ value: JSONFragment) {
        self.key(key)
        raw(value.text.utf8)
    }

    /// Writes nothing for an empty list.
    fileprivate mutating func member(_ key: String, _ values: [JSONFragment]) {
        guard !values.isEmpty else { return }
        self.key(key)
        array { writer in
            for fragment in values { writer.raw(fragment.text.utf8) }
        }
    }

    fileprivate mutating func strings(_ values: [String]) {
        array { writer in
            for value in values { writer.string(value) }
        }
    }
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

/// A value that a nested record takes from its holder: the record that contains it as the value of a relationship.
///
/// It is a key path of an attribute that begins with `@parent`. No other path can be one: an `@` alone is an ordinary
/// key, as of XML's attributes, which have no keys below them.
package enum HolderValue: Sendable, Equatable {
    /// `@parent.<attribute>`: an attribute of the holder's identity.
    case attribute(String)
    /// `@parent.@index`: the record's position in the array that contains it, from 0.
    case position

    private static let first = "@parent"
    private static let positionKey = "@index"

    /// Nil for the path of an ordinary key.
    package init?(_ path: [String]) {
        guard Self.isHolderPath(path), path.count == 2 else { return nil }
        self = path[1].hasSameBytes(as: Self.positionKey) ? .position : .attribute(path[1])
    }

    package var path: [String] {
        switch self {
        case .attribute(let name): [Self.first, name]
        case .position: [Self.first, Self.positionKey]
        }
    }

    /// The key as the model writes it.
    var text: String { path.joined(separator: ".") }

    static func isHolderPath(_ path: [String]) -> Bool { path.count > 1 && path[0].hasSameBytes(as: first) }
}

extension Attribute {
    /// The value that a nested record takes from its holder; nil for an attribute of which only the record's own keys are
    /// read.
    package var holderValue: HolderValue? { keyPaths.lazy.compactMap(HolderValue.init).first }

    /// The holder's value precedes those of the record's own keys.
    package var prefersHolder: Bool { keyPaths.first.flatMap(HolderValue.init) != nil }

    /// The key paths in the record itself, most preferred first.
    package var recordPaths: [[String]] { keyPaths.filter { HolderValue($0) == nil } }
}
