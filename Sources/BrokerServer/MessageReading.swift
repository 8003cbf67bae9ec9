internal import Broker
package import BrokerCoordinator
internal import BrokerFastJSON
package import BrokerJSON
package import BrokerModel
internal import BrokerStaging
package import BrokerStore
package import BrokerWire

extension ClientEnvelope {
    /// Parses a content and reads its message: first strictly; trailing commas are accepted if the message asks for that.
    /// Blocking work, by the size of the content.
    ///
    /// - Parameter allowance: asked for the memory of the tape and of the operations.
    /// - Throws: ``WireError``, or ``JSONRefusal/noRoom``.
    package static func decode(
        parsing content: JSONText, allowance: any MemoryAllowance
    ) throws -> ClientEnvelope {
        let document: JSONDocument
        do {
            document = try JSONDocument.parse(content, allowance: allowance) { $0.root["lenient"]?.bool == true }
        } catch JSONRefusal.fault(let error) {
            throw WireError(error, in: content)
        }
        return try decode(document, allowance: allowance)
    }
}

/// Which answers the client of a job wants.
package struct JobReply: Sendable {
    package let frame: FrameReference
    package let isBrief: Bool
    package let wantsCompletion: Bool
    package let trace: String?
}

/// The answers that a job asks for; errors are always sent.
private struct Notify: OptionSet {
    let rawValue: UInt8

    static let accepted = Notify(rawValue: 1)
    static let completed = Notify(rawValue: 2)
    static let progress = Notify(rawValue: 4)

    static let words: [(String, Self)] = [("accepted", accepted), ("progress", progress), ("completed", completed)]
}

/// A job is read into the coordinator's own values in one pass: nothing of it is held in another form.
extension BrokerCoordinator.Job {
    /// Reads a job in each of its three forms: `operations`, `collections`, or one operation's fields in the job itself.
    ///
    /// - Parameters:
    ///   - ordinal: the position of the frame on its connection.
    ///   - owner: the user who sent it.
    ///   - content: the whole message, as it was sent.
    ///   - observe: makes the function that is called for every event of the job.
    package static func read(
        _ envelope: ClientEnvelope, ordinal: Int? = nil, from owner: JobOwner = .server, content: JSONText,
        observe: (JobReply) -> @Sendable (JobEvent) -> Void
    ) throws(WireError) -> BrokerCoordinator.Job {
        let root = envelope.document.root
        let id = try id(ofJob: root)
        let policy = try root.optionalWord("onInvalid", [InvalidRecordPolicy.fail, .skip]) ?? .fail
        let unknownKeys = try root.optionalWord("unknown", Broker.Job.UnknownKeys.known) ?? .warn
        let isDryRun = try root.optionalBool("dryRun") ?? false
        let maximumDeletions = try DeletionLimit(in: root)
        let bookmark = try Bookmark(in: root)
        let reply = try root.optionalWord("reply", Broker.Job.Reply.known) ?? .summary
        let dates = try root.optionalWord("dates", FetchDates.allCases) ?? .model
        let notify = try notify(in: root)
        // Used where the text is parsed.
        _ = try root.optionalBool("lenient")
        let trace = try trace(in: root)
        let operations = try operations(in: root)
        let answers = JobReply(
            frame: FrameReference(ordinal: ordinal, id: id, tag: envelope.tag), isBrief: reply == .none,
            wantsCompletion: notify.contains(.completed), trace: trace)
        let job = BrokerCoordinator.Job(
            id: id, owner: owner, document: envelope.document, operations: operations, policy: policy,
            wantsKeys: reply == .keys, wantsObjects: reply == .objects && notify.contains(.completed),
            wantsAcceptance: notify.contains(.accepted), content: content, observer: observe(answers))
        job.objectDates = dates
        job.wantsProgress = notify.contains(.progress)
        job.isDryRun = isDryRun
        job.maximumDeletions = maximumDeletions
        job.bookmark = bookmark
        job.refusesUnknownKeys = unknownKeys == .fail
        return job
    }

