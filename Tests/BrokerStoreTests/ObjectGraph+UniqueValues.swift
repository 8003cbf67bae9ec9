/// Who of a job's objects may have which unique values.
extension ObjectGraph {
    private struct Claim {
        let subject: Subject?
        /// Of the record that said the value; nil when the job does not.
        let offset: Int?
    }

    /// Choices of objects to be left out for their claims such that what stays is unique, and each has lost to what
    /// stays: as a rule there is one, without any object where no value is claimed twice.
    func losers(_ start: Selection, _ reading: JobReading) -> [Set<Subject>] {
        let first = lost(without: [], start, reading)
        guard !first.isEmpty else { return [[]] }
        var possible = first
        while true {
            var grown = possible.union(lost(without: possible, start, reading))
            for subject in possible { grown.formUnion(lost(without: [subject], start, reading)) }
            if grown == possible { break }
            possible = grown
        }
        guard possible.count <= 8 else { return [] }
        let order = Array(possible)
        return (0..<1 << order.count).compactMap { bits in
            let losers = Set(order.indices.filter { bits & 1 << $0 != 0 }.map { order[$0] })
            guard lost(without: losers, start, reading).isEmpty else { return nil }
            let areAllLost = losers.allSatisfy { lost(without: losers.subtracting([$0]), start, reading).contains($0) }
            return areAllLost ? losers : nil
        }
    }

    /// Who loses a claim when those objects are left out.
    private func lost(without losers: Set<Subject>, _ start: Selection, _ reading: JobReading) -> Set<Subject> {
        var selection = start
        selection.losers = losers
        _ = settle(&selection, reading)
        let subjects = subjects(reading, selection.leftOut)
        var lost: Set<Subject> = []
        for entity in model.entities {
            let lists = entity.unique + entity.attributes.filter(\.isUnique).map { [$0.name] }
            for list in lists {
                for claims in conflicts(entity, list, subjects, reading) {
                    // Of several that claim one value, the first keeps it, unless it is another's who does not give it up.
                    let isHeld = claims.contains { $0.offset == nil }
                    let claimants = claims.filter { $0.offset != nil }.sorted { $0.offset! < $1.offset! }
                    lost.formUnion(claimants.dropFirst(isHeld ? 0 : 1).map { $0.subject! })
                }
            }
        }
        return lost
    }

    private func conflicts(
        _ entity: RandomModel.Entity, _ list: [String], _ subjects: [Subject: [Int]], _ reading: JobReading
    ) -> [[Claim]] {
        var claims: [[String]: [Claim]] = [:]
        var looked: Set<Node> = []
        for (subject, places) in subjects where reading.names[places[0]].entity == entity.name {
            var values = startingValues(subject, entity)
            if case .object(let key) = subject, let node = nodes[key] { looked.insert(node) }
            var offsets: [String: Int] = [:]
            for place in places {
                for attribute in list {
                    guard let value = reading.names[place].values[attribute] else { continue }
                    values[attribute] = value
                    offsets[attribute] = reading.names[place].offset
                }
            }
            let all = list.compactMap { values[$0] }
            guard all.count == list.count else { continue }
            // Who has the value already does not claim it by saying it again; the contract does not say.
            let starting = startingValues(subject, entity)
            let keeps = exists(subject) && list.allSatisfy { starting[$0] == values[$0] }
            let offset = keeps ? nil : offsets.values.max() ?? reading.names[places[0]].offset
            claims[all, default: []].append(Claim(subject: subject, offset: offset))
        }
        for (node, object) in objects where object.entity == entity.name && !looked.contains(node) {
            let all = list.compactMap { object.values[$0] }
            guard all.count == list.count else { continue }
            claims[all, default: []].append(Claim(subject: nil, offset: nil))
        }
        return claims.values.filter { $0.count > 1 }
    }

    private func startingValues(_ subject: Subject, _ entity: RandomModel.Entity) -> [String: String] {
        if case .object(let key) = subject, let node = nodes[key] { return objects[node]!.values }
        return entity.attributes.reduce(into: [:]) { values, attribute in
            values[attribute.name] = attribute.defaultValue.flatMap { attribute.type.stored($0) }
        }
    }
}
