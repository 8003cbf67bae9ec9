package import BrokerJSON

/// The effect of a committed job, or of one that was tried: ``isDryRun``.
public struct Completion: Sendable, Equatable {
    /// The job's id.
    public var id: JobID
    /// The job's position in the total order of jobs.
    public var sequence: Int64
    /// The job had been applied before, and this is its effect of that time.
    public var isDuplicate: Bool
    /// The job was tried and undone: it has changed nothing. It would have the effect that is here; if ``isDuplicate``, it
    /// had been applied before.
    public var isDryRun = false
    /// By entity, those that the job changed or named; empty with `reply: .none`.
    public var changes: [String: Changes]
    /// The records that `onInvalid: .skip` rejected, in the order of the job.
    public var rejections: [Rejection]
    /// Facts that the sender should know, though nothing failed.
    public var warnings: [Warning]
    /// Nil with `reply: .none`.
    public var timing: Timing?
    /// The keys of the objects, by entity and change, with `reply: .keys`; see `keys(of:as:)`.
    public var keys: RawJSON?
    /// With `isDryRun`, up to ten keys of each list of ``keys``; see `examples(of:as:)`.
    public var examples: RawJSON?
    /// With `reply: .objects`, the objects of the job's own records in their state after the job: an array for each
    /// operation, in payload order, with null for a record without an object; see ``objects(ofOperation:as:)``. Nil
    /// for a duplicate, and when a warning ``Warning/Code/answerShortened`` reports that they are too large: they
    /// are returned once.
    public var objects: RawJSON?

    /// A completion, for doubles of a broker.
    public init(
        id: JobID, sequence: Int64, isDuplicate: Bool = false, changes: [String: Changes] = [:],
        rejections: [Rejection] = [], warnings: [Warning] = [], timing: Timing? = nil, keys: RawJSON? = nil,
        objects: RawJSON? = nil
    ) {
        self.id = id
        self.sequence = sequence
        self.isDuplicate = isDuplicate
        self.changes = changes
        self.rejections = rejections
        self.warnings = warnings
        self.timing = timing
        self.keys = keys
        self.objects = objects
    }

    /// The keys of one entity's objects; empty when the job changed none.
    ///
    /// - Parameter type: the type of a key: that of the identity's attribute, or a struct with a member for each attribute.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/notReturned`` when the answer has no keys; `DecodingError` when a key is no
    ///   such value.
    public func keys<Key: Decodable>(of entity: String, as type: Key.Type = Key.self) throws -> Keys<Key> {
        guard let keys else { throw lacks("keys", "`reply: .keys`", "Fetch the objects to read their keys.") }
        return try keys.keys(of: entity)
    }

    /// Some keys of the objects of one entity that a dry run would change: up to ten for each change; empty when it would
    /// change none.
    ///
    /// - Parameter type: the type of a key, as in `keys(of:as:)`.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/notReturned`` when the job was no dry run, or is a duplicate;
    ///   `DecodingError` when a key is no such value.
    public func examples<Key: Decodable>(of entity: String, as type: Key.Type = Key.self) throws -> Keys<Key> {
        guard let examples else { throw lacks("examples", "`isDryRun`", "Try the job under another id.") }
        return try examples.keys(of: entity)
    }

    /// The objects of one operation as values, in the order of its records, in the form of a fetch with the
    /// job's ``Job/names`` and ``Job/dates``; nil for a record without an object.
    ///
    /// - Parameter operation: its index in the job, from 0.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/notReturned`` when the answer has no objects; `DecodingError`.
    public func objects<Value: Decodable>(
        ofOperation operation: Int = 0, as type: Value.Type = Value.self
    ) throws -> [Value?] {
        guard let objects else { throw lacks("objects", "`reply: .objects`", "Fetch them.") }
        let place = PlaceKey(operation)
        guard let values = try ValueDecoder.decode([Value?].self, from: objects.bytes, at: place) else {
            throw DecodingError.valueNotFound(
                [Value?].self, .init(codingPath: [place], debugDescription: "The job has no such operation."))
        }
        return values
    }

    private func lacks(_ part: String, _ option: String, _ remedy: String) -> BrokerError {
        let reason =
            if warnings.contains(where: { $0.code == .answerShortened && $0.key == part }) {
                "they are too large for it"
            } else if isDuplicate {
                "the job had been applied before, and they are returned once, or were not asked for"
            } else {
                "it was not asked for by \(option), or is the answer to `await`"
            }
        return BrokerError(
            .notReturned, "The answer to the job \"\(id)\" has no \(part): \(reason). \(remedy)", jobID: id)
    }
}

extension Completion {
    /// The number of objects of one entity that a job changed or named; each counts once.
    public struct Changes: Sendable, Equatable {
        /// Objects that the job made.
        public var inserted: Int
        /// Objects that the job changed.
        public var updated: Int
        /// Compared and not written.
        public var unchanged: Int
        /// Objects that the job deleted, also by delete rules.
        public var deleted: Int
        /// Rejected, and listed in ``Completion/rejections``.
        public var rejected: Int

