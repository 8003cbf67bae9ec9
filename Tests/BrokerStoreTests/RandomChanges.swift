import TestSupport

/// Increments, appends and changed links of random jobs, and what they do to an object graph.
extension RandomJob {
    /// A member of `increment` or `append`.
    struct Change {
        let attribute: String
        let appends: Bool
        /// A number, a string or an array, without white space.
        let json: String
    }

    enum Links: String, CaseIterable { case add, replace, remove }

    static func members(_ changes: [Change]) -> [(String, Tree)] {
        [("increment", false), ("append", true)].compactMap { key, appends in
            let members = changes.filter { $0.appends == appends }
                .map { Tree.Member(key: $0.attribute, value: .literal($0.json)) }
            return members.isEmpty ? nil : (key, .object(members))
        }
    }
}

extension RandomJobs {
    /// Gives the operation changes of attributes, or a change of links, where it can have them.
    mutating func depend(_ operation: inout RandomJob.Operation, _ entity: RandomModel.Entity) {
        switch operation.action {
        case .change(let key, _) where generator.chance(2):
            operation.changes = changes(entity)
            if !operation.changes.isEmpty, generator.chance(2) { operation.action = .change(key: key, nil) }
        case .relate(let key, let name, let json):
            let relationship = entity.relationship(name)
            let links = RandomJob.Links.allCases.randomElement(using: &generator)!
            guard relationship.isToMany, generator.chance(2) else { return }
            if links == .remove {
                guard let json = removed(relationship) else { return }
                operation.action = .relate(key: key, relationship: name, json)
            } else if case .literal("null") = json {
                return
            }
            operation.links = links
        default: return
        }
    }

    /// Of one or two attributes, increments first.
    private mutating func changes(_ entity: RandomModel.Entity) -> [RandomJob.Change] {
        let changed = entity.attributes.filter { attribute in
            guard case .key = attribute.source else { return false }
            return !entity.identity.contains(attribute.name) && !["mark", "at", "gone"].contains(attribute.name)
        }
        let changes = changed.shuffled(using: &generator).prefix(2).compactMap { change($0) }
        return changes.filter { !$0.appends } + changes.filter(\.appends)
    }

    /// Nil where the type allows none.
    private mutating func change(_ attribute: RandomModel.Attribute) -> RandomJob.Change? {
        let amounts: [String]
        switch attribute.type {
        case .integer16, .integer64: amounts = ["1", "1", "-1", "0", "40000"]
        case .double: amounts = ["0.5", "-1.5", "2"]
        case .decimal: amounts = ["0.25", "-1.5", "2", "1e1"]
        case .string: amounts = ["\"a\"", "\"bc\"", "\"\""]
        case .transformable: amounts = ["[]", "[1]", "[\"x\",{\"a\":2}]"]
        case .boolean, .date, .calendarDate, .binary, .uuid: return nil
        }
        return RandomJob.Change(
            attribute: attribute.name, appends: [.string, .transformable].contains(attribute.type),
            json: amounts.randomElement(using: &generator)!)
    }

    /// What a `remove` names: keys, and records of which only the identity is read. Nil where that cannot be named.
    private mutating func removed(_ relationship: RandomModel.Relationship) -> Tree? {
        let destination = model.entity(relationship.destination)
        guard !relationship.isOwned, !destination.isOwned, !destination.identity.isEmpty else { return nil }
        return .array((0..<Int.random(in: 1...3, using: &generator)).map { _ in removed(destination) })
    }

    private mutating func removed(_ destination: RandomModel.Entity) -> Tree {
        let identity = destination.identity.map { valid(destination.attribute($0)) }
        if identity.count == 1, generator.chance(2) { return identity[0].value }
        let others = destination.attributes.filter { ["p", "q"].contains($0.name) && generator.chance(2) }
        return .object(identity + others.map { valid($0) })
    }

    private mutating func valid(_ attribute: RandomModel.Attribute) -> Tree.Member {
        let known = attribute.type.samples.prefix(4).filter { attribute.limit?.allows($0.stored) ?? true }
        return Tree.Member(key: attribute.name, value: .literal(known.randomElement(using: &generator)!.json))
    }
}

extension JobReading {
    /// "Of a record only the identity counts."
    mutating func removed(
        _ tree: PlacedTree, _ relationship: RandomModel.Relationship, _ path: String
    ) -> Value {
        guard case .array(let array) = tree.form else { preconditionFailure("It is an array: \(path)") }
        let entity = model.entity(relationship.destination)
        var elements: [Element] = []
        for (index, element) in array.enumerated() {
            let path = "\(path)/\(index)"
            let identity = entity.identity.compactMap { name -> String? in
                let value = if case .object = element.form { element[name] } else { Optional(element) }
                guard case .literal(let literal)? = value?.form else { return nil }
                return entity.attribute(name).type.stored(literal)
            }
            if identity.count == entity.identity.count {
                elements.append(.key(identity: identity, path: path, offset: element.offset))
            } else if entity.needsIdentity {
                let fault = Fault(code: "missingIdentity", path: path, offset: element.offset, entity: entity.name)
                elements.append(.fault(note(fault)))
            }
        }
        return Value(relationship: relationship, elements: elements)
    }
}

