internal import BrokerJSON

/// Swift structs for the entities of a model: `BrokerRecord`s in the form of the model's records, for the client libraries.
///
/// A to-one relationship is the key of its object, a to-many one the keys of its objects; both are optional, because a record need
/// not have them, and a fetch gives to-many ones only where `include` names them. Owned objects, and those of the included
/// relationships, are structs.
package struct SwiftSource {
    package struct Fault: Error {
        package let message: String
    }

    private let model: Model
    private let access: String
    /// By entity, the name of its struct.
    private let names: [String]
    /// By entity, the enumerations for the attributes that allow a few values.
    private let enumerations: [[Int: Enumeration]]
    /// By entity, the relationships that a fetch includes.
    private var included: [Int: Set<Int>] = [:]
    /// By entity, the text of its struct.
    private var structs: [Int: [String]] = [:]
    private var waiting: [Int] = []
    /// Those that the types of attributes are from.
    private var modules: Set<String> = ["Broker"]
    private var needsPaths = false

    /// - Parameters:
    ///   - entities: the names of those that get a struct, with others that these structs need; empty for all.
    ///   - includes: paths such as `Order.lines.product`: the relationships whose values are objects instead of keys.
    ///   - isPublic: the declarations are `public`; else they have no access level.
    package init(
        _ model: Model, entities: [String] = [], includes: [String] = [], isPublic: Bool
    ) throws(Fault) {
        self.model = model
        access = isPublic ? "public " : ""
        var taken = SwiftName.types
        let names = model.entities.map { SwiftName.type($0.name, "Record", among: &taken) }
        self.names = names
        enumerations = model.entities.map { entity in
            var taken = SwiftName.types.union(names).union(Self.memberNames(of: entity)).union(["CodingKeys", "Key"])
            return entity.attributeIndices.reduce(into: [:]) { found, index in
                guard let values = Self.allowedValues(of: entity.attributes[index]) else { return }
                let name = SwiftName.type(entity.attributes[index].name, "Value", among: &taken)
                found[index] = Enumeration(name: name, values: values)
            }
        }
        for path in includes { try include(path) }
        waiting = entities.isEmpty ? Array(model.entities.indices) : []
        for name in entities { waiting.append(try index(ofEntity: name)) }
        while let next = waiting.popLast() {
            if structs[next] == nil { structs[next] = lines(of: next) }
        }
        if let index = structs.keys.sorted().first(where: containsItself) {
            throw Fault(
                message:
                    "A \(names[index]) would contain a \(names[index]), over to-one relationships that are included. Leave "
                    + "one of them out.")
        }
    }

    package var text: String {
        var head = [
            "// Made by `broker model swift` from a model. When the model changes, make the file again instead of editing it.",
            "// swift-format-ignore-file",
        ]
        head += modules.sorted().map { "\(access)import \($0)" }
        let lines = structs.sorted { $0.key < $1.key }.flatMap { [""] + $0.value }
        return (head + lines + (needsPaths ? [""] + Self.pathKey : [])).joined(separator: "\n")
    }

    // MARK: - Names that are given

    private func index(ofEntity name: String) throws(Fault) -> Int {
        if let index = model.index(ofEntity: name) { return index }
        let near = NearMiss.ending(name, among: model.entities.map(\.name))
        throw Fault(message: "The model has no entity \(name.quotedBriefly)\(near)")
    }

    private mutating func include(_ path: String) throws(Fault) {
        let parts = path.split(separator: ".").map(String.init)
        guard let first = parts.first, parts.count > 1 else {
            throw Fault(
                message:
                    "\(path.quotedBriefly) is no path of relationships: it begins with an entity, as in Order.lines.")
        }
        var entity = try index(ofEntity: first)
        for name in parts.dropFirst() {
            guard let index = model.entities[entity].index(ofRelationship: name) else {
                let near = NearMiss.ending(name, among: model.entities[entity].relationshipNames)
                throw Fault(
                    message: "\(model.entities[entity].name) has no relationship \(name.quotedBriefly)\(near)")
            }
            for other in model.entities.indices where other == entity || model.isKind(other, of: entity) {
                included[other, default: []].insert(index)
            }
            entity = model.entities[entity].relationships[index].destination
        }
    }

    private func hasObjects(_ entity: Int, _ relationship: Int) -> Bool {
        model.entities[entity].relationships[relationship].isOwned || included[entity]?.contains(relationship) ?? false
    }

    /// An array may lead back to the struct that holds it, and an optional may not.
    private func containsItself(_ entity: Int) -> Bool {
        var found: Set<Int> = []
        var next = [entity]
        while let entity = next.popLast() {
            for index in model.entities[entity].relationshipIndices where hasObjects(entity, index) {
                let relationship = model.entities[entity].relationships[index]
                if !relationship.isToMany, found.insert(relationship.destination).inserted {
                    next.append(relationship.destination)
                }
            }
        }
        return found.contains(entity)
    }

    // MARK: - One entity

    private struct Enumeration {
        let name: String
        let values: [String]
    }

    private struct Member {
        /// As a declaration has it.
        let name: String
        let type: String
        let isOptional: Bool
        let path: [String]
        let comments: [String]

        var declaredType: String { type + (isOptional ? "?" : "") }
        var isAtItsName: Bool { path == [name.filter { $0 != "`" }] }
    }

    private mutating func lines(of index: Int) -> [String] {
        let entity = model.entities[index]
        let memberNames = Self.memberNames(of: entity)
        let names = memberNames.dropFirst(entity.attributeIndices.count)
        let members =
            zip(entity.attributeIndices, memberNames).map { member($1, index, attribute: $0) }
            + zip(entity.relationshipIndices, names).map { member($1, index, relationship: $0) }
        var lines = Self.comment(entity.description ?? "An object of the entity `\(entity.name)`.")
        lines.append("\(access)struct \(self.names[index]): Codable, Hashable, BrokerRecord {")
        lines.append("    \(access)static let entity = \(SwiftName.literal(entity.name))")
        lines += body(of: members)
        for position in entity.attributeIndices { lines += enumeration(index, position) }
        if entity.identity.count > 1 {
            let parts = entity.identity.map { position in
                let place = entity.attributeIndices.firstIndex(of: position)!
                let part = members[place]
                return Member(name: part.name, type: part.type, isOptional: false, path: part.path, comments: [])
            }
            lines += ["", "    /// The key of an object, as a relationship has it: its identity."]
            lines.append("    \(access)struct Key: Codable, Hashable, Sendable {")
            lines += body(of: parts).dropFirst().map { $0.isEmpty ? "" : "    " + $0 } + ["    }"]
        }
        return lines + ["}"]
    }

    private mutating func body(of members: [Member]) -> [String] {
        var lines = [""]
        for member in members {
            lines += member.comments.flatMap(Self.comment).map { "    " + $0 }
            lines.append("    \(access)var \(member.name): \(member.declaredType)")
        }
        lines += ["", "    \(access)init("]
        for (index, member) in members.enumerated() {
            let ending = (member.isOptional ? " = nil" : "") + (index + 1 < members.count ? "," : "")
            lines.append("        \(member.name): \(member.declaredType)\(ending)")
        }
        lines.append("    ) {")
        lines += members.map { "        self.\($0.name) = \($0.name)" } + ["    }"]
        if members.contains(where: { $0.path.count > 1 }) {
            needsPaths = true
            return lines + coding(members)
        }
        guard members.contains(where: { !$0.isAtItsName }) else { return lines }
        lines += ["", "    private enum CodingKeys: String, CodingKey {"]
        lines += members.map {
            "        case \($0.name)" + ($0.isAtItsName ? "" : " = \(SwiftName.literal($0.path[0]))")
        }
        return lines + ["    }"]
    }

    /// For records with values in nested objects.
    private func coding(_ members: [Member]) -> [String] {
        var lines = ["", "    \(access)init(from decoder: any Decoder) throws {"]
        lines.append("        let record = try RecordPath.Reader(decoder)")
        lines += members.map {
            "        self.\($0.name) = try record.\($0.isOptional ? "valueIfPresent" : "value")(at: \(Self.literal($0.path)))"
        }
        lines += ["    }", "", "    \(access)func encode(to encoder: any Encoder) throws {"]
        lines.append("        var record = encoder.container(keyedBy: RecordPath.Key.self)")
        lines += members.map {
            "        try RecordPath.write(self.\($0.name), at: \(Self.literal($0.path))[...], into: &record)"
        }
        return lines + ["    }"]
    }

    private func enumeration(_ entity: Int, _ position: Int) -> [String] {
        guard let enumeration = enumerations[entity][position] else { return [] }
        let attribute = model.entities[entity].attributes[position]
        let isText = attribute.type == .string
        var lines = ["", "    /// The values that `\(attribute.name)` may have."]
        let type = attribute.type.traits.swift.name
        lines.append("    \(access)enum \(enumeration.name): \(type), Codable, Hashable, Sendable {")
        var taken = SwiftName.cases
        lines += enumeration.values.map {
            "        case \(SwiftName.enumCase($0, among: &taken)) = \(isText ? SwiftName.literal($0) : $0)"
        }
        return lines + ["    }"]
    }

    private static func comment(_ text: String) -> [String] {
        text.split(whereSeparator: \.isNewline).map { "/// \($0)" }
    }

    // MARK: - Members

    /// Of its attributes, then of its relationships.
    private static func memberNames(of entity: Entity) -> [String] {
        var taken = SwiftName.members
        return (entity.attributeNames + entity.relationshipNames).map { SwiftName.member($0, among: &taken) }
    }

    private mutating func member(_ name: String, _ entityIndex: Int, attribute index: Int) -> Member {
        let entity = model.entities[entityIndex]
        let attribute = entity.attributes[index]
        let isKey = entity.identity.contains(index) && !entity.isIdentityOptional
        // Where only the record around brings the value, the record itself does not have it.
        let isInRecord = attribute.holderValue == nil || !attribute.recordPaths.isEmpty
        var comments = attribute.description.map { [$0] } ?? []
        if attribute.type == .calendarDate { comments.append("A day: `2011-12-22`.") }
        if attribute.isExtra { comments.append("Keys that the model does not name, and values that do not fit.") }
        return Member(
            name: name, type: type(of: index, entityIndex),
            isOptional: !isInRecord || attribute.isOptional && !isKey,
            path: attribute.recordPaths.first ?? [attribute.name], comments: comments)
    }

    private mutating func member(_ name: String, _ entity: Int, relationship index: Int) -> Member {
        let relationship = model.entities[entity].relationships[index]
        let destination = relationship.destination
        let hasObjects = hasObjects(entity, index)
        if hasObjects { waiting.append(destination) }
        let type = hasObjects ? names[destination] : keyType(of: destination)
        let owned = relationship.isOwned ? "owned " : ""
        let what =
            switch (hasObjects, relationship.isToMany) {
            case (true, true): "The \(owned)objects"
            case (true, false): "The \(owned)object"
            case (false, true): "The keys of objects"
            case (false, false): "The key of an object"
            }
        return Member(
            name: name, type: relationship.isToMany ? "[\(type)]" : type, isOptional: true,
            path: relationship.keyPaths.first ?? [relationship.name],
            comments: (relationship.description.map { [$0] } ?? []) + [
                "\(what) of the entity `\(model.entities[destination].name)`."
            ])
    }

    private mutating func keyType(of index: Int) -> String {
        let entity = model.entities[index]
        guard let first = entity.identity.first else { return "Int64" }
        let enumeration = enumerations[index][first]
        if entity.identity.count == 1, enumeration == nil { return type(of: first, index) }
        waiting.append(index)
        return "\(names[index]).\(entity.identity.count == 1 ? enumeration!.name : "Key")"
    }

    private mutating func type(of index: Int, _ entity: Int) -> String {
        if let enumeration = enumerations[entity][index] { return enumeration.name }
        let (name, module) = model.entities[entity].attributes[index].type.traits.swift
        if let module { modules.insert(module) }
        return name
    }

    /// The values of an attribute that allows a few texts or whole numbers, each once; nil for any other.
    private static func allowedValues(of attribute: Attribute) -> [String]? {
        let fragments = attribute.constraints.allowed
        guard attribute.type == .string || attribute.type.isInteger, attribute.transforms.isEmpty, !fragments.isEmpty
        else {
            return nil
        }
        var values: [String] = []
        for fragment in fragments {
            guard let document = try? JSONDocument(parsing: JSONText(copying: Array(fragment.text.utf8))) else {
                return nil
            }
            let text = document.root.string ?? fragment.text
            guard let value = attribute.type == .string ? text : Int64(text).map(String.init) else { return nil }
            if !values.contains(where: value.hasSameBytes) { values.append(value) }
        }
        return values
    }

    private static func literal(_ path: [String]) -> String {
        "[\(path.map(SwiftName.literal).joined(separator: ", "))]"
    }

    private static let pathKey = [
        """
        /// Values in nested objects of a record, by the keys that lead to them.
        private enum RecordPath {
            struct Key: CodingKey {
                let stringValue: String
                var intValue: Int? { nil }

                init(stringValue: String) { self.stringValue = stringValue }
                init?(intValue: Int) { nil }
            }

            struct Reader {
                private let record: KeyedDecodingContainer<Key>

                init(_ decoder: any Decoder) throws { record = try decoder.container(keyedBy: Key.self) }

                func value<Value: Decodable>(at path: [String]) throws -> Value {
                    let container = try self.container(at: path) ?? record
                    return try container.decode(Value.self, forKey: Key(stringValue: path[path.count - 1]))
                }

                func valueIfPresent<Value: Decodable>(at path: [String]) throws -> Value? {
                    try container(at: path)?.decodeIfPresent(Value.self, forKey: Key(stringValue: path[path.count - 1]))
                }

                /// The object that holds the value; nil when the record lacks it.
                private func container(at path: [String]) throws -> KeyedDecodingContainer<Key>? {
                    var container = record
                    for name in path.dropLast() {
                        let key = Key(stringValue: name)
                        guard try container.contains(key) && !container.decodeNil(forKey: key) else { return nil }
                        container = try container.nestedContainer(keyedBy: Key.self, forKey: key)
                    }
                    return container
                }
            }

            /// Writes nothing for nil. Paths that begin with the same key share its object.
            static func write<Value: Encodable>(
                _ value: Value?, at path: ArraySlice<String>, into container: inout KeyedEncodingContainer<Key>
            ) throws {
                guard let value, let first = path.first else { return }
                let key = Key(stringValue: first)
                guard path.count > 1 else { return try container.encode(value, forKey: key) }
                var nested = container.nestedContainer(keyedBy: Key.self, forKey: key)
                try write(value, at: path.dropFirst(), into: &nested)
            }
        }
        """
    ]
}

