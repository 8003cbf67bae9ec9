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
        let subjects = subjects(reading, withKindFaults(selection.leftOut, reading))
        var lost: Set<Subject> = []
        for topmost in model.entities.map(\.name) where model.topmost(topmost) == topmost {
            for list in model.uniqueColumns(below: topmost) {
                for claims in conflicts(topmost, list, subjects, reading) {
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
        _ topmost: String, _ columns: [String], _ subjects: [Subject: [Int]], _ reading: JobReading
    ) -> [[Claim]] {
        var claims: [[String]: [Claim]] = [:]
        var looked: Set<Node> = []
        for (subject, places) in subjects where model.topmost(reading.names[places[0]].entity) == topmost {
            let kind = kind(subject, places, reading)
            if case .object(let key) = subject, let node = nodes[key] { looked.insert(node) }
            guard let list = attributes(kind, columns) else { continue }
            let starting = startingValues(subject, kind)
            var values = starting
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
            let keeps = exists(subject) && list.allSatisfy { starting[$0] == values[$0] }
            let offset = keeps ? nil : offsets.values.max() ?? reading.names[places[0]].offset
            claims[all, default: []].append(Claim(subject: subject, offset: offset))
        }
        for (node, object) in objects where model.topmost(object.entity) == topmost && !looked.contains(node) {
            guard let list = attributes(object.entity, columns) else { continue }
            let all = list.compactMap { object.values[$0] }
            guard all.count == list.count else { continue }
            claims[all, default: []].append(Claim(subject: nil, offset: nil))
        }
        return claims.values.filter { $0.count > 1 }
    }

    /// The attributes that lie in those columns; nil when the entity does not have them all.
    private func attributes(_ kind: String, _ columns: [String]) -> [String]? {
        let own = model.entity(kind).attributes.map(\.name)
        let list = columns.compactMap { column in own.first { model.column($0, of: kind) == column } }
        return list.count == columns.count ? list : nil
    }

    private func startingValues(_ subject: Subject, _ kind: String) -> [String: String] {
        if case .object(let key) = subject, let node = nodes[key] {
            var graph = self
            graph.turn(node, into: kind)
            return graph.objects[node]!.values
        }
        return model.entity(kind).attributes.reduce(into: [:]) { values, attribute in
            values[attribute.name] = attribute.defaultValue.flatMap { attribute.type.stored($0) }
        }
    }
}
