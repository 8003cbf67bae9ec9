package import Broker
package import BrokerJSON

/// A server's answer.
package enum ServerMessage: Sendable {
    case welcome(ServerInformation)
    /// Its fields are in the envelope's document.
    case pong
    case accepted(id: String, sequence: Int64)
    /// The number of rows of the job that are staged, and of those that are merged.
    case progress(id: String, staged: Int, merged: Int)
    /// The job of that id was cancelled.
    case cancelled(id: String)
    case completed(Completion)
    /// A job that was refused or failed; it changed nothing.
    case failed(ReportedError)
    /// A frame or a message that could not be read, or a connection that the server refuses.
    case error(ReportedError)
    /// The result of a `fetch`, as JSON text.
    ///
    /// - hasMore: a limit excluded further objects, or further parts follow.
    /// - last: the key of the last object.
    case objects(json: [UInt8], hasMore: Bool, last: [UInt8]?)
    /// The value, and the job that wrote it; nil when there is no bookmark of that name.
    case bookmark(name: String, value: String?, sequence: Int64?)
    /// The jobs after a sequence follow. The feed can be read after `oldest`, and no older one.
    case subscribed(after: Int64, oldest: Int64)
    case committed(Commit)
    /// Its fields are in the envelope's document.
    case stats
    /// Its fields are in the envelope's document.
    case jobs
    /// The result of an `admin` action; its fields are in the envelope's document.
    case done
    /// The model as JSON text.
    case model(json: [UInt8])
    /// A type that this side does not know.
    case other(type: String)
}

/// An error that a server reports: of a job, a message or a connection.
package struct ReportedError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The job's, or the `id` of the message at fault; nil when it could not be read.
    package let id: String?
    /// The job's; nil when the job was refused before it had a sequence.
    package let sequence: Int64?
    /// The position of the frame at fault on its connection, from 1.
    package let frame: Int?
    package let fault: BrokerError.Fault
    package let retryAfter: Duration?

    package var description: String { fault.description }
}

extension BrokerError {
    /// The error that a server reports.
    package init(_ error: ReportedError, jobID: JobID? = nil) {
        self = .reported(
            error.fault, jobID: jobID, sequence: error.sequence, retryAfter: error.retryAfter)
    }

    /// The error of a job that failed or was refused.
    ///
    /// - Parameter id: the job's, where the message has none.
    package init(failed: ReportedError, jobID id: JobID? = nil) {
        self.init(failed, jobID: failed.id.map { JobID($0) } ?? id)
        // Such a job must be split: to send it again is of no use. Only a sync in parts waits for others to end.
        guard code == .busy, fault?.path?.hasSuffix("/part") != true else { return }
        code = .tooLarge
        retryAfter = nil
    }
}

/// A server's message and the fields that every message may have.
package struct ServerEnvelope: Sendable {
    package let message: ServerMessage
    /// The `tag` of the message that this answers, as JSON text; nil when that message had none.
    package let tag: [UInt8]?
    package let document: JSONDocument
}

// MARK: - Reading

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
        case "completed": .completed(try Completion(root))
        case "accepted":
            .accepted(id: try root.requiredString("id"), sequence: try root.requiredInteger("sequence"))
        case "failed": .failed(try ReportedError(root))
        case "error": .error(try ReportedError(root))
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
        case "committed": .committed(try Commit(root))
        case "stats": .stats
        case "jobs": .jobs
        case "model": .model(json: try root.required("model").jsonText)
        case "welcome": .welcome(try ServerInformation(root))
        case let type: .other(type: type)
        }
    }
}

extension ServerInformation {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        self.init(
            name: root["server"]?.string ?? "", protocolVersion: Int(try root.requiredInteger("version")),
            entities: root.strings("entities"), limits: root["limits"].map(Limits.init) ?? Limits())
        hasJournal = root["journal"]?.bool
        durability = root["durability"]?.string
        replica = root["replica"]?.string
        role = root["role"]?.string
        features = Set(root.strings("features"))
    }
}

extension ServerInformation.Limits {
    fileprivate init(_ limits: JSONValue) {
        self.init()
        maximumFrameBytes = limits.count("maximumFrameBytes")
        maximumContentBytes = limits.count("maximumContentBytes")
        maximumDepth = limits.count("maximumDepth")
        maximumIDBytes = limits.count("maximumIdBytes")
        maximumTagBytes = limits.count("maximumTagBytes")
        jobMemory = limits.count("jobMemory")
        jobsInFlight = limits.count("jobsInFlight")
        outcomesKept = limits.count("outcomesKept")
        outcomesKeptFor = limits.count("outcomesKeptSeconds").map { .seconds($0) }
        outcomesForgottenThrough = limits["outcomesForgottenThrough"]?.int64
    }
}