        /// Numbers, for doubles of a broker.
        public init(inserted: Int = 0, updated: Int = 0, unchanged: Int = 0, deleted: Int = 0, rejected: Int = 0) {
            self.inserted = inserted
            self.updated = updated
            self.unchanged = unchanged
            self.deleted = deleted
            self.rejected = rejected
        }
    }

    /// A record, a nested object, or a bare key that was rejected.
    public struct Rejection: Sendable, Hashable, CustomStringConvertible {
        /// Why the record was rejected.
        public var code: BrokerError.Code
        /// For people: what happened and the remedy.
        public var message: String
        /// A JSON Pointer into the message that the job was sent as.
        public var path: String?
        /// The entity of the record.
        public var entity: String?
        /// The attribute with the fault.
        public var attribute: String?

        /// A rejection, for doubles of a broker.
        public init(
            code: BrokerError.Code, message: String, path: String? = nil, entity: String? = nil,
            attribute: String? = nil
        ) {
            self.code = code
            self.message = message
            self.path = path
            self.entity = entity
            self.attribute = attribute
        }

        public var description: String { "\(code)\(BrokerError.place(path)): \(message)" }
    }

    /// A fact that a job's sender should know, though nothing failed.
    public struct Warning: Sendable, Hashable {
        /// A code of the protocol; a newer server may have more of them.
        public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
            public var rawValue: String

            public init(rawValue: String) { self.rawValue = rawValue }

            /// Records brought a key that the model does not name.
            public static let unknownKey = Code(rawValue: "unknownKey")
            /// Values were stored as the nearest `double`, which is another number, or dates without their last digits.
            public static let inexact = Code(rawValue: "inexact")
            /// Values were not valid, and the `onInvalid` of their attribute ignored them or stored null.
            public static let ignoredValue = Code(rawValue: "ignoredValue")
            /// Records brought a key that the model does not name, and `_extra` of their entity has its values.
            public static let extraKey = Code(rawValue: "extraKey")
            /// Values that their attribute cannot hold are in `_extra` of their entity.
            public static let extraValue = Code(rawValue: "extraValue")
            /// Bare keys name no object, and were ignored, as the `missing` of their relationship says.
            public static let ignoredKey = Code(rawValue: "ignoredKey")
            /// Keys of a delete name no object.
            public static let objectNotFound = Code(rawValue: "objectNotFound")
            /// A sync deleted nothing, because a record was rejected.
            public static let deletionSkipped = Code(rawValue: "deletionSkipped")
            /// More records were rejected than are listed.
            public static let rejectedNotListed = Code(rawValue: "rejectedNotListed")
            /// ``Warning/key`` names a part of the answer that is missing or shortened, because it is too large.
            public static let answerShortened = Code(rawValue: "answerShortened")

            public var description: String { rawValue }
        }

        /// What happened.
        public var code: Code
        /// The entity of the records or values.
        public var entity: String?
        /// The key of records, or the part of the answer, that it is about.
        public var key: String?
        /// The number of occurrences.
        public var count: Int?
        /// JSON Pointers into the job's message: the first three values of records that are not stored as they were sent.
        public var paths: [String]

        /// A warning, for doubles of a broker.
        public init(code: Code, entity: String? = nil, key: String? = nil, count: Int? = nil, paths: [String] = []) {
            self.code = code
            self.entity = entity
            self.key = key
            self.count = count
            self.paths = paths
        }
    }

    /// The time of each stage of a job; none of them includes waiting for the jobs before it.
    public struct Timing: Sendable, Equatable {
        /// From the whole frame to a worker that opens it.
        public var queued: Duration
        /// Decompressing, parsing and staging.
        public var staged: Duration
        /// Staged, until the journal began to write the job; zero without a journal.
        public var journalWaited: Duration
        /// Staged, while the journal wrote and synced the job; zero without a journal.
        public var journalSynced: Duration
        /// Staged and in the journal, while other jobs were merged, or merging was paused.
        public var waited: Duration
        /// The writer's work.
        public var merged: Duration
        /// From there until it was durable.
        public var committed: Duration

        /// Times, for doubles of a broker.
        public init(
            queued: Duration = .zero, staged: Duration = .zero, journalWaited: Duration = .zero,
            journalSynced: Duration = .zero, waited: Duration = .zero, merged: Duration = .zero,
            committed: Duration = .zero
        ) {
            self.queued = queued
            self.staged = staged
            self.journalWaited = journalWaited
            self.journalSynced = journalSynced
            self.waited = waited
            self.merged = merged
            self.committed = committed
        }
    }

    /// The keys of one entity's objects, by their change.
    public struct Keys<Key: Decodable>: Decodable {
        /// The keys of objects that the job made.
        public var inserted: [Key] = []
        /// The keys of objects that the job changed.
        public var updated: [Key] = []
        /// The keys of objects that the job deleted.
        public var deleted: [Key] = []

        /// No keys.
        public init() {}
    }
}

