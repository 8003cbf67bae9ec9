internal import BrokerJSON

/// Writes the content of the messages from a client to a server, except `job` (``JobMessageWriter``).
///
/// A `tag` is any JSON value; every answer returns it.
package enum ClientMessageWriter {
    /// - Parameter client: a name for the server's logs.
    package static func hello(client: String?, tag: ProvenJSON? = nil) -> [UInt8] {
        message("hello", tag: tag) { writer in
            writer.key("version")
            writer.integer(ClientEnvelope.protocolVersion)
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
            writer.key("lists")
            writer.array { writer in for list in message.lists { writer.string(list.rawValue) } }
            writer.key("limit")
            writer.integer(message.limit)
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
            writer.key("replace")
            writer.bool(replaces)
        }
    }

    package static func migrate(_ migrate: MigrateMessage, tag: ProvenJSON? = nil) -> [UInt8] {
        message("admin", tag: tag) { writer in
            writer.member("action", MigrateMessage.action)
            writer.key("dryRun")
            writer.bool(migrate.isDryRun)
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
