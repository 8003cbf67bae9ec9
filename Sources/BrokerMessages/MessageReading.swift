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
        var terms = JobTerms(try root.optionalWord("onInvalid", [InvalidRecordPolicy.fail, .skip]) ?? .fail)
        terms.refusesUnknownKeys = try root.optionalWord("unknown", Broker.Job.UnknownKeys.known) == .fail
        terms.isDryRun = try root.optionalBool("dryRun") ?? false
        terms.maximumDeletions = try DeletionLimit(in: root)
        terms.bookmark = try Bookmark(in: root)
        let reply = try root.optionalWord("reply", Broker.Job.Reply.known) ?? .summary
        let names = try root.optionalWord("names", FetchNames.allCases) ?? .remote
        let dates = try root.optionalWord("dates", FetchDates.allCases) ?? .model
        terms.form = ObjectForm(names: names, dates: dates)
        // The answers that the job asks for, nil for the completion; errors are always sent.
        let notify =
            try root["notify"]?.words(among: ["accepted", "progress", "completed"], at: "/notify") { word, words in
                "`notify` does not know the word \(word); the words are \(words)."
            }
        // Used where the text is parsed.
        _ = try root.optionalBool("lenient")
        let trace = try trace(in: root)
        let operations = try operations(in: root)
        if terms.policy == .skip { try operations.refuseSkipping() }
        if names == .local, operations.contains(where: { if case .map = $0.action { true } else { false } }) {
            throw .unsupported(
                "A payload of `map` has the keys that the model's mappings name, and not the names of the model. Omit `names`, or send "
                    + "the other operations as a job of their own.", at: "/names")
        }
        let answers = JobReply(
            frame: FrameReference(ordinal: ordinal, id: id, tag: envelope.tag), isBrief: reply == .none,
            wantsCompletion: notify?.contains("completed") ?? true, trace: trace)
        terms.wantsKeys = reply == .keys
        terms.wantsObjects = reply == .objects && answers.wantsCompletion
        let job = BrokerCoordinator.Job(
            id: id, owner: owner, document: envelope.document, operations: operations, terms,
            wantsAcceptance: notify?.contains("accepted") == true, content: content, observer: observe(answers))
        job.wantsProgress = notify?.contains("progress") == true
        return job
    }

    /// The `id` that a client chose for its job; nil when the server makes one.
    private static func id(ofJob root: JSONValue) throws(WireError) -> String? {
        guard let id = try root.optionalID() else { return nil }
        guard !id.utf8.starts(with: JobID.reservedPrefix.utf8) else {
            throw .unsupported(
                """
                Ids that begin with `\(JobID.reservedPrefix)` are the server's own; \(id.quotedBriefly) is one. Begin the \
                job's id with something else, or omit it and the server makes one.
                """, at: "/id")
        }
        return id
    }

    /// The W3C `traceparent` of the sender's span, for the log.
    private static func trace(in root: JSONValue) throws(WireError) -> String? {
        guard let trace = try root.optionalString("trace", in: "") else { return nil }
        try WireError.check(trace.utf8.count, in: 0...Broker.Job.longestTrace, of: "A `trace`", at: "/trace")
        return trace
    }

    // MARK: - Operations

    /// The fields of a job that is one operation.
    private static let own = ["json", "entity", "op", "objects", "expect", "increment", "append", "links"]

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
                throw .unsupported(
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
        WireError.unsupported(
            "The job has both `\(form)` and `\(field)`; say what to do in one of the two forms.", at: "/\(field)")
    }

    private static func nothing(at field: String) -> WireError {
        WireError.unsupported(
            "`\(field)` is empty, so the job has nothing to do; name at least one entity.", at: "/\(field)")
    }
}

