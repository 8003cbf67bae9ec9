internal import BrokerModel

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
