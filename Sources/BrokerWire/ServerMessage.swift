package import Broker
package import BrokerJSON

/// A server's answer.
package enum ServerMessage: Sendable {
    case welcome(ServerInformation)
    /// Its fields are in the envelope's document.
    case pong
    case accepted(id: String, sequence: Int64)
    /// Of a job or of a copy. Its fields are in the envelope's document.
    case progress
    /// The job that a `cancel` named was cancelled.
    case cancelled
    case completed(Completion)
    /// A job that was refused or failed; it changed nothing. The error has the job's id, if it could be read.
    case failed(BrokerError)
    /// A frame or a message that could not be read, or a connection that the server refuses. The error has the `id` of the message, if
    /// it could be read.
    ///
    /// - frame: the number of the frame that it is about; nil when it is about the connection.
    case error(BrokerError, frame: Int?)
    /// The result of a `fetch`, as JSON text.
    ///
    /// - hasMore: a limit excluded further objects, or further parts follow.
    /// - last: the position of the last object, for `after`.
    case objects(json: [UInt8], hasMore: Bool, last: [UInt8]?)
    /// The value, and the job that wrote it; nil when there is no bookmark of that name.
    case bookmark(value: String?, sequence: Int64?)
    /// The jobs after a sequence follow.
    case subscribed(after: Int64)
    case committed(Commit)
    /// Its fields are in the envelope's document.
    case stats
    /// Its fields are in the envelope's document.
    case jobs
    /// Its fields are in the envelope's document.
    case rejects
    /// The result of an `admin` action; its fields are in the envelope's document.
    case done
    case model(json: [UInt8])
    /// A type that this side does not know.
    case other(type: String)
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

    private static func reported(_ root: JSONValue) throws(WireError) -> BrokerError {
        .reported(
            try root.required("error"), jobID: root["id"]?.string.map { JobID($0) }, sequence: root["sequence"]?.int64)
    }

    private static func message(in root: JSONValue) throws(WireError) -> ServerMessage {
        switch try root.requiredString("type") {
        case "completed":
            .completed(
                Completion(
                    id: JobID(try root.requiredString("id")), sequence: try root.requiredInteger("sequence"),
                    members: root))
        case "accepted":
            .accepted(id: try root.requiredString("id"), sequence: try root.requiredInteger("sequence"))
        case "failed": .failed(try reported(root))
        case "error": .error(try reported(root), frame: root.count("frame"))
        case "progress": .progress
        case "cancelled": .cancelled
        case "done": .done
        case "pong": .pong
        case "objects":
            .objects(
                json: try root.required("objects").jsonText, hasMore: root["more"]?.bool ?? false,
                last: root["last"]?.jsonText)
        case "bookmark": .bookmark(value: root["value"]?.string, sequence: root["sequence"]?.int64)
        case "subscribed": .subscribed(after: try root.requiredInteger("after"))
        case "committed":
            .committed(
                Commit(
                    sequence: try root.requiredInteger("sequence"), id: root["id"]?.string.map { JobID($0) },
                    changes: Completion.Changes.byEntity(try root.required("changes")),
                    keys: root["keys"].map { RawJSON($0.jsonText) }))
        case "stats": .stats
        case "jobs": .jobs
        case "rejects": .rejects
        case "model": .model(json: try root.required("model").jsonText)
        case "welcome":
            .welcome(
                ServerInformation(protocolVersion: Int(try root.requiredInteger("version")), members: root))
        case let type: .other(type: type)
        }
    }
}

