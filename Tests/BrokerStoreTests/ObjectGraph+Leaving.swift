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
        /// Objects that lost a claim on a unique value.
        var losers: Set<Subject> = []
        /// No choice of losers, or more than one, is such that each has lost to what stays and nobody else has: claims go
        /// round in a circle, and the contract does not say where it is broken.
        var isContested = false
    }

    static func subject(_ place: Int, _ name: JobReading.Name) -> Subject {
        name.identity.map { .object(Key(entity: name.entity, identity: $0)) } ?? .new(place)
    }

    // MARK: - Skip

    /// What `skip` leaves out. What is left out has no effect at all, so that one thing leads to another.
    func selection(_ reading: JobReading) -> Selection {
        let faulty = reading.names.indices.filter { reading.names[$0].fault != nil }
        var selection = Selection()
        leaveOut(faulty, reading, &selection)
        let choices = losers(selection, reading)
        selection.isContested = choices.count != 1
        selection.losers = choices.first ?? []
        var rejected = settle(&selection, reading)
        for subject in selection.losers { rejected[subject] = "constraintViolation" }
        list(faulty, rejected, reading, &selection)
        return selection
    }

    /// Leaves out the losers, and then what cannot be made.
    ///
    /// - Returns: why those that cannot be made are left out; not of those that nothing but what is left out asks for.
    func settle(_ selection: inout Selection, _ reading: JobReading) -> [Subject: String] {
        let all = subjects(reading, [])
        leaveOut(selection.losers.flatMap { all[$0]! }, reading, &selection)
        var absent: Set<Subject> = []
        while true {
            let subjects = subjects(reading, selection.leftOut)
            let ignored = subjects.filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
            if !ignored.isEmpty {
                leaveOut(ignored, reading, &selection)
                continue
            }
            guard let fault = existenceFaults(subjects, reading).min(by: { $0.offset < $1.offset }) else { break }
            absent.insert(fault.subject)
            leaveOut(all[fault.subject]!, reading, &selection)
        }
        // What asked for them may have been left out itself.
        var others = selection.losers.union(absent)
        var reasons: [Subject: String] = [:]
        for subject in absent {
            others.remove(subject)
            let gone = Set(others.flatMap { all[$0]! }).union(
                reading.names.indices.filter { reading.names[$0].fault != nil })
            others.insert(subject)
            let places = all[subject]!.filter { !gone.contains($0) && gone.isDisjoint(with: reading.ancestors($0)) }
            if !places.isEmpty, !isIgnored(subject, places, reading) {
                reasons[subject] = existenceFault(subject, places, reading)
            }
        }
        return reasons
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

    func exists(_ subject: Subject) -> Bool {
        if case .object(let key) = subject { nodes[key] != nil } else { false }
    }

    /// Absent objects that cannot be made.
    private func existenceFaults(_ subjects: [Subject: [Int]], _ reading: JobReading) -> [SubjectFault] {
        subjects.compactMap { subject, places in
            guard let code = existenceFault(subject, places, reading) else { return nil }
            let first = reading.names[places[0]]
            return SubjectFault(subject: subject, code: code, path: first.path, offset: first.offset)
        }
    }

    private func existenceFault(_ subject: Subject, _ places: [Int], _ reading: JobReading) -> String? {
        guard !exists(subject) else { return nil }
        let makers = places.filter { reading.names[$0].missing == nil || reading.names[$0].missing == .stub }
        if makers.isEmpty { return "objectNotFound" }
        return lacksRequired(places, reading) ? "missingValue" : nil
    }

    private func lacksRequired(_ places: [Int], _ reading: JobReading) -> Bool {
        let entity = model.entity(reading.names[places[0]].entity)
        return entity.attributes.contains { attribute in
            attribute.isRequired && attribute.defaultValue == nil && !entity.identity.contains(attribute.name)
                && !places.contains { (reading.names[$0].values[attribute.name] ?? nil) != nil }
        }
    }

    // MARK: - Fail

    /// The fault of a job that fails, by its code and where it may be told: the first in the text of those that are in it,
    /// else of what cannot be made, else any lost claim on a unique value; nil when there is none.
    func firstFault(_ reading: JobReading) -> (code: String, paths: Set<String>, isContested: Bool)? {
        if let fault = reading.names.compactMap(\.fault).min(by: { $0.offset < $1.offset }) {
            return (fault.code, [fault.path], false)
        }
        let selection = ignoring(reading)
        let subjects = subjects(reading, selection.leftOut)
        if let fault = existenceFaults(subjects, reading).min(by: { $0.offset < $1.offset }) {
            return (fault.code, [fault.path], false)
        }
        let choices = losers(selection, reading)
        guard choices != [[]] else { return nil }
        let losers = Set(choices.joined())
        let paths = losers.compactMap { subjects[$0].map { reading.names[$0[0]].path } }
        return ("constraintViolation", Set(paths), choices.count != 1)
    }

    /// What a job without a fault leaves out: bare keys that `ignore` drops.
    func ignoring(_ reading: JobReading) -> Selection {
        let ignored = subjects(reading, []).filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
        return Selection(leftOut: Set(ignored))
    }
}
