/// Swift structs for the entities of a model: `Codable` values in the form of the model's records, for the client libraries.
///
/// A to-one relationship is the key of its object, a to-many one the keys of its objects; both are optional, because a record need
/// not have them, and a fetch gives to-many ones only where `include` names them.
package struct SwiftSource {
    private let model: Model
    private let access: String
    private var lines: [String] = []
    /// Those that the types of attributes are from.
    private var modules: Set<String> = []
    private var needsPaths = false

    /// - Parameter isPublic: the declarations are `public`; else they have no access level.
    package init(_ model: Model, isPublic: Bool) {
        self.model = model
        access = isPublic ? "public " : ""
        for entity in model.entities { write(entity) }
    }

    package var text: String {
        var head = [
            "// Made by `broker model swift` from a model. When the model changes, make the file again instead of editing it.",
            "// swift-format-ignore-file",
        ]
        head += modules.sorted().map { "import \($0)" }
        return (head + [""] + lines.dropLast() + (needsPaths ? [""] + Self.pathKey : [])).joined(separator: "\n")
    }

    // MARK: - One entity

    private struct Member {
        let name: String
        let type: String
        let isOptional: Bool
        let path: [String]
        let comment: String?

        var declaredType: String { type + (isOptional ? "?" : "") }
    }

    private mutating func write(_ entity: Entity) {
        let members =
            entity.attributeIndices.map { member(entity, $0) }
            + entity.relationshipIndices.map { member(of: entity.relationships[$0]) }
        let name = SwiftName.type(entity.name)
        lines.append("/// An object of the entity `\(entity.name)`.")
        lines.append("\(access)struct \(name): Codable, Hashable, Sendable {")
        lines.append("    \(access)static let entity = \(SwiftName.literal(entity.name))")
        lines.append("")
        for member in members {
            if let comment = member.comment { lines.append("    /// \(comment)") }
            lines.append("    \(access)var \(SwiftName.member(member.name)): \(member.declaredType)")
        }
        if entity.identity.count > 1, !entity.isNamedByRowKey { writeKey(entity) }
        writeInit(members)
        let hasPaths = members.contains { $0.path.count > 1 }
        if hasPaths { writeCoding(members) } else { writeKeys(members) }
        lines += ["}", ""]
        needsPaths = needsPaths || hasPaths
    }

    private mutating func writeInit(_ members: [Member]) {
        let parameters = members.map {
            "        \(SwiftName.member($0.name)): \($0.declaredType)" + ($0.isOptional ? " = nil" : "")
        }
        lines += ["", "    \(access)init("]
        lines += [parameters.joined(separator: ",\n")]
        lines += ["    ) {"]
        lines += members.map { "        self.\(SwiftName.member($0.name)) = \(SwiftName.member($0.name))" }
        lines.append("    }")
    }

    private mutating func writeKeys(_ members: [Member]) {
        guard members.contains(where: { $0.path != [$0.name] }) else { return }
        lines += ["", "    private enum CodingKeys: String, CodingKey {"]
        lines += members.map { member in
            let name = SwiftName.member(member.name)
            return "        case \(name)"
                + (member.path == [member.name] ? "" : " = \(SwiftName.literal(member.path[0]))")
        }
        lines.append("    }")
    }

    /// For records with values in nested objects.
    private mutating func writeCoding(_ members: [Member]) {
        lines += ["", "    \(access)init(from decoder: any Decoder) throws {"]
        lines.append("        let record = try RecordPath.Reader(decoder)")
        lines += members.map {
            "        \(SwiftName.member($0.name)) = try record.\($0.isOptional ? "valueIfPresent" : "value")(at: \(Self.literal($0.path)))"
        }
        lines += ["    }", "", "    \(access)func encode(to encoder: any Encoder) throws {"]
        lines.append("        var record = encoder.container(keyedBy: RecordPath.Key.self)")
        lines += members.map {
            "        try RecordPath.write(\(SwiftName.member($0.name)), at: \(Self.literal($0.path))[...], into: &record)"
        }
        lines.append("    }")
    }

    private mutating func writeKey(_ entity: Entity) {
        lines += [
            "", "    /// The key of an object: its identity.", "    \(access)struct Key: Codable, Hashable, Sendable {",
        ]
        for index in entity.identity {
            let attribute = entity.attributes[index]
            lines.append("        \(access)var \(SwiftName.member(attribute.name)): \(type(of: attribute))")
        }
        let parameters = entity.identity.map {
            "\(SwiftName.member(entity.attributes[$0].name)): \(type(of: entity.attributes[$0]))"
        }
        lines += ["", "        \(access)init(\(parameters.joined(separator: ", "))) {"]
        lines += entity.identity.map {
            let name = SwiftName.member(entity.attributes[$0].name)
            return "            self.\(name) = \(name)"
        }
        lines += ["        }", "    }"]
    }

    // MARK: - Members

    private mutating func member(_ entity: Entity, _ index: Int) -> Member {
        let attribute = entity.attributes[index]
        let isKey = entity.identity.contains(index) && !entity.isIdentityOptional
        // Where only the record around brings the value, the record itself does not have it.
        let isInRecord = attribute.holderValue == nil || !attribute.recordPaths.isEmpty
        return Member(
            name: attribute.name, type: type(of: attribute), isOptional: !isInRecord || attribute.isOptional && !isKey,
            path: attribute.recordPaths.first ?? [attribute.name], comment: nil)
    }

    private mutating func member(of relationship: Relationship) -> Member {
        let destination = model.entities[relationship.destination]
        let type = relationship.isOwned ? SwiftName.type(destination.name) : keyType(of: destination)
        let what =
            switch (relationship.isOwned, relationship.isToMany) {
            case (true, true): "The owned objects"
            case (true, false): "The owned object"
            case (false, true): "The keys of objects"
            case (false, false): "The key of an object"
            }
        return Member(
            name: relationship.name, type: relationship.isToMany ? "[\(type)]" : type, isOptional: true,
            path: relationship.keyPaths.first ?? [relationship.name],
            comment: "\(what) of the entity `\(destination.name)`.")
    }

    private mutating func keyType(of entity: Entity) -> String {
        if entity.isNamedByRowKey { return "Int64" }
        if let single = entity.singleIdentity { return type(of: single) }
        return "\(SwiftName.type(entity.name)).Key"
    }

    private mutating func type(of attribute: Attribute) -> String {
        let (name, module) = attribute.type.traits.swift
        if let module { modules.insert(module) }
        return name
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

/// Names of a model as Swift writes them.
enum SwiftName {
    private static let keywords = words(
        """
        as associatedtype break case catch class continue default defer deinit do else enum extension \
        fallthrough false fileprivate for func guard if import in init inout internal is let nil operator \
        package precedencegroup private protocol public repeat rethrows return self Self static struct \
        subscript super switch throw throws true try typealias var where while
        """)

    /// Names that a struct cannot have without a conflict with what the file uses.
    private static let taken = words(
        """
        Array Bool CodingKey Data Date Decimal Decoder Double Encoder Float Int16 Int32 Int64 Optional Protocol \
        RawJSON RecordPath Self Set String Type URL UUID
        """)

    private static func words(_ list: String) -> Set<String> { Set(list.split(separator: " ").map(String.init)) }

    static func type(_ name: String) -> String {
        var type = identifier(name)
        if taken.contains(type) || keywords.contains(type) { type += "Record" }
        return type
    }

    /// As a declaration or a parameter has it.
    static func member(_ name: String) -> String {
        let name = identifier(name)
        return keywords.contains(name) ? "`\(name)`" : name
    }

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

    static func literal(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": literal += "\\" + String(scalar)
            case "\n": literal += "\\n"
            case "\r": literal += "\\r"
            default:
                if scalar.value < 0x20 {
                    literal += "\\u{" + String(scalar.value, radix: 16) + "}"
                } else {
                    literal.unicodeScalars.append(scalar)
                }
            }
        }
        return literal + "\""
    }
}
