import BrokerModel
import TestSupport

extension RandomCase: Shrinkable {
    /// A smaller case that still differs in the same way.
    ///
    /// Keys that the model no longer has are unknown keys, which change nothing.
    func shrunk() throws -> RandomCase {
        guard let kind = try difference()?.kind else { return self }
        var shrinking = Shrinking(self)
        while let smaller = shrinking.next() { shrinking.note(fails: try smaller.differs(kind)) }
        return shrinking.best
    }

    /// A model that cannot be read is no case.
    private func differs(_ kind: Difference.Kind) throws -> Bool {
        do { return try difference()?.kind == kind } catch is ModelError { return false }
    }

    /// The case without its `part`th part: jobs, then operations, then values in the jobs, then parts of the model.
    func without(part: Int) -> RandomCase? {
        var part = part
        var smaller = self
        if let jobs = jobs.without(part: &part) {
            smaller.jobs = jobs
            return smaller
        }
        for index in jobs.indices {
            if let operations = jobs[index].operations.without(part: &part) {
                smaller.jobs[index].operations = operations
                return smaller
            }
        }
        for index in jobs.indices {
            for operation in jobs[index].operations.indices {
                if let action = jobs[index].operations[operation].action.without(part: &part) {
                    smaller.jobs[index].operations[operation].action = action
                    return smaller
                }
            }
        }
        let operations = jobs.flatMap(\.operations)
        let related = operations.compactMap { if case .relate(_, let name, _) = $0.action { name } else { nil } }
        let used = Set(operations.map(\.entity) + related)
        if let model = model.without(part: &part, used: used) {
            smaller.model = model
            return smaller
        }
        return nil
    }
}

extension RandomJob.Action {
    fileprivate func without(part: inout Int) -> Self? {
        switch self {
        case .process(let json): json.without(part: &part).map { .process($0) }
        case .change(let key, let json): json.without(part: &part).map { .change(key: key, $0) }
        case .relate(let key, let name, let json):
            json.without(part: &part).map { .relate(key: key, relationship: name, $0) }
        case .sync(let json, let condition): json.without(part: &part).map { .sync($0, condition) }
        case .delete(let keys): keys.without(part: &part).map { .delete(keys: $0) }
        case .deleteMatching: nil
        }
    }
}

extension Tree {
    /// Without its `part`th element or member at any depth; nil when it has fewer, and `part` is then less by those.
    fileprivate func without(part: inout Int) -> Tree? {
        switch self {
        case .literal: return nil
        case .array(var elements):
            if let smaller = elements.without(part: &part) { return .array(smaller) }
            for index in elements.indices {
                guard let smaller = elements[index].without(part: &part) else { continue }
                elements[index] = smaller
                return .array(elements)
            }
        case .object(var members):
            // A record keeps the mark that it is found by.
            let removable = members.indices.filter { members[$0].key != "mark" }
            if part < removable.count {
                members.remove(at: removable[part])
                return .object(members)
            }
            part -= removable.count
            for index in members.indices {
                guard let smaller = members[index].value.without(part: &part) else { continue }
                members[index].value = smaller
                return .object(members)
            }
        }
        return nil
    }
}

extension RandomModel {
    /// Without its `part`th part, in the same way: entities that nothing needs, relationships with their inverses,
    /// attributes, and what is asked of attributes.
    fileprivate func without(part: inout Int, used: Set<String>) -> RandomModel? {
        var parts: [RandomModel] = []
        let needed = used.union(entities.flatMap(\.relationships).map(\.destination)).union(
            entities.compactMap(\.parent))
        for (index, entity) in entities.enumerated() where !needed.contains(entity.name) {
            var smaller = self
            smaller.entities.remove(at: index)
            parts.append(smaller)
        }
        for (index, entity) in entities.enumerated() {
            for relationship in entity.relationships {
                // Operations that relate need it.
                let isUsed = used.contains("\(relationship.name)") || used.contains(relationship.inverse ?? "")
                if !isUsed, !relationship.isOfOwner { parts.append(without(relationship, of: index)) }
            }
            for attribute in entity.attributes where !entity.identity.contains(attribute.name) {
                guard !["mark", "at", "gone"].contains(attribute.name) else { continue }
                var smaller = self
                smaller.entities[index].attributes.removeAll { $0.name == attribute.name }
                smaller.entities[index].unique.removeAll { $0.contains(attribute.name) }
                parts.append(smaller)
            }
            parts += withoutAge(index)
            for (position, relationship) in entity.relationships.enumerated() {
                for plainer in Self.plainer(relationship) {
                    var smaller = self
                    smaller.entities[index].relationships[position] = plainer
                    parts.append(smaller)
                }
            }
            if entity.isAbstract {
                var smaller = self
                smaller.entities[index].isAbstract = false
                parts.append(smaller)
            }
            if !entity.unique.isEmpty {
                var smaller = self
                smaller.entities[index].unique = []
                parts.append(smaller)
            }
            for (position, attribute) in entity.attributes.enumerated() {
                for plainer in Self.plainer(attribute) {
                    var smaller = self
                    smaller.entities[index].attributes[position] = plainer
                    parts.append(smaller)
                }
            }
        }
        guard part < parts.count else {
            part -= parts.count
            return nil
        }
        return parts[part]
    }

    /// Without `modified`, and without `tombstone`.
    private func withoutAge(_ index: Int) -> [RandomModel] {
        [("at", \RandomModel.Entity.hasModified), ("gone", \RandomModel.Entity.hasTombstone)].filter {
            entities[index][keyPath: $1]
        }.map {
            var smaller = self
            smaller.entities[index][keyPath: $1] = false
            let name = $0
            smaller.entities[index].attributes.removeAll { $0.name == name }
            return smaller
        }
    }

    private func without(_ relationship: Relationship, of index: Int) -> RandomModel {
        var smaller = self
        smaller.entities[index].relationships.removeAll { $0.name == relationship.name }
        if let inverse = relationship.inverse {
            let other = smaller.entities.firstIndex { $0.name == relationship.destination }!
            smaller.entities[other].relationships.removeAll { $0.name == inverse }
        }
        return smaller
    }

    private static func plainer(_ relationship: Relationship) -> [Relationship] {
        var all: [Relationship] = []
        add(&all, relationship, relationship.replaces && !relationship.isOwned) { $0.replaces = false }
        add(&all, relationship, relationship.isOrdered) { $0.isOrdered = false }
        add(&all, relationship, relationship.missing != .stub) { $0.missing = .stub }
        add(&all, relationship, relationship.rule != .nullify) { $0.rule = .nullify }
        return all
    }

    private static func add<Part>(
        _ all: inout [Part], _ part: Part, _ isSet: Bool, _ change: (inout Part) -> Void
    ) {
        guard isSet else { return }
        var plainer = part
        change(&plainer)
        all.append(plainer)
    }

    private static func plainer(_ attribute: Attribute) -> [Attribute] {
        var all: [Attribute] = []
        add(&all, attribute, attribute.isRequired) { $0.isRequired = false }
        add(&all, attribute, attribute.defaultValue != nil) { $0.defaultValue = nil }
        add(&all, attribute, attribute.isUnique) { $0.isUnique = false }
        add(&all, attribute, attribute.limit != nil) { $0.limit = nil }
        add(&all, attribute, attribute.onInvalid != nil) { $0.onInvalid = nil }
        add(&all, attribute, attribute.hasFallback) { $0.hasFallback = false }
        return all
    }
}
