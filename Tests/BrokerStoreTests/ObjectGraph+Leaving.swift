extension ObjectGraph {
    /// The target of a name.
    enum Target: Hashable {
        case object(Key)
        /// A new object, made by the record at that place among the names.
        case new(Int)
    }

    /// The treatment of a job's names: those that are rejected, and the reported faults.
    struct Selection {
        var skipped: Set<Int> = []
        /// In the order of the text.
        var rejections: [(entity: String, rejection: JobReading.Rejection)] = []
        /// Objects that lost a claim on a unique value.
        var losers: Set<Target> = []
        /// The contract leaves room for another choice.
        var isContested = false
        /// Keys that make nothing of objects that are not of their entities.
        var mismatched: [EntityFault] = []
        /// Names were rejected because of their objects' entities.
        var hasEntityFaults = false
    }

    func target(_ place: Int, _ name: JobReading.Name) -> Target {
        name.identity.map { .object(key(name.entity, $0)) } ?? .new(place)
    }

    // MARK: - Skip

    /// An object that a round rejected.
    private struct Rejected {
        let target: Target
        /// Nil of a bare key that `ignore` drops.
        let code: String?
        let entity: String
        let isForUniqueValue: Bool
        /// The names that go: all of the object, or keys alone, if only these want it to be there, or to be what it cannot be.
        let places: Set<Int>
    }

    /// The rejections of `skip`, in rounds: each reads the result of the rounds before, and rejects objects that cannot be inserted, or, if
    /// there is nothing of that kind, what loses a claim on a unique value. A rejection is final.
    func selection(_ reading: JobReading) -> Selection {
        let faulty = reading.names.indices.filter { reading.names[$0].fault != nil }
        var selection = Selection()
        skip(faulty, reading, &selection)
        var rejected: [Rejected] = []
        while true {
            let round = round(reading, &selection)
            if round.isEmpty { break }
            rejected += round
            skip(round.flatMap(\.places), reading, &selection)
        }
        let entityFaults = entityFaults(selection.skipped, reading)
        skip(entityFaults.map(\.place), reading, &selection)
        selection.hasEntityFaults = selection.hasEntityFaults || !entityFaults.isEmpty
        list(faulty, entityFaults + selection.mismatched, rejected, reading, &selection)
        return selection
    }

    private func round(_ reading: JobReading, _ selection: inout Selection) -> [Rejected] {
        let entityFaults = entityFaults(selection.skipped, reading)
        let targets = targets(reading, withEntityFaults(selection.skipped, reading))
        let all = self.targets(reading, [])
        func rejected(_ target: Target, _ code: String?, isForUniqueValue: Bool = false) -> Rejected {
            let concreteEntity = concreteEntity(target, targets[target]!, reading)
            var places = all[target]!
            if !isForUniqueValue {
                places = places.filter {
                    isRejected(reading.names[$0], with: targets[target]!, of: concreteEntity, reading)
                }
            }
            return Rejected(
                target: target, code: code, entity: concreteEntity, isForUniqueValue: isForUniqueValue,
                places: Set(places))
        }
        let ignored = targets.filter { isIgnored($0.key, $0.value, reading) }.map { rejected($0.key, nil) }
        let faults = existenceFaults(targets, reading).filter { fault in
            !ignored.contains { $0.target == fault.target }
        }
        .map { rejected($0.target, $0.code) }
        let certain = faults.filter { fault in
            model.topmost(fault.entity) == fault.entity
                || !targets[fault.target]!.contains { makes(reading.names[$0]) }
        }
        // Which goes first of those that only what is special about them makes lack something is not said.
        if certain.isEmpty, faults.count > 1 { selection.isContested = true }
        if !faults.isEmpty || !ignored.isEmpty {
            selection.hasEntityFaults = selection.hasEntityFaults || !entityFaults.isEmpty
            // Nor whether a record is found to be of the wrong entity before its object is rejected.
            let early = entityFaults.map { target($0.place, reading.names[$0.place]) }
            if faults.contains(where: { early.contains($0.target) }) { selection.isContested = true }
            return ignored + (certain.isEmpty ? faults : certain)
        }
        let mismatched = mismatchedKeys(selection.skipped, reading)
        if !mismatched.isEmpty {
            selection.mismatched += mismatched
            selection.hasEntityFaults = true
            skip(mismatched.map(\.place), reading, &selection)
            return round(reading, &selection)
        }
        let losers = losers(targets, reading)
        selection.losers.formUnion(losers)
        return losers.map { rejected($0, "constraintViolation", isForUniqueValue: true) }
    }

    /// Names go, and what is nested in them.
    private func skip(_ places: [Int], _ reading: JobReading, _ selection: inout Selection) {
        selection.skipped.formUnion(places)
        for place in reading.names.indices
        where !selection.skipped.isDisjoint(with: reading.ancestors(place)) { selection.skipped.insert(place) }
    }

    /// The names that remain, by what they are about, each in the order of the text.
    func targets(_ reading: JobReading, _ skipped: Set<Int>) -> [Target: [Int]] {
        Dictionary(grouping: reading.names.indices.filter { !skipped.contains($0) }) {
            target($0, reading.names[$0])
        }
    }

    /// One rejection for each object, none for what is nested in a rejected one.
    private func list(
        _ faulty: [Int], _ entityFaults: [EntityFault], _ rejected: [Rejected], _ reading: JobReading,
        _ selection: inout Selection
    ) {
        let reported = entityFaults.filter { $0.code != "ignored" }
        let strange = Dictionary(uniqueKeysWithValues: reported.map { ($0.place, $0.code) })
        let objects = Dictionary(rejected.map { ($0.target, $0) }, uniquingKeysWith: { $1 })
        let all = Set(faulty).union(strange.keys).union(objects.values.flatMap(\.places))
        /// The names that are not inside of anything rejected.
        let met = all.sorted().filter { all.isDisjoint(with: reading.ancestors($0)) }
        var listed: Set<Target> = []
        for place in met {
            let name = reading.names[place]
            let target = target(place, name)
            if let fault = name.fault {
                selection.rejections.append((name.entity, fault))
            } else if let object = objects[target], object.places.contains(place) {
                let others = met.filter { reading.names[$0].fault == nil && object.places.contains($0) }
                guard listed.insert(target).inserted, let code = code(object, others, reading) else { continue }
                selection.rejections.append(
                    (object.entity, JobReading.Rejection(code: code, path: name.path, offset: name.offset)))
            } else if let code = strange[place] {
                selection.rejections.append(
                    (name.entity, JobReading.Rejection(code: code, path: name.path, offset: name.offset)))
            }
        }
    }

    /// The reported fault of a rejected object with those names left: none if they allow that it does not exist.
    private func code(_ object: Rejected, _ places: [Int], _ reading: JobReading) -> String? {
        if object.isForUniqueValue || exists(object.target) { return object.code }
        guard let code = object.code else { return nil }
        if places.contains(where: { makes(reading.names[$0]) }) { return code }
        return places.contains { reading.names[$0].missing != .ignore } ? "objectNotFound" : nil
    }

    /// Whether that name of an object goes that cannot be made of those names.
    private func isRejected(
        _ name: JobReading.Name, with places: [Int], of concreteEntity: String, _ reading: JobReading
    ) -> Bool {
        let names = places.map { reading.names[$0] }
        if !names.contains(where: makes) { return name.missing != nil }
        let records = names.filter { $0.missing == nil }.map(\.entity)
        guard let first = records.first else { return true }
        let own = records.reduce(first) { model.isKind($1, of: $0) ? $1 : $0 }
        return own == concreteEntity || name.missing != nil && name.entity != own && model.isKind(name.entity, of: own)
    }

    private func isMoreSpecialByKeys(_ target: Target, _ places: [Int], _ reading: JobReading) -> Bool {
        let records = places.filter { reading.names[$0].missing == nil }
        return !records.isEmpty && concreteEntity(target, records, reading) != concreteEntity(target, places, reading)
    }

    // MARK: - Faults beside what is there

    struct TargetFault {
        let target: Target
        let code: String
        let path: String
        /// The offset of the first name of the target.
        let offset: Int
    }

    /// Bare keys that `ignore` drops: of an absent object that nothing makes and no `fail` asks for.
    private func isIgnored(_ target: Target, _ places: [Int], _ reading: JobReading) -> Bool {
        !exists(target) && places.allSatisfy { reading.names[$0].missing == .ignore }
    }

    func exists(_ target: Target) -> Bool {
        if case .object(let key) = target { nodes[key] != nil } else { false }
    }

    /// Absent objects that cannot be made.
    private func existenceFaults(_ targets: [Target: [Int]], _ reading: JobReading) -> [TargetFault] {
        targets.compactMap { target, places in
            guard let code = existenceFault(target, places, reading) else { return nil }
            let first = reading.names[places[0]]
            return TargetFault(target: target, code: code, path: first.path, offset: first.offset)
        }
    }

    private func existenceFault(_ target: Target, _ places: [Int], _ reading: JobReading) -> String? {
        if !exists(target), !places.contains(where: { makes(reading.names[$0]) }) { return "objectNotFound" }
        return lacksRequired(target, places, reading) ? "missingValue" : nil
    }

    private func lacksRequired(_ target: Target, _ places: [Int], _ reading: JobReading) -> Bool {
        let entity = model.entity(concreteEntity(target, places, reading))
        let known = stored(target).map { Set(model.entity($0).attributes.map(\.name)) } ?? []
        return entity.attributes.contains { attribute in
            attribute.isRequired && attribute.defaultValue == nil && !entity.identity.contains(attribute.name)
                && !known.contains(attribute.name)
                && !places.contains { (reading.names[$0].values[attribute.name] ?? nil) != nil }
        }
    }

    // MARK: - Fail

    /// The fault of a failing job, by its code and its possible positions: the first in the text of those in its records,
    /// else of what cannot be made, else any lost claim on a unique value; nil when there is none.
    func firstFault(_ reading: JobReading) -> (code: String, paths: Set<String>, isContested: Bool)? {
        if let fault = reading.names.compactMap(\.fault).min(by: { $0.offset < $1.offset }) {
            // Faults of entities are found while staging if the job alone shows them, otherwise at the merge.
            return (fault.code, [fault.path], !entityFaults([], reading).isEmpty)
        }
        let entityFaults = entityFaults([], reading)
        if let fault = entityFaults.first {
            let others = existenceFaults(targets(reading, Set(entityFaults.map(\.place))), reading)
            // Alone, too, a job may contradict itself, which is found before it is held against what is there.
            let sameTarget = reading.names.indices.filter {
                target($0, reading.names[$0]) == target(fault.place, reading.names[fault.place])
            }
            let isContested = entityFaults.count > 1 || sameTarget.count > 1 || !others.isEmpty
            return (fault.code, [reading.names[fault.place].path], isContested)
        }
        let selection = ignoring(reading)
        let targets = targets(reading, withEntityFaults(selection.skipped, reading))
        let faults = existenceFaults(targets, reading)
        if let fault = faults.min(by: { $0.offset < $1.offset }) {
            // Bare keys that ask for more than the records do are at fault alone, and may be ignored.
            let isContested = faults.contains { isMoreSpecialByKeys($0.target, targets[$0.target]!, reading) }
            return (fault.code, [fault.path], isContested)
        }
        let mismatched = mismatchedKeys(selection.skipped, reading).first { $0.code != "ignored" }
        if let mismatched { return (mismatched.code, [reading.names[mismatched.place].path], false) }
        let first = losers(targets, reading).map { targets[$0]![0] }.min()
        return first.map { ("constraintViolation", [reading.names[$0].path], false) }
    }

    /// The names that a job without a fault skips: bare keys that `ignore` drops.
    func ignoring(_ reading: JobReading) -> Selection {
        let ignored = targets(reading, []).filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
        var selection = Selection(skipped: Set(ignored))
        let mismatched = mismatchedKeys(selection.skipped, reading).filter { $0.code == "ignored" }
        selection.skipped.formUnion(mismatched.map(\.place))
        selection.hasEntityFaults = !mismatched.isEmpty
        return selection
    }
}
