internal import BrokerJSON

extension JobMessage {
    /// Reads a job in each of its three forms: `operations`, `collections`, or one operation's fields in the job
    /// itself.
    init(_ root: JSONValue) throws(WireError) {
        id = try Self.id(ofJob: root)
        onInvalid = try root.optionalWord("onInvalid", OnInvalid.self) ?? .fail
        unknownKeys = try root.optionalWord("unknown", UnknownKeys.self) ?? .warn
        isDryRun = try root.optionalBool("dryRun") ?? false
        maximumDeletions = try DeletionLimit(in: root)
        bookmark = try Bookmark(in: root)
        reply = try root.optionalWord("reply", Reply.self) ?? .summary
        dates = try root.optionalWord("dates", FetchMessage.Dates.self) ?? .model
        notify = try Self.notify(in: root)
        isLenient = try root.optionalBool("lenient") ?? false
        trace = try Self.trace(in: root)
        operations = try Self.operations(in: root)
    }

    /// The `id` that a client chose for its job; nil when the server makes one.
    private static func id(ofJob root: JSONValue) throws(WireError) -> String? {
        guard let id = try id(in: root) else { return nil }
        guard !id.utf8.starts(with: reservedIDPrefix.utf8) else {
            throw WireError(
                .unsupportedMessage,
                """
                Ids that begin with `\(reservedIDPrefix)` are the server's own; \(id.quotedBriefly) is one. Begin the \
                job's id with something else, or omit it and the server makes one.
                """, path: "/id")
        }
        return id
    }

    /// The `id` of a message that may have one, possibly of the server; nil when it has none.
    static func id(in root: JSONValue) throws(WireError) -> String? {
        guard let id = try root.optionalString("id", in: "") else { return nil }
        guard idCounts.contains(id.utf8.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                An `id` has \(idCounts.lowerBound) to \(idCounts.upperBound) bytes; this one has \
                \(id.utf8.count.grouped).
                """, path: "/id")
        }
        return id
    }

    /// The W3C `traceparent` of the sender's span, for the log.
    private static func trace(in root: JSONValue) throws(WireError) -> String? {
        guard let trace = try root.optionalString("trace", in: "") else { return nil }
        guard trace.utf8.count <= longestTrace else {
            throw WireError(
                .unsupportedMessage,
                "A `trace` has at most \(longestTrace) bytes; this one has \(trace.utf8.count.grouped).", path: "/trace"
            )
        }
        return trace
    }

    private static let notifyWords = ["accepted", "progress", "completed"]

    private static func notify(in root: JSONValue) throws(WireError) -> Notify {
        guard let list = root["notify"] else { return .completed }
        guard list.kind == .array else { throw list.mismatch("an array of words", at: "/notify") }
        var notify: Notify = []
        for (index, word) in list.elements.enumerated() {
            guard word.kind == .string else { throw word.mismatch("a string", at: "/notify/\(index)") }
            switch notifyWords.first(where: { word.isText($0) }) {
            case "accepted": notify.insert(.accepted)
            case "completed": notify.insert(.completed)
            case "progress": notify.insert(.progress)
            default:
                throw WireError(
                    .unsupportedMessage,
                    "`notify` does not know the word \(word.quotedBriefly); the words are \(notifyWords.listed).",
                    path: "/notify/\(index)")
            }
        }
        return notify
    }

    // MARK: - Operations

    /// The fields of a job that is one operation.
    private static let own = ["json", "entity", "op", "objects"]

    private static func operations(in root: JSONValue) throws(WireError) -> ShortList<OperationMessage> {
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
            return ShortList(try OperationMessage(root, at: ""))
        }
    }

    private static func operations(listed list: JSONValue) throws(WireError) -> ShortList<OperationMessage> {
        guard list.kind == .array else { throw list.mismatch("an array of operations", at: "/operations") }
        var operations = ShortList<OperationMessage>()
        for operation in list.elements {
            let path = "/operations/\(operations.count)"
            guard operation.kind == .object else { throw operation.mismatch("an object", at: path) }
            operations.append(try OperationMessage(operation, at: path))
        }
        guard !operations.isEmpty else { throw nothing(at: "operations") }
        return operations
    }

    /// A key that occurs twice has its first position and its last value.
    private static func operations(collections: JSONValue) throws(WireError) -> ShortList<OperationMessage> {
        guard collections.kind == .object else {
            throw collections.mismatch("an object of entity names and records", at: "/collections")
        }
        var operations = ShortList<OperationMessage>()
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
                OperationMessage(
                    entity: entity, json: json, action: .process(object: nil), entityPointer: "/collections\(token)",
                    pointer: "/collections\(token)"))
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

extension JSONValue {
    /// The maximum bytes of a name that are read. No model has longer names, and a message should not be copied for a
    /// name.
    static let longestName = 1_024

    /// Returns a string as a name: all of it, or enough to show that it is no name of the model.
    var name: String { String(decoding: bytes.prefix(Self.longestName + 1), as: UTF8.self) }
}
