/// The concrete entities of objects.
extension ObjectGraph {
    /// A record or a bare key that is rejected because of its object's entity.
    struct KindFault {
        let place: Int
        /// `ignored` of a bare key that `ignore` drops.
        let code: String
    }

    /// The entity of an object in the store.
    func stored(_ subject: Subject) -> String? {
        if case .object(let key) = subject, let node = nodes[key] { objects[node]!.entity } else { nil }
    }

    /// It makes its object, if that is not there.
    func makes(_ name: JobReading.Name) -> Bool {
        name.missing == nil || name.missing == .stub && !model.entity(name.entity).isAbstract
    }

    /// The object's entity after those names, none of which is at fault.
    func kind(_ subject: Subject, _ places: [Int], _ reading: JobReading) -> String {
        var kind = stored(subject)
        for place in places {
            let name = reading.names[place]
            guard makes(name) else { continue }
            if kind.map({ model.isKind(name.entity, of: $0) }) ?? true { kind = name.entity }
        }
        if let kind { return kind }
        // For an object that does not exist and is not inserted: the most special entity of its names.
        return places.map { reading.names[$0].entity }.reduce(reading.names[places[0]].entity) {
            model.isKind($1, of: $0) ? $1 : $0
        }
    }

    func withKindFaults(_ leftOut: Set<Int>, _ reading: JobReading) -> Set<Int> {
        let places = Set(kindFaults(leftOut, reading).map(\.place))
        return leftOut.union(places).union(nested(in: places, reading))
    }

    func nested(in places: Set<Int>, _ reading: JobReading) -> Set<Int> {
        Set(reading.names.indices.filter { !places.isDisjoint(with: reading.ancestors($0)) })
    }

    /// The remaining names at fault, in the order of the text.
    func kindFaults(_ leftOut: Set<Int>, _ reading: JobReading) -> [KindFault] {
        var kinds: [Subject: String] = [:]
        var faults: [KindFault] = []
        var gone = leftOut
        for (place, name) in reading.names.enumerated() where !gone.contains(place) {
            if !gone.isDisjoint(with: reading.ancestors(place)) {
                gone.insert(place)
                continue
            }
            guard name.fault == nil, makes(name) else { continue }
            let subject = subject(place, name)
            let known = kinds[subject] ?? stored(subject)
            if let code = kindFault(name, known) {
                faults.append(KindFault(place: place, code: code))
                gone.insert(place)
            } else if let known {
                kinds[subject] = model.isKind(name.entity, of: known) ? name.entity : known
            } else {
                kinds[subject] = name.entity
            }
        }
        return faults
    }

    /// The remaining keys that make nothing of objects that are not of their entities, in the order of the text.
    func unmetKeys(_ leftOut: Set<Int>, _ reading: JobReading) -> [KindFault] {
        let subjects = subjects(reading, withKindFaults(leftOut, reading))
        let unmet = subjects.flatMap { subject, places in
            let kind = kind(subject, places, reading)
            return places.filter { !makes(reading.names[$0]) && !model.isKind(kind, of: reading.names[$0].entity) }
        }
        return unmet.sorted().map {
            KindFault(place: $0, code: reading.names[$0].missing == .ignore ? "ignored" : "objectNotFound")
        }
    }

    private func kindFault(_ name: JobReading.Name, _ known: String?) -> String? {
        let isAbstract = model.entity(name.entity).isAbstract
        guard let known else { return isAbstract ? "unmappable" : nil }
        if model.isKind(known, of: name.entity) { return nil }
        guard model.isKind(name.entity, of: known) else { return "constraintViolation" }
        return isAbstract ? "unmappable" : nil
    }
}
