internal import BrokerModel

/// The positions of values in JSON, from the user info of other libraries.
struct KeyRules {
    /// Sync's default names apply when the model has any key of Sync's: most attributes of such a model need none.
    let usesSync: Bool
    /// In a hierarchy where any attribute or relationship has Groot's key path, only those that have one are mapped.
    let usesGroot: Bool

    /// The key paths of an attribute in order of preference, below all of `prefixes`; nil for what follows from its name,
    /// none for one that no record brings.
    func keys(_ attribute: AttributeSource, ofEntity entity: String) -> [String]? {
        let isPart = attribute.prefixes != nil
        let name = isPart ? attribute.element["name"] ?? attribute.name : attribute.name
        let given = given(attribute.userInfo, name: name, hasGrootSilence: usesGroot && !isPart, on: attribute.report)
        let own = given ?? (usesSync ? syncKeys(ofAttribute: name, entity: entity, attribute.report) : nil)
        guard let prefixes = attribute.prefixes else { return own }
        return prefixes.flatMap { prefix in (own ?? [name]).map { "\(prefix).\($0)" } }
    }

    func keys(ofRelationship name: String, isToMany: Bool, _ userInfo: UserInfo, _ report: ElementReport) -> [String]? {
        if let given = given(userInfo, name: name, hasGrootSilence: usesGroot, on: report) { return given }
        guard usesSync else { return nil }
        let snake = KeyStyle.snakeCase.key(forName: name)
        let keys = Self.unique([snake, name, snake + (isToMany ? "_ids" : "_id")])
        report.inferred("Sync's keys: \(keys.joined(separator: ", "))")
        return keys
    }

    /// The user info's rule; for Groot, a missing one counts where Groot is in use.
    private func given(
        _ userInfo: UserInfo, name: String, hasGrootSilence: Bool, on report: ElementReport
    ) -> [String]? {
        if userInfo.flag("excludeFromImport") {
            report.taken("userInfo excludeFromImport: no record brings it")
            return []
        }
        var found: (key: String, paths: [String])?
        for (key, paths) in candidates(userInfo, name: name) where !paths.isEmpty {
            if let found {
                guard found.paths != paths else { continue }
                report.passedOver("userInfo \(key): \(found.key) goes before it")
            } else {
                found = (key, paths)
                report.taken("userInfo \(key): \(paths.joined(separator: ", "))")
            }
        }
        if let found { return found.paths }
        guard hasGrootSilence else { return nil }
        report.inferred("no JSONKeyPath where others have one: as in Groot, no record brings it")
        return []
    }

    private func candidates(_ userInfo: UserInfo, name: String) -> [(String, [String])] {
        let fallbacks = (0...9).compactMap { userInfo["mappedKeyName.\($0)"] }
        var mapped = userInfo["mappedKeyName"].map { [$0] } ?? []
        if !fallbacks.isEmpty { mapped = (mapped.isEmpty ? [name] : mapped) + fallbacks }
        func single(_ key: String) -> (String, [String]) { (key, userInfo[key].map { [$0] } ?? []) }
        return [
            single("JSONKeyPath"), ("mappedKeyName", Self.unique(mapped)), single("sync.remoteKey"),
            single("hyper.remoteKey"),
        ]
    }

    /// Sync's rules: snake case, the name itself, `remoteID` from `id`, and `userType` from `type`, because Core Data
    /// does not let an attribute be named so.
    private func syncKeys(ofAttribute name: String, entity: String, _ report: ElementReport) -> [String] {
        guard name != "remoteID" else {
            report.inferred("Sync's key of remoteID: id")
            return ["id"]
        }
        var keys = [KeyStyle.snakeCase.key(forName: name), name]
        let prefix = entity.loweringFirst
        for reserved in ["type", "description", "signed"] {
            let prefixed = prefix + reserved.prefix(1).uppercased() + reserved.dropFirst()
            if name == prefixed { keys.insert(reserved, at: 0) }
        }
        keys = Self.unique(keys)
        if keys != [name] { report.inferred("Sync's keys: \(keys.joined(separator: ", "))") }
        return keys
    }

    private static func unique(_ keys: [String]) -> [String] {
        keys.enumerated().filter { index, key in !keys[..<index].contains { $0.hasSameBytes(as: key) } }
            .map(\.element)
    }
}

extension String {
    /// The name `Article` in `articleID`.
    var loweringFirst: String { prefix(1).lowercased() + dropFirst() }
}
