import Broker
import BrokerCommandLine
import BrokerInput
import BrokerJSON

/// The effect of all jobs of a submission together.
struct SubmissionSummary {
    struct Failure: Equatable {
        let message: String
        let code: BrokerError.Code?
        let place: JobPlace
    }

    /// Rejected records that are printed one by one; the others are counted.
    private static let listedRejections = 20

    private(set) var jobs = 0
    private(set) var duplicates = 0
    private(set) var records = 0
    /// The failures, and where each begins in the input, for the order.
    private var failed: [(failure: Failure, order: (input: Int, record: Int))] = []
    private(set) var changes: [String: Completion.Changes] = [:]
    private var rejections: [(place: JobPlace, error: Completion.Rejection)] = []
    var warnings = WarningCounts()
    /// Jobs that were tried, and not committed.
    private var trials = 0
    private var examples = DryRunExamples()

    /// Rejections that the server did not list.
    private var unlistedCount: Int { warnings.count(of: .rejectedNotListed) }

    /// Lines of the input that are no records.
    private var unreadableCount = 0

    var rejectedCount: Int { changes.values.reduce(unreadableCount) { $0 + $1.rejected } }

    mutating func add(_ completion: Completion, records: Int, at place: (_ path: String?) -> JobPlace) {
        jobs += 1
        self.records += records
        if completion.isDuplicate { duplicates += 1 }
        if completion.isDryRun { trials += 1 }
        if let keys = completion.examples { examples.add(keys) }
        for (entity, counts) in completion.changes {
            changes[entity, default: Completion.Changes()].add(counts)
        }
        rejections += completion.rejections.map { (place($0.path), $0) }
        for warning in completion.warnings { warnings.add(warning, at: warning.paths.map(place)) }
    }

    /// Notes a line of the input that cannot be read.
    mutating func skip(_ reject: InputReject, at place: JobPlace) {
        unreadableCount += 1
        rejections.append((place, Completion.Rejection(code: .unreadable, message: reject.fault.reason)))
    }

    /// - Parameter order: where what failed begins: the input's number and the record's.
    mutating func fail(
        _ message: String, _ code: BrokerError.Code? = nil, at place: JobPlace = .job, order: (input: Int, record: Int)
    ) {
        failed.append((Failure(message: message, code: code, place: place), order))
    }

    /// In the order of the input, whichever was known first.
    var failures: [Failure] { failed.sorted { $0.order < $1.order }.map(\.failure) }

    func sayFailures() {
        for failure in failures { Program.report("broker: \(failure.message)", .error) }
    }

    /// Data to standard output, warnings and rejections to standard error.
    ///
    /// - Parameters:
    ///   - countsRecords: false where no records were submitted, or their number is unknown.
    ///   - isTrial: all jobs were tried, also those that failed.
    func say(countsRecords: Bool = true, isTrial: Bool = false) throws(CommandFailure) {
        for line in warnings.lines { Program.report("broker: warning: \(line)", .warning) }
        for (place, error) in rejections.prefix(Self.listedRejections) {
            Program.report("broker: skipped, \(place.text): \(error)", .warning)
        }
        if rejections.count > Self.listedRejections {
            Program.report(
                "broker: \(rejections.count - Self.listedRejections) more were skipped; --json lists them, --rejects writes "
                    + "them to a file")
        }
        try sayChanges(countsRecords: countsRecords, isTrial: isTrial || trials > 0)
    }

    /// Every fault of a check, and what was checked.
    func sayCheck() throws(CommandFailure) {
        for line in warnings.lines { Program.report("broker: warning: \(line)", .warning) }
        for (place, error) in rejections { Program.report("broker: \(place.text): \(error)", .error) }
        let faults = rejections.count + unlistedCount + failed.count
        let those = "\(Program.counted(records, "record")) in \(Program.counted(jobs, "job")) checked"
        try Program.say(
            "\(those): \(faults == 0 ? "no faults" : Program.counted(faults, "fault")); nothing was written")
    }

