/// The concrete entities of objects.
extension ObjectGraph {
    /// A record or a bare key that is rejected because of its object's entity.
    struct EntityFault {
        let place: Int
        /// `ignored` of a bare key that `ignore` drops.
        let code: String
    }

    /// The entity of an object in the store.
    func stored(_ target: Target) -> String? {
        if case .object(let key) = target, let node = nodes[key] { objects[node]!.entity } else { nil }
    }

    /// It makes its object, if that is not there.
    func makes(_ name: JobReading.Name) -> Bool {
        name.missing == nil || name.missing == .stub && !model.entity(name.entity).isAbstract
    }

    /// The object's entity after those names, none of which is at fault.
    func concreteEntity(_ target: Target, _ places: [Int], _ reading: JobReading) -> String {
        var concreteEntity = stored(target)
        for place in places {
            let name = reading.names[place]
            guard makes(name) else { continue }
            if concreteEntity.map({ model.isKind(name.entity, of: $0) }) ?? true { concreteEntity = name.entity }
        }
        if let concreteEntity { return concreteEntity }
        // For an object that does not exist and is not inserted: the most special entity of its names.
        return places.map { reading.names[$0].entity }.reduce(reading.names[places[0]].entity) {
            model.isKind($1, of: $0) ? $1 : $0
        }
    }

    func withEntityFaults(_ skipped: Set<Int>, _ reading: JobReading) -> Set<Int> {
        let places = Set(entityFaults(skipped, reading).map(\.place))
        return skipped.union(places).union(nested(in: places, reading))
    }

    func nested(in places: Set<Int>, _ reading: JobReading) -> Set<Int> {
        Set(reading.names.indices.filter { !places.isDisjoint(with: reading.ancestors($0)) })
    }

    /// The remaining names at fault, in the order of the text.
    func entityFaults(_ skipped: Set<Int>, _ reading: JobReading) -> [EntityFault] {
        var concreteEntities: [Target: String] = [:]
        var faults: [EntityFault] = []
        var gone = skipped
        for (place, name) in reading.names.enumerated() where !gone.contains(place) {
            if !gone.isDisjoint(with: reading.ancestors(place)) {
                gone.insert(place)
                continue
            }
            guard name.fault == nil, makes(name) else { continue }
            let target = target(place, name)
            let known = concreteEntities[target] ?? stored(target)
            if let code = entityFault(name, known) {
                faults.append(EntityFault(place: place, code: code))
                gone.insert(place)
            } else if let known {
                concreteEntities[target] = model.isKind(name.entity, of: known) ? name.entity : known
            } else {
                concreteEntities[target] = name.entity
            }
        }
        return faults
    }

    /// The remaining keys that make nothing of objects that are not of their entities, in the order of the text.
    func mismatchedKeys(_ skipped: Set<Int>, _ reading: JobReading) -> [EntityFault] {
        let targets = targets(reading, withEntityFaults(skipped, reading))
        let mismatched = targets.flatMap { target, places in
            let concreteEntity = concreteEntity(target, places, reading)
            return places.filter {
                !makes(reading.names[$0]) && !model.isKind(concreteEntity, of: reading.names[$0].entity)
            }
        }
        return mismatched.sorted().map {
            EntityFault(place: $0, code: reading.names[$0].missing == .ignore ? "ignored" : "objectNotFound")
        }
    }

    private func entityFault(_ name: JobReading.Name, _ known: String?) -> String? {
        let isAbstract = model.entity(name.entity).isAbstract
        guard let known else { return isAbstract ? "unmappable" : nil }
        if model.isKind(known, of: name.entity) { return nil }
        guard model.isKind(name.entity, of: known) else { return "constraintViolation" }
        return isAbstract ? "unmappable" : nil
    }
}
