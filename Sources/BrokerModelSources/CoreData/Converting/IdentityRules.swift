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

/// An entity of the XML with what is known of it before it is written.
struct EntitySource {
    let name: String
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport
    /// Its index; nil for one without a parent, and where the parent is missing.
    var parent: Int?
    /// From its parent up; ends where the parents go around in a circle.
    var ancestors: [Int] = []
    var attributes: [AttributeSource] = []
    var relationships: [RelationshipSource] = []
    /// Names of attributes.
    var identity: [String] = []
    /// The uniqueness constraint that became the identity.
    var identityConstraint: Int?

    func attribute(named name: String) -> AttributeSource? {
        attributes.first { $0.name.hasSameBytes(as: name) }
    }
}

/// A relationship that the model is to have.
struct RelationshipSource {
    let name: String
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport

    /// Files of the field say `toMany`, or how many there may be: `maxCount="1"` is to-one, more or 0 (any number) is not.
    var isToMany: Bool {
        element.flag("toMany") ?? (element["maxCount"].map { $0 != "1" } ?? false)
    }
}

/// All entities of a model, by index and by name.
struct EntitySources {
    var entities: [EntitySource] = []
    private var indices: [[UInt8]: Int] = [:]

    init(of model: SourceElement, report: ConversionReport) {
        for element in model.children(named: "entity") {
            let root = ElementReport(pointer: "/entities", place: element.place, conversion: report)
            guard let name = element["name"], !name.isEmpty else {
                root.fault("an entity needs a name; give it one in Xcode")
                continue
            }
            let entity = EntitySource(
                name: name, element: element, userInfo: UserInfo(of: element),
                report: root.part(name, at: element.place))
            // Another one of that name is reported by the reader, which sees both in the document.
            if indices[Array(name.utf8)] == nil { indices[Array(name.utf8)] = entities.count }
            entities.append(entity)
        }
        for index in entities.indices { entities[index].parent = parent(of: entities[index]) }
        for index in entities.indices { entities[index].ancestors = ancestors(of: index) }
    }

    func index(of name: String) -> Int? { indices[Array(name.utf8)] }

    var names: [String] { entities.map(\.name) }

    /// Whether the entities are in one line of parents.
    func isRelated(_ first: Int, _ second: Int) -> Bool {
        first == second || entities[first].ancestors.contains(second) || entities[second].ancestors.contains(first)
    }

    private func parent(of entity: EntitySource) -> Int? {
        guard let name = entity.element["parentEntity"], !name.isEmpty else { return nil }
        return index(of: name)
    }

    private func ancestors(of index: Int) -> [Int] {
        var ancestors: [Int] = []
        var seen: Set<Int> = [index]
        var next = entities[index].parent
        while let parent = next, seen.insert(parent).inserted {
            guard ancestors.count < Self.mostAncestors else {
                entities[index].report.fault(
                    "the entity has more than \(Self.mostAncestors) ancestors; no model needs them")
                break
            }
            ancestors.append(parent)
            next = entities[parent].parent
        }
        return ancestors
    }

    /// Bounds what a long line of parents costs, which grows with its square.
    private static let mostAncestors = 64
}

/// Writes one entity in the model's form.
struct EntityConversion {
    let index: Int
    let sources: EntitySources
    let rules: KeyRules
    let leftOut: Set<[UInt8]>

    private var entity: EntitySource { sources.entities[index] }

    func value() -> ModelValue {
        let element = entity.element
        var writer = DocumentWriter(at: element.place)
        if let parent = element["parentEntity"], !parent.isEmpty { writer.add("parent", parent) }
        addAbstract(to: &writer)
        if let renamed = element["elementID"] ?? element["renamingIdentifier"], !renamed.isEmpty, renamed != entity.name
        {
            writer.add("renamedFrom", renamed)
            entity.report.taken("renaming identifier \(renamed)")
        }
        if !entity.identity.isEmpty { writer.add("identity", entity.identity) }
        let identity = Set(entity.identity)
        var attributes = DocumentWriter(at: element.place)
        for attribute in entity.attributes {
            let keys = rules.keys(attribute, ofEntity: entity.name)
            let conversion = AttributeConversion(
                source: attribute, keys: keys, isIdentity: identity.contains(attribute.name))
            attributes.add(attribute.name, conversion.value())
        }
        writer.add("attributes", attributes.object)
        if !entity.relationships.isEmpty {
            var relationships = DocumentWriter(at: element.place)
            for relationship in entity.relationships {
                let conversion = RelationshipConversion(
                    source: relationship, owner: index, sources: sources, rules: rules, leftOut: leftOut)
                relationships.add(relationship.name, conversion.value())
            }
            writer.add("relationships", relationships.object)
        }
        let unique = uniqueLists()
        if !unique.isEmpty { writer.add("unique", unique) }
        let indexes = indexLists()
        if !indexes.isEmpty { writer.add("indexes", indexes) }
        UserInfoVocabulary.entity.noteUnfollowed(entity.userInfo, on: entity.report)
        return writer.object
    }

    private func addAbstract(to writer: inout DocumentWriter) {
        if entity.element.flag("isAbstract") == true { writer.add("abstract", true) }
        if entity.element["abstract"] != nil {
            entity.report.passedOver("abstract: Core Data reads isAbstract")
        }
    }
}

// MARK: - Unique lists and indexes

extension EntityConversion {
    private func uniqueLists() -> [[String]] {
        entity.uniquenessConstraints.enumerated().compactMap { index, names in
            guard index != entity.identityConstraint, !names.isEmpty, names != entity.identity else { return nil }
            guard let other = names.first(where: { !hasAttribute($0) }) else { return names }
            entity.report.leftOut(
                "the uniqueness constraint over \(names.joined(separator: ", ")): \(other) is no attribute that is stored"
            )
            return nil
        }
    }

    /// The names of `fetchIndex`, and of its predecessor `compoundIndex`.
    private func indexLists() -> [[String]] {
        var lists: [[String]] = []
        func add(_ names: [String], _ what: String, at element: SourceElement) {
            guard !names.isEmpty else { return }
            if names.count == 1, entity.relationships.contains(where: { $0.name.hasSameBytes(as: names[0]) }) {
                return entity.report.passedOver("\(what): a relationship has an index anyway")
            }
            if let other = names.first(where: { !hasAttribute($0) }) {
                return entity.report.leftOut("\(what): \(other) is no attribute that is stored")
            }
            if !lists.contains(names) { lists.append(names) }
        }
        for index in entity.element.children(named: "fetchIndex") {
            let elements = index.children(named: "fetchIndexElement")
            let what = "the index \(index["name"] ?? "")"
            if elements.contains(where: { $0["type"]?.lowercased() == "rtree" }) {
                entity.report.leftOut("\(what): Broker makes no R-trees")
            } else if elements.contains(where: { $0["property"] == nil }) {
                entity.report.leftOut("\(what): Broker indexes attributes, not expressions")
            } else {
                add(elements.compactMap { $0["property"] }, what, at: index)
            }
        }
        for index in entity.element.children(named: "compoundIndexes").flatMap({ $0.children(named: "compoundIndex") })
        {
            let names = index.children(named: "index").compactMap { $0["value"] }
            add(names, "the index over \(names.joined(separator: ", "))", at: index)
        }
        return lists
    }

    private func hasAttribute(_ name: String) -> Bool {
        entity.attribute(named: name) != nil
            || entity.ancestors.contains { sources.entities[$0].attribute(named: name) != nil }
    }
}
