extension ObjectGraph {
    /// What a name is about.
    enum Subject: Hashable {
        case object(Key)
        /// A new object, made by the record at that place among the names.
        case new(Int)
    }

    /// What becomes of a job's names: those that are left out, and what is told of them.
    struct Selection {
        var leftOut: Set<Int> = []
        /// In the order of the text.
        var rejections: [(entity: String, rejection: JobReading.Rejection)] = []
        /// Which objects are left out, or why, hangs on what is left out first: more than one was about to lose its claim on
        /// a unique value at the same time, or one that could not be made is only named by keys that make nothing, once
        /// others are left out.
        var isContested = false
        /// How many objects lost such a claim.
        var lostClaims = 0
    }

    static func subject(_ place: Int, _ name: JobReading.Name) -> Subject {
        name.identity.map { .object(Key(entity: name.entity, identity: $0)) } ?? .new(place)
    }

    // MARK: - Skip

    /// What `skip` leaves out. What is left out has no effect at all, so that one thing leads to another.
    func selection(_ reading: JobReading) -> Selection {
        var selection = Selection()
        let faulty = reading.names.indices.filter { reading.names[$0].fault != nil }
        leaveOut(faulty, reading, &selection)
        var rejected: [Subject: String] = [:]
        var atFirst: [Subject: String] = [:]
        while true {
            let subjects = subjects(reading, selection.leftOut)
            let ignored = subjects.filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
            if !ignored.isEmpty {
                leaveOut(ignored, reading, &selection)
                continue
            }
            let missing = existenceFaults(subjects, reading)
            for fault in missing ?? [] where atFirst[fault.subject] == nil { atFirst[fault.subject] = fault.code }
            let faults = missing ?? uniqueFaults(subjects, reading) ?? []
            if missing == nil, faults.count > 1 { selection.isContested = true }
            guard let fault = faults.min(by: { $0.offset < $1.offset }) else { break }
            if missing == nil { selection.lostClaims += 1 }
            rejected[fault.subject] = fault.code
            leaveOut(subjects[fault.subject]!, reading, &selection)
        }
        for place in reading.names.indices where selection.leftOut.isDisjoint(with: reading.ancestors(place)) {
            let subject = Self.subject(place, reading.names[place])
            if let code = atFirst[subject], code != rejected[subject] { selection.isContested = true }
        }
        list(faulty, rejected, reading, &selection)
        return selection
    }

    /// Names go, and what is nested in them.
    private func leaveOut(_ places: [Int], _ reading: JobReading, _ selection: inout Selection) {
        selection.leftOut.formUnion(places)
        for place in reading.names.indices
        where !selection.leftOut.isDisjoint(with: reading.ancestors(place)) { selection.leftOut.insert(place) }
    }

    /// The names that remain, by what they are about, each in the order of the text.
    func subjects(_ reading: JobReading, _ leftOut: Set<Int>) -> [Subject: [Int]] {
        Dictionary(grouping: reading.names.indices.filter { !leftOut.contains($0) }) {
            Self.subject($0, reading.names[$0])
        }
    }

    /// One rejection for each object, none for what is nested in a rejected one.
    private func list(
        _ faulty: [Int], _ rejected: [Subject: String], _ reading: JobReading, _ selection: inout Selection
    ) {
        var listed: Set<Subject> = []
        var all = Set(faulty)
        for place in reading.names.indices where rejected[Self.subject(place, reading.names[place])] != nil {
            all.insert(place)
        }
        for place in all.sorted() {
            let name = reading.names[place]
            guard all.isDisjoint(with: reading.ancestors(place)) else { continue }
            let subject = Self.subject(place, name)
            if let fault = name.fault {
                selection.rejections.append((name.entity, fault))
            } else if listed.insert(subject).inserted {
                let code = rejected[subject]!
                selection.rejections.append(
                    (name.entity, JobReading.Rejection(code: code, path: name.path, offset: name.offset)))
            }
        }
    }

    // MARK: - Faults beside what is there

    struct SubjectFault {
        let subject: Subject
        let code: String
        let path: String
        /// Of the first name of the subject.
        let offset: Int
    }