extension JobApplication {
    /// "Change attributes by their stored values."
    mutating func adjust(_ node: Node, _ operation: JobReading.Operation, _ fault: Fault) throws(Fault) {
        note(node)
        let entity = graph.model.entity(operation.entity)
        let before = graph.uniqueValues(of: node)
        var sums: [String: String] = [:]
        for change in operation.changes {
            func refusal(_ code: String) -> Fault {
                let path = "\(operation.path)/\(change.appends ? "append" : "increment")/\(change.attribute)"
                return Fault(code: code, path: path, offset: 0, entity: operation.entity)
            }
            // A smaller case may lack it.
            guard let attribute = entity.attributes.first(where: { $0.name == change.attribute }) else {
                throw refusal("unknownAttribute")
            }
            let stored = graph.objects[node]!.values[change.attribute]
            guard let sum = change.result(stored, attribute.type) else { throw refusal("invalidValue") }
            guard attribute.limit?.allows(sum) ?? true else { throw refusal("validationFailed") }
            sums[change.attribute] = sum
        }
        for (name, sum) in sums { graph.set(name, of: node, to: sum) }
        let columns = Set(sums.keys.map { graph.model.column($0, of: graph.objects[node]!.entity) })
        let values = graph.uniqueValues(of: node)
            .filter { !before.contains($0) || !columns.isDisjoint(with: $0.columns) }
        var claim = fault
        claim.code = "constraintViolation"
        try bring(values, node, claim)
    }

    /// Whether the object, which was one of another entity, lacks a value that its new one requires.
    func lacks(_ node: Node, _ record: JobReading.Record, since former: String) -> Bool {
        let known = Set(graph.model.entity(former).attributes.map(\.name))
        return graph.entity(of: node).attributes.contains {
            $0.isRequired && !known.contains($0.name) && graph.objects[node]!.values[$0.name] == nil
                && record.values[$0.name] == nil
        }
    }

    /// "Links to these objects end; a key that names nothing, or no linked object, is no error."
    mutating func remove(_ value: JobReading.Value, of node: Node) {
        for case .key(let identity, _, _) in value.elements ?? [] {
            guard let other = graph.nodes[graph.key(value.relationship.destination, identity)],
                graph.model.isKind(graph.objects[other]!.entity, of: value.relationship.destination)
            else { continue }
            note(other)
            if graph.destinations(value.relationship, of: node).contains(other) {
                graph.unlink(value.relationship, node, other)
            }
        }
    }
}

extension RandomJob.Change {
    /// The new stored value; nil when there is none.
    fileprivate func result(_ old: String?, _ type: SampleType) -> String? {
        switch type {
        case .integer16:
            let sum = Int(old ?? "0")! + Int(json)!
            return Int16(exactly: sum) == nil ? nil : "\(sum)"
        case .integer64: return "\(Int(old ?? "0")! + Int(json)!)"
        case .double:
            let sum = Double(old ?? "0")! + Double(json)!
            return sum == 0 ? "0.0" : "\(sum)"
        case .decimal: return Self.decimalSum(old ?? "0", json == "1e1" ? "10" : json)
        case .string: return (old ?? "") + json.dropFirst().dropLast()
        case .transformable:
            guard let old else { return json }
            guard old.hasPrefix("[") else { return nil }
            let elements = [old, json].map { $0.dropFirst().dropLast() }.filter { !$0.isEmpty }
            return "[\(elements.joined(separator: ","))]"
        case .boolean, .date, .calendarDate, .binary, .uuid: return nil
        }
    }

    /// Exact, with as many digits after the point as the longer fraction has.
    private static func decimalSum(_ one: String, _ other: String) -> String {
        let fractions = [one, other].map { $0.split(separator: ".").dropFirst().first?.count ?? 0 }
        let places = fractions.max()!
        let sum = zip([one, other], fractions).reduce(0) { sum, term in
            sum + Int(term.0.filter { $0 != "." } + String(repeating: "0", count: places - term.1))!
        }
        guard places > 0 else { return "\(sum)" }
        let digits = "\(abs(sum))"
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        return (sum < 0 ? "-" : "") + padded.dropLast(places) + "." + padded.suffix(places)
    }
}

extension JobApplication {
    /// What became of the objects of a job.
    struct Effect {
        /// `+inserted ~updated =unchanged -deleted !rejected` of the entities that the job touched.
        var changes: [String: String] = [:]
        /// `code path`, in the order of the text.
        var rejections: [String] = []
        /// By `inserted`, `updated` and `deleted`, and by entity.
        var keys: [String: [String: [String]]] = [:]
    }
}
