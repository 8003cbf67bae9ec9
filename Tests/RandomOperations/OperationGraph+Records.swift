extension OperationGraph {
    /// The subject of a name.
    private enum Subject: Hashable {
        case object(entity: String, identity: [String])
        case new(Int)
        case named
    }

    /// The names of a step's operations: which of them have an effect, and on what.
    private struct Selection {
        /// By operation and place: nothing of them has an effect.
        var leftOut: [Set<Int>]
        /// A `sync` may not make them.
        var absent: Set<Int> = []
        /// A `sync` may not change them; others may link to them.
        var kept: Set<Int> = []
    }

    /// - Parameter subject: the object of the first name.
    /// - Returns: the objects that the records name, at any depth.
    mutating func process(
        _ step: [OperationReading], _ subject: Node?, _ later: [OperationReading],
        _ sync: (entity: GraphModel.Entity, actions: Set<String>)?, _ job: inout Job
    ) throws(Stop) -> Set<Node> {
        let selection = try select(step, hasSubject: subject != nil, later, sync, &job)
        let before = links
        var all: Set<Node> = []
        for (reading, leftOut) in zip(step, selection.leftOut) {
            var nodes: [Int: Node] = [:]
            for (place, name) in reading.names.enumerated()
            where !leftOut.contains(place) && !selection.absent.contains(place) {
                nodes[place] = place == 0 && subject != nil ? subject! : try findOrMake(name, &job)
            }
            say(reading, nodes, selection.kept, before, &job)
            job.touched.formUnion(nodes.filter { !selection.kept.contains($0.key) }.values)
            all.formUnion(nodes.values)
        }
        return all
    }

    // MARK: - Rejections

    private func select(
        _ step: [OperationReading], hasSubject: Bool, _ later: [OperationReading],
        _ sync: (entity: GraphModel.Entity, actions: Set<String>)?, _ job: inout Job
    ) throws(Stop) -> Selection {
        var selection = Selection(leftOut: step.map { _ in [] })
        if let sync {
            for (place, name) in step[0].names.enumerated() where name.entity.name == sync.entity.name {
                let exists = name.identity.map { find(name.entity, $0) != nil } ?? false
                // A bare key changes nothing, so it cannot be stale.
                if exists, !name.isBareKey, !sync.actions.contains("update") { selection.kept.insert(place) }
                if !exists, !sync.actions.contains("insert") { selection.absent.insert(place) }
            }
        }
        for (index, reading) in step.enumerated() {
            leaveOut(reading.names.indices.filter { reading.names[$0].fault != nil }, index, step, &selection)
        }
        var rejected: Set<Subject> = []
        while true {
            let lacking = lacking(step, hasSubject, selection)
            if lacking.isEmpty { break }
            if lacking.contains(where: { subject, _ in brings(later, subject) }) { throw .unknown }
            if !job.skips, let first = lacking.map({ $0.value[0] }).min(by: { ($0[0], $0[1]) < ($1[0], $1[1]) }) {
                throw .failed("missingValue \(step[first[0]].names[first[1]].path)")
            }
            rejected.formUnion(lacking.keys)
            for places in lacking.values {
                for place in places { leaveOut([place[1]], place[0], step, &selection) }
            }
        }
        list(step, hasSubject, rejected, &job)
        return selection
    }

    /// Names go, and what is nested in them.
    private func leaveOut(_ places: [Int], _ index: Int, _ step: [OperationReading], _ selection: inout Selection) {
        let all = Set(places)
        selection.leftOut[index].formUnion(all)
        for place in step[index].names.indices where !all.isDisjoint(with: step[index].ancestors(place)) {
            selection.leftOut[index].insert(place)
        }
    }

    private func subject(_ index: Int, _ place: Int, _ name: OperationReading.Name, _ hasSubject: Bool) -> Subject {
        if place == 0, hasSubject { return .named }
        guard let identity = name.identity else { return .new(index * 1_000 + place) }
        return .object(entity: name.entity.name, identity: identity)
    }

    /// Objects that would be new and lack what is required, with the operations and places of their names.
    private func lacking(
        _ step: [OperationReading], _ hasSubject: Bool, _ selection: Selection
    ) -> [Subject: [[Int]]] {
        var lacking: [Subject: [[Int]]] = [:]
        var complete: Set<Subject> = []
        for (index, reading) in step.enumerated() {
            for (place, name) in reading.names.enumerated() {
                guard let required = name.entity.required, !selection.leftOut[index].contains(place),
                    !selection.absent.contains(place), name.identity.map({ find(name.entity, $0) == nil }) ?? true
                else { continue }
                let subject = subject(index, place, name, hasSubject)
                if name.values.contains(where: { $0.attribute == required && $0.value != nil }) {
                    complete.insert(subject)
                }
                if subject != .named { lacking[subject, default: []].append([index, place]) }
            }
        }
        return lacking.filter { !complete.contains($0.key) }
    }

    /// A later operation of the job brings what the object lacks: the contract does not say when it must be complete.
    private func brings(_ later: [OperationReading], _ subject: Subject) -> Bool {
        guard case .object(let entity, let identity) = subject else { return false }
        return later.flatMap(\.names).contains { $0.entity.name == entity && $0.identity == identity }
    }

    /// One rejection for each object, none for what is nested in a rejected one.
    private func list(_ step: [OperationReading], _ hasSubject: Bool, _ rejected: Set<Subject>, _ job: inout Job) {
        var listed: Set<Subject> = []
        for (index, reading) in step.enumerated() {
            var all: Set<Int> = []
            for (place, name) in reading.names.enumerated()
            where name.fault != nil || rejected.contains(subject(index, place, name, hasSubject)) {
                all.insert(place)
            }
            for place in all.sorted() where all.isDisjoint(with: reading.ancestors(place)) {
                let name = reading.names[place]
                if let fault = name.fault {
                    job.rejections.append(fault)
                } else if listed.insert(subject(index, place, name, hasSubject)).inserted {
                    job.rejections.append(.init(code: "missingValue", path: name.path, entity: name.entity.name))
                }
            }
        }
    }

    // MARK: - What they make

    private mutating func findOrMake(_ name: OperationReading.Name, _ job: inout Job) throws(Stop) -> Node {
        guard let identity = name.identity else { return make(name.entity, newNode()) }
        if let known = find(name.entity, identity) { return known }
        let gone = job.gone[name.entity.name]?.removeValue(forKey: identity)
        let node = make(name.entity, gone ?? newNode())
        // This side of a one-to-one link that `noAction` left was deleted: the contract does not state whether it is restored.
        if gone != nil, links.contains(where: { $0.relationship == "Paper.cover" && $0.from == node }) {
            throw .unknown
        }
        set(identity, of: node)
        return node
    }

    private mutating func make(_ entity: GraphModel.Entity, _ node: Node) -> Node {
        objects[node] = Object(entity: entity)
        return node
    }

    mutating func set(_ identity: [String], of node: Node) {
        for (attribute, value) in zip(objects[node]!.entity.identity, identity) {
            objects[node]!.values[attribute] = value
        }
    }

    // MARK: - What they say

    /// By object and relationship.
    private typealias Sets = [Node: [String: [Node]]]

    /// - Parameter beforeStep: the links when the first of the operations began that are one thing to the contract.
    private mutating func say(
        _ reading: OperationReading, _ nodes: [Int: Node], _ kept: Set<Int>, _ beforeStep: Set<Link>, _ job: inout Job
    ) {
        let before = links
        let spared = spared(reading, nodes)
        var united: Sets = [:]
        let speaking = reading.names.indices.filter { nodes[$0] != nil && !kept.contains($0) }
        for place in speaking {
            let node = nodes[place]!
            for (attribute, value) in reading.names[place].values { objects[node]!.values[attribute] = value }
            for (relationship, elements) in reading.names[place].words {
                say(relationship, elements?.compactMap { nodes[$0] }, of: node, spared, &united)
            }
        }
        for place in speaking {
            let node = nodes[place]!
            for (relationship, elements) in reading.names[place].words where relationship.hasLinkTable {
                let named = Set((elements ?? []).compactMap { nodes[$0] }.map { link(relationship, node, $0) })
                var changed = links.subtracting(before).intersection(named)
                // It went in one operation of the step and came again in another.
                if !changed.isDisjoint(with: beforeStep) { job.reordered.insert(node) }
                changed.subtract(beforeStep)
                if elements == nil || relationship.replaces {
                    let reading = Set(linkSet(relationship, of: node))
                    changed.formUnion(before.filter { isOf($0, relationship, node) }.subtracting(reading))
                    // Another operation of the step has taken a link from the set before this one.
                    let taken = beforeStep.subtracting(before).filter { isOf($0, relationship, node) }
                    if relationship.isOrdered || !taken.isEmpty { job.reordered.insert(node) }
                }
                job.changedLinks[node, default: []].formUnion(changed)
                if !links.subtracting(job.linksBefore).isDisjoint(with: named) { job.reordered.insert(node) }
            }
        }
    }

    /// The objects of rejected elements: an existing link to them stays.
    private func spared(_ reading: OperationReading, _ nodes: [Int: Node]) -> Sets {
        var spared: Sets = [:]
        for (place, node) in nodes {
            for (relationship, elements) in reading.names[place].words {
                for element in elements ?? [] where nodes[element] == nil {
                    let name = reading.names[element]
                    guard let identity = name.identity, let other = find(name.entity, identity) else { continue }
                    spared[node, default: [:]][relationship.name, default: []].append(other)
                }
            }
        }
        return spared
    }

    private mutating func say(
        _ relationship: GraphModel.Relationship, _ said: [Node]?, of node: Node, _ spared: Sets, _ united: inout Sets
    ) {
        guard let said else {
            links.subtract(linkSet(relationship, of: node))
            united[node, default: [:]][relationship.name] = []
            return
        }
        // A link that the other side's record says is one of the operation's set, too; the contract does not say.
        if let name = relationship.inverse {
            for other in said where objects[other]!.entity.relationship(name).replaces {
                add([node], to: objects[other]!.entity.relationship(name), of: other, &united)
            }
        }
        guard relationship.replaces else {
            for other in said { insert(relationship, from: node, to: other) }
            return
        }
        let set = add(said, to: relationship, of: node, &united)
        let stays = Set(set + (spared[node]?[relationship.name] ?? []))
        for other in destinations(relationship, of: node) where !stays.contains(other) {
            links.remove(link(relationship, node, other))
        }
        for other in said { insert(relationship, from: node, to: other) }
        number(relationship, of: node, set)
    }

    /// An element that is named twice has the position of the first name, unless it has left in between.
    @discardableResult
    private func add(
        _ said: [Node], to relationship: GraphModel.Relationship, of node: Node, _ united: inout Sets
    ) -> [Node] {
        var set = (united[node]?[relationship.name] ?? []).filter { links.contains(link(relationship, node, $0)) }
        for other in said where !set.contains(other) { set.append(other) }
        united[node, default: [:]][relationship.name] = set
        return set
    }

    func isOf(_ link: Link, _ relationship: GraphModel.Relationship, _ node: Node) -> Bool {
        [link.from, link.to].contains { $0 != node && self.link(relationship, node, $0) == link }
    }
}