extension JobOperation {
    /// - Parameter path: the position of the operation's fields: a JSON Pointer, empty for the job itself.
    fileprivate init(_ fields: JSONValue, at path: String) throws(WireError) {
        let fields = try OperationFields(fields, at: path)
        guard fields.word != "map" else {
            let (action, json) = try fields.action()
            _ = try fields.expectation(action, json)
            self.init(entity: "", json: json, action, entityPointer: path, pointer: path)
            return
        }
        let entity = try fields.required("entity", "the name of an entity in the model", .string)
        let (action, json) = try fields.action()
        self.init(entity: entity.name, json: json, action, entityPointer: "\(path)/entity", pointer: path)
        expectation = try fields.expectation(action, json)
        adjustment = try fields.adjustment(action)
        links = try fields.links(action)
    }
}

struct OperationFields {
    private static let words = ["process", "relate", "sync", "map", "delete"]

    let fields: JSONValue
    let path: String
    /// The operation's name.
    let word: String

    init(_ fields: JSONValue, at path: String) throws(WireError) {
        self.fields = fields
        self.path = path
        guard let operation = fields["op"] else {
            word = "process"
            return
        }
        guard operation.kind == .string else { throw operation.mismatch("a string", at: "\(path)/op") }
        guard let word = Self.words.first(where: { operation.isText($0) }) else {
            throw .unsupported(
                "There is no operation \(operation.quotedBriefly); the operations are \(Self.words.listed).",
                at: "\(path)/op")
        }
        self.word = word
    }

    /// A field that the operation must have.
    ///
    /// - Parameter kind: that it must be of; nil for any.
    func required(_ field: String, _ meaning: String, _ kind: JSONValue.Kind? = nil) throws(WireError) -> JSONValue {
        guard let value = fields[field] else { throw lacks(field, meaning) }
        if let kind, value.kind != kind {
            throw value.mismatch(kind == .string ? "a string" : meaning, at: "\(path)/\(field)")
        }
        return value
    }

    private func lacks(_ field: String, _ meaning: String) -> WireError {
        .unsupported("A `\(word)` needs `\(field)`: \(meaning).", at: "\(path)/\(field)")
    }

    /// What the operation does, and its records, payload or keys.
    func action() throws(WireError) -> (JobOperation.Action, json: JSONValue) {
        switch word {
        case "map": return try mapping()
        case "delete": return try deletion()
        case "relate":
            let object = try required("object", "the key of the object whose relationship it is")
            let relationship = try required("relationship", "its name in the model", .string)
            let json = try required("json", "what a record would hold at the relationship")
            return (.relate(object: object, relationship: relationship), json)
        case "sync":
            let json = try required("json", "an array of records", .array)
            let (predicate, arguments) = try selection()
            return (.sync(where: predicate, arguments: arguments, actions: try actions(), part: try part()), json)
        default:
            if let object = fields["object"], isAdjusted, fields["json"] == nil {
                return (.process(object: object), object)
            }
            let json = try required("json", "a record, or an array of records")
            return (.process(object: fields["object"]), json)
        }
    }

    private func mapping() throws(WireError) -> (JobOperation.Action, json: JSONValue) {
        let json = try required("json", "the payload")
        for field in ["mapping", "path"] {
            if let value = fields[field], value.kind != .string {
                throw value.mismatch("a string", at: "\(path)/\(field)")
            }
        }
        let longest = Broker.Job.Operation.longestPath
        if let count = fields["path"]?.bytes.count, count > longest {
            throw .unsupported(
                "A `path` has at most \(longest.grouped) bytes; this one has \(count.grouped). Send the path of the resource "
                    + "without the host.", at: "\(path)/path")
        }
        if fields["mapping"] != nil, fields["path"] != nil {
            throw .unsupported(
                "A `map` has either a `mapping`, which says what the payload is, or a `path`, by which routes are found; this "
                    + "one has both.", at: "\(path)/path")
        }
        return (.map(mapping: fields["mapping"], path: fields["path"]), json)
    }

    private func deletion() throws(WireError) -> (JobOperation.Action, json: JSONValue) {
        switch (fields["objects"], fields["where"]) {
        case (let objects?, nil):
            guard objects.kind == .array else { throw objects.mismatch("an array of keys", at: "\(path)/objects") }
            return (.delete, objects)
        case (nil, _?):
            let (predicate, arguments) = try selection()
            return (.deleteMatching(where: predicate, arguments: arguments), fields)
        case (_?, _?):
            throw .unsupported("A `delete` has either `objects` or `where`; this one has both.", at: "\(path)/where")
        case (nil, nil):
            throw .unsupported(
                "A `delete` needs `objects` (keys) or `where` (a predicate; TRUEPREDICATE deletes all).",
                at: "\(path)/objects")
        }
    }

