import BrokerJSON

/// Reads the model's `mappings`, after its entities are linked.
struct MappingReader {
    let entities: [Entity]
    /// In the order of the document.
    private let members: [ModelMember]
    private let indexByName: [ExactText: Int]

    init(_ members: [ModelMember], _ entities: [Entity]) {
        self.members = members
        self.entities = entities
        indexByName = Dictionary(firstOf: members.enumerated().map { ($1.name, $0) })
    }

    /// Only meaningful when no fault was reported.
    func read() -> [Mapping] {
        let mappings = members.map { member in
            if member.name.isEmpty { member.key.report("the name is empty; give the mapping one") }
            return Mapping(name: member.name, form: form(of: member.node), place: member.node.place)
        }
        checkSelects(mappings)
        return mappings
    }

    /// Returns the index of the mapping that a node names; a name without a mapping is reported.
    func mapping(namedBy node: ModelNode) -> Int? {
        guard let name = node.string() else { return nil }
        if let index = indexByName[name] { return index }
        let question = NearMiss.question(name, among: members.map(\.name))
        return node.refuse(
            members.isEmpty ? "the model has no mappings" : "the model has no mapping \"\(name)\"\(question)")
    }

    private func form(of node: ModelNode) -> Mapping.Form {
        let nothing = Mapping.Form.record(RecordMapping(entity: 0))
        guard let fields = ModelFields(of: node, vocabulary: .mapping) else { return nothing }
        switch (fields["entity"], fields["select"]) {
        case (nil, let select?):
            for name in ["attributes", "relationships", "nestingKey", "collection"] {
                fields[name]?.report("a mapping that selects others has no \"\(name)\" of its own; give it to those")
            }
            return .select(self.select(select))
        case (let entity?, let select):
            select?.report("a mapping has either an \"entity\" or a \"select\"; take one out")
            return record(entity, fields).map { .record($0) } ?? nothing
        case (nil, nil):
            node.report(
                "a mapping needs an \"entity\" (what the records are) or a \"select\" (which mapping is for each)")
            return nothing
        }
    }
}

// MARK: - Records

extension MappingReader {
    private func record(_ node: ModelNode, _ fields: ModelFields) -> RecordMapping? {
        guard let name = node.string() else { return nil }
        guard let index = entities.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else {
            return node.refuse(
                "the model has no entity \"\(name)\"" + NearMiss.question(name, among: entities.map(\.name)))
        }
        var mapping = RecordMapping(entity: index)
        let entity = entities[index]
        mapping.nesting = nesting(fields, entity)
        let nestingName = mapping.nesting.map { entity.attributes[$0.attribute].name }
        readAttributes(fields, entity, nestingName, into: &mapping)
        readRelationships(fields, entity, nestingName, into: &mapping)
        return mapping
    }

    private func nesting(_ fields: ModelFields, _ entity: Entity) -> KeyNesting? {
        guard let node = fields["nestingKey"] else {
            if fields.flag("collection") {
                fields["collection"]?.report(
                    "\"collection\" is for mappings with a \"nestingKey\"; add that, or take this out")
            }
            return nil
        }
        guard let attribute = attribute(node, entity) else { return nil }
        return KeyNesting(attribute: attribute, isCollection: fields.flag("collection"))
    }

    private func readAttributes(
        _ fields: ModelFields, _ entity: Entity, _ nestingName: String?, into mapping: inout RecordMapping
    ) {
        let members = fields["attributes"]?.members(expected: "an object of key paths and attribute names") ?? []
        for member in members {
            let path = path(member, nestingName)
            guard let attribute = attribute(member.node, entity), let path else { continue }
            if attribute == mapping.nesting?.attribute, path.isBelowKey || mapping.nesting?.isCollection ?? false {
                member.key.report("\"\(nestingName ?? "")\" takes its value from the key; take this out")
                continue
            }
            mapping.attributes[attribute, default: []].append(path)
        }
    }

