internal import Broker
package import BrokerJSON

extension ClientEnvelope {
    private static let knownTypes = [
        "hello", "job", "await", "cancel", "fetch", "bookmark", "subscribe", "ping", "stats", "jobs", "model", "admin",
    ]
    private static let laterTypes = ["unsubscribe"]

    /// Parses the content of a frame and reads the message in it. Blocking work, by the size of the text.
    ///
    /// - Throws: `malformedJSON`, `unsupportedMessage` or `unsupportedVersion`; none ends the connection.
    package static func decode(parsing text: JSONText) throws(WireError) -> ClientEnvelope {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text)
        } catch {
            throw WireError(error, in: text)
        }
        return try decode(document)
    }

    /// - Parameter allowance: asked for the memory of the operations.
    /// - Throws: as ``decode(_:)``, or ``JSONRefusal/noRoom`` when the allowance has no room.
    package static func decode(
        _ document: JSONDocument, allowance: any MemoryAllowance
    ) throws -> ClientEnvelope {
        let root = document.root
        var operations = 1
        if let list = root["operations"] { for _ in list.elements { operations += 1 } }
        if let collections = root["collections"] {
            // A key is copied only while it is compared with the others.
            for (key, _) in collections.members { operations += 1 + key.bytes.count / operationMemory }
        }
        guard allowance.take(operations * operationMemory) else { throw JSONRefusal.noRoom }
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
        let sentTag = root["tag"]
        let tag = sentTag.flatMap { returnableTag($0) }
        do throws(WireError) {
            guard tag != nil || sentTag == nil else {
                throw WireError(
                    .unsupportedMessage,
                    "A `tag` has at most \(maximumTagCount) bytes. Store its meaning in the client, and send a short one.",
                    path: "/tag")
            }
            return ClientEnvelope(message: try message(in: root), tag: tag, document: document)
        } catch {
            throw error.about(FrameReference(id: root["id"]?.returnableID, tag: tag))
        }
    }

    /// The tag as JSON text; nil when it is too long to be returned.
    static func returnableTag(_ tag: JSONValue) -> [UInt8]? {
        guard tag.bytes.count <= maximumTagCount else { return nil }
        let text = tag.jsonText
        return text.count <= maximumTagCount ? text : nil
    }

    private static func message(in root: JSONValue) throws(WireError) -> ClientMessage {
        guard let type = root["type"] else { return .job }
        guard type.kind == .string else { throw type.mismatch("a string", at: "/type") }
        switch knownTypes.first(where: { type.isText($0) }) {
        case "job": return .job
        case "hello": return try hello(in: root)
        case "ping": return .ping
        case "stats": return .stats
        case "jobs": return .jobs(try JobsMessage(root))
        case "model": return .model
        case "fetch": return .fetch(after: try root.optionalCount("afterSequence").map { Int64($0) })
        case "bookmark": return .bookmark(name: try root.bookmarkName(at: ""))
        case "subscribe": return .subscribe(try CommitQuery(root))
        case "await":
            return .await(
                id: try idOfJob(in: root, "An `await` needs the `id` of the job to wait for."),
                after: try root.optionalCount("after").map { Int64($0) })
        case "cancel": return .cancel(id: try idOfJob(in: root, "A `cancel` needs the `id` of the job to cancel."))
        case "admin":
            return try administration(in: root)
        default:
            if let later = laterTypes.first(where: { type.isText($0) }) {
                throw WireError(.unsupportedMessage, "This server does not do `\(later)` yet.", path: "/type")
            }
            throw WireError(
                .unsupportedMessage,
                "There is no message of the type \(type.quotedBriefly); the types are \(knownTypes.listed).",
                path: "/type")
        }
    }

    private static func idOfJob(in root: JSONValue, _ message: String) throws(WireError) -> String {
        guard let id = try root.optionalID() else {
            throw WireError(.unsupportedMessage, message, path: "/id")
        }
        return id
    }

    private static func administration(in root: JSONValue) throws(WireError) -> ClientMessage {
        let actions = AdminAction.known.map(\.rawValue) + [ClientMessage.backupAction, MigrateMessage.action]
        guard let value = root["action"] else {
            throw WireError(.unsupportedMessage, "An `admin` needs an `action`: \(actions.listed).", path: "/action")
        }
        guard value.kind == .string else { throw value.mismatch("a string", at: "/action") }
        switch actions.first(where: { value.isText($0) }) {
        case ClientMessage.backupAction?: return try backup(in: root)
        case MigrateMessage.action?:
            return .migrate(
                MigrateMessage(
                    isDryRun: try root.optionalBool("dryRun") ?? false,
                    removedParts: try root.optionalWord("removedParts", RemovedParts.known) ?? .refuse))
        case let action?: return .admin(AdminAction(rawValue: action))
        case nil:
            throw WireError(
                .unsupportedMessage,
                "There is no action \(value.quotedBriefly); the actions are \(actions.listed).", path: "/action")
        }
    }

    private static func backup(in root: JSONValue) throws(WireError) -> ClientMessage {
        guard let file = try root.optionalString("file", in: "") else {
            throw WireError(.unsupportedMessage, "A `backup` needs a `file` to copy the store to.", path: "/file")
        }
        guard file.utf8.first == UInt8(ascii: "/") else {
            throw WireError(
                .unsupportedMessage, "The `file` of a `backup` is a path of the server's: an absolute one.",
                path: "/file")
        }
        let wantsProgress = root["notify"].map { list in list.elements.contains { $0.isText("progress") } } ?? false
        return .backup(file: file, replaces: root["replace"]?.bool ?? false, wantsProgress: wantsProgress)
    }

    private static func hello(in root: JSONValue) throws(WireError) -> ClientMessage {
        if let version = root["version"], version.wholeNumber != Int64(protocolVersion) {
            guard version.kind == .number else { throw version.mismatch("a number", at: "/version") }
            throw WireError(
                .unsupportedVersion,
                """
                This server speaks version \(protocolVersion) of the protocol, not \
                \(String(decoding: version.bytes.prefix(20), as: UTF8.self)). Say hello with that version, or continue \
                without a hello.
                """, path: "/version")
        }
        return .hello(version: protocolVersion, client: try root.optionalString("client", in: ""))
    }
}

