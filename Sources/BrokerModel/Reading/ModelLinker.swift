/// Resolves the references between entities, and checks rules about several of them.
///
/// ```
/// parents ─▶ destinations ─▶ inverses ─▶ owned entities completed ─▶ hierarchies put together, topmost entities first
///         ─▶ values of records around others ─▶ names in the store
/// ```
struct ModelLinker {
    var drafts: [EntityDraft]
    /// The first entity of each name.
    private let indexByName: [[UInt8]: Int]

    init(_ drafts: [EntityDraft]) {
        self.drafts = drafts
        indexByName = Dictionary(
            drafts.enumerated().map { (Array($1.name.utf8), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The entities with relationships that have a destination; only meaningful when no fault was reported.
    mutating func link() -> [Entity] {
        resolveParents()
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveDestination(of: index, in: entity) }
        }
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveInverse(of: index, in: entity) }
        }
        var ownership = OwnershipLinker(drafts)
        ownership.link()
        var hierarchies = HierarchyLinker(ownership.drafts)
        hierarchies.link()
        drafts = hierarchies.drafts
        let entities = drafts.map(\.entity)
        HolderCheck(drafts: drafts, entities: entities).check()
        StoreNames(drafts: drafts, entities: entities).check()
        FormerNames.check(drafts)
        return entities
    }

    /// The entity that a node names; nil, with a report, when there is none.
    private func entity(namedBy node: ModelNode) -> Int? {
        guard let name = node.string() else { return nil }
        if let index = indexByName[Array(name.utf8)] { return index }
        node.report("the model has no entity \"\(name)\"" + NearMiss.question(name, among: drafts.map(\.name)))
        return nil
    }

    private mutating func resolveDestination(of index: Int, in entity: Int) {
        guard let node = drafts[entity].relationships[index].destinationNode,
            let destination = self.entity(namedBy: node)
        else { return }
        drafts[entity].relationships[index].relationship.destination = destination
        drafts[entity].relationships[index].isResolved = true
    }
}

// MARK: - Parents

extension ModelLinker {
    private mutating func resolveParents() {
        for index in drafts.indices {
            guard let node = drafts[index].parentNode else { continue }
            drafts[index].entity.parent = entity(namedBy: node)
        }
        for index in drafts.indices where isInCircle(index) {
            drafts[index].parentNode?.report(
                "\(drafts[index].name) would inherit from itself, over its parents; one of them must have no parent")
        }
        // From here on, no loop over ancestors meets a circle.
        let circle = drafts.indices.filter(isInCircle)
        for index in circle { drafts[index].entity.parent = nil }
    }

    private func isInCircle(_ index: Int) -> Bool {
        var ancestor = drafts[index].entity.parent
        for _ in drafts.indices {
            guard let current = ancestor else { return false }
            if current == index { return true }
            ancestor = drafts[current].entity.parent
        }
        return false
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
            return reportNoInverse(named: name, at: node, of: destination)
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

    private func reportNoInverse(named name: String, at node: ModelNode, of destination: EntityDraft) {
        var ancestor = destination.entity.parent
        while let current = ancestor {
            if drafts[current].relationships.contains(where: { $0.name.hasSameBytes(as: name) }) {
                let owner = drafts[current].name
                return node.report(
                    "\(destination.name) has \"\(name)\" from \(owner), and so has every \(owner); "
                        + "an inverse of it leads to \(owner)")
            }
            ancestor = drafts[current].entity.parent
        }
        let question = NearMiss.question(name, among: destination.relationships.map(\.name))
        node.report("\(destination.name) has no relationship \"\(name)\"" + question)
    }
}