    private func readRelationships(
        _ fields: ModelFields, _ entity: Entity, _ nestingName: String?, into mapping: inout RecordMapping
    ) {
        let expected = "an object of key paths and relationship names"
        for member in fields["relationships"]?.members(expected: expected) ?? [] {
            let path = path(member, nestingName)
            var nameNode: ModelNode? = member.node
            var mappingNode: ModelNode?
            if member.node.value.kind == .object {
                guard let fields = ModelFields(of: member.node, vocabulary: .mappedRelationship) else { continue }
                nameNode = fields["relationship"]
                mappingNode = fields["mapping"]
                if nameNode == nil {
                    member.node.report("a mapped relationship needs its name; add \"relationship\"")
                }
            }
            guard let nameNode, let relationship = relationship(nameNode, entity) else { continue }
            let named = mappingNode.flatMap(self.mapping)
            guard let path else { continue }
            var mapped = mapping.relationships[relationship] ?? MappedRelationship(paths: [])
            mapped.paths.append(path)
            if let mappingNode, let known = mapped.mapping, let named, known != named {
                mappingNode.report(
                    "\"\(entity.relationships[relationship].name)\" has another mapping at another key path; "
                        + "it can have one in each mapping")
            }
            mapped.mapping = named ?? mapped.mapping
            mapping.relationships[relationship] = mapped
        }
    }

    /// A member's name as a key path; `(username).email` begins below the nesting key.
    private func path(_ member: ModelMember, _ nestingName: String?) -> MappedPath? {
        guard var keys = member.key.keyPath(member.name) else { return nil }
        if let fault = KeyPaths.holderFault(keys, mayNameHolder: false) {
            return member.key.refuse(fault)
        }
        func isNested(_ key: String) -> Bool { key.hasPrefix("(") && key.hasSuffix(")") && key.utf8.count > 2 }
        guard let first = keys.first, isNested(first) else {
            guard let nestingName, keys.contains("(\(nestingName))") else { return MappedPath(keys: keys) }
            return member.key.refuse(
                "\"(\(nestingName))\" is the first key of a path, as the record is below it; begin with it")
        }
        if let second = keys.dropFirst().first(where: isNested) {
            return member.key.refuse(
                "a mapping takes one level of keys as values, and \"\(member.name)\" has \"\(first)\" and \"\(second)\"; read the "
                    + "objects below the first key through a relationship, whose mapping has the other nesting key")
        }
        let name = String(first.dropFirst().dropLast())
        guard let nestingName, nestingName.hasSameBytes(as: name) else {
            let remedy = nestingName.map { "write (\($0))" } ?? "add \"nestingKey\": \"\(name)\""
            return member.key.refuse("\"\(first)\" names no nesting key of this mapping; \(remedy)")
        }
        keys.removeFirst()
        guard !keys.isEmpty else {
            return member.key.refuse("\"\(first)\" is the key itself; write a key after it, \"\(first).email\"")
        }
        return MappedPath(isBelowKey: true, keys: keys)
    }

    private func attribute(_ node: ModelNode, _ entity: Entity) -> Int? {
        guard let name = node.string() else { return nil }
        if let index = entity.index(ofAttribute: name) {
            let attribute = entity.attributes[index]
            guard let value = attribute.holderValue, attribute.recordPaths.isEmpty else { return index }
            return node.refuse(
                "\"\(name)\" of \(entity.name) has the key \"\(value.text)\", so its value comes from the record around "
                    + "this one; take this out")
        }
        let question = NearMiss.question(name, among: entity.attributeNames)
        let other =
            entity.index(ofRelationship: name) == nil ? "" : "; it is a relationship: name it in \"relationships\""
        return node.refuse("\(entity.name) has no attribute \"\(name)\"" + (other.isEmpty ? question : other))
    }

    private func relationship(_ node: ModelNode, _ entity: Entity) -> Int? {
        guard let name = node.string() else { return nil }
        if let index = entity.index(ofRelationship: name) { return index }
        let question = NearMiss.question(name, among: entity.relationshipNames)
        return node.refuse("\(entity.name) has no relationship \"\(name)\"" + question)
    }
}

// MARK: - Selects

extension MappingReader {
    private func select(_ node: ModelNode) -> SelectMapping {
        var select = SelectMapping(key: [], cases: [])
        guard let fields = ModelFields(of: node, vocabulary: .select) else { return select }
        if let key = fields["key"] {
            select.key = KeyPaths.paths(key, mayNameHolder: false)?.first ?? []
        } else {
            node.report("a select needs a \"key\": the key whose value selects the mapping")
        }
        if let cases = fields["cases"] {
            let members = cases.members(expected: "an object of values and mapping names") ?? []
            if members.isEmpty, cases.value.kind == .object {
                cases.report("the select has no case; add \"cases\": {\"a value\": \"a mapping\"}")
            }
            for member in members {
                if let mapping = mapping(namedBy: member.node) { select.cases.append((member.name, mapping)) }
            }
        } else {
            node.report("a select needs \"cases\": the mapping for each value")
        }
        if let otherwise = fields["otherwise"] {
            if otherwise.value.isNull {
                select.otherwise = .decline
            } else if let mapping = mapping(namedBy: otherwise) {
                select.otherwise = .mapping(mapping)
            }
        }
        return select
    }

