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
    /// A job that was refused or failed; it changed nothing. The error has the job's id, if it could be read.
    case failed(BrokerError)
    /// A frame or a message that could not be read, or a connection that the server refuses. The error has the `id` of the message, if
    /// it could be read.
    case error(BrokerError)
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
        case "error": .error(try reported(root))
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
        case "committed":
            .committed(
                Commit(
                    sequence: try root.requiredInteger("sequence"), id: root["id"]?.string.map { JobID($0) },
                    changes: Completion.Changes.byEntity(try root.required("changes")),
                    keys: root["keys"].map { RawJSON($0.jsonText) }))
        case "stats": .stats
        case "jobs": .jobs
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
