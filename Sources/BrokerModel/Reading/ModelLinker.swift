/// Resolves what entities say of each other, and checks what can only be seen in all of them together.
struct ModelLinker {
    private var drafts: [EntityDraft]
    /// The first of each name.
    private let indexByName: [[UInt8]: Int]

    init(_ drafts: [EntityDraft]) {
        self.drafts = drafts
        indexByName = Dictionary(
            drafts.enumerated().map { (Array($1.name.utf8), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The entities with relationships that lead somewhere; only meaningful when nothing was reported.
    mutating func link() -> [Entity] {
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveDestination(of: index, in: entity) }
        }
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveInverse(of: index, in: entity) }
        }
        let entities = drafts.map { draft in
            var entity = draft.entity
            entity.relationships = draft.relationships.map(\.relationship)
            return entity
        }
        StoreNames(drafts: drafts, entities: entities).check()
        FormerNames.check(drafts)
        return entities
    }

    private mutating func resolveDestination(of index: Int, in entity: Int) {
        guard let node = drafts[entity].relationships[index].destinationNode, let name = node.string() else { return }
        guard let destination = indexByName[Array(name.utf8)] else {
            node.report("the model has no entity \"\(name)\"" + NearMiss.question(name, among: drafts.map(\.name)))
            return
        }
        drafts[entity].relationships[index].relationship.destination = destination
        drafts[entity].relationships[index].isResolved = true
    }
}

// MARK: - Inverses

extension ModelLinker {
    /// Links both sides when this one names its inverse; the other side need not name it.
    private mutating func resolveInverse(of index: Int, in entity: Int) {
        let draft = drafts[entity].relationships[index]
        guard let node = draft.inverseNode, let name = node.string(), draft.isResolved else { return }
        let destination = drafts[draft.relationship.destination]
        guard let otherIndex = destination.relationships.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else {
            let question = NearMiss.question(name, among: destination.relationships.map(\.name))
            node.report("\(destination.name) has no relationship \"\(name)\"" + question)
            return
        }
        let other = destination.relationships[otherIndex]
        guard other.isResolved else { return }
        guard other.relationship.destination == entity else {
            let target = drafts[other.relationship.destination].name
            node.report(
                "\"\(name)\" of \(destination.name) leads to \(target), not to \(drafts[entity].name); "
                    + "an inverse leads back")
            return
        }
        if let back = other.inverseNode?.value.string, !back.hasSameBytes(as: draft.name) {
            node.report(
                "\"\(name)\" of \(destination.name) names \"\(back)\" as its inverse, not \"\(draft.name)\"; "
                    + "let each name the other")
            return
        }
        if let taken = other.relationship.inverse, taken != index {
            let holder = drafts[entity].relationships[taken].name
            node.report(
                "\"\(name)\" of \(destination.name) is the inverse of \"\(holder)\" already; "
                    + "give each its own inverse")
            return
        }
        drafts[entity].relationships[index].relationship.inverse = otherIndex
        drafts[draft.relationship.destination].relationships[otherIndex].relationship.inverse = index
    }
}