    /// A select that leads back to itself would never choose a mapping.
    private func checkSelects(_ mappings: [Mapping]) {
        /// 1 while it is examined, 2 when it is known to end.
        var states = Array(repeating: 0, count: mappings.count)
        func endsIn(_ index: Int) -> Bool {
            guard states[index] != 2, case .select(let select) = mappings[index].form else { return true }
            guard states[index] != 1 else { return false }
            states[index] = 1
            defer { states[index] = 2 }
            var targets = select.cases.map(\.mapping)
            if case .mapping(let mapping) = select.otherwise { targets.append(mapping) }
            return targets.allSatisfy(endsIn)
        }
        for (index, member) in members.enumerated() where states[index] == 0 && !endsIn(index) {
            member.key.report(
                "the select leads back to itself, so that it would never choose; let its cases end in entities")
        }
    }
}

// MARK: - Relationships with mappings

extension MappingReader {
    /// Resolves the mappings that the model's relationships name, and checks that each leads to the relationship's entity.
    func resolveRelationships(of drafts: [EntityDraft], in entities: inout [Entity], _ mappings: [Mapping]) {
        let model = Model(entities: entities, mappings: mappings)
        for owner in drafts.indices {
            for draft in drafts[owner].relationships {
                guard let node = draft.fields?["mapping"], let mapping = mapping(namedBy: node),
                    let place = entities[owner].index(ofRelationship: draft.name)
                else { continue }
                check(mapping, fits: draft.relationship, at: node, model)
                for member in model.subentities(of: owner) { entities[member].relationships[place].mapping = mapping }
            }
        }
        for (member, mapping) in zip(members, mappings) {
            guard case .record(let record) = mapping.form else { continue }
            for (relationship, mapped) in record.relationships {
                guard let named = mapped.mapping else { continue }
                check(named, fits: entities[record.entity].relationships[relationship], at: member.key, model)
            }
        }
    }

    private func check(_ mapping: Int, fits relationship: Relationship, at node: ModelNode, _ model: Model) {
        guard node.faults.isEmpty else { return }
        for entity in model.entities(ofMapping: mapping) where !model.isKind(entity, of: relationship.destination) {
            node.report(
                "\"\(relationship.name)\" leads to \(model.entities[relationship.destination].name), and the mapping "
                    + "\"\(model.mappings[mapping].name)\" makes objects of \(model.entities[entity].name); "
                    + "name one that makes \(model.entities[relationship.destination].name)")
        }
    }
}

struct RouteReader {
    let mappings: MappingReader

    /// Only meaningful when no fault was reported.
    func read(_ nodes: [ModelNode]) -> [Route] { nodes.compactMap(read) }

    private func read(_ node: ModelNode) -> Route? {
        guard let fields = ModelFields(of: node, vocabulary: .route) else { return nil }
        var route = Route(mapping: nil, place: node.place)
        if let path = fields["path"], let text = path.string() {
            do throws(PathPatternError) {
                route.pattern = try PathPattern(text)
            } catch {
                path.report(error.description)
            }
        }
        if let keyPath = fields["keyPath"] { route.keyPath = keyPath.string().flatMap(keyPath.keyPath) }
        if fields["path"] == nil, fields["keyPath"] == nil {
            node.report("the route does not say which payloads it is for; add a \"path\" or a \"keyPath\"")
        }
        let isError = fields.flag("error")
        switch (fields["mapping"], isError) {
        case (let mapping?, false): route.mapping = mappings.mapping(namedBy: mapping)
        case (let mapping?, true):
            mapping.report("a route leads either to a mapping or to an error; take one out")
        case (nil, true): break
        case (nil, false):
            node.report("the route leads nowhere; add \"mapping\" with the name of one, or \"error\": true")
        }
        return route
    }
}

extension Model {
    /// Returns the possible entities of the objects that the mapping makes, in the model's order.
    package func entities(ofMapping index: Int) -> [Int] {
        var found: Set<Int> = []
        var visited: Set<Int> = []
        func visit(_ index: Int) {
            guard visited.insert(index).inserted else { return }
            switch mappings[index].form {
            case .record(let record): found.insert(record.entity)
            case .select(let select):
                for target in select.cases { visit(target.mapping) }
                if case .mapping(let mapping) = select.otherwise { visit(mapping) }
            }
        }
        visit(index)
        return found.sorted()
    }
}