/// Names of a model as Swift writes them. Each function takes care that no two are the same.
enum SwiftName {
    private static let keywords = words(
        """
        Any as associatedtype break case catch class continue default defer deinit do else enum extension \
        fallthrough false fileprivate for func guard if import in inout internal is let nil operator \
        package precedencegroup private protocol public repeat rethrows return static struct \
        subscript super switch throw throws true try typealias var where while
        """)

    /// Names that a struct cannot have without a conflict with what the file uses.
    static let types = keywords.union(
        words(
            """
            Array Bool BrokerRecord Codable CodingKey Data Date Decimal Decoder Double Encoder Float Hashable Int16 Int32 Int64 \
            Optional Protocol RawJSON RecordPath Self Sendable Set String Type URL UUID init self
            """))

    static let members = words("CodingKeys Key Protocol Self Type _ hashValue init self")

    /// `none` and `some` would be taken for those of an optional.
    static let cases = words("_ hashValue init none rawValue self some")

    private static func words(_ list: String) -> Set<String> { Set(list.split(separator: " ").map(String.init)) }

    private static func unique(_ name: String, _ suffix: String, among taken: inout Set<String>) -> String {
        var name = name
        while !taken.insert(name).inserted { name += suffix }
        return name
    }

    static func type(_ name: String, _ suffix: String, among taken: inout Set<String>) -> String {
        let name = identifier(name)
        return unique(name.prefix(1).uppercased() + name.dropFirst(), suffix, among: &taken)
    }