    /// The `id` that a client chose for its job; nil when the server makes one.
    private static func id(ofJob root: JSONValue) throws(WireError) -> String? {
        guard let id = try root.optionalID() else { return nil }
        guard !id.utf8.starts(with: JobID.reservedPrefix.utf8) else {
            throw WireError(
                .unsupportedMessage,
                """
                Ids that begin with `\(JobID.reservedPrefix)` are the server's own; \(id.quotedBriefly) is one. Begin the \
                job's id with something else, or omit it and the server makes one.
                """, path: "/id")
        }
        return id
    }

    /// The W3C `traceparent` of the sender's span, for the log.
    private static func trace(in root: JSONValue) throws(WireError) -> String? {
        guard let trace = try root.optionalString("trace", in: "") else { return nil }
        guard trace.utf8.count <= Broker.Job.longestTrace else {
            throw WireError(
                .unsupportedMessage,
                "A `trace` has at most \(Broker.Job.longestTrace) bytes; this one has \(trace.utf8.count.grouped).",
                path: "/trace"
            )
        }
        return trace
    }

    private static func notify(in root: JSONValue) throws(WireError) -> Notify {
        guard let list = root["notify"] else { return .completed }
        guard list.kind == .array else { throw list.mismatch("an array of words", at: "/notify") }
        var notify: Notify = []
        for (index, word) in list.elements.enumerated() {
            guard word.kind == .string else { throw word.mismatch("a string", at: "/notify/\(index)") }
            guard let known = Notify.words.first(where: { word.isText($0.0) })?.1 else {
                throw WireError(
                    .unsupportedMessage,
                    "`notify` does not know the word \(word.quotedBriefly); the words are \(Notify.words.map(\.0).listed).",
                    path: "/notify/\(index)")
            }
            notify.insert(known)
        }
        return notify
    }

    // MARK: - Operations

    /// The fields of a job that is one operation.
    private static let own = ["json", "entity", "op", "objects"]

    private static func operations(in root: JSONValue) throws(WireError) -> ShortList<JobOperation> {
        switch (root["operations"], root["collections"]) {
        case (let list?, let collections):
            if collections != nil { throw mixed("operations", "collections") }
            if let field = own.first(where: { root[$0] != nil }) { throw mixed("operations", field) }
            return try operations(listed: list)
        case (nil, let collections?):
            if let field = own.first(where: { root[$0] != nil }) { throw mixed("collections", field) }
            return try operations(collections: collections)
        case (nil, nil):
            guard own.contains(where: { root[$0] != nil }) else {
                throw WireError(
                    .unsupportedMessage,
                    """
                    The job has nothing to do: it needs `entity` and `json`, or `collections` (entity names and \
                    records), or `operations`.
                    """)
            }
            return ShortList(try JobOperation(root, at: ""))
        }
    }

    private static func operations(listed list: JSONValue) throws(WireError) -> ShortList<JobOperation> {
        guard list.kind == .array else { throw list.mismatch("an array of operations", at: "/operations") }
        var operations = ShortList<JobOperation>()
        for operation in list.elements {
            let path = "/operations/\(operations.count)"
            guard operation.kind == .object else { throw operation.mismatch("an object", at: path) }
            operations.append(try JobOperation(operation, at: path))
        }
        guard !operations.isEmpty else { throw nothing(at: "operations") }
        return operations
    }

    /// A key that occurs twice has its first position and its last value.
    private static func operations(collections: JSONValue) throws(WireError) -> ShortList<JobOperation> {
        guard collections.kind == .object else {
            throw collections.mismatch("an object of entity names and records", at: "/collections")
        }
        var operations = ShortList<JobOperation>()
        // Keys are compared by their bytes: hashing a `String` normalises it.
        var places: [[UInt8]: Int] = [:]
        for (key, json) in collections.members {
            let name = Array(key.bytes)
            if let place = places[name] {
                operations[place].json = json
                continue
            }
            places[name] = operations.count
            let entity = key.name
            // A name that is no member path is reported by its parent's path.
            let token = name.count <= JSONValue.longestName ? "/" + entity.asPointerToken : ""
            operations.append(
                JobOperation(
                    entity: entity, json: json, entityPointer: "/collections\(token)", pointer: "/collections\(token)"))
        }
        guard !operations.isEmpty else { throw nothing(at: "collections") }
        return operations
    }