extension Completion.Keys: Sendable where Key: Sendable {}
extension Completion.Keys: Equatable where Key: Equatable {}

extension RawJSON {
    /// The keys of one entity's objects, of the `keys` of an answer; those of other entities may be of other types.
    func keys<Key: Decodable>(of entity: String) throws -> Completion.Keys<Key> {
        try ValueDecoder.decode(Completion.Keys<Key>.self, from: bytes, at: PlaceKey(stringValue: entity))
            ?? Completion.Keys()
    }
}

// MARK: - Text

extension Completion: CustomStringConvertible {
    /// The table of the command `broker`, what the job's sender should know, and the job.
    public var description: String {
        var lines = changes.isEmpty ? [] : Changes.table(of: changes)
        lines += rejections.map { "rejected: \($0)" }
        lines += warnings.map { "warning: \($0)" }
        let end = isDryRun ? "tried; nothing was written" : "committed as job \(sequence)"
        lines.append("\(id): \(end)\(isDuplicate ? ", applied before" : "")")
        return lines.joined(separator: "\n")
    }
}

extension Completion.Warning: CustomStringConvertible {
    public var description: String {
        let subject = [entity, key].compactMap { $0 }.joined(separator: ".")
        return [code.rawValue, subject, count.map { "(\($0))" } ?? "", paths.joined(separator: ", ")]
            .filter { !$0.isEmpty }.joined(separator: " ")
    }
}

extension Completion.Changes {
    package var numbers: [(name: String, count: Int)] {
        [
            ("inserted", inserted), ("updated", updated), ("unchanged", unchanged), ("deleted", deleted),
            ("rejected", rejected),
        ]
    }

    /// The lines of a table, the heading first.
    package static func table(of changes: [String: Self]) -> [String] {
        let width = max(6, changes.keys.map(\.count).max() ?? 0)
        func row(_ name: String, _ cells: [String]) -> String {
            name + String(repeating: " ", count: width - name.count)
                + cells.map { String(repeating: " ", count: 2 + max(0, 9 - $0.count)) + $0 }.joined()
        }
        return [row("entity", Self().numbers.map(\.name))]
            + changes.sorted { $0.key < $1.key }.map { row($0.key, $0.value.numbers.map { "\($0.count)" }) }
    }
}

// MARK: - Reading

extension Completion {
    /// - Parameter root: an object with the members of `completed`.
    package init(id: JobID, sequence: Int64, members root: JSONValue) {
        self.init(
            id: id, sequence: sequence, isDuplicate: root["duplicate"]?.bool ?? false,
            changes: root["changes"].map(Changes.byEntity) ?? [:],
            rejections: root["rejected"]?.elements.map(Rejection.init) ?? [],
            warnings: root["warnings"]?.elements.map(Warning.init) ?? [], timing: root["timing"].map(Timing.init),
            keys: root.text("keys"), objects: root.text("objects"))
        isDryRun = root["dryRun"]?.bool ?? false
        examples = root.text("examples")
    }
}

extension Completion.Changes {
    package static func byEntity(_ object: JSONValue) -> [String: Completion.Changes] {
        var changes: [String: Completion.Changes] = [:]
        for (entity, counts) in object.members {
            changes[String(decoding: entity.bytes, as: UTF8.self)] = Completion.Changes(counts)
        }
        return changes
    }

    private init(_ counts: JSONValue) {
        self.init(
            inserted: counts.count("inserted") ?? 0, updated: counts.count("updated") ?? 0,
            unchanged: counts.count("unchanged") ?? 0, deleted: counts.count("deleted") ?? 0,
            rejected: counts.count("rejected") ?? 0)
    }
}

extension Completion.Timing {
    fileprivate init(_ times: JSONValue) {
        func time(_ key: String) -> Duration { .microseconds(times.count(key) ?? 0) }
        self.init(
            queued: time("queued"), staged: time("staged"), journalWaited: time("journalWaited"),
            journalSynced: time("journalSynced"), waited: time("waited"), merged: time("merged"),
            committed: time("committed"))
    }
}

extension Completion.Warning {
    fileprivate init(_ warning: JSONValue) {
        self.init(
            code: Code(rawValue: warning["code"]?.string ?? ""), entity: warning["entity"]?.string,
            key: warning["key"]?.string, count: warning.count("count"),
            paths: warning["paths"]?.elements.compactMap(\.string) ?? [])
    }
}

extension Completion.Rejection {
    package init(_ error: JSONValue) {
        self.init(
            code: BrokerError.Code(rawValue: error["code"]?.string ?? ""), message: error["message"]?.string ?? "",
            path: error["path"]?.string, entity: error["entity"]?.string, attribute: error["attribute"]?.string)
    }
}

extension JSONValue {
    fileprivate func text(_ key: String) -> RawJSON? { self[key].map { RawJSON($0.jsonText) } }
}
