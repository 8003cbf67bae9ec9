extension ObjectGraph {
    /// How a job ends by the contract.
    enum Expectation {
        /// - Parameter paths: any of these; of several lost claims on unique values the contract does not say which.
        case failed(code: String, paths: Set<String>, isContested: Bool)
        case completed(Effect)

        /// The contract leaves room for another end.
        var isContested: Bool {
            switch self {
            case .failed(_, _, let isContested): isContested
            case .completed(let effect): effect.isContested
            }
        }
    }

    struct Effect {
        /// `+inserted ~updated =unchanged !rejected` of the entities that the job touched.
        var changes: [String: String] = [:]
        /// `code path`, in the order of the text.
        var rejections: [String] = []
        var inserted: [String: [Node]] = [:]
        var updated: [String: [Node]] = [:]
        /// The job sent again changes nothing. Records without identity make new objects each time; and who lost a claim
        /// on a unique value may win it when the job has moved the conflicting value.
        var isRepeatable = true
        /// As of ``Selection/isContested``.
        var isContested = false
    }

    /// Applies a job, whole or not at all.
    mutating func apply(_ job: RandomJob) -> Expectation {
        let reading = JobReading(job, model)
        if !job.skips, let fault = firstFault(reading) {
            return .failed(code: fault.code, paths: fault.paths, isContested: fault.isContested)
        }
        let selection = job.skips ? selection(reading) : ignoring(reading)
        let before = self
        let targets = targets(reading, selection.skipped)
        let named = makeObjects(targets, reading)
        say(reading, selection, named)
        return .completed(effect(reading, selection, named, before))
    }

    /// The object of every name that remains; those that are absent are made, in the order of the text.
    private mutating func makeObjects(_ targets: [Target: [Int]], _ reading: JobReading) -> [Int: Node] {
        var named: [Int: Node] = [:]
        for (target, places) in targets.sorted(by: { $0.value[0] < $1.value[0] }) {
            let entity = concreteEntity(target, places, reading)
            let node: Node
            switch target {
            case .object(let key):
                node = nodes[key] ?? insert(model.entity(entity), identity: key.identity)
                if objects[node]!.entity != entity { turn(node, into: entity) }
            case .new: node = insert(model.entity(entity), identity: nil)
            }
            for place in places { named[place] = node }
        }
        return named
    }

    private struct SetOfOperation: Hashable {
        let operation: Int
        let node: Node
        let relationship: String
    }

    /// By operation and relationship of an object, what the operation said of its links.
    private typealias UnitedSets = [SetOfOperation: Set<Node>]

    /// One record after the other says what it says.
    private mutating func say(_ reading: JobReading, _ selection: Selection, _ named: [Int: Node]) {
        var united: UnitedSets = [:]
        let spared = spared(reading, named)
        for (place, name) in reading.names.enumerated() {
            guard let node = named[place] else { continue }
            for (attribute, value) in name.values { set(attribute, of: node, to: value) }
            for word in name.words { say(word, of: node, name.operation, named, spared, &united) }
        }
    }

    private mutating func say(
        _ word: JobReading.Word, of node: Node, _ operation: Int, _ named: [Int: Node], _ spared: UnitedSets,
        _ united: inout UnitedSets
    ) {
        let relationship = word.relationship
        let set = SetOfOperation(operation: operation, node: node, relationship: relationship.name)
        guard let elements = word.elements else {
            unlink(relationship, from: node)
            united[set] = []
            return
        }
        let said = elements.compactMap { named[$0] }
        // A link that the other side's record says is one of the operation's set, too; the contract does not say.
        if let inverse = inverse(of: relationship), inverse.replaces {
            for destination in said {
                let set = SetOfOperation(operation: operation, node: destination, relationship: inverse.name)
                united[set, default: []].insert(node)
            }
        }
        if relationship.replaces {
            united[set, default: []].formUnion(said)
            let kept = united[set]!.union(spared[set] ?? [])
            for other in destinations(relationship, of: node) where !kept.contains(other) {
                unlink(relationship, from: node, to: other)
            }
        }
        for destination in said { link(relationship, from: node, to: destination) }
    }

    /// The objects of rejected elements, whose links stay if they existed before the operation.
    private func spared(_ reading: JobReading, _ named: [Int: Node]) -> UnitedSets {
        var spared: UnitedSets = [:]
        for (place, node) in named {
            let name = reading.names[place]
            for word in name.words {
                for element in word.elements ?? [] where named[element] == nil {
                    guard let identity = reading.names[element].identity,
                        let other = nodes[key(reading.names[element].entity, identity)]
                    else { continue }
                    let set = SetOfOperation(
                        operation: name.operation, node: node, relationship: word.relationship.name)
                    spared[set, default: []].insert(other)
                }
            }
        }
        return spared
    }

    // MARK: - What became of it

    private func effect(
        _ reading: JobReading, _ selection: Selection, _ named: [Int: Node], _ before: ObjectGraph
    ) -> Effect {
        var effect = Effect()
        effect.isContested = selection.isContested
        effect.isRepeatable =
            selection.losers.isEmpty && !selection.hasEntityFaults
            && reading.names.allSatisfy { $0.identity != nil || $0.fault != nil }
        var counts: [String: [Int]] = [:]
        let touched = Set(named.values)
        let changedLinks = changedLinks(reading, named, before)
        for (node, object) in objects {
            if before.objects[node] == nil {
                counts[object.entity, default: [0, 0, 0, 0]][0] += 1
                effect.inserted[object.entity, default: []].append(node)
            } else if row(node) != before.row(node) || changedLinks.contains(node) {
                counts[object.entity, default: [0, 0, 0, 0]][1] += 1
                effect.updated[object.entity, default: []].append(node)
            } else if touched.contains(node) {
                counts[object.entity, default: [0, 0, 0, 0]][2] += 1
            }
        }
        for (entity, rejection) in selection.rejections {
            counts[entity, default: [0, 0, 0, 0]][3] += 1
            effect.rejections.append("\(rejection.code) \(rejection.path)")
        }
        effect.changes = counts.mapValues { "+\($0[0]) ~\($0[1]) =\($0[2]) !\($0[3])" }
        return effect
    }

    /// Objects of which a link in a link table was added that a record of theirs names, or taken where a record of theirs
    /// said `null` or replaced the set.
    ///
    /// A record that names an object and another one that takes it away change the other record's object; the contract is silent.
    private func changedLinks(_ reading: JobReading, _ named: [Int: Node], _ before: ObjectGraph) -> Set<Node> {
        var changed: Set<Node> = []
        for (place, node) in named where before.objects[node] != nil {
            for word in reading.names[place].words where hasLinkTable(word.relationship) {
                let then = before.destinations(word.relationship, of: node)
                let now = destinations(word.relationship, of: node)
                let naming = Set((word.elements ?? []).compactMap { named[$0] })
                let isClearing = word.elements == nil || word.relationship.replaces
                if !now.subtracting(then).isDisjoint(with: naming) || isClearing && !then.isSubset(of: now) {
                    changed.insert(node)
                }
            }
        }
        return changed
    }
}
