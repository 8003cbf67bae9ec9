internal import BrokerJSON

/// Makes the content of the messages from a client to a server, but for `job` (``JobMessageWriter``).
///
/// A `tag` is any JSON value as text; it comes back in every answer.
package enum ClientMessageWriter {
    /// - Parameter client: a name for the server's logs.
    package static func hello(client: String?, tag: [UInt8]? = nil) -> [UInt8] {
        message("hello", tag: tag) { writer in
            writer.key("version")
            writer.integer(ClientEnvelope.protocolVersion)
            if let client { writer.member("client", client) }
        }
    }

    /// - Parameter members: further members as JSON text without braces; the `pong` bears them too.
    package static func ping(members: [UInt8] = [], tag: [UInt8]? = nil) -> [UInt8] {
        message("ping", tag: tag) { $0.rawMembers(members) }
    }

    package static func stats(tag: [UInt8]? = nil) -> [UInt8] { message("stats", tag: tag) { _ in } }
    package static func model(tag: [UInt8]? = nil) -> [UInt8] { message("model", tag: tag) { _ in } }

    /// - Parameter id: the job whose `completed` or `failed` is wanted.
    package static func await(id: String, tag: [UInt8]? = nil) -> [UInt8] {
        message("await", tag: tag) { $0.member("id", id) }
    }

    /// - Parameter id: the job that is to be taken back.
    package static func cancel(id: String, tag: [UInt8]? = nil) -> [UInt8] {
        message("cancel", tag: tag) { $0.member("id", id) }
    }

    package static func admin(_ action: AdminAction, tag: [UInt8]? = nil) -> [UInt8] {
        message("admin", tag: tag) { $0.member("action", action.rawValue) }
    }

    /// - Parameter file: absolute, where the server runs.
    package static func backup(file: String, replaces: Bool, tag: [UInt8]? = nil) -> [UInt8] {
        message("admin", tag: tag) { writer in
            writer.member("action", BackupMessage.action)
            writer.member("file", file)
            writer.key("replace")
            writer.bool(replaces)
        }
    }

    /// - Parameter members: `entity` and whatever else the fetch has, as JSON text without braces.
    package static func fetch(members: [UInt8], tag: [UInt8]? = nil) -> [UInt8] {
        message("fetch", tag: tag) { $0.rawMembers(members) }
    }

    private static func message(_ type: String, tag: [UInt8]?, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + (tag?.count ?? 0))
        writer.object { writer in
            writer.member("type", type)
            members(&writer)
            writer.tag(tag)
        }
        return writer.bytes
    }
}
