internal import BrokerModel

/// An attribute that the model is to have: one of an entity's, or a part of a composite one.
struct AttributeSource {
    let name: String
    let type: AttributeType
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport
    /// The key paths of the enclosing composite; nil for an attribute of the entity itself.
    let prefixes: [String]?
    let isOptional: Bool
}

/// Finds the attributes of entities: flattens composites, and skips properties without a column.
struct AttributeReading {
    /// The composites of the model by name.
    private let composites: [String: SourceElement]
    /// Parts of composites that may still be read, in all attributes: a few composites of composites may have any number. Long
    /// keys count as several. Negative once that was reported.
    private var partsLeft = ModelLimits.mostPropertiesInAll
    /// Bytes of keys that count as a part.
    private static let keyBytesPerPart = 64

    init(model: SourceElement) {
        let elements = model.children.filter { $0.name == "composite" || $0.name == "compositeAttribute" }
        composites = Dictionary(
            elements.compactMap { element in element["name"].map { ($0, element) } },
            uniquingKeysWith: { first, _ in first })
    }

    /// - Parameter keys: the key paths that a composite's own user info gives it.
    mutating func attributes(
        of element: SourceElement, in entity: ElementReport, keys: (AttributeSource) -> [String]
    ) -> [AttributeSource] {
        var found: [AttributeSource] = []
        for attribute in element.children(named: "attribute") {
            guard let name = attribute["name"], !name.isEmpty else {
                entity.part(at: attribute.place).fault("an attribute needs a name; give it one in Xcode")
                continue
            }
            found += read(attribute, name: name, within: Around(entity: entity), keys: keys)
        }
        return found
    }

    /// The enclosing part of an attribute.
    private struct Around {
        let entity: ElementReport
        var prefixes: [String]?
        var isOptional = false
        /// The composites by name, outermost first.
        var composites: [String] = []
    }

    private mutating func read(
        _ element: SourceElement, name: String, within around: Around, keys: (AttributeSource) -> [String]
    ) -> [AttributeSource] {
        let report = around.entity.part("attributes", name, at: element.place)
        if element.flag("transient") == true {
            report.leftOut("the attribute is transient: Core Data does not store it either")
            return []
        }
        if element.flag("derived") == true || element["derivationExpression"] != nil {
            let expression = element["derivationExpression"].map { " (\($0))" } ?? ""
            report.leftOut("the attribute is derived\(expression): its value follows from others")
            return []
        }
        let isOptional = around.isOptional || element.flag("optional") == true
        let written = element["attributeType"] ?? "Undefined"
        func source(_ type: AttributeType) -> AttributeSource {
            AttributeSource(
                name: name, type: type, element: element, userInfo: UserInfo(of: element), report: report,
                prefixes: around.prefixes, isOptional: isOptional)
        }
        switch Self.folded(written) {
        case "objectid":
            report.leftOut("values of type ObjectID are addresses within one Core Data store")
            return []
        case "composite":
            return flatten(source(.transformable), within: around, isOptional: isOptional, keys: keys)
        case "undefined":
            report.inferred("type Undefined: any JSON is stored, as transformable")
            return [source(.transformable)]
        case let folded:
            guard let type = Self.types[folded] else {
                let question = NearMiss.question(written, among: Self.spellings)
                report.fault(
                    "\"\(written)\" is no attribute type of Core Data's" + question
                        + (question.isEmpty ? "; one of \(Self.spellings.joined(separator: ", ")) is" : ""))
                return [source(.string)]
            }
            return [source(type)]
        }
    }

    /// `Integer 64`, `integer64`, `Integer64AttributeType`: versions of Xcode and tools of others differ.
    private static func folded(_ type: String) -> String {
        let folded = type.lowercased().filter { !$0.isWhitespace }
        return folded.hasSuffix("attributetype") ? String(folded.dropLast(13)) : folded
    }

    private static let spellings = [
        "Integer 16", "Integer 32", "Integer 64", "Decimal", "Double", "Float", "String", "Boolean", "Date", "Binary",
        "UUID", "URI", "Transformable", "Composite",
    ]

    private static let types: [String: AttributeType] = {
        var types = Dictionary(uniqueKeysWithValues: AttributeType.allCases.map { ($0.rawValue, $0) })
        types["binarydata"] = .binary
        return types
    }()
}

// MARK: - Composites

extension AttributeReading {
    private mutating func flatten(
        _ composite: AttributeSource, within around: Around, isOptional: Bool, keys: (AttributeSource) -> [String]
    ) -> [AttributeSource] {
        let report = composite.report
        guard let (definition, type) = definition(of: composite) else {
            report.leftOut(
                "the attribute is composite, and the model does not say of what; "
                    + "an override may give the attributes of its parts")
            return []
        }
        guard !around.composites.contains(type) else {
            report.fault(
                "the composite \"\(type)\" holds itself, by way of "
                    + (around.composites + [type]).joined(separator: " → ") + "; take one of them out")
            return []
        }
        guard around.composites.count < ElementTree.deepest else {
            report.fault("composites are nested more than \(ElementTree.deepest) deep; no Core Data model needs that")
            return []
        }
        var inner = around
        inner.composites.append(type)
        inner.isOptional = isOptional
        let prefixes = keys(composite)
        let prefixBytes = prefixes.reduce(0) { $0 + $1.utf8.count }
        inner.prefixes = prefixes
        var parts: [AttributeSource] = []
        for part in definition.children(named: "attribute") {
            guard partsLeft >= 0 else { return [] }
            partsLeft -= 1 + (prefixBytes + prefixes.count * UserInfo(of: part).byteCount) / Self.keyBytesPerPart
            guard partsLeft >= 0 else {
                report.fault(
                    "the composites of the model have more than \(ModelLimits.mostPropertiesInAll) parts, each counted as "
                        + "often as an attribute has it, and long keys several times; split the model")
                return []
            }
            guard let name = part["name"], !name.isEmpty else {
                report.fault("a part of the composite \"\(type)\" has no name; give it one in Xcode")
                continue
            }
            parts += read(part, name: "\(composite.name)_\(name)", within: inner, keys: keys)
        }
        let names = parts.map(\.name).joined(separator: ", ")
        report.taken("the attribute is composite; its parts are \(names.isEmpty ? "none" : names)")
        return parts
    }

