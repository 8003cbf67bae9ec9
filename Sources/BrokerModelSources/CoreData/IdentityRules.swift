internal import BrokerJSON
internal import BrokerModel

/// Decides what identifies the objects of the entities, in the contract's order: user info, a uniqueness constraint, a
/// name that is usual.
///
/// In a hierarchy the topmost entity that has an identity has it for all below, and so none is looked for there.
extension ModelConversion {
    mutating func chooseIdentities() {
        // The rules by which relationships to an entity find its objects.
        var relatedBy: [Int: [(attribute: String, report: ElementReport)]] = [:]
        for relationship in entities.flatMap(\.relationships) {
            guard let attribute = relationship.userInfo["relatedByAttribute"],
                let destination = relationship.element["destinationEntity"].flatMap(index)
            else { continue }
            relatedBy[destination, default: []].append((attribute, relationship.report))
        }
        let byDepth = entities.indices.sorted {
            (entities[$0].ancestors.count, $0) < (entities[$1].ancestors.count, $1)
        }
        for index in byDepth { chooseIdentity(of: index, relatedBy: relatedBy[index] ?? []) }
    }

    private mutating func chooseIdentity(
        of index: Int, relatedBy: [(attribute: String, report: ElementReport)]
    ) {
        let entity = entities[index]
        let owner = entity.ancestors.last { !entities[$0].identity.isEmpty }
        // Asked for what they say even where an ancestor has the identity, for the notes.
        let said =
            fromUserInfo(entity, isCounted: owner == nil)
            ?? fromRelationships(entity, relatedBy, isCounted: owner == nil)
        if let owner {
            entity.report.inferred("the identity is that of \(entities[owner].name), whose subentity this is")
        } else if let said {
            entities[index].identity = said
        } else if let constraint = constraint(of: entity) {
            entities[index].identity = constraint.names
            entities[index].identityConstraint = constraint.index
            let names = constraint.names.joined(separator: ", ")
            entity.report.inferred("the identity is \(names): a uniqueness constraint")
        } else if let name = usualName(entity) {
            entities[index].identity = [name]
            entity.report.inferred("the identity is \(name): the usual name")
        } else {
            entity.report.inferred(
                "no identity: every record is a new object; an override may give \"identity\"")
        }
    }

    private func fromUserInfo(_ entity: EntitySource, isCounted: Bool) -> [String]? {
        var result: (key: String, names: [String])?
        let keys = [
            "identityAttributes", "identityAttribute", "relatedByAttribute", "sync.isPrimaryKey", "hyper.isPrimaryKey",
            "RKEntityIdentificationAttributes",
        ]
        for key in keys {
            let names = names(at: key, of: entity)
            guard !names.isEmpty else { continue }
            let said = "userInfo \(key): \(names.joined(separator: ", "))"
            if let missing = names.first(where: { attribute($0, of: entity) == nil }) {
                let all = entity.attributes.map(\.name)
                entity.report.passedOver(
                    "\(said): there is no attribute \(missing) to find objects by"
                        + NearMiss.question(missing, among: all))
            } else if !isCounted {
                entity.report.passedOver("\(said): a hierarchy has one identity, its topmost entity's")
            } else if let result {
                if result.names != names { entity.report.passedOver("\(said): \(result.key) goes before it") }
            } else {
                result = (key, names)
                entity.report.taken("the identity is \(names.joined(separator: ", ")): userInfo \(key)")
            }
        }
        return result?.names
    }

    private func names(at key: String, of entity: EntitySource) -> [String] {
        guard key.hasSuffix(".isPrimaryKey") else {
            var seen: Set<String> = []
            return entity.userInfo.list(key).filter { seen.insert($0).inserted }
        }
        let marked = entity.attributes.filter { $0.userInfo.flag(key) }
        for other in marked.dropFirst() {
            other.report.passedOver("userInfo \(key): \(marked[0].name) has it already, and Sync knows one")
        }
        return marked.first.map { [$0.name] } ?? []
    }

    /// MagicalRecord lets a relationship say by which attribute the objects that it leads to are found.
    private func fromRelationships(
        _ entity: EntitySource, _ rules: [(attribute: String, report: ElementReport)], isCounted: Bool
    ) -> [String]? {
        var result: [String]?
        for (name, report) in rules {
            guard attribute(name, of: entity) != nil else {
                report.passedOver("userInfo relatedByAttribute: \(entity.name) has no attribute \(name)")
                continue
            }
            guard isCounted, result == nil || result == [name] else {
                report.passedOver("userInfo relatedByAttribute: the identity of \(entity.name) is given elsewhere")
                continue
            }
            if result == nil {
                entity.report.taken(
                    "the identity is \(name): userInfo relatedByAttribute of a relationship that leads here")
            }
            result = [name]
        }
        return result
    }

    /// The first uniqueness constraint over attributes alone.
    private func constraint(of entity: EntitySource) -> (index: Int, names: [String])? {
        entity.uniquenessConstraints.enumerated().first { _, names in
            !names.isEmpty
                && names.allSatisfy { attribute($0, of: entity).map { $0.type != .transformable } ?? false }
        }.map { ($0.offset, $0.element) }
    }

    private func usualName(_ entity: EntitySource) -> String? {
        let name = entity.name.loweringFirst
        return ["remoteID", "\(name)ID", "\(name)Id", "id"].first {
            entity.attribute(named: $0).map { $0.type != .transformable } ?? false
        }
    }
}

/// The positions of values in JSON, from the user info of other libraries.
struct KeyRules {
    /// Sync's default names apply when the model has any key of Sync's: most attributes of such a model need none.
    let usesSync: Bool
    /// In a hierarchy where any attribute or relationship has Groot's key path, only those that have one are mapped.
    let usesGroot: Bool

    /// The key paths of an attribute in order of preference, below all of `prefixes`; nil for what follows from its name,
    /// none for one that no record brings.
    func keys(of attribute: AttributeSource, in entity: String) -> [String]? {
        let isPart = attribute.prefixes != nil
        let name = isPart ? attribute.element["name"] ?? attribute.name : attribute.name
        let given = given(attribute.userInfo, name: name, hasGrootSilence: usesGroot && !isPart, on: attribute.report)
        let own = given ?? (usesSync ? syncKeys(ofAttribute: name, entity: entity, attribute.report) : nil)
        guard let prefixes = attribute.prefixes else { return own }
        return prefixes.flatMap { prefix in (own ?? [name]).map { "\(prefix).\($0)" } }
    }

    func keys(of relationship: RelationshipSource) -> [String]? {
        let (name, report) = (relationship.name, relationship.report)
        let given = given(relationship.userInfo, name: name, hasGrootSilence: usesGroot, on: report)
        guard given == nil, usesSync else { return given }
        let snake = KeyStyle.snakeCase.key(forName: name)
        let keys = Self.unique([snake, name, snake + (relationship.isToMany ? "_ids" : "_id")])
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
        for (key, paths) in Self.keyPaths(userInfo, name: name) where !paths.isEmpty {
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

    private static func keyPaths(_ userInfo: UserInfo, name: String) -> [(String, [String])] {
        let fallbacks = (0...9).compactMap { userInfo["mappedKeyName.\($0)"] }
        var mapped = userInfo["mappedKeyName"].map { [$0] } ?? []
        if !fallbacks.isEmpty { mapped = (mapped.isEmpty ? [name] : mapped) + fallbacks }
        func single(_ key: String) -> (String, [String]) { (key, userInfo[key].map { [$0] } ?? []) }
        return [
            single("JSONKeyPath"), ("mappedKeyName", unique(mapped)), single("sync.remoteKey"),
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
