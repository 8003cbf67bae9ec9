import Broker
import BrokerClient
import BrokerCommandLine
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
    private var changes: [String: Completion.Changes] = [:]
    private var rejections: [(place: JobPlace, error: Completion.Rejection)] = []
    private var warnings = WarningCounts()
    /// Jobs that were tried, and not committed.
    private var trials = 0
    private var examples = DryRunExamples()

    /// Rejections that the server did not list.
    private var unlistedCount: Int { warnings.count(of: .rejectedNotListed) }

    var rejectedCount: Int { changes.values.reduce(0) { $0 + $1.rejected } }

    /// - Parameter place: what a JSON Pointer into the job's message leads to, for messages.
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
        for warning in completion.warnings { warnings.add(warning) }
    }

    /// - Parameters:
    ///   - message: begins with the place.
    ///   - order: where what failed begins: the input's number and the record's.
    mutating func fail(
        _ message: String, _ code: BrokerError.Code? = nil, at place: JobPlace = .job, order: (input: Int, record: Int)
    ) {
        failed.append((Failure(message: message, code: code, place: place), order))
    }

    /// In the order of the input, whichever was known first.
    var failures: [Failure] { failed.sorted { $0.order < $1.order }.map(\.failure) }

    func sayFailures() {
        for failure in failures { Program.complain("broker: \(failure.message)", .error) }
    }

    /// Data to standard output, warnings and rejections to standard error.
    ///
    /// - Parameters:
    ///   - countsRecords: false where no records were submitted, or their number is unknown.
    ///   - isTrial: all jobs were tried, also those that failed.
    func say(countsRecords: Bool = true, isTrial: Bool = false) throws(CommandFailure) {
        for line in warnings.lines { Program.complain("broker: warning: \(line)", .warning) }
        for (place, error) in rejections.prefix(Self.listedRejections) {
            Program.complain("broker: skipped, \(place.text): \(error)", .warning)
        }
        if rejections.count > Self.listedRejections {
            Program.complain(
                "broker: \(rejections.count - Self.listedRejections) more were skipped; --json lists them, --rejects writes "
                    + "them to a file")
        }
        try sayChanges(countsRecords: countsRecords, isTrial: isTrial || trials > 0)
    }

    /// Every fault of a check, and what was checked.
    func sayCheck() throws(CommandFailure) {
        for line in warnings.lines { Program.complain("broker: warning: \(line)", .warning) }
        for (place, error) in rejections { Program.complain("broker: \(place.text): \(error)", .error) }
        let faults = rejections.count + unlistedCount + failed.count
        let those = "\(counted(records, "record")) in \(counted(jobs, "job")) checked"
        try Program.say("\(those): \(faults == 0 ? "no faults" : counted(faults, "fault")); nothing was written")
    }

    /// The table of changed objects, and the number of jobs.
    private func sayChanges(countsRecords: Bool, isTrial: Bool) throws(CommandFailure) {
        if !changes.isEmpty { try sayTable() }
        for line in examples.lines(of: changes) { try Program.say(line) }
        let repeated = duplicates > 0 ? ", \(duplicates) of them applied before" : ""
        let those = countsRecords ? "\(counted(records, "record")) in " : ""
        guard !isTrial else {
            let alone = trials > 1 ? ", each by itself, so that none sees those before it" : ""
            return try Program.say("\(those)\(counted(jobs, "job")) tried\(repeated)\(alone); nothing was written")
        }
        try Program.say("\(those)\(counted(jobs, "job")) committed\(repeated)")
    }

    private func sayTable() throws(CommandFailure) {
        let entities = changes.keys.sorted()
        let width = max(6, entities.map(\.count).max() ?? 0)
        let heads = ["inserted", "updated", "unchanged", "deleted", "rejected"]
        try Program.sayHeading(pad("entity", width) + heads.map { "  " + lead($0, 9) }.joined())
        for entity in entities {
            let counts = changes[entity] ?? Completion.Changes()
            let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
            try Program.say(pad(entity, width) + numbers.map { "  " + lead(String($0), 9) }.joined())
        }
    }

    /// As a JSON object, to standard output.
    ///
    /// - Parameter counts: further members before the others.
    func write(_ counts: [(key: String, count: Int)] = []) throws(CommandFailure) {
        var writer = JSONWriter()
        writer.object { writer in
            for (key, count) in counts { writer.member(key, count) }
            writeMembers(to: &writer)
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// As members of a JSON object.
    func writeMembers(to writer: inout JSONWriter) {
        for (key, count) in [("jobs", jobs), ("duplicates", duplicates), ("records", records)] {
            writer.key(key)
            writer.integer(count)
        }
        if trials > 0 {
            writer.key("dryRun")
            writer.bool(true)
            writer.key("examples")
            examples.write(to: &writer)
        }
        writer.key("changes")
        writer.object { writer in
            for entity in changes.keys.sorted() {
                writer.key(entity)
                (changes[entity] ?? Completion.Changes()).write(to: &writer)
            }
        }
        writer.key("rejected")
        writer.array { writer in
            for (place, error) in rejections { error.write(to: &writer, place: place) }
        }
        writer.key("warnings")
        writer.array { writer in
            warnings.write(to: &writer)
        }
        writer.key("failures")
        writer.array { writer in
            for failure in failures {
                writer.object { writer in
                    writer.member("message", failure.message)
                    writer.member("code", failure.code?.rawValue)
                    failure.place.writeMembers(to: &writer)
                }
            }
        }
    }

    private func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

    private func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private func lead(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}

extension Completion.Changes {
    fileprivate mutating func add(_ other: Completion.Changes) {
        inserted += other.inserted
        updated += other.updated
        unchanged += other.unchanged
        deleted += other.deleted
        rejected += other.rejected
    }

    fileprivate func write(to writer: inout JSONWriter) {
        let members = [
            ("inserted", inserted), ("updated", updated), ("unchanged", unchanged), ("deleted", deleted),
            ("rejected", rejected),
        ]
        writer.object { writer in
            for (key, count) in members {
                writer.key(key)
                writer.integer(count)
            }
        }
    }
}

extension Completion.Rejection {
    fileprivate func write(to writer: inout JSONWriter, place: JobPlace) {
        writer.object { writer in
            let members = [
                ("code", code.rawValue), ("message", message), ("path", path), ("entity", entity),
                ("attribute", attribute),
            ]
            for (key, value) in members { writer.member(key, value) }
            place.writeMembers(to: &writer)
        }
    }
}
