internal import BrokerJSON

extension OperationMessage {
    /// Bytes of memory that an operation takes until it is staged, besides its records: those of the message, of the
    /// job, and the name and the path on the heap.
    static let memory = 512

    /// The maximum bytes of the `path` of a `map`: more than the request line that web servers accept.
    package static let maximumPathCount = 8_192

    private static let words = ["process", "relate", "sync", "map", "delete"]

    /// - Parameter path: the position of the operation's fields: a JSON Pointer, empty for the job itself.
    init(_ fields: JSONValue, at path: String) throws(WireError) {
        let word = try Self.word(fields, at: path)
        if word == "map" {
            let (action, json) = try Self.mapping(fields, at: path)
            self.init(entity: "", json: json, action: action, entityPointer: path, pointer: path)
            return
        }
        guard let entity = fields["entity"] else {
            throw Self.lacks("entity", "the name of an entity in the model", word, path)
        }
        guard entity.kind == .string else { throw entity.mismatch("a string", at: "\(path)/entity") }
        let (action, json) = try Self.action(word, fields, at: path)
        self.init(
            entity: entity.name, json: json, action: action, entityPointer: "\(path)/entity", pointer: path)
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
                throw lacks("object", "the key of the object whose relationship it is", word, path)
            }
            guard let relationship = fields["relationship"] else {
                throw lacks("relationship", "its name in the model", word, path)
            }
            guard relationship.kind == .string else {
                throw relationship.mismatch("a string", at: "\(path)/relationship")
            }
            guard let json = fields["json"] else {
                throw lacks("json", "what a record would hold at the relationship", word, path)
            }
            return (.relate(object: object, relationship: relationship), json)
        case "sync":
            guard let json = fields["json"] else { throw lacks("json", "an array of records", word, path) }
            guard json.kind == .array else { throw json.mismatch("an array of records", at: "\(path)/json") }
            let selection = try selection(fields, at: path)
            let action = Action.sync(
                selection, actions: try actions(fields, at: path), part: try part(fields, at: path))
            return (action, json)
        default:
            guard let json = fields["json"] else { throw lacks("json", "a record, or an array of records", word, path) }
            return (.process(object: fields["object"]), json)
        }
    }

    private static func mapping(
        _ fields: JSONValue, at path: String
    ) throws(WireError) -> (Action, json: JSONValue) {
        guard let json = fields["json"] else { throw lacks("json", "the payload", "map", path) }
        for field in ["mapping", "path"] {
            if let value = fields[field], value.kind != .string {
                throw value.mismatch("a string", at: "\(path)/\(field)")
            }
        }
        if let count = fields["path"]?.bytes.count, count > maximumPathCount {
            throw WireError(
                .unsupportedMessage,
                "A `path` has at most \(maximumPathCount.grouped) bytes; this one has \(count.grouped). Send the path of the "
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
        case (nil, _?): return (.deleteMatching(try selection(fields, at: path)), fields)
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

    private static func selection(_ fields: JSONValue, at path: String) throws(WireError) -> Selection {
        if let arguments = fields["arguments"], arguments.kind != .array {
            throw arguments.mismatch("an array", at: "\(path)/arguments")
        }
        return Selection(predicate: try fields.optionalString("where", in: path), arguments: fields["arguments"])
    }

    private static func actions(_ fields: JSONValue, at path: String) throws(WireError) -> SyncActions {
        guard let list = fields["actions"] else { return .all }
        guard list.kind == .array else { throw list.mismatch("an array of words", at: "\(path)/actions") }
        var actions: SyncActions = []
        for (index, value) in list.elements.enumerated() {
            guard value.kind == .string else { throw value.mismatch("a string", at: "\(path)/actions/\(index)") }
            guard let action = SyncActions.words.first(where: { value.isText($0.0) })?.1 else {
                throw WireError(
                    .unsupportedMessage,
                    "A `sync` has no action \(value.quotedBriefly); the actions are \(SyncActions.words.map(\.0).listed).",
                    path: "\(path)/actions/\(index)")
            }
            actions.insert(action)
        }
        return actions
    }

    private static func part(_ fields: JSONValue, at path: String) throws(WireError) -> SyncPart? {
        guard let part = fields["part"] else { return nil }
        guard part.kind == .object else { throw part.mismatch("an object with `id` and `last`", at: "\(path)/part") }
        // The value is not decoded before its length is known.
        if let count = part["id"]?.bytes.count, part["id"]?.kind == .string, !JobMessage.idCounts.contains(count) {
            throw WireError(
                .unsupportedMessage,
                "The `id` of a `part` has \(JobMessage.idCounts.lowerBound) to \(JobMessage.idCounts.upperBound) bytes; "
                    + "this one has \(count).", path: "\(path)/part/id")
        }
        guard let id = try part.optionalString("id", in: "\(path)/part") else {
            throw lacks("part/id", "a name for the whole sync, the same in all parts", "sync", path)
        }
        guard let last = part["last"] else { return SyncPart(id: id, isLast: false) }
        guard let isLast = last.bool else { throw last.mismatch("true or false", at: "\(path)/part/last") }
        return SyncPart(id: id, isLast: isLast)
    }

    private static func lacks(_ field: String, _ meaning: String, _ word: String, _ path: String) -> WireError {
        WireError(.unsupportedMessage, "A `\(word)` needs `\(field)`: \(meaning).", path: "\(path)/\(field)")
    }
}

extension OperationMessage.SyncActions {
    /// The words of the protocol.
    static let words: [(String, Self)] = [("insert", .insert), ("update", .update), ("delete", .delete)]
}
