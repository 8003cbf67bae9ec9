/// Which of a job's objects may have which unique values.
extension ObjectGraph {
    /// A value of one list of unique attributes.
    private struct ListedValue: Hashable {
        let topmost: String
        let columns: [String]
        let values: [String]
    }

    /// An object gets another value of a list than it had, or gives one up.
    private struct Claim {
        let target: Target
        /// The offset of the last record with a part of it.
        let offset: Int
        /// Objects whose records enclose it.
        let within: Set<Target>
        /// Nil where it is NULL.
        let new: ListedValue?
        let old: ListedValue?
    }

    /// The objects that one staging of a job rejects for their unique values, by the contract's two rules.
    func losers(_ targets: [Target: [Int]], _ reading: JobReading) -> Set<Target> {
        var claims: [Claim] = []
        var retained: Set<ListedValue> = []
        for topmost in model.entities.map(\.name) where model.topmost(topmost) == topmost {
            for columns in model.uniqueColumns(below: topmost) {
                read(topmost, columns, targets, reading, &claims, &retained)
            }
        }
        claims.sort { $0.offset < $1.offset }
        var rejected: Set<Target> = []
        var undecided: Set<Target> = []
        while true {
            let included = claims.filter { !rejected.contains($0.target) && !undecided.contains($0.target) }
            let meetsRetained = included.first { claim in claim.new.map { retained.contains($0) } ?? false }
            var taken: Set<ListedValue> = []
            let meetsTaken = included.first { claim in claim.new.map { !taken.insert($0).inserted } ?? false }
            guard let loser = (meetsRetained ?? meetsTaken)?.target else { return rejected }
            rejected.insert(loser)
            retained.formUnion(claims.filter { $0.target == loser }.compactMap(\.old))
            undecided.formUnion(included.filter { $0.within.contains(loser) }.map(\.target))
            undecided.remove(loser)
        }
    }

    private func read(
        _ topmost: String, _ columns: [String], _ targets: [Target: [Int]], _ reading: JobReading,
        _ claims: inout [Claim], _ retained: inout Set<ListedValue>
    ) {
        func listed(_ values: [String: String], _ list: [String]) -> ListedValue? {
            let all = list.compactMap { values[$0] }
            return all.count == list.count ? ListedValue(topmost: topmost, columns: columns, values: all) : nil
        }
        var looked: Set<Node> = []
        for (target, places) in targets where model.topmost(reading.names[places[0]].entity) == topmost {
            let concreteEntity = concreteEntity(target, places, reading)
            if case .object(let key) = target, let node = nodes[key] { looked.insert(node) }
            guard let list = attributes(concreteEntity, columns) else { continue }
            let starting = startingValues(target, concreteEntity)
            var values = starting
            var saying: [String: Int] = [:]
            for place in places {
                for attribute in list {
                    guard let value = reading.names[place].values[attribute] else { continue }
                    values[attribute] = value
                    saying[attribute] = place
                }
            }
            let said = saying.isEmpty ? [places[0]] : Array(saying.values)
            let old = exists(target) ? listed(starting, list) : nil
            let new = listed(values, list)
            if exists(target), old == new {
                if let old { retained.insert(old) }
                continue
            }
            claims.append(
                Claim(
                    target: target, offset: said.map { reading.names[$0].offset }.max()!,
                    within: Set(said.flatMap(reading.ancestors).map { self.target($0, reading.names[$0]) }),
                    new: new, old: old))
        }
        for (node, object) in objects where model.topmost(object.entity) == topmost && !looked.contains(node) {
            guard let list = attributes(object.entity, columns) else { continue }
            if let value = listed(object.values, list) { retained.insert(value) }
        }
    }

    /// The attributes that lie in those columns; nil when the entity does not have them all.
    private func attributes(_ concreteEntity: String, _ columns: [String]) -> [String]? {
        let own = model.entity(concreteEntity).attributes.map(\.name)
        let list = columns.compactMap { column in own.first { model.column($0, of: concreteEntity) == column } }
        return list.count == columns.count ? list : nil
    }

    private func startingValues(_ target: Target, _ concreteEntity: String) -> [String: String] {
        if case .object(let key) = target, let node = nodes[key] {
            var graph = self
            graph.turn(node, into: concreteEntity)
            return graph.objects[node]!.values
        }
        return model.entity(concreteEntity).attributes.reduce(into: [:]) { values, attribute in
            values[attribute.name] = attribute.defaultValue.flatMap { attribute.type.stored($0) }
        }
    }
}