    /// As a declaration or a parameter has it.
    static func member(_ name: String, among taken: inout Set<String>) -> String {
        escaped(unique(identifier(name), "_", among: &taken))
    }

    /// `inProgress` for `in-progress`, `new` for `NEW`, `minus1` for `-1`.
    static func enumCase(_ value: String, among taken: inout Set<String>) -> String {
        let isNegative = Int64(value).map { $0 < 0 } ?? false
        let words = value.split { !$0.isLetter && !$0.isNumber }
        var name = words.dropFirst().reduce(words.first.map(lowercasedFirst) ?? "") {
            $0 + $1.prefix(1).uppercased() + $1.dropFirst()
        }
        if isNegative { name = "minus" + name }
        if name.isEmpty { name = value.isEmpty ? "empty" : "other" }
        return escaped(unique(identifier(name), "_", among: &taken))
    }

    /// The capitals that it begins with are small, up to the one that begins the next word: `httpError` for `HTTPError`.
    private static func lowercasedFirst(_ word: Substring) -> String {
        let capitals = word.prefix { $0.isUppercase }.count
        let count = capitals > 1 && word.dropFirst(capitals).first?.isLowercase ?? false ? capitals - 1 : capitals
        return word.prefix(count).lowercased() + word.dropFirst(count)
    }

    private static func escaped(_ name: String) -> String { keywords.contains(name) ? "`\(name)`" : name }

    /// Letters, digits and underscores; names of models have no others but those of Unicode.
    private static func identifier(_ name: String) -> String {
        var text = ""
        for scalar in name.unicodeScalars {
            let isAllowed = scalar == "_" || scalar.properties.isXIDContinue
            text.unicodeScalars.append(isAllowed ? scalar : "_")
        }
        guard let first = text.unicodeScalars.first, first == "_" || first.properties.isXIDStart else {
            return "_" + text
        }
        return text
    }

    static func literal(_ text: String) -> String { text.debugDescription }
}