    /// The table of changed objects, and the number of jobs.
    private func sayChanges(countsRecords: Bool, isTrial: Bool) throws(CommandFailure) {
        if !changes.isEmpty { try sayTable() }
        for line in examples.lines(of: changes) { try Program.say(line) }
        let repeated = duplicates > 0 ? ", \(duplicates) of them applied before" : ""
        let those = countsRecords ? "\(Program.counted(records, "record")) in " : ""
        if unreadableCount > 0 {
            Program.report(
                "broker: \(Program.counted(unreadableCount, "line")) could not be read and \(unreadableCount == 1 ? "was" : "were") skipped",
                .warning)
        }
        guard !isTrial else {
            let alone = trials > 1 ? ", each by itself, so that none sees those before it" : ""
            return try Program.say(
                "\(those)\(Program.counted(jobs, "job")) tried\(repeated)\(alone); nothing was written")
        }
        try Program.say("\(those)\(Program.counted(jobs, "job")) committed\(repeated)")
    }

    private func sayTable() throws(CommandFailure) {
        let lines = Completion.Changes.table(of: changes)
        try Program.sayHeading(lines[0])
        for line in lines.dropFirst() { try Program.say(line) }
    }

    /// As a JSON object, to standard output.
    func write(_ counts: [(key: String, count: Int)] = []) throws(CommandFailure) {
        try Program.writeObject { writer in
            for (key, count) in counts { writer.member(key, count) }
            writeMembers(to: &writer)
        }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("jobs", jobs)
        writer.member("duplicates", duplicates)
        writer.member("records", records)
        if trials > 0 {
            writer.member("dryRun", true)
            writer.key("examples")
            examples.write(to: &writer)
        }
        writer.changes(changes)
        writer.objects("rejected", of: rejections) { rejection, writer in
            let (place, error) = rejection
            writer.member("code", error.code.rawValue)
            writer.member("message", error.message)
            writer.member("path", error.path)
            writer.member("entity", error.entity)
            writer.member("attribute", error.attribute)
            place.writeMembers(to: &writer)
        }
        writer.key("warnings")
        warnings.write(to: &writer)
        writer.objects("failures", of: failures) { failure, writer in
            writer.member("message", failure.message)
            writer.member("code", failure.code?.rawValue)
            failure.place.writeMembers(to: &writer)
        }
    }
}

extension BrokerError.Code {
    /// The command's own: a line of an input is no record.
    static let unreadable = BrokerError.Code(rawValue: "unreadable")
}

extension Completion.Changes {
    fileprivate mutating func add(_ other: Completion.Changes) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }
}

extension JSONWriter {
    /// A number, if there is one.
    mutating func member(_ key: String, _ value: Int?) {
        guard let value else { return }
        self.key(key)
        integer(value)
    }

    /// A number, or null.
    mutating func nullable(_ key: String, _ value: Int?) {
        self.key(key)
        if let value { integer(value) } else { null() }
    }

    /// A member with the counts of each entity.
    mutating func changes(_ changes: [String: Completion.Changes], omitsZero: Bool = false) {
        object("changes") { writer in
            for (entity, counts) in changes.sorted(by: { $0.key < $1.key }) {
                writer.object(entity) { writer in
                    for (name, count) in counts.numbers where count > 0 || !omitsZero { writer.member(name, count) }
                }
            }
        }
    }
}

/// Some keys of the objects that dry runs would change, by entity and change.
struct DryRunExamples {
    private static let keysOfList = 10
    /// The contract's words, in the order of the table.
    private static let words = ["inserted", "updated", "deleted"]

    private var keys: [String: [String: [RawJSON]]] = [:]

    mutating func add(_ examples: RawJSON) {
        for (entity, lists) in (try? examples.decode([String: [String: [RawJSON]]].self)) ?? [:] {
            for word in Self.words {
                let room = Self.keysOfList - (keys[entity]?[word]?.count ?? 0)
                guard room > 0, let list = lists[word] else { continue }
                keys[entity, default: [:]][word, default: []] += list.prefix(room)
            }
        }
    }

