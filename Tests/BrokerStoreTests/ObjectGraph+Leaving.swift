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
        /// Names were left out because of what their objects are.
        var hasKindFaults = false
    }

    func subject(_ place: Int, _ name: JobReading.Name) -> Subject {
        name.identity.map { .object(key(name.entity, $0)) } ?? .new(place)
    }

    // MARK: - Skip

    /// What `skip` leaves out. What is left out has no effect at all, so that one thing leads to another.
    func selection(_ reading: JobReading) -> Selection {
        let faulty = reading.names.indices.filter { reading.names[$0].fault != nil }
        var selection = Selection()
        leaveOut(faulty, reading, &selection)
        let choices = losers(selection, reading)
        selection.isContested = choices.count != 1 || kindFaults(selection.leftOut, reading).isContested
        selection.losers = choices.first ?? []
        // Nor whether who loses a claim goes before what it made too much of.
        if !selection.losers.isEmpty, lackSpecialValues(selection, reading) { selection.isContested = true }
        let early = kindFaults(selection.leftOut, reading).faults
        var rejected = settle(&selection, reading)
        // Whether a record of an object that is rejected for its keys is listed, too.
        if early.contains(where: { rejected[subject($0.place, reading.names[$0.place])] != nil }) {
            selection.isContested = true
        }
        for subject in selection.losers { rejected[subject] = "constraintViolation" }
        let strangers = kindFaults(selection.leftOut, reading)
        leaveOut(strangers.faults.map(\.place), reading, &selection)
        if strangers.isContested { selection.isContested = true }
        selection.hasKindFaults = !strangers.faults.isEmpty
        list(faulty, strangers.faults, rejected, reading, &selection)
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
            let subjects = subjects(reading, withKindFaults(selection.leftOut, reading))
            let ignored = subjects.filter { isIgnored($0.key, $0.value, reading) }.flatMap(\.value)
            if !ignored.isEmpty {
                leaveOut(ignored, reading, &selection)
                continue
            }
            let faults = existenceFaults(subjects, reading)
            let certain = faults.filter {
                let kind = kind($0.subject, subjects[$0.subject]!, reading)
                return model.topmost(kind) == kind
            }
            // Which goes first of those that only what is special about them makes lack something is not said.
            if certain.isEmpty, faults.count > 1 { selection.isContested = true }
            let first = (certain.isEmpty ? faults : certain).min { $0.offset < $1.offset }
            guard let fault = first else { break }
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
            let strange = withKindFaults(gone.union(nested(in: gone, reading)), reading)
            let places = all[subject]!.filter { !strange.contains($0) }
            if !places.isEmpty, !isIgnored(subject, places, reading) {
                reasons[subject] = existenceFault(subject, places, reading)
                // What made too much of it was left out for itself; the contract does not say who goes first.
                if reasons[subject] == nil { selection.isContested = true }
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
            subject($0, reading.names[$0])
        }
    }

    /// One rejection for each object, none for what is nested in a rejected one.
    private func list(
        _ faulty: [Int], _ strangers: [KindFault], _ rejected: [Subject: String], _ reading: JobReading,
        _ selection: inout Selection
    ) {
        var listed: Set<Subject> = []
        let told = strangers.filter { $0.code != "ignored" }
        let strange = Dictionary(uniqueKeysWithValues: told.map { ($0.place, $0.code) })
        var all = Set(faulty).union(strange.keys)
        for place in reading.names.indices where rejected[subject(place, reading.names[place])] != nil {
            all.insert(place)
        }
        for place in all.sorted() {
            let name = reading.names[place]
            guard all.isDisjoint(with: reading.ancestors(place)) else { continue }
            let subject = subject(place, name)
            if let fault = name.fault {
                selection.rejections.append((name.entity, fault))
            } else if let code = strange[place] {
                selection.rejections.append(
                    (name.entity, JobReading.Rejection(code: code, path: name.path, offset: name.offset)))
            } else if listed.insert(subject).inserted {
                let code = rejected[subject]!
                // Whether what is left out still says what another one would be is not said.
                let most = self.kind(subject, subjects(reading, [])[subject]!, reading)
                let kind = kind(subject, remaining(subject, besides: faulty, rejected, reading), reading)
                if kind != most { selection.isContested = true }
                selection.rejections.append(
                    (kind, JobReading.Rejection(code: code, path: name.path, offset: name.offset)))
            }
        }
    }

    /// The names of a rejected object that would be there without it.
    private func remaining(
        _ subject: Subject, besides faulty: [Int], _ rejected: [Subject: String], _ reading: JobReading
    ) -> [Int] {
        let all = subjects(reading, [])
        let others = rejected.keys.filter { $0 != subject }.flatMap { all[$0]! }
        let gone = Set(faulty).union(others)
        let strange = withKindFaults(gone.union(nested(in: gone, reading)), reading)
        let places = all[subject]!.filter { !strange.contains($0) }
        return places.isEmpty ? all[subject]! : places
    }

    /// Objects lack what they need only because they became more special than their topmost entity.
    private func lackSpecialValues(_ selection: Selection, _ reading: JobReading) -> Bool {
        let subjects = subjects(reading, withKindFaults(selection.leftOut, reading))
        return existenceFaults(subjects, reading).contains {
            let kind = kind($0.subject, subjects[$0.subject]!, reading)
            return model.topmost(kind) != kind
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
        if !exists(subject), !places.contains(where: { makes(reading.names[$0]) }) { return "objectNotFound" }
        return lacksRequired(subject, places, reading) ? "missingValue" : nil
    }

    private func lacksRequired(_ subject: Subject, _ places: [Int], _ reading: JobReading) -> Bool {
        let entity = model.entity(kind(subject, places, reading))
        let known = stored(subject).map { Set(model.entity($0).attributes.map(\.name)) } ?? []
        return entity.attributes.contains { attribute in
            attribute.isRequired && attribute.defaultValue == nil && !entity.identity.contains(attribute.name)
                && !known.contains(attribute.name)
                && !places.contains { (reading.names[$0].values[attribute.name] ?? nil) != nil }
        }
    }

    // MARK: - Fail

    /// The fault of a job that fails, by its code and where it may be told: the first in the text of those that are in it,
    /// else of what cannot be made, else any lost claim on a unique value; nil when there is none.
    func firstFault(_ reading: JobReading) -> (code: String, paths: Set<String>, isContested: Bool)? {
        if let fault = reading.names.compactMap(\.fault).min(by: { $0.offset < $1.offset }) {
            // Kinds are found to be at fault while staging where the job alone tells them, else at the merge.
            return (fault.code, [fault.path], !kindFaults([], reading).faults.isEmpty)
        }
        let strangers = kindFaults([], reading)
        let told = strangers.faults.filter { $0.code != "ignored" }
        if let fault = told.first {
            let others = existenceFaults(subjects(reading, Set(told.map(\.place))), reading)
            // Alone, too, a job may contradict itself, which is found before it is held against what is there.
            let sameSubject = reading.names.indices.filter {
                subject($0, reading.names[$0]) == subject(fault.place, reading.names[fault.place])
            }
            let isContested =
                strangers.isContested || told.count > 1 || sameSubject.count > 1 || !others.isEmpty
            return (fault.code, [reading.names[fault.place].path], isContested)
        }
        let selection = ignoring(reading)
        let subjects = subjects(reading, withKindFaults(selection.leftOut, reading))
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
        let strangers = kindFaults([], reading)
        var selection = Selection(leftOut: Set(ignored).union(strangers.faults.map(\.place)))
        selection.isContested = strangers.isContested
        selection.hasKindFaults = !strangers.faults.isEmpty
        return selection
    }
}