extension CommitQuery {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        if let list = root["entities"], list.kind == .array {
            var count = 0
            for _ in list.elements { count += 1 }
            guard (1...Self.maximumEntities).contains(count) else {
                throw WireError(
                    .unsupportedMessage,
                    "`entities` has 1 to \(Self.maximumEntities) names, not \(count). Omit it for all entities.",
                    path: "/entities")
            }
        }
        let entities = root["entities"] == nil ? nil : try root.optionalStrings("entities", of: "names of entities")
        self.init(of: entities, after: try root.optionalCount("after").map { Int64($0) })
        reply = try root.optionalWord("reply", Reply.known) ?? .summary
    }
}

extension JSONValue {
    /// An `id` that an answer may have; nil for any other value.
    package var returnableID: String? {
        guard kind == .string, JobID.byteCounts.contains(bytes.count) else { return nil }
        return string
    }

    /// The `id` of a message that may have one, possibly of the server; nil when it has none.
    package func optionalID() throws(WireError) -> String? {
        guard let id = try optionalString("id", in: "") else { return nil }
        guard JobID.byteCounts.contains(id.utf8.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                An `id` has \(JobID.byteCounts.lowerBound) to \(JobID.byteCounts.upperBound) bytes; this one has \
                \(id.utf8.count.grouped).
                """, path: "/id")
        }
        return id
    }

    /// The `name` of the bookmark that the object means.
    package func bookmarkName(at path: String) throws(WireError) -> String {
        guard let name = self["name"] else {
            throw WireError(.unsupportedMessage, "A `bookmark` needs a `name`.", path: "\(path)/name")
        }
        guard let text = name.string else { throw name.mismatch("a string", at: "\(path)/name") }
        let counts = Job.Bookmark.nameCounts
        guard counts.contains(text.utf8.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                The `name` of a bookmark has \(counts.lowerBound) to \(counts.upperBound.grouped) bytes; this one has \
                \(text.utf8.count.grouped).
                """, path: "\(path)/name")
        }
        return text
    }
}
