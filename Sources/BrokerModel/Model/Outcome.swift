package import BrokerJSON

/// The number of objects of one entity that a job changed or named; each object counts once per job.
package struct ChangeCounts: Sendable, Equatable {
    package var inserted = 0
    package var updated = 0
    package var unchanged = 0
    package var deleted = 0
    package var rejected = 0

    package init(inserted: Int = 0, updated: Int = 0, unchanged: Int = 0, deleted: Int = 0, rejected: Int = 0) {
        self.inserted = inserted
        self.updated = updated
        self.unchanged = unchanged
        self.deleted = deleted
        self.rejected = rejected
    }

    package var hasChanges: Bool { inserted + updated + deleted > 0 }
}

/// A fact that a job's sender should know, though nothing failed. Counted, not repeated.
package struct Warning: Sendable, Equatable {
    package enum Code: String, Sendable {
        /// A record has a key that the model does not name; `key` is its path in the record.
        case unknownKey
        /// Values that an attribute cannot represent exactly; `key` is the attribute's name.
        case inexact
        /// Values that an attribute could not take, and which `onInvalid` ignored or made null; `key` is the attribute's name.
        case ignoredValue
        /// A record has a key that the model does not name, and its value is in `_extra`; `key` is its path in the record.
        case extraKey
        /// Values that an attribute cannot hold are in `_extra`; `key` is the attribute's name.
        case extraValue
        /// Bare keys with `missing: ignore` that name no object; `key` is the relationship's name.
        case ignoredKey
        /// More records were rejected than are listed; `count` is the number of the others.
        case rejectedNotListed
        /// Keys of a `delete` name no object; `count` is their number.
        case objectNotFound
        /// A `sync` deleted nothing, because records were rejected.
        case deletionSkipped
    }

    package var code: Code
    package var entity: String
    package var key: String?
    package var count: Int
    /// JSON Pointers into the message, of the first values of records that the warning is about.
    package var paths: [String]

    package static let mostPaths = 3

    package init(_ code: Code, entity: String, key: String? = nil, count: Int, paths: [String] = []) {
        self.code = code
        self.entity = entity
        self.key = key
        self.count = count
        self.paths = paths
    }

    /// Adds the same warning of a later part.
    package mutating func add(_ later: Warning) {
        count += later.count
        paths += later.paths.prefix(Self.mostPaths - paths.count)
    }
}

/// The objects of a job's own records, in their state after the job: by operation, in payload order.
package struct ReplyObjects: Sendable, Equatable {
    /// The maximum bytes of their JSON: the limit of the answer to a fetch.
    package static let maximumBytes = 32 << 20

    /// Their number, including the nulls for records without an object.
    package var count: Int
    /// The `objects` of the answer as JSON; nil when they exceed the limit.
    package var json: [UInt8]?

    package init(count: Int, json: [UInt8]?) {
        self.count = count
        self.json = json
    }
}

