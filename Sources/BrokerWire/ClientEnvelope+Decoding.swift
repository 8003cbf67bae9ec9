package import BrokerJSON

extension ClientEnvelope {
    private static let knownTypes = ["hello", "job", "await", "ping", "stats", "model"]
    private static let laterTypes = ["cancel", "fetch", "subscribe", "unsubscribe", "admin"]

    /// Parses the content of a frame and reads the message in it. Blocking work, by the size of the text.
    ///
    /// - Throws: `malformedJSON`, `unsupportedMessage` or `unsupportedVersion`; none ends the connection.
    package static func decode(parsing text: JSONText) throws(WireError) -> ClientEnvelope {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text)
        } catch {
            throw WireError(error)
        }
        return try decode(document)
    }

    /// - Throws: `malformedJSON` when it is no object, `unsupportedMessage` or `unsupportedVersion`, with the `id` and
    ///   the `tag` of the message if they could be read.
    package static func decode(_ document: JSONDocument) throws(WireError) -> ClientEnvelope {
        let root = document.root
        guard root.kind == .object else {
            throw WireError(
                .malformedJSON, "The content is no JSON object but \(root.kind.phrase). A message is one JSON object.",
                position: JSONPosition(offset: root.offset, in: document.text))
        }
        let tag = root["tag"]?.jsonText
        do throws(WireError) {
            return ClientEnvelope(message: try message(in: root), tag: tag, document: document)
        } catch {
            var error = error
            error.tag = tag
            error.id = root["id"]?.string.flatMap { JobMessage.idCounts.contains($0.utf8.count) ? $0 : nil }
            throw error
        }
    }

    private static func message(in root: JSONValue) throws(WireError) -> ClientMessage {
        guard let type = try root.optionalString("type", in: "") else { return .job(try JobMessage(root)) }
        switch type {
        case "job": return .job(try JobMessage(root))
        case "hello": return try hello(in: root)
        case "ping": return .ping
        case "stats": return .stats
        case "model": return .model
        case "await":
            guard let id = try JobMessage.id(in: root) else {
                throw WireError(
                    .unsupportedMessage, "An `await` needs the `id` of the job to wait for.", path: "/id")
            }
            return .await(id: id)
        case let type where laterTypes.contains(type):
            throw WireError(.unsupportedMessage, "This server does not do `\(type)` yet.", path: "/type")
        default:
            throw WireError(
                .unsupportedMessage,
                "There is no message of the type \(type.quotedBriefly); the types are \(knownTypes.listed).",
                path: "/type")
        }
    }

    private static func hello(in root: JSONValue) throws(WireError) -> ClientMessage {
        if let version = root["version"], version.int64 != Int64(protocolVersion) {
            guard version.kind == .number else { throw version.isNo("a number", at: "/version") }
            throw WireError(
                .unsupportedVersion,
                """
                This server speaks version \(protocolVersion) of the protocol, not \
                \(String(decoding: version.bytes.prefix(20), as: UTF8.self)). Say hello with that version, or go on \
                without a hello.
                """, path: "/version")
        }
        return .hello(version: protocolVersion, client: try root.optionalString("client", in: ""))
    }
}