    /// A line for each entity and change: `Country deleted: "AD", "AE", … (246)`.
    func lines(of changes: [String: Completion.Changes]) -> [String] {
        changes.sorted { $0.key < $1.key }.flatMap { entity, counts in
            zip(Self.words, [counts.inserted, counts.updated, counts.deleted]).compactMap { word, count in
                guard let keys = keys[entity]?[word], !keys.isEmpty else { return nil }
                let texts = keys.map { key in
                    let text = key.description
                    return text.count <= 60 ? text : text.prefix(60) + "…"
                }
                let rest = count - keys.count
                return "\(entity) \(word): " + texts.joined(separator: ", ")
                    + (rest > 0 ? ", and \(ShortText.count(rest)) more" : "")
            }
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            for (entity, lists) in keys.sorted(by: { $0.key < $1.key }) {
                writer.object(entity) { writer in
                    for word in Self.words {
                        guard let list = lists[word] else { continue }
                        writer.array(word, of: list) { $1.raw($0.bytes) }
                    }
                }
            }
        }
    }
}

/// The warnings of all jobs, each once with the number of its occurrences.
struct WarningCounts {
    /// A warning without its count and places, in the order in which they came first.
    private var kinds: [Completion.Warning] = []
    private var found: [Completion.Warning: (count: Int, places: [JobPlace])] = [:]
    /// With the types of the attributes; nil where it is not known.
    var model: ModelDescription?

    /// Keys that are printed for one code and entity; the others are counted.
    private static let listedKeys = 10
    /// Values of an attribute whose places are printed.
    private static let listedPlaces = 3

    mutating func add(_ warning: Completion.Warning, at places: [JobPlace] = []) {
        let kind = Completion.Warning(code: warning.code, entity: warning.entity, key: warning.key)
        if found[kind] == nil { kinds.append(kind) }
        var (count, known) = found[kind] ?? (0, [])
        count += warning.count ?? 1
        known += places.filter { $0 != .job && !known.contains($0) }.prefix(Self.listedPlaces - known.count)
        found[kind] = (count, known)
    }

    /// One line for each code and entity; of values in `_extra`, for each attribute.
    var lines: [String] {
        var groups: [Completion.Warning: [Completion.Warning]] = [:]
        var order: [Completion.Warning] = []
        for kind in kinds {
            let group = Completion.Warning(code: kind.code, entity: kind.entity)
            if groups[group] == nil { order.append(group) }
            groups[group, default: []].append(kind)
        }
        return order.flatMap { group in
            let kinds = groups[group] ?? []
            return group.code == .extraValue ? extraLines(kinds) : [line(group, kinds)]
        }
    }

    func count(of code: Completion.Warning.Code) -> Int {
        kinds.filter { $0.code == code }.reduce(0) { $0 + count($1) }
    }

    private func count(_ kind: Completion.Warning) -> Int { found[kind]?.count ?? 0 }

    private func extraLines(_ kinds: [Completion.Warning]) -> [String] {
        let sorted = sorted(kinds)
        let lines = sorted.prefix(Self.listedKeys).map { kind in
            let (entity, key, count) = (kind.entity ?? "object", kind.key ?? "", count(kind))
            let type = model?.first(of: entity) { $0.attributes[key]?.type } ?? "the attribute's type"
            return
                "\(Program.counted(count, "value")) of \(entity).\(key) \(count == 1 ? "does" : "do") not fit \(type): kept in "
                + "_extra\(places(kind)); `broker model retype \(entity).\(key) TYPE` changes the type"
        }
        guard sorted.count > lines.count else { return lines }
        return lines + ["values of \(sorted.count - lines.count) more attributes are in _extra; --json lists them"]
    }