/// The effect of one job on the store.
package struct Outcome: Sendable {
    /// By entity name, sorted; only the entities that the job changed or named.
    package var changes: [(entity: String, counts: ChangeCounts)] = [] { didSet { written = nil } }
    package var rejected: [Fault] {
        get { rare?.parts.rejected ?? [] }
        set { parts.rejected = newValue }
    }
    package var warnings: [Warning] {
        get { rare?.parts.warnings ?? [] }
        set { parts.warnings = newValue }
    }
    /// The `keys` of the answer as JSON, when the job asked for them.
    package var keys: [UInt8]? {
        get { rare?.parts.keys }
        set { parts.keys = newValue }
    }
    /// Some of the `keys` as JSON, for a dry run.
    package var examples: [UInt8]? {
        get { rare?.parts.examples }
        set { parts.examples = newValue }
    }
    /// The objects of the job's own records, when the job asked for them: in the answer only, not in ``members``.
    package var objects: ReplyObjects? {
        get { rare?.parts.objects }
        set { parts.objects = newValue }
    }
    /// The `keys` of the feed as JSON: those of the objects that changed. Nil when nothing changed, when they exceed the
    /// limit of one job, and where the store keeps none.
    package var feedKeys: [UInt8]? {
        get { rare?.parts.feedKeys }
        set { parts.feedKeys = newValue }
    }

    package init() {}

    /// The parts that most outcomes lack, in one object: an outcome is copied often, and copies of a struct of all of them
    /// take more than three times as long.
    private final class Rare: Sendable {
        struct Parts {
            var rejected: [Fault] = []
            var warnings: [Warning] = []
            var keys: [UInt8]?
            var examples: [UInt8]?
            var objects: ReplyObjects?
            var feedKeys: [UInt8]?
        }

        let parts: Parts

        init(_ parts: Parts) { self.parts = parts }
    }

    private var rare: Rare?

    private var parts: Rare.Parts {
        get { rare?.parts ?? Rare.Parts() }
        set { (rare, written) = (Rare(newValue), nil) }
    }

    /// ``members`` and ``storedObject``, if they have been written and nothing has changed since.
    private final class Written: Sendable {
        let members: [UInt8]
        let object: [UInt8]

        init(_ members: [UInt8]) {
            self.members = members
            object = Outcome.object(members)
        }
    }

    private var written: Written?

    /// Writes ``members`` and retains them if ``storedObject`` has the same bytes: both are needed.
    package mutating func writeBrief() {
        guard rejected.isEmpty, warnings.isEmpty else { return }
        written = Written(members)
    }

    /// The members of the contract's `completed` for the outcome, except `timing`: JSON without the braces.
    package var members: [UInt8] { written?.members ?? members(rejectedBytes: .max, warningBytes: .max) }

    /// Whether it consists of these changes, and of nothing else.
    package func isOnly(_ others: [(entity: String, counts: ChangeCounts)]) -> Bool {
        rare == nil && changes.elementsEqual(others) { $0.counts == $1.counts && $0.entity.hasSameBytes(as: $1.entity) }
    }

    /// A JSON object of ``members``, small enough to be stored for every job: some of the rejections and warnings, and
    /// the number of the others.
    package var storedObject: [UInt8] {
        written?.object
            ?? Self.object(members(rejectedBytes: Self.storedRejectedBytes, warningBytes: Self.storedWarningBytes))
    }

    private static func object(_ members: [UInt8]) -> [UInt8] {
        [UInt8(ascii: "{")] + members + [UInt8(ascii: "}")]
    }

    /// Bytes of rejections that are stored: at least 200 rejections, as many as a person would read. A frame of some
    /// hundred bytes can have ten thousand of them.
    private static let storedRejectedBytes = 64 << 10
    private static let storedWarningBytes = 16 << 10

    private func members(rejectedBytes: Int, warningBytes: Int) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.object("changes") { writer in
            for (entity, counts) in changes {
                writer.key(entity)
                counts.write(to: &writer)
            }
        }
        writer.key("rejected")
        let listed = writer.faults(rejected, within: rejectedBytes)
        writer.key("warnings")
        writer.warnings(warnings, unlisted: rejected.count - listed, within: warningBytes)
        writer.member("keys", raw: keys)
        writer.member("examples", raw: examples)
        return writer.bytes
    }
}

extension JSONWriter {
    /// Writes as many faults as begin within the limit of bytes.
    fileprivate mutating func faults(_ faults: [Fault], within bytes: Int) -> Int {
        var listed = 0
        array { writer in
            let start = writer.bytes.count
            while listed < faults.count, writer.bytes.count - start < bytes {
                faults[listed].write(to: &writer)
                listed += 1
            }
        }
        return listed
    }

    /// - Parameter unlisted: rejections that are not listed here, besides those that a warning already counts.
    fileprivate mutating func warnings(_ warnings: [Warning], unlisted: Int, within bytes: Int) {
        let counted = warnings.first { $0.code == .rejectedNotListed }?.count ?? 0
        let others = warnings.filter { $0.code != .rejectedNotListed }
        array { writer in
            let start = writer.bytes.count
            let listed = others.prefix { warning in
                guard writer.bytes.count - start < bytes else { return false }
                warning.write(to: &writer)
                return true
            }
            // Those that are not listed are counted together, without a key.
            let rest = Dictionary(grouping: others.dropFirst(listed.count)) { [$0.entity, $0.code.rawValue] }
            for (_, alike) in rest.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
                let count = alike.reduce(0) { $0 + $1.count }
                Warning(alike[0].code, entity: alike[0].entity, count: count).write(to: &writer)
            }
            if counted + unlisted > 0 {
                Warning(.rejectedNotListed, entity: "", count: counted + unlisted).write(to: &writer)
            }
        }
    }
}

extension ChangeCounts {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            // One by one: a list of them would be an allocation for each entity of each job.
            writer.member("inserted", inserted)
            writer.member("updated", updated)
            writer.member("unchanged", unchanged)
            writer.member("deleted", deleted)
            writer.member("rejected", rejected)
        }
    }
}

extension Warning {
    /// The maximum bytes of a key in a warning: a client's key may have megabytes.
    private static let longestKey = 256

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("code", code.rawValue)
            writer.member("entity", entity)
            writer.member(
                "key", key.map { $0.utf8.count <= Self.longestKey ? $0 : String($0.unicodeScalars.prefix(64)) + "…" })
            writer.member("count", count)
            let short = paths.filter { $0.utf8.count <= Self.longestKey }
            if !short.isEmpty { writer.array("paths") { writer in for path in short { writer.string(path) } } }
        }
    }
}