    /// A predicate, nil for all objects, and the values of its `%@`.
    private func selection() throws(WireError) -> (predicate: String?, arguments: JSONValue?) {
        if let arguments = fields["arguments"], arguments.kind != .array {
            throw arguments.mismatch("an array", at: "\(path)/arguments")
        }
        return (try fields.optionalString("where", in: path), fields["arguments"])
    }

    private func actions() throws(WireError) -> (inserts: Bool, updates: Bool, deletes: Bool) {
        guard let list = fields["actions"] else { return (true, true, true) }
        let known = Broker.Job.Operation.SyncAction.known.map(\.rawValue)
        let actions = try list.words(among: known, at: "\(path)/actions") { word, words in
            "A `sync` has no action \(word); the actions are \(words)."
        }
        return (actions.contains("insert"), actions.contains("update"), actions.contains("delete"))
    }

    private func part() throws(WireError) -> (id: String, isLast: Bool)? {
        guard let part = fields["part"] else { return nil }
        guard part.kind == .object else { throw part.mismatch("an object with `id` and `last`", at: "\(path)/part") }
        // The value is not decoded before its length is known.
        if let id = part["id"], id.kind == .string {
            try WireError.check(
                id.bytes.count, in: JobID.byteCounts, of: "The `id` of a `part`", at: "\(path)/part/id")
        }
        guard let id = try part.optionalString("id", in: "\(path)/part") else {
            throw lacks("part/id", "a name for the whole sync, the same in all parts")
        }
        guard let last = part["last"] else { return (id, false) }
        guard let isLast = last.bool else { throw last.mismatch("true or false", at: "\(path)/part/last") }
        return (id, isLast)
    }
}

/// The fields by which an operation depends on the object that it names.
extension OperationFields {
    /// Reads `expect`; nil when it is missing.
    fileprivate func expectation(
        _ action: JobOperation.Action, _ json: JSONValue
    ) throws(WireError) -> JobExpectation? {
        guard let value = fields["expect"] else { return nil }
        let place = "\(path)/expect"
        let namesOne =
            switch action {
            case .process(nil): json.kind == .object
            case .process, .relate: true
            case .delete: json.elements.reduce(0) { count, _ in count + 1 } == 1
            case .sync, .map, .deleteMatching: false
            }
        guard namesOne else {
            throw .unsupported(
                "`expect` is about one object: of a `process` whose `json` is one record, of a `relate`, or of a `delete` with "
                    + "one key. Send one operation for each object.", at: place)
        }
        switch value.kind {
        case .string where value.isText("absent"): return JobExpectation(.absent, json: value)
        case .string where value.isText("present"): return JobExpectation(.present, json: value)
        case .object: return JobExpectation(try condition(value, at: place), json: value)
        default:
            throw .unsupported(
                "`expect` is \"absent\", \"present\", or an object with `where` or `version`, not \(value.quotedBriefly).",
                at: place)
        }
    }

    private func condition(
        _ value: JSONValue, at place: String
    ) throws(WireError) -> JobExpectation.Condition {
        if let arguments = value["arguments"], arguments.kind != .array {
            throw arguments.mismatch("an array", at: "\(place)/arguments")
        }
        switch (try value.optionalString("where", in: place), value["version"]) {
        case (let predicate?, nil): return .matching(where: predicate, arguments: value["arguments"])
        case (nil, let version?):
            guard version.kind == .string else { throw version.mismatch("a string", at: "\(place)/version") }
            guard version.bytes.count == RowVersion.byteCount, let text = version.string else {
                throw .unsupported(
                    "A version is the \(RowVersion.byteCount) characters that a `fetch` with `versions` returned.",
                    at: "\(place)/version")
            }
            return .version(text)
        case (nil, nil), (_?, _?):
            throw .unsupported(
                "`expect` has either `where`, a predicate, or the `version` of the object.", at: place)
        }
    }