    private static func mixed(_ form: String, _ field: String) -> WireError {
        WireError(
            .unsupportedMessage,
            "The job has both `\(form)` and `\(field)`; say what to do in one of the two forms.", path: "/\(field)")
    }

    private static func nothing(at field: String) -> WireError {
        WireError(
            .unsupportedMessage, "`\(field)` is empty, so the job has nothing to do; name at least one entity.",
            path: "/\(field)")
    }
}

extension JobOperation {
    private static let words = ["process", "relate", "sync", "map", "delete"]

    /// - Parameter path: the position of the operation's fields: a JSON Pointer, empty for the job itself.
    fileprivate init(_ fields: JSONValue, at path: String) throws(WireError) {
        let word = try Self.word(fields, at: path)
        if word == "map" {
            let (action, json) = try Self.mapping(fields, at: path)
            self.init(entity: "", json: json, action, entityPointer: path, pointer: path)
            return
        }
        guard let entity = fields["entity"] else {
            throw Self.lacks("entity", "the name of an entity in the model", of: word, at: path)
        }
        guard entity.kind == .string else { throw entity.mismatch("a string", at: "\(path)/entity") }
        let (action, json) = try Self.action(word, fields, at: path)
        self.init(
            entity: entity.name, json: json, action, entityPointer: "\(path)/entity", pointer: path)
    }

    private static func word(_ fields: JSONValue, at path: String) throws(WireError) -> String {
        guard let operation = fields["op"] else { return "process" }
        guard operation.kind == .string else { throw operation.mismatch("a string", at: "\(path)/op") }
        if let word = words.first(where: { operation.isText($0) }) { return word }
        throw WireError(
            .unsupportedMessage,
            "There is no operation \(operation.quotedBriefly); the operations are \(words.listed).", path: "\(path)/op")
    }

    private static func action(
        _ word: String, _ fields: JSONValue, at path: String
    ) throws(WireError) -> (Action, json: JSONValue) {
        switch word {
        case "delete": return try deletion(fields, at: path)
        case "relate":
            guard let object = fields["object"] else {
                throw lacks("object", "the key of the object whose relationship it is", of: word, at: path)
            }
            guard let relationship = fields["relationship"] else {
                throw lacks("relationship", "its name in the model", of: word, at: path)
            }
            guard relationship.kind == .string else {
                throw relationship.mismatch("a string", at: "\(path)/relationship")
            }
            guard let json = fields["json"] else {
                throw lacks("json", "what a record would hold at the relationship", of: word, at: path)
            }
            return (.relate(object: object, relationship: relationship), json)
        case "sync":
            guard let json = fields["json"] else { throw lacks("json", "an array of records", of: word, at: path) }
            guard json.kind == .array else { throw json.mismatch("an array of records", at: "\(path)/json") }
            let (predicate, arguments) = try selection(fields, at: path)
            let actions = try actions(fields, at: path)
            return (
                .sync(where: predicate, arguments: arguments, actions: actions, part: try part(fields, at: path)), json
            )
        default:
            guard let json = fields["json"] else {
                throw lacks("json", "a record, or an array of records", of: word, at: path)
            }
            return (.process(object: fields["object"]), json)
        }
    }