extension Completion {
    /// One walk over the members, because this runs for every job.
    fileprivate init(_ root: JSONValue) throws(WireError) {
        var (isDuplicate, isDryRun) = (false, false)
        var changes: [String: Changes] = [:]
        var rejections: [Rejection] = []
        var warnings: [Warning] = []
        var timing: Timing?
        var (keys, examples, objects): (RawJSON?, RawJSON?, RawJSON?)
        for (key, value) in root.members {
            switch key.word {
            case "duplicate": isDuplicate = value.bool ?? false
            case "dryRun": isDryRun = value.bool ?? false
            case "changes": changes = Changes.byEntity(value)
            case "rejected": rejections = value.elements.map(Rejection.init)
            case "warnings": warnings = value.elements.map(Warning.init)
            case "timing": timing = Timing(value)
            case "keys": keys = RawJSON(value.jsonText)
            case "examples": examples = RawJSON(value.jsonText)
            case "objects": objects = RawJSON(value.jsonText)
            default: break
            }
        }
        self.init(
            id: JobID(try root.requiredString("id")), sequence: try root.requiredInteger("sequence"),
            isDuplicate: isDuplicate, changes: changes, rejections: rejections, warnings: warnings, timing: timing,
            keys: keys, objects: objects)
        if isDryRun { self.isDryRun = true }
        if let examples { self.examples = examples }
    }
}

extension Completion.Changes {
    fileprivate static func byEntity(_ object: JSONValue) -> [String: Completion.Changes] {
        var changes: [String: Completion.Changes] = [:]
        for (entity, counts) in object.members {
            changes[String(decoding: entity.bytes, as: UTF8.self)] = Completion.Changes(counts)
        }
        return changes
    }

    private init(_ counts: JSONValue) {
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

extension Completion.Timing {
    fileprivate init(_ times: JSONValue) {
        self.init()
        for (key, value) in times.members {
            guard let time = value.int64.map(Duration.microseconds) else { continue }
            switch key.word {
            case "queued": queued = time
            case "staged": staged = time
            case "journalWaited": journalWaited = time
            case "journalSynced": journalSynced = time
            case "waited": waited = time
            case "merged": merged = time
            case "committed": committed = time
            default: break
            }
        }
    }
}

extension Completion.Warning {
    fileprivate init(_ warning: JSONValue) {
        self.init(
            code: Code(rawValue: warning["code"]?.string ?? ""), entity: warning["entity"]?.string,
            key: warning["key"]?.string, count: warning["count"]?.int64.map { Int($0) })
    }
}

extension Completion.Rejection {
    fileprivate init(_ error: JSONValue) {
        self.init(
            code: BrokerError.Code(rawValue: error["code"]?.string ?? ""), message: error["message"]?.string ?? "",
            path: error["path"]?.string, entity: error["entity"]?.string, attribute: error["attribute"]?.string)
    }
}

extension Commit {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        self.init(
            sequence: try root.requiredInteger("sequence"), id: root["id"]?.string.map { JobID($0) },
            changes: Completion.Changes.byEntity(try root.required("changes")),
            keys: root["keys"].map { RawJSON($0.jsonText) })
    }
}

extension ReportedError {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        let error = try root.required("error")
        id = root["id"]?.string
        sequence = root["sequence"]?.int64
        frame = root.count("frame")
        fault = BrokerError.Fault(error)
        retryAfter = error["retryAfterMilliseconds"]?.int64.map { .milliseconds($0) }
    }
}

extension BrokerError.Fault {
    /// A body without a code is still an error, so nothing throws here.
    fileprivate init(_ error: JSONValue) {
        self.init(
            code: BrokerError.Code(rawValue: error["code"]?.string ?? ""), message: error["message"]?.string ?? "",
            path: error["path"]?.string, entity: error["entity"]?.string, attribute: error["attribute"]?.string)
        line = error.count("line")
        column = error.count("column")
        offset = error.count("offset")
        oldest = error["oldest"]?.int64
    }
}

extension JSONValue {
    /// A key of the protocol: those have at most 15 bytes, so that most of them need no memory.
    fileprivate var word: String { String(decoding: bytes, as: UTF8.self) }

    fileprivate func count(_ key: String) -> Int? { self[key]?.int64.flatMap { Int(exactly: $0) } }

    fileprivate func strings(_ key: String) -> [String] { self[key]?.elements.compactMap(\.string) ?? [] }

    fileprivate func required(_ key: String) throws(WireError) -> JSONValue {
        guard let value = self[key] else {
            throw WireError(.unsupportedMessage, "The server's message has no `\(key)`.", path: "/\(key)")
        }
        return value
    }

    fileprivate func requiredString(_ key: String) throws(WireError) -> String {
        let value = try required(key)
        guard let string = value.string else { throw value.mismatch("a string", at: "/\(key)") }
        return string
    }

    fileprivate func requiredInteger(_ key: String) throws(WireError) -> Int64 {
        let value = try required(key)
        guard let integer = value.wholeNumber else { throw value.mismatch("a 64-bit integer", at: "/\(key)") }
        return integer
    }
}