extension JSONValue {
    fileprivate func required(_ key: String) throws(WireError) -> JSONValue {
        guard let value = self[key] else {
            throw .unsupported("The server's message has no `\(key)`.", at: "/\(key)")
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

/// A server of this package writes the `completed` of almost every job in one form, which is read here in one pass,
/// without a document: it is the most frequent message.
extension Completion {
    /// Reads a `completed` with only counts and times, in the form of `MessageWriter`.
    ///
    /// - Returns: nil for every other message, which may be as valid.
    package init?(plainly message: UnsafeRawBufferPointer) {
        var text = PlainText(bytes: message)
        guard text.skip(#"{"type":"completed","id":""#), let id = text.string(), text.skip(#","sequence":"#),
            let sequence = text.integer()
        else { return nil }
        if text.skip("}") {
            guard text.isAtEnd else { return nil }
            self.init(id: JobID(id), sequence: sequence)
            return
        }
        guard text.skip(#","duplicate":"#), let isDuplicate = text.bool(), let changes = text.changes(),
            text.skip(#","rejected":[],"warnings":[],"timing":{"queued":"#), let timing = text.timing(),
            text.skip("}}"),
            text.isAtEnd
        else { return nil }
        self.init(id: JobID(id), sequence: sequence, isDuplicate: isDuplicate, changes: changes, timing: timing)
    }
}

/// Reads JSON of a known form.
private struct PlainText {
    let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// Moves over this text, if it is next.
    mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        let expected = UnsafeBufferPointer(start: text.utf8Start, count: count)
        guard bytes.count - index >= count, bytes[index..<index + count].elementsEqual(expected) else { return false }
        index += count
        return true
    }

    /// The rest of a string of plain ASCII, and its closing quote.
    mutating func string() -> String? {
        let start = index
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            guard (0x20..<0x80).contains(bytes[index]), bytes[index] != UInt8(ascii: "\\") else { return nil }
            index += 1
        }
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        return String(decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<index]), as: UTF8.self)
    }

    mutating func bool() -> Bool? { skip("true") ? true : skip("false") ? false : nil }

    /// An integer from 0 on, of 18 digits at most.
    mutating func integer() -> Int64? {
        let start = index
        var value: Int64 = 0
        while index < bytes.count, bytes[index] &- UInt8(ascii: "0") <= 9 {
            guard index - start < 18 else { return nil }
            value = value &* 10 &+ Int64(bytes[index] &- UInt8(ascii: "0"))
            index += 1
        }
        guard index > start, bytes[start] != UInt8(ascii: "0") || index == start + 1 else { return nil }
        return value
    }

    /// A member whose value is an integer.
    private mutating func integer(behind key: StaticString) -> Int? { skip(key) ? integer().map { Int($0) } : nil }

    mutating func changes() -> [String: Completion.Changes]? {
        guard skip(#","changes":{"#) else { return nil }
        if skip("}") { return [:] }
        // Most jobs touch an entity, and one that it refers to.
        var changes = [String: Completion.Changes](minimumCapacity: 2)
        repeat {
            guard skip("\""), let entity = string(), let inserted = integer(behind: #":{"inserted":"#),
                let updated = integer(behind: #","updated":"#), let unchanged = integer(behind: #","unchanged":"#),
                let deleted = integer(behind: #","deleted":"#), let rejected = integer(behind: #","rejected":"#),
                skip("}")
            else { return nil }
            changes[entity] = .init(
                inserted: inserted, updated: updated, unchanged: unchanged, deleted: deleted, rejected: rejected)
        } while skip(",")
        return skip("}") ? changes : nil
    }

    /// The text after the key of the first time, up to the end of the last.
    mutating func timing() -> Completion.Timing? {
        guard let queued = integer(), let staged = integer(behind: #","staged":"#) else { return nil }
        var (journalWaited, journalSynced) = (0, 0)
        if skip(#","journalWaited":"#) {
            guard let waited = integer(), let synced = integer(behind: #","journalSynced":"#) else { return nil }
            (journalWaited, journalSynced) = (Int(waited), synced)
        }
        guard let waited = integer(behind: #","waited":"#), let merged = integer(behind: #","merged":"#),
            let committed = integer(behind: #","committed":"#)
        else { return nil }
        return .init(
            queued: .microseconds(queued), staged: .microseconds(staged), journalWaited: .microseconds(journalWaited),
            journalSynced: .microseconds(journalSynced), waited: .microseconds(waited), merged: .microseconds(merged),
            committed: .microseconds(committed))
    }
}
