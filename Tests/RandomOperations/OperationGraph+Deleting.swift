extension OperationGraph {
    mutating func delete(_ seeds: Set<Node>, _ path: String, _ job: inout Job) throws(Stop) {
        var doomed = seeds
        var new = seeds
        while !new.isEmpty {
            new = Set(new.flatMap { linked($0, by: "cascade") }).subtracting(doomed)
            doomed.formUnion(new)
        }
        guard doomed.allSatisfy({ linked($0, by: "deny").isSubset(of: doomed) }) else {
            throw .failed("constraintViolation \(path)")
        }
        for node in doomed {
            let key = key(node)
            job.lastKeys[node] = key
            job.gone[objects[node]!.entity.name, default: [:]][key] = node
        }
        let left = doomed.reduce(into: Set<Link>()) { $0.formUnion(leftLinks($1)) }
        links = links.filter { link in
            let isDoomed = (doomed.contains(link.from), doomed.contains(link.to))
            return isDoomed == (false, false) || isDoomed != (true, true) && left.contains(link)
        }
        for node in doomed { objects[node] = nil }
    }

    private func linked(_ node: Node, by rule: String) -> Set<Node> {
        Set(objects[node]!.entity.relationships.filter { $0.rule == rule }.flatMap { destinations($0, of: node) })
            .filter { objects[$0] != nil }
    }

    /// The dangling columns that `noAction` leaves. Rows of link tables are deleted with either object.
    private func leftLinks(_ node: Node) -> Set<Link> {
        let left = objects[node]!.entity.relationships.filter { relationship in
            relationship.rule == "noAction" && relationship.inverseRelationship.map { !$0.isToMany } ?? false
        }
        return left.reduce(into: []) { $0.formUnion(linkSet($1, of: node)) }
    }

    /// An object with the identity of a deleted one gets the links to it.
    mutating func inherit(_ gone: Node?, _ node: Node) throws(Stop) {
        guard let gone, objects[gone] == nil else { return }
        for link in links where link.from == gone || link.to == gone {
            // It may have one-to-one links of its own.
            guard link.relationship == "Person.stay" else { throw .unknown }
            links.remove(link)
            links.insert(
                Link(
                    relationship: link.relationship, from: link.from == gone ? node : link.from,
                    to: link.to == gone ? node : link.to))
        }
    }

    /// No link leads nowhere when the job ends.
    func checkLinks() throws(Stop) {
        guard links.allSatisfy({ objects[$0.from] != nil && objects[$0.to] != nil }) else {
            throw .failed("constraintViolation nowhere")
        }
    }
}
