package import BrokerJSON

extension ServerEnvelope {
    /// Parses the content of a frame and reads the message in it.
    ///
    /// - Throws: `malformedJSON` or `unsupportedMessage`: the peer is no server of this protocol.
    package static func decode(parsing text: JSONText) throws(WireError) -> ServerEnvelope {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text)
        } catch {
            throw WireError(error)
        }
        return try decode(document)
    }

    /// - Throws: `malformedJSON` when it is no object, `unsupportedMessage` when a member that the protocol promises is
    ///   missing or of another kind.
    package static func decode(_ document: JSONDocument) throws(WireError) -> ServerEnvelope {
        let root = document.root
        guard root.kind == .object else {
            throw WireError(
                .malformedJSON, "The server's message is no JSON object but \(root.kind.phrase).",
                position: JSONPosition(offset: root.offset, in: document.text))
        }
        return ServerEnvelope(message: try message(in: root), tag: root["tag"]?.jsonText, document: document)
    }

    private static func message(in root: JSONValue) throws(WireError) -> ServerMessage {
        switch try root.requiredString("type") {
        case "completed": .completed(try CompletedMessage(root))
        case "accepted":
            .accepted(id: try root.requiredString("id"), sequence: try root.requiredInteger("sequence"))
        case "failed":
            .failed(
                FailedMessage(
                    id: root["id"]?.string, sequence: root["sequence"]?.int64,
                    error: ErrorBody(try root.required("error"))))
        case "error":
            .error(
                ErrorMessage(
                    id: root["id"]?.string, error: ErrorBody(try root.required("error")),
                    frame: root["frame"]?.int64.flatMap { Int(exactly: $0) }))
        case "progress" where root["action"] == nil:
            .progress(
                id: try root.requiredString("id"), staged: Int(try root.requiredInteger("staged")),
                merged: Int(try root.requiredInteger("merged")))
        case "cancelled": .cancelled(id: try root.requiredString("id"))
        case "done": .done
        case "pong": .pong
        case "objects":
            .objects(
                json: try root.required("objects").jsonText, hasMore: root["more"]?.bool ?? false,
                last: root["last"]?.jsonText)
        case "bookmark":
            .bookmark(
                name: try root.requiredString("name"), value: root["value"]?.string, sequence: root["sequence"]?.int64)
        case "subscribed":
            .subscribed(after: try root.requiredInteger("after"), oldest: try root.requiredInteger("oldest"))
        case "committed": .committed(try CommittedMessage(root))
        case "stats": .stats
        case "jobs": .jobs
        case "model": .model(json: try root.required("model").jsonText)
        case "welcome": .welcome(try Welcome(root))
        case let type: .other(type: type)
        }
    }
}

extension Welcome {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        version = Int(try root.requiredInteger("version"))
        server = root["server"]?.string ?? ""
        hasJournal = root["journal"]?.bool
        durability = root["durability"]?.string
        replica = root["replica"]?.string
        role = root["role"]?.string
        features = root["features"]?.elements.compactMap(\.string) ?? []
        limits = root["limits"]?.jsonText ?? Array("{}".utf8)
        entities = root["entities"]?.elements.compactMap(\.string) ?? []
    }
}

extension CompletedMessage {
    /// One walk over the members, because this runs for every job.
    fileprivate init(_ root: JSONValue) throws(WireError) {
        var duplicate = false
        var dryRun = false
        var changes: [String: EntityChanges] = [:]
        var rejected: [ErrorBody] = []
        var warnings: [WarningBody] = []
        var timing: TimingBody?
        var keys: [UInt8]?
        var examples: [UInt8]?
        var objects: [UInt8]?
        for (key, value) in root.members {
            switch key.word {
            case "duplicate": duplicate = value.bool ?? false
            case "dryRun": dryRun = value.bool ?? false
            case "changes":
                for (entity, counts) in value.members {
                    changes[String(decoding: entity.bytes, as: UTF8.self)] = EntityChanges(counts)
                }
            case "rejected": rejected = value.elements.map(ErrorBody.init)
            case "warnings": warnings = value.elements.map(WarningBody.init)
            case "timing": timing = TimingBody(value)
            case "keys": keys = value.jsonText
            case "examples": examples = value.jsonText
            case "objects": objects = value.jsonText
            default: break
            }
        }
        self.init(
            id: try root.requiredString("id"), sequence: try root.requiredInteger("sequence"), duplicate: duplicate,
            dryRun: dryRun, changes: changes, rejected: rejected, warnings: warnings, timing: timing, keys: keys,
            examples: examples, objects: objects)
    }
}

extension CommittedMessage {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        sequence = try root.requiredInteger("sequence")
        id = root["id"]?.string
        var changes: [String: EntityChanges] = [:]
        for (entity, counts) in try root.required("changes").members {
            changes[String(decoding: entity.bytes, as: UTF8.self)] = EntityChanges(counts)
        }
        self.changes = changes
        keys = root["keys"]?.jsonText
    }
}

extension EntityChanges {
    fileprivate init(_ counts: JSONValue) {
        self.init()
        for (key, value) in counts.members {
            guard let count = value.int64.map({ Int($0) }) else { continue }
            switch key.word {
            case "inserted": inserted = count
            case "updated": updated = count
            case "unchanged": unchanged = count
            case "deleted": deleted = count
            case "rejected": rejected = count
            default: break
            }
        }
    }
}

extension TimingBody {
    fileprivate init(_ times: JSONValue) {
        for (key, value) in times.members {
            guard let microseconds = value.int64 else { continue }
            switch key.word {
            case "queued": queued = microseconds
            case "staged": staged = microseconds
            case "journalWaited": journalWaited = microseconds
            case "journalSynced": journalSynced = microseconds
            case "waited": waited = microseconds
            case "merged": merged = microseconds
            case "committed": committed = microseconds
            default: break
            }
        }
    }
}

extension WarningBody {
    fileprivate init(_ warning: JSONValue) {
        code = warning["code"]?.string ?? ""
        entity = warning["entity"]?.string
        key = warning["key"]?.string
        count = warning["count"]?.int64.map { Int($0) }
    }
}

extension ErrorBody {
    /// A body without a code is still an error, so nothing throws here.
    fileprivate init(_ error: JSONValue) {
        code = error["code"]?.string ?? ""
        message = error["message"]?.string ?? ""
        path = error["path"]?.string
        entity = error["entity"]?.string
        attribute = error["attribute"]?.string
        line = error["line"]?.int64.map { Int($0) }
        column = error["column"]?.int64.map { Int($0) }
        offset = error["offset"]?.int64.map { Int($0) }
        retryAfterMilliseconds = error["retryAfterMilliseconds"]?.int64.map { Int($0) }
        oldest = error["oldest"]?.int64
    }
}

extension JSONValue {
    /// A key of the protocol: those have at most 15 bytes, so that most of them need no memory.
    fileprivate var word: String { String(decoding: bytes, as: UTF8.self) }

    fileprivate func required(_ key: String) throws(WireError) -> JSONValue {
        guard let value = self[key] else {
            throw WireError(.unsupportedMessage, "The server's message has no `\(key)`.", path: "/\(key)")
        }
        return value
    }

    fileprivate func requiredString(_ key: String) throws(WireError) -> String {
        let value = try required(key)
        guard let string = value.string else { throw value.isNo("a string", at: "/\(key)") }
        return string
    }

    fileprivate func requiredInteger(_ key: String) throws(WireError) -> Int64 {
        let value = try required(key)
        guard let integer = value.wholeNumber else { throw value.isNo("a 64-bit integer", at: "/\(key)") }
        return integer
    }
}