    private static func mapping(
        _ fields: JSONValue, at path: String
    ) throws(WireError) -> (Action, json: JSONValue) {
        guard let json = fields["json"] else { throw lacks("json", "the payload", of: "map", at: path) }
        for field in ["mapping", "path"] {
            if let value = fields[field], value.kind != .string {
                throw value.mismatch("a string", at: "\(path)/\(field)")
            }
        }
        if let count = fields["path"]?.bytes.count, count > Broker.Job.Operation.longestPath {
            throw WireError(
                .unsupportedMessage,
                "A `path` has at most \(Broker.Job.Operation.longestPath.grouped) bytes; this one has \(count.grouped). Send the path of the "
                    + "resource without the host.", path: "\(path)/path")
        }
        if fields["mapping"] != nil, fields["path"] != nil {
            throw WireError(
                .unsupportedMessage,
                "A `map` has either a `mapping`, which says what the payload is, or a `path`, by which routes are found; this "
                    + "one has both.", path: "\(path)/path")
        }
        return (.map(mapping: fields["mapping"], path: fields["path"]), json)
    }

    private static func deletion(
        _ fields: JSONValue, at path: String
    ) throws(WireError) -> (Action, json: JSONValue) {
        switch (fields["objects"], fields["where"]) {
        case (let objects?, nil):
            guard objects.kind == .array else { throw objects.mismatch("an array of keys", at: "\(path)/objects") }
            return (.delete, objects)
        case (nil, _?):
            let (predicate, arguments) = try selection(fields, at: path)
            return (.deleteMatching(where: predicate, arguments: arguments), fields)
        case (_?, _?):
            throw WireError(
                .unsupportedMessage, "A `delete` has either `objects` or `where`; this one has both.",
                path: "\(path)/where")
        case (nil, nil):
            throw WireError(
                .unsupportedMessage,
                "A `delete` needs `objects` (keys) or `where` (a predicate; TRUEPREDICATE deletes all).",
                path: "\(path)/objects")
        }
    }

    /// A predicate, nil for all objects, and the values of its `%@`.
    private static func selection(
        _ fields: JSONValue, at path: String
    ) throws(WireError) -> (predicate: String?, arguments: JSONValue?) {
        if let arguments = fields["arguments"], arguments.kind != .array {
            throw arguments.mismatch("an array", at: "\(path)/arguments")
        }
        return (try fields.optionalString("where", in: path), fields["arguments"])
    }

    private static func actions(
        _ fields: JSONValue, at path: String
    ) throws(WireError) -> (inserts: Bool, updates: Bool, deletes: Bool) {
        guard let list = fields["actions"] else { return (true, true, true) }
        guard list.kind == .array else { throw list.mismatch("an array of words", at: "\(path)/actions") }
        var actions = (inserts: false, updates: false, deletes: false)
        for (index, value) in list.elements.enumerated() {
            guard value.kind == .string else { throw value.mismatch("a string", at: "\(path)/actions/\(index)") }
            let words = Broker.Job.Operation.SyncAction.known
            switch words.first(where: { value.isText($0.rawValue) }) {
            case .insert?: actions.inserts = true
            case .update?: actions.updates = true
            case .delete?: actions.deletes = true
            default:
                throw WireError(
                    .unsupportedMessage,
                    "A `sync` has no action \(value.quotedBriefly); the actions are \(words.map(\.rawValue).listed).",
                    path: "\(path)/actions/\(index)")
            }
        }
        return actions
    }

    private static func part(_ fields: JSONValue, at path: String) throws(WireError) -> (id: String, isLast: Bool)? {
        guard let part = fields["part"] else { return nil }
        guard part.kind == .object else { throw part.mismatch("an object with `id` and `last`", at: "\(path)/part") }
        // The value is not decoded before its length is known.
        if let count = part["id"]?.bytes.count, part["id"]?.kind == .string, !JobID.byteCounts.contains(count) {
            throw WireError(
                .unsupportedMessage,
                "The `id` of a `part` has \(JobID.byteCounts.lowerBound) to \(JobID.byteCounts.upperBound) bytes; "
                    + "this one has \(count).", path: "\(path)/part/id")
        }
        guard let id = try part.optionalString("id", in: "\(path)/part") else {
            throw lacks("part/id", "a name for the whole sync, the same in all parts", of: "sync", at: path)
        }
        guard let last = part["last"] else { return (id, false) }
        guard let isLast = last.bool else { throw last.mismatch("true or false", at: "\(path)/part/last") }
        return (id, isLast)
    }