    /// The element that lists the parts: the composite itself, or the one of the model that it names. Versions of the
    /// format name it by different attributes, so every one is looked at.
    private func definition(of composite: AttributeSource) -> (SourceElement, String)? {
        if !composite.element.children(named: "attribute").isEmpty { return (composite.element, composite.name) }
        let attributes = composite.element.attributes.filter { $0.key != "name" && $0.key != "attributeType" }
        let named = attributes.sorted { $0.key < $1.key }.compactMap { composites[$0.value] }.first
        let capitalized = composite.name.prefix(1).uppercased() + composite.name.dropFirst()
        guard let found = named ?? composites[capitalized] ?? composites[composite.name] else { return nil }
        return (found, found["name"] ?? composite.name)
    }
}

/// The user info of an entity, attribute or relationship, in which other libraries configure the mapping of JSON.
struct UserInfo {
    private var values: [String: String] = [:]
    /// In the order of the XML.
    private(set) var keys: [String] = []

    init(of element: SourceElement) {
        for entry in element.children(named: "userInfo").flatMap({ $0.children(named: "entry") }) {
            guard let key = entry["key"] else { continue }
            if values.updateValue(entry["value"] ?? "", forKey: key) == nil { keys.append(key) }
        }
    }

    /// Without white space around it; nil when it is absent or empty.
    subscript(key: String) -> String? {
        guard let value = values[key] else { return nil }
        let words = value.split(whereSeparator: \.isWhitespace)
        return words.isEmpty ? nil : words.joined(separator: " ")
    }

    var byteCount: Int { values.reduce(0) { $0 + $1.value.utf8.count } }

    func flag(_ key: String) -> Bool { self[key].flatMap(SourceElement.flag) ?? false }

    /// The names in a list between commas.
    func list(_ key: String) -> [String] {
        let parts = self[key]?.split(separator: ",") ?? []
        return parts.map { $0.split(separator: " ").joined(separator: " ") }.filter { !$0.isEmpty }
    }

    var isOfSync: Bool { keys.contains { $0.hasPrefix("sync.") || $0.hasPrefix("hyper.") } }
}

/// A key of user info that Broker knows and cannot follow, and why.
struct UnfollowedKey {
    let key: String
    let reason: String
}

/// The keys that mean something on one kind of part.
struct UserInfoVocabulary {
    let followed: [String]
    let unfollowed: [UnfollowedKey]

    /// Notes the keys that have no effect, so that a misspelt one does not pass in silence.
    func noteUnfollowed(_ userInfo: UserInfo, on report: ElementReport) {
        for key in userInfo.keys where !followed.contains(key) {
            if let known = unfollowed.first(where: { $0.key == key }) {
                report.leftOut("userInfo \(key): \(known.reason)")
            } else {
                report.passedOver(
                    "userInfo \(key): Broker does not know this key" + NearMiss.question(key, among: followed))
            }
        }
    }

    private static let mappedKeyNames = ["mappedKeyName"] + (0...9).map { "mappedKeyName.\($0)" }
    private static let remoteKeys = ["JSONKeyPath", "sync.remoteKey", "hyper.remoteKey"]
    private static let transformed = "Broker runs no application code; use a transform of the model, or the client"
    private static let exported = "it is about exporting; a fetch gives every attribute"

    static let entity = UserInfoVocabulary(
        followed: [
            "identityAttributes", "identityAttribute", "relatedByAttribute", "RKEntityIdentificationAttributes",
        ],
        unfollowed: [
            UnfollowedKey(
                key: "entityMapperName",
                reason:
                    "Broker runs no application code to choose an entity; a mapping with \"select\" in an override does"
            ),
            UnfollowedKey(key: "sync.nonExportable", reason: exported),
            UnfollowedKey(key: "hyper.nonExportable", reason: exported),
        ])

    static let attribute = UserInfoVocabulary(
        followed: mappedKeyNames + remoteKeys + AttributeConversion.dateFormatKeys + [
            "useDefaultValueWhenNotPresent", "excludeFromImport", "sync.isPrimaryKey",
            "hyper.isPrimaryKey",
        ],
        unfollowed: [
            UnfollowedKey(key: "JSONTransformerName", reason: transformed),
            UnfollowedKey(key: "sync.valueTransformer", reason: transformed),
            UnfollowedKey(key: "hyper.valueTransformer", reason: transformed),
            UnfollowedKey(key: "sync.nonExportable", reason: exported),
            UnfollowedKey(key: "hyper.nonExportable", reason: exported),
            UnfollowedKey(key: "attributeValueClassName", reason: "the attribute's type says what its values become"),
        ])

    static let relationship = UserInfoVocabulary(
        followed: mappedKeyNames + remoteKeys + ["relatedByAttribute", "excludeFromImport"],
        unfollowed: [
            UnfollowedKey(
                key: "primaryRelationship", reason: "objects are found by attributes; name them in \"identity\""),
            UnfollowedKey(key: "type", reason: "the destination entity says what becomes of its records"),
            UnfollowedKey(key: "sync.nonExportable", reason: exported),
            UnfollowedKey(key: "hyper.nonExportable", reason: exported),
        ])
}