    fileprivate var isAdjusted: Bool { fields["increment"] != nil || fields["append"] != nil }

    /// Reads `increment` and `append`; nil when both are missing.
    fileprivate func adjustment(_ action: JobOperation.Action) throws(WireError) -> JobAdjustment? {
        guard isAdjusted else { return nil }
        for field in ["increment", "append"] {
            guard let value = fields[field] else { continue }
            guard case .process(_?) = action else {
                throw .unsupported(
                    "`\(field)` changes one object that exists: name it with `object` in a `process`.",
                    at: "\(path)/\(field)")
            }
            guard value.kind == .object else {
                throw value.mismatch("an object of attributes and what they change by", at: "\(path)/\(field)")
            }
        }
        return JobAdjustment(
            increment: fields["increment"], append: fields["append"], hasRecord: fields["json"] != nil)
    }

    /// Reads `links`; nil when it is missing.
    fileprivate func links(_ action: JobOperation.Action) throws(WireError) -> LinkChange? {
        guard let value = fields["links"] else { return nil }
        guard case .relate = action else {
            throw .unsupported("`links` is of a `relate`.", at: "\(path)/links")
        }
        guard value.kind == .string else { throw value.mismatch("a string", at: "\(path)/links") }
        guard let change = LinkChange.allCases.first(where: { value.isText($0.rawValue) }) else {
            throw .unsupported(
                "A `relate` has no `links` \(value.quotedBriefly); the words are \(LinkChange.allCases.map(\.rawValue).listed).",
                at: "\(path)/links")
        }
        return change
    }
}

extension ShortList<JobOperation> {
    /// An operation that depends on an object is done or fails: skipped, it would be done again without what it depends on.
    fileprivate func refuseSkipping() throws(WireError) {
        for operation in self {
            let field =
                operation.expectation != nil
                ? "expect"
                : operation.adjustment.map { $0.increment == nil ? "append" : "increment" }
                    ?? operation.links.map { _ in "links" }
            guard let field else { continue }
            throw .unsupported(
                "A job with `\(field)` fails as a whole or not at all: omit `\"onInvalid\": \"skip\"`.",
                at: "\(operation.pointer)/\(field)")
        }
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
            throw .unsupported(
                """
                `\(Self.field)` is a whole number, or a percentage from 0% to 100% with at most three digits after the \
                point, such as "2.5%"; \(value.quotedBriefly) is neither.
                """, at: "/\(Self.field)")
        }
        self = limit
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
            throw .unsupported("A `bookmark` needs a `value`: a string, or null to delete it.", at: "\(path)/value")
        }
        guard value.kind == .string || value.kind == .null else {
            throw value.mismatch("a string or null", at: "\(path)/value")
        }
        if value.kind == .string {
            try WireError.check(
                value.bytes.count, in: Broker.Job.Bookmark.valueCounts, of: "The `value` of a bookmark",
                at: "\(path)/value")
        }
        self.init(name: name, value: value.string)
    }
}

extension FetchDescription {
    /// Reads a `fetch`. Valid as long as its document.
    package init(_ root: JSONValue) throws(WireError) {
        guard let entity = try root.optionalString("entity", in: "") else {
            throw .unsupported("A `fetch` needs `entity`: the name of the objects' entity in the model.", at: "/entity")
        }
        self.init(entity: entity)
        predicate = try root.optionalString("where", in: "")
        arguments = root["arguments"]
        guard arguments == nil || predicate != nil else {
            throw .unsupported("There are `arguments`, and no `where` that they could be filled in.", at: "/arguments")
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
        hasVersions = try root.optionalBool("versions") ?? false
    }
}

extension JSONValue {
    /// The maximum bytes of a name that are read. No model has longer names, and a message should not be copied for a
    /// name.
    fileprivate static let longestName = 1_024

    /// Returns a string as a name: all of it, or enough to show that it is no name of the model.
    fileprivate var name: String { String(decoding: bytes.prefix(Self.longestName + 1), as: UTF8.self) }
}