    /// Bare keys that `ignore` drops: of an absent object that nothing makes and no `fail` asks for.
    private func isIgnored(_ subject: Subject, _ places: [Int], _ reading: JobReading) -> Bool {
        !exists(subject) && places.allSatisfy { reading.names[$0].missing == .ignore }
    }

    private func exists(_ subject: Subject) -> Bool {
        if case .object(let key) = subject { nodes[key] != nil } else { false }
    }

    /// Absent objects that cannot be made; nil when there are none.
    private func existenceFaults(_ subjects: [Subject: [Int]], _ reading: JobReading) -> [SubjectFault]? {
        var faults: [SubjectFault] = []
        for (subject, places) in subjects where !exists(subject) {
            let makers = places.filter { reading.names[$0].missing == nil || reading.names[$0].missing == .stub }
            let code: String
            if makers.isEmpty {
                code = "objectNotFound"
            } else if lacksRequired(places, reading) {
                code = "missingValue"
            } else {
                continue
            }
            let first = reading.names[places[0]]
            faults.append(SubjectFault(subject: subject, code: code, path: first.path, offset: first.offset))
        }
        return faults.isEmpty ? nil : faults
    }

    private func lacksRequired(_ places: [Int], _ reading: JobReading) -> Bool {
        let entity = model.entity(reading.names[places[0]].entity)
        return entity.attributes.contains { attribute in
            attribute.isRequired && attribute.defaultValue == nil && !entity.identity.contains(attribute.name)
                && !places.contains { (reading.names[$0].values[attribute.name] ?? nil) != nil }
        }
    }

    // MARK: - Unique values

    private struct Claim {
        let subject: Subject?
        /// Of the record that said the value; nil when the job does not.
        let offset: Int?
    }

    /// Objects that may not have a unique value beside what the job leaves behind; nil when there are none.
    private func uniqueFaults(_ subjects: [Subject: [Int]], _ reading: JobReading) -> [SubjectFault]? {
        var losers: [Subject: Int] = [:]
        for entity in model.entities {
            let lists = entity.unique + entity.attributes.filter(\.isUnique).map { [$0.name] }
            for list in lists {
                for claims in conflicts(entity, list, subjects, reading) { judge(claims, &losers) }
            }
        }
        let faults = losers.map { subject, offset in
            let first = reading.names[subjects[subject]![0]]
            return SubjectFault(subject: subject, code: "constraintViolation", path: first.path, offset: offset)
        }
        return faults.isEmpty ? nil : faults
    }

    /// Of several that claim one value, the first keeps it, unless it is another's who does not give it up.
    private func judge(_ claims: [Claim], _ losers: inout [Subject: Int]) {
        let isTaken = claims.contains { $0.offset == nil }
        let claimants = claims.filter { $0.offset != nil }.sorted { $0.offset! < $1.offset! }
        for claim in claimants.dropFirst(isTaken ? 0 : 1) {
            // What is certain comes before what hangs on another claimant's fate.
            let offset = isTaken ? claim.offset! - (1 << 40) : claim.offset!
            losers[claim.subject!] = min(offset, losers[claim.subject!] ?? Int.max)
        }
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

    // MARK: - Fail

    /// The fault of a job that fails: the first in the text of those that are in it, else of those beside what is there.
    func firstFault(_ reading: JobReading) -> JobReading.Rejection? {
        if let fault = reading.names.compactMap(\.fault).min(by: { $0.offset < $1.offset }) { return fault }
        let selection = ignoring(reading)
        let subjects = subjects(reading, selection.leftOut)
        let faults = (existenceFaults(subjects, reading) ?? uniqueFaults(subjects, reading) ?? []).map { fault in
            JobReading.Rejection(
                code: fault.code, path: fault.path, offset: reading.names[subjects[fault.subject]![0]].offset)
        }
        return faults.min { $0.offset < $1.offset }
    }

    /// What a job without a fault leaves out: bare keys that `ignore` drops.
    func ignoring(_ reading: JobReading) -> Selection {
        let ignored = subjects(reading, []).filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
        return Selection(leftOut: Set(ignored))
    }
}
