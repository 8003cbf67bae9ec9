internal import BrokerModel

/// Decides what identifies the objects of the entities, in the contract's order: user info, a uniqueness constraint, a
/// name that is usual.
///
/// In a hierarchy the topmost entity that has an identity has it for all below, and so none is looked for there.
struct IdentityRules {
    private var sources: EntitySources
    /// The rules by which relationships to an entity find its objects.
    private let relatedBy: [Int: [(attribute: String, report: ElementReport)]]

    private init(_ sources: EntitySources) {
        self.sources = sources
        var relatedBy: [Int: [(attribute: String, report: ElementReport)]] = [:]
        for relationship in sources.entities.flatMap(\.relationships) {
            guard let attribute = relationship.userInfo["relatedByAttribute"],
                let destination = relationship.element["destinationEntity"].flatMap(sources.index)
            else { continue }
            relatedBy[destination, default: []].append((attribute, relationship.report))
        }
        self.relatedBy = relatedBy
    }

    static func apply(to sources: inout EntitySources) {
        var rules = IdentityRules(sources)
        let byDepth = sources.entities.indices.sorted {
            (sources.entities[$0].ancestors.count, $0) < (sources.entities[$1].ancestors.count, $1)
        }
        for index in byDepth { rules.decide(index) }
        sources = rules.sources
    }

    private mutating func decide(_ index: Int) {
        let entity = sources.entities[index]
        let owner = entity.ancestors.last { !sources.entities[$0].identity.isEmpty }
        let said = fromUserInfo(entity, isCounted: owner == nil) ?? fromRelationships(index, isCounted: owner == nil)
        if let owner {
            let name = sources.entities[owner].name
            entity.report.inferred("the identity is that of \(name), whose subentity this is")
            return
        }
        if let said {
            sources.entities[index].identity = said
        } else if let constraint = constraint(of: entity) {
            sources.entities[index].identity = constraint.names
            sources.entities[index].identityConstraint = constraint.index
            let names = constraint.names.joined(separator: ", ")
            entity.report.inferred("the identity is \(names): a uniqueness constraint")
        } else if let name = usualName(entity) {
            sources.entities[index].identity = [name]
            entity.report.inferred("the identity is \(name): the usual name")
        } else {
            entity.report.inferred(
                "no identity: every record is a new object; an override may give \"identity\"")
        }
    }

    /// The attributes that an entity's objects have: its own, then inherited ones.
    private func attribute(_ name: String, of entity: EntitySource) -> AttributeSource? {
        for index in entity.ancestors {
            if let found = sources.entities[index].attribute(named: name) {
                return entity.attribute(named: name) ?? found
            }
        }
        return entity.attribute(named: name)
    }
}

// MARK: - Where an identity is said

extension IdentityRules {
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
    private func fromRelationships(_ index: Int, isCounted: Bool) -> [String]? {
        let entity = sources.entities[index]
        var result: [String]?
        for (name, report) in relatedBy[index] ?? [] {
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
        for (index, names) in entity.uniquenessConstraints.enumerated() where !names.isEmpty {
            if names.allSatisfy({ attribute($0, of: entity).map { $0.type != .transformable } ?? false }) {
                return (index, names)
            }
        }
        return nil
    }

    private func usualName(_ entity: EntitySource) -> String? {
        let name = entity.name.loweringFirst
        return ["remoteID", "\(name)ID", "\(name)Id", "id"].first {
            entity.attribute(named: $0).map { $0.type != .transformable } ?? false
        }
    }
}

extension EntitySource {
    /// Names of attributes or relationships.
    var uniquenessConstraints: [[String]] {
        element.children(named: "uniquenessConstraints").flatMap { $0.children(named: "uniquenessConstraint") }
            .map { $0.children(named: "constraint").compactMap { $0["value"] } }
    }
}