    private static func lacks(_ field: String, _ meaning: String, of word: String, at path: String) -> WireError {
        WireError(.unsupportedMessage, "A `\(word)` needs `\(field)`: \(meaning).", path: "\(path)/\(field)")
    }
}

extension DeletionLimit {
    private static let field = "maximumDeletions"

    /// Reads `maximumDeletions`; nil when it is missing.
    fileprivate init?(in root: JSONValue) throws(WireError) {
        guard let value = root[Self.field] else { return nil }
        if value.kind == .number, let count = try root.optionalCount(Self.field) {
            self = .objects(count)
            return
        }
        guard value.kind == .string else {
            throw value.mismatch("a whole number, or a percentage in a string", at: "/\(Self.field)")
        }
        guard let limit = Self(percentage: value.bytes) else {
            throw WireError(
                .unsupportedMessage,
                """
                `\(Self.field)` is a whole number, or a percentage from 0% to 100% with at most three digits after the \
                point, such as "2.5%"; \(value.quotedBriefly) is neither.
                """, path: "/\(Self.field)")
        }
        self = limit
    }

    /// - Parameter text: such as `2.5%`.
    private init?(percentage text: some BidirectionalCollection<UInt8>) {
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

extension Bookmark {
    private static let field = "bookmark"

    /// Reads `bookmark`; nil when it is missing.
    fileprivate init?(in root: JSONValue) throws(WireError) {
        guard let bookmark = root[Self.field] else { return nil }
        let path = "/\(Self.field)"
        guard bookmark.kind == .object else { throw bookmark.mismatch("an object with `name` and `value`", at: path) }
        let name = try bookmark.bookmarkName(at: path)
        guard let value = bookmark["value"] else {
            throw WireError(
                .unsupportedMessage, "A `bookmark` needs a `value`: a string, or null to delete it.",
                path: "\(path)/value")
        }
        guard value.kind == .string || value.kind == .null else {
            throw value.mismatch("a string or null", at: "\(path)/value")
        }
        let counts = Broker.Job.Bookmark.valueCounts
        guard value.kind == .null || counts.contains(value.bytes.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                The `value` of a bookmark has at most \(counts.upperBound.grouped) bytes; this one has \
                \(value.bytes.count.grouped).
                """, path: "\(path)/value")
        }
        self.init(name: name, value: value.string)
    }
}

extension FetchDescription {
    /// Reads a `fetch`. Valid as long as its document.
    package init(_ root: JSONValue) throws(WireError) {
        guard let entity = try root.optionalString("entity", in: "") else {
            throw WireError(
                .unsupportedMessage, "A `fetch` needs `entity`: the name of the objects' entity in the model.",
                path: "/entity")
        }
        self.init(entity: entity)
        predicate = try root.optionalString("where", in: "")
        arguments = root["arguments"]
        guard arguments == nil || predicate != nil else {
            throw WireError(
                .unsupportedMessage, "There are `arguments`, and no `where` that they could be filled in.",
                path: "/arguments")
        }
        object = root["object"]
        after = root["after"]
        sort = try root.optionalStrings("sort", of: "attribute names")
        limit = try root.optionalCount("limit")
        offset = try root.optionalCount("offset") ?? 0
        include = try root.optionalStrings("include", of: "relationship paths")
        select = try root.optionalStrings("select", of: "names of attributes and relationships")
        names = try root.optionalWord("names", FetchNames.allCases) ?? .remote
        dates = try root.optionalWord("dates", FetchDates.allCases) ?? .model
        result = try root.optionalWord("result", FetchResult.allCases) ?? .collection
        isStreamed = try root.optionalBool("stream") ?? false
    }
}

extension JSONValue {
    /// The maximum bytes of a name that are read. No model has longer names, and a message should not be copied for a
    /// name.
    fileprivate static let longestName = 1_024

    /// Returns a string as a name: all of it, or enough to show that it is no name of the model.
    fileprivate var name: String { String(decoding: bytes.prefix(Self.longestName + 1), as: UTF8.self) }
}