/// The reason why a job or one of its records was refused, in the contract's terms.
///
/// The codes of frames and connections are defined in the wire; these are the codes of the coordinator and below.
package enum FaultCode: String, Sendable, CaseIterable {
    case idConflict, conflict, busy, draining, cancelled, malformedJSON, unsupportedMessage
    case unknownEntity, unknownAttribute, unknownRelationship, unknownMapping, unmappable
    case invalidValue, missingValue, missingIdentity, noKnownKey, unknownKey, objectNotFound, validationFailed
    case constraintViolation, tooManyDeletions, unauthorized
    case invalidPredicate, remoteError, snapshotExpired, gone, notYet, storeFull, storeUnavailable, `internal`
}

/// A fault: what happened, where, and the remedy.
package struct Fault: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: FaultCode
    /// What happened and the remedy, in one or two sentences.
    package var message: String
    /// JSON Pointer (RFC 6901) into the message.
    package var path: String?
    package var entity: String?
    package var attribute: String?
    /// For `busy` and `notYet`: the time until a retry is worthwhile.
    package var retryAfterMilliseconds: Int?
    /// For `gone`: the feed can be read after this sequence, and no older one.
    package var oldest: Int64?
    /// For `conflict`: the object as JSON, null without one; nil when it is too long.
    package var object: [UInt8]?
    /// The text of SQLite about it, for the log of the server: outcomes do not have it, because it differs between versions.
    package var cause: String?

    package init(
        _ code: FaultCode, _ message: String, path: String? = nil, entity: String? = nil, attribute: String? = nil,
        retryAfterMilliseconds: Int? = nil
    ) {
        self.code = code
        self.message = message
        self.path = path
        self.entity = entity
        self.attribute = attribute
        self.retryAfterMilliseconds = retryAfterMilliseconds
    }

    /// `busy`, with the time until a retry is worthwhile.
    package static func busy(_ message: String, path: String? = nil) -> Fault {
        Fault(.busy, message, path: path, retryAfterMilliseconds: retryMilliseconds)
    }

    /// The server has not applied everything up to a sequence.
    package static func notYet(_ sequence: Int64, applied: Int64) -> Fault {
        Fault(
            .notYet,
            "This server has applied the log up to \(applied), and not up to \(sequence) yet. Ask again, or ask the server that gave "
                + "the sequence.", retryAfterMilliseconds: retryMilliseconds)
    }

    /// The remedy that `busy` gives.
    private static let retryMilliseconds = 1_000

    package func at(_ path: String?) -> Fault {
        var fault = self
        fault.path = path
        return fault
    }

    package func of(entity: String) -> Fault {
        var fault = self
        fault.entity = entity
        return fault
    }

    package var description: String {
        path.map { "\(code.rawValue) at \($0): \(message)" } ?? "\(code.rawValue): \(message)"
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("code", code.rawValue)
            writer.member("message", message)
            writer.member("path", path)
            writer.member("entity", entity)
            writer.member("attribute", attribute)
            if let retryAfterMilliseconds { writer.member("retryAfterMilliseconds", retryAfterMilliseconds) }
            if let oldest { writer.member("oldest", oldest) }
            writer.member("object", raw: object)
        }
    }
}

/// The number of objects that a job may delete, those that a delete rule deletes included.
package enum DeletionLimit: Sendable, Equatable {
    case objects(Int)
    /// A part of the objects that an entity, with its subentities, had before the job, for each entity: in thousandths
    /// of a percent, so that the decision takes whole numbers only and is the same on every machine.
    case share(thousandthsOfPercent: Int)
}

extension DeletionLimit {
    /// As a model and a job say it: `20`, `2.5%`.
    package var text: String {
        switch self {
        case .objects(let count): return "\(count)"
        case .share(let thousandths):
            var fraction = String(thousandths % 1_000 + 1_000).dropFirst()
            while fraction.last == "0" { fraction.removeLast() }
            return "\(thousandths / 1_000)" + (fraction.isEmpty ? "" : ".\(fraction)") + "%"
        }
    }

    /// Whether it forbids so many, of that many before.
    package func forbids(_ deleted: Int, of before: Int) -> Bool {
        switch self {
        case .objects(let limit): return deleted > limit
        case .share(let thousandths):
            let (part, isTooLarge) = before.multipliedReportingOverflow(by: thousandths)
            return !isTooLarge && deleted * 100_000 > part
        }
    }

    /// - Parameter text: such as `2.5%`.
    package init?(percentage text: some BidirectionalCollection<UInt8>) {
        guard text.count <= 8, text.last == UInt8(ascii: "%") else { return nil }
        let parts = text.dropLast().split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let whole = Self.digits(parts[0], 1...3) else { return nil }
        var thousandths = whole * 1_000
        if parts.count == 2 {
            guard let fraction = Self.digits(parts[1], 1...3) else { return nil }
            thousandths += (0..<3 - parts[1].count).reduce(fraction) { value, _ in value * 10 }
        }
        guard thousandths <= 100_000 else { return nil }
        self = .share(thousandthsOfPercent: thousandths)
    }

    private static func digits(_ text: some Collection<UInt8>, _ counts: ClosedRange<Int>) -> Int? {
        guard counts.contains(text.count), text.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else {
            return nil
        }
        return text.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }
}
