package import BrokerJSON

/// Writes the content of the messages from a client to a server, except `job`, which BrokerRequests writes.
///
/// A `tag` is any JSON value; every answer returns it.
package enum ClientMessageWriter {
    /// - Parameter client: a name for the server's logs.
    package static func hello(client: String?, tag: ProvenJSON? = nil) -> [UInt8] {
        message("hello", tag: tag) { writer in
            writer.member("version", ClientEnvelope.protocolVersion)
            if let client { writer.member("client", client) }
        }
    }

    /// - Parameter members: further members; the `pong` returns them.
    package static func ping(members: [(key: String, value: ProvenJSON)] = [], tag: ProvenJSON? = nil) -> [UInt8] {
        message("ping", tag: tag) { $0.members(members) }
    }

    package static func stats(tag: ProvenJSON? = nil) -> [UInt8] { message("stats", tag: tag) { _ in } }

    package static func jobs(_ message: JobsMessage, tag: ProvenJSON? = nil) -> [UInt8] {
        self.message("jobs", tag: tag) { writer in
            writer.array("lists") { writer in for list in message.lists { writer.string(list.rawValue) } }
            writer.member("limit", message.limit)
            if let since = message.since { writer.member("since", since) }
            if let user = message.user { writer.member("user", Int(user)) }
            if let code = message.code { writer.member("code", code) }
        }
    }

    package static func model(tag: ProvenJSON? = nil) -> [UInt8] { message("model", tag: tag) { _ in } }

    /// - Parameters:
    ///   - id: the job whose `completed` or `failed` is requested.
    ///   - after: a sequence that the server is to have applied before it answers.
    package static func await(id: String, after: Int64? = nil, tag: ProvenJSON? = nil) -> [UInt8] {
        message("await", tag: tag) { writer in
            writer.member("id", id)
            if let after { writer.member("after", after) }
        }
    }

    /// - Parameter id: the job to cancel.
    package static func cancel(id: String, tag: ProvenJSON? = nil) -> [UInt8] {
        message("cancel", tag: tag) { $0.member("id", id) }
    }

    package static func bookmark(named name: String, tag: ProvenJSON? = nil) -> [UInt8] {
        message("bookmark", tag: tag) { $0.member("name", name) }
    }

    package static func admin(_ action: AdminAction, tag: ProvenJSON? = nil) -> [UInt8] {
        message("admin", tag: tag) { $0.member("action", action.rawValue) }
    }

    /// - Parameter file: an absolute path on the server's machine.
    package static func backup(file: String, replaces: Bool, tag: ProvenJSON? = nil) -> [UInt8] {
        message("admin", tag: tag) { writer in
            writer.member("action", BackupMessage.action)
            writer.member("file", file)
            writer.member("replace", replaces)
        }
    }

    package static func migrate(_ migrate: MigrateMessage, tag: ProvenJSON? = nil) -> [UInt8] {
        message("admin", tag: tag) { writer in
            writer.member("action", MigrateMessage.action)
            writer.member("dryRun", migrate.isDryRun)
            writer.member("removedParts", migrate.removedParts.rawValue)
        }
    }

    /// - Parameter members: `entity` and the other members of the fetch, in order.
    package static func fetch(members: [(key: String, value: ProvenJSON)], tag: ProvenJSON? = nil) -> [UInt8] {
        message("fetch", tag: tag) { $0.members(members) }
    }

    /// - Parameter members: `entities` and the other members of the subscription, in order.
    package static func subscribe(members: [(key: String, value: ProvenJSON)], tag: ProvenJSON? = nil) -> [UInt8] {
        message("subscribe", tag: tag) { $0.members(members) }
    }

    private static func message(_ type: String, tag: ProvenJSON?, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + (tag?.bytes.count ?? 0))
        writer.object { writer in
            writer.member("type", type)
            members(&writer)
            writer.tag(tag?.bytes)
        }
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func members(_ members: [(key: String, value: ProvenJSON)]) {
        for (key, value) in members {
            self.key(key)
            raw(value.bytes)
        }
    }
}

/// JSON text that is proven to be exactly one value, so it can be copied into a message and stays that one value there.
///
/// Message writers take raw text only as this type. Without the proof, a text such as `[],"op":"delete"` adds members to
/// the message, and the last one of two equal keys counts.
package struct ProvenJSON: Sendable, Equatable {
    package let bytes: [UInt8]

    /// Parses the text and discards the parsed result.
    ///
    /// - Parameters:
    ///   - isLenient: commas before a closing bracket are accepted, as the server accepts them in a message with `lenient`.
    ///   - enclosingLevels: objects and arrays of the message around the value; the depth limit counts them.
    /// - Throws: ``JSONError`` when the text is not one value, or is nested too deeply.
    package init(
        proving bytes: [UInt8], isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(JSONError) {
        let depth = JSONDocument.defaultMaximumDepth - enclosingLevels
        let text = JSONText(copying: bytes)
        do throws(JSONError) {
            _ = try JSONDocument(parsing: text, maximumDepth: depth)
        } catch {
            // A text that is not even lenient JSON is reported by its first, strict error.
            guard isLenient, let strict = text.blankingTrailingCommas(),
                (try? JSONDocument(parsing: strict, maximumDepth: depth)) != nil
            else { throw error }
        }
        self.bytes = bytes
    }

    /// - Parameter bytes: what an encoder wrote, which is one value.
    package init(unchecked bytes: [UInt8]) { self.bytes = bytes }

    package static let `true` = ProvenJSON(unchecked: Array("true".utf8))

    package static func integer(_ value: Int) -> ProvenJSON { ProvenJSON(unchecked: Array(String(value).utf8)) }

    package static func string(_ text: String) -> ProvenJSON {
        var writer = JSONWriter(capacity: text.utf8.count + 2)
        writer.string(text)
        return ProvenJSON(unchecked: writer.bytes)
    }

    package static func array(_ elements: [ProvenJSON]) -> ProvenJSON {
        var writer = JSONWriter(capacity: elements.reduce(2) { $0 + $1.bytes.count + 1 })
        writer.array { writer in
            for element in elements { writer.raw(element.bytes) }
        }
        return ProvenJSON(unchecked: writer.bytes)
    }
}
