extension OperationGraph {
    /// By entity, what became of which object.
    public struct Effect {
        struct Keys {
            var inserted: [String] = []
            var updated: [String] = []
            /// A link of theirs may have got another place in an order: the contract leaves the numbers of the places open.
            var perhapsUpdated: [String] = []
            var unchanged: [String] = []
            /// Changed and changed back, though no record names them: nor does the contract say what that is.
            var perhapsUnchanged: [String] = []
            var deleted: [String] = []
        }

        var keys: [String: Keys] = [:]
        var rejections: [OperationReading.Fault] = []
        var warnings: [String: Int] = [:]
    }

    func effect(_ job: Job, since before: OperationGraph) -> Effect {
        var effect = Effect()
        for node in Set(objects.keys).union(before.objects.keys) {
            let entity = (objects[node] ?? before.objects[node])!.entity
            let key = entity.json(key: objects[node] == nil ? job.lastKeys[node]! : key(node))
            let word: WritableKeyPath<Effect.Keys, [String]>
            if objects[node] == nil {
                word = \.deleted
            } else if before.objects[node] == nil {
                word = \.inserted
            } else if row(node) != before.row(node) {
                word = \.updated
            } else if let changed = job.changedLinks[node], !changed.isEmpty {
                let isPlacedAnew = job.reordered.contains(node) || !tableLinks(of: node).isDisjoint(with: moved)
                if changed.contains(where: { links.contains($0) != before.links.contains($0) }) {
                    word = \.updated
                } else if tableLinks(of: node) != before.tableLinks(of: node) {
                    // Only records of other objects changed the links that differ.
                    word = \.perhapsUpdated
                } else {
                    word = isPlacedAnew || isMoved(node, job) ? \.perhapsUpdated : \.unchanged
                }
            } else if isMoved(node, job) || job.reordered.contains(node) {
                word = \.perhapsUpdated
            } else if job.touched.contains(node) {
                word = \.unchanged
            } else if job.wavering.contains(node) {
                word = \.perhapsUnchanged
            } else {
                continue
            }
            effect.keys[entity.name, default: .init()][keyPath: word].append(key)
        }
        effect.rejections = job.rejections
        effect.warnings = job.warnings
        return effect
    }

    /// Objects whose rows are not as they were.
    func differing(from before: OperationGraph) -> Set<Node> {
        Set(objects.keys.filter { before.objects[$0] != nil && before.row($0) != row($0) })
    }

    /// Its links in link tables, as far as it has a relationship for them.
    private func tableLinks(of node: Node) -> Set<Link> {
        objects[node]!.entity.relationships.filter(\.hasLinkTable)
            .reduce(into: []) { $0.formUnion(linkSet($1, of: node)) }
    }

    /// Its row has got a place in an order, which it may have had, and which may stay when the link goes; or it is another
    /// row now, which has none of an older link.
    private func isMoved(_ node: Node, _ job: Job) -> Bool {
        objects[node]!.entity.relationships.contains { relationship in
            !relationship.isToMany && relationship.inverseRelationship?.isOrdered ?? false
                && (job.lastKeys[node] != nil || moved.contains { isOf($0, relationship, node) })
        }
    }
}