    /// Where the first values are, of each input by its name.
    private func places(_ kind: Completion.Warning) -> String {
        let places = found[kind]?.places ?? []
        var files: [(name: String, lines: [Int])] = []
        var others: [String] = []
        for place in places {
            guard case .records(_, let name, let line?) = place else {
                others.append(place.text)
                continue
            }
            if files.last?.name != name { files.append((name, [])) }
            files[files.count - 1].lines.append(line)
        }
        let texts = files.map { file in
            "\(file.name), line\(file.lines.count == 1 ? "" : "s") \(file.lines.map(String.init).joined(separator: ", "))"
        }
        guard !places.isEmpty else { return "" }
        return " (\((texts + others).joined(separator: "; "))\(count(kind) > places.count ? ", …" : ""))"
    }

    private func line(_ group: Completion.Warning, _ kinds: [Completion.Warning]) -> String {
        let entity = group.entity ?? "object"
        let total = kinds.reduce(0) { $0 + count($1) }
        switch group.code {
        case .inexact:
            return
                "attributes of \(entity) do not hold values exactly (decimal keeps every digit, and a date as many as its "
                + "\"precision\"): \(list(kinds))"
        case .ignoredValue: return "values of \(entity) were not valid, and not stored: \(list(kinds))"
        case .ignoredKey: return "keys in \(entity) name no object, and were ignored: \(list(kinds))"
        case .unknownKey:
            // In a path, a key that has a dot itself is in quotation marks.
            let hasDot = kinds.contains { $0.key.map { $0.hasSuffix("\"") && $0.contains(".") } ?? false }
            return "the model does not name these keys of \(entity): \(list(kinds))"
                + (hasDot ? " (the model names a key with dots by an array: [\"http.status\"])" : "")
        case .extraKey:
            return "the model does not name these keys of \(entity), and _extra has their values: \(list(kinds))"
        case .objectNotFound: return "\(total) \(total == 1 ? "key names" : "keys name") no \(entity)"
        case .deletionSkipped: return "no \(entity) was deleted, because a record was skipped"
        default: return "\(group.code.rawValue), \(Self.times(total))"
        }
    }

    /// The most frequent ones first.
    private func sorted(_ kinds: [Completion.Warning]) -> [Completion.Warning] {
        kinds.enumerated().sorted { (-count($0.element), $0.offset) < (-count($1.element), $1.offset) }.map(\.element)
    }

    private func list(_ kinds: [Completion.Warning]) -> String {
        let listed = sorted(kinds).prefix(Self.listedKeys).map { "\($0.key ?? "") \(Self.times(count($0)))" }
        let rest = kinds.count - listed.count
        return listed.joined(separator: ", ") + (rest > 0 ? ", and \(rest) more, which --json lists" : "")
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }

    func write(to writer: inout JSONWriter) {
        writer.objects(of: kinds) { kind, writer in
            writer.member("code", kind.code.rawValue)
            writer.member("entity", kind.entity)
            writer.member("key", kind.key)
            writer.member("count", count(kind))
            guard let places = found[kind]?.places, !places.isEmpty else { return }
            writer.objects("places", of: places) { $0.writeMembers(to: &$1) }
        }
    }
}

extension InferredModel {
    /// The same after jobs that warn of such keys.
    static func promote(
        after summary: SubmissionSummary, of sources: [RecordSource], _ connection: ConnectionOptions, evolves: Bool?
    ) async {
        guard summary.warnings.count(of: .extraKey) > 0 else { return }
        await promote(connection, evolves: evolves, readsTexts: sources.contains(where: \.format.readsTexts))
    }
}

extension ModelDescription {
    /// An entity, and those above it, from below: it has their attributes and their identity.
    func lineage(of entity: String) -> [String] { Array(sequence(first: entity) { entities[$0]?.parent }) }

    /// The value of the entity, or else of the nearest one above it that has one.
    func first<Value>(of entity: String, _ value: (Entity) -> Value?) -> Value? {
        lineage(of: entity).compactMap { entities[$0].flatMap(value) }.first
    }
}
