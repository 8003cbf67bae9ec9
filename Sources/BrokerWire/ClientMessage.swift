package import Broker
package import BrokerJSON

/// A client's request. A job and a fetch are read by the server, from the envelope's document.
package enum ClientMessage {
    case hello(client: String?)
    case job
    /// - Parameter after: the answer waits until the server has applied everything up to that sequence.
    case await(id: String, after: Int64?)
    case bookmark(name: String)
    case cancel(id: String)
    case admin(AdminAction)
    /// An `admin` that copies the store.
    ///
    /// - Parameters:
    ///   - file: an absolute path.
    ///   - replaces: an existing file is replaced.
    case backup(file: String, replaces: Bool, wantsProgress: Bool)
    /// An `admin` that ends connections.
    case kick(KickMessage)
    /// An `admin` that changes the store to the model as it now is.
    case migrate(MigrateMessage)
    /// - Parameter after: a sequence that the server is to have applied before it reads.
    case fetch(after: Int64?)
    case subscribe(CommitQuery)
    case ping
    case stats
    case jobs(JobsMessage)
    case rejects(RejectsMessage)
    case model

    package static let backupAction = "backup"
}

/// The server changes the store to the model as it now is, as a `reload` does, or reports what that would do.
package struct MigrateMessage: Sendable, Equatable {
    /// The name of the action on the wire.
    package static let action = "migrate"

    /// Nothing is changed.
    package let isDryRun: Bool
    package let removedParts: RemovedParts
    /// Instead, the subjects of changes that decide about these parts alone.
    package let (kept, dropped): ([String], [String])

    package init(isDryRun: Bool, removedParts: RemovedParts, kept: [String] = [], dropped: [String] = []) {
        self.isDryRun = isDryRun
        self.removedParts = removedParts
        (self.kept, self.dropped) = (kept, dropped)
    }

    fileprivate init(_ root: JSONValue) throws(WireError) {
        self.init(
            isDryRun: try root.optionalBool("dryRun") ?? false,
            removedParts: try root.optionalWord("removedParts", RemovedParts.known) ?? .refuse,
            kept: try root.optionalStrings("keep", of: "names of parts"),
            dropped: try root.optionalStrings("drop", of: "names of parts"))
        if removedParts != .refuse, !kept.isEmpty || !dropped.isEmpty {
            throw .unsupported(
                "`removedParts` decides about all parts, and `keep` and `drop` about those that they name; send one of "
                    + "both.", at: "/removedParts")
        }
        if let both = kept.first(where: { dropped.contains($0) }) {
            throw .unsupported("`keep` and `drop` both name \(both).", at: "/drop")
        }
    }

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        writer.member("action", Self.action)
        writer.member("dryRun", isDryRun)
        writer.member("removedParts", removedParts.rawValue)
        if !kept.isEmpty { writer.strings("keep", kept) }
        if !dropped.isEmpty { writer.strings("drop", dropped) }
    }
}

/// The server ends a connection, or those of a user, but not that of the message itself.
package struct KickMessage: Sendable, Equatable {
    /// The name of the action on the wire.
    package static let action = "kick"

    package var connection: Int?
    package var user: UInt32?

    package init(connection: Int? = nil, user: UInt32? = nil) { (self.connection, self.user) = (connection, user) }

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        writer.member("action", Self.action)
        if let connection { writer.member("connection", connection) }
        if let user { writer.member("user", Int(user)) }
    }

    init(_ root: JSONValue) throws(WireError) {
        let number = try root.optionalUser()
        self.init(connection: try root.optionalCount("connection"), user: number)
        guard (connection == nil) != (user == nil) else {
            throw .unsupported(
                "A `kick` needs either the number of a `connection` or that of a `user`.", at: "/connection")
        }
    }
}

/// A client's message and the fields that every message may have.
// `message` is values, and `document` is immutable, so an envelope may move between threads.
package struct ClientEnvelope: @unchecked Sendable {
    /// The only supported version of the protocol.
    package static let protocolVersion = 1
    /// The maximum bytes of a tag as JSON text: the server stores one for each message that is not answered.
    package static let maximumTagCount = 1_024
    /// Bytes of memory that an operation takes until it is staged, besides its records: that of the job, and the name and the
    /// path on the heap.
    package static let operationMemory = 512

    package let message: ClientMessage
    /// The client's `tag` as JSON text, which every answer returns.
    package let tag: [UInt8]?
    package let document: JSONDocument

    package var id: String? { document.withRoot { $0["id"]?.returnableID } }
}

extension ClientEnvelope {
    private static let knownTypes = [
        "hello", "job", "await", "cancel", "fetch", "bookmark", "subscribe", "ping", "stats", "jobs", "rejects",
        "model",
        "admin",
    ]
    private static let laterTypes = ["unsubscribe"]

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
                throw .unsupported(
                    "A `tag` has at most \(maximumTagCount) bytes. Store its meaning in the client, and send a short one.",
                    at: "/tag")
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
        case "rejects": return .rejects(try RejectsMessage(root))
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
                throw .unsupported("This server does not do `\(later)` yet.", at: "/type")
            }
            throw .unsupported(
                "There is no message of the type \(type.quotedBriefly); the types are \(knownTypes.listed).",
                at: "/type")
        }
    }

    private static func idOfJob(in root: JSONValue, _ message: String) throws(WireError) -> String {
        guard let id = try root.optionalID() else {
            throw .unsupported(message, at: "/id")
        }
        return id
    }

    private static func administration(in root: JSONValue) throws(WireError) -> ClientMessage {
        let actions =
            AdminAction.known.map(\.rawValue) + [KickMessage.action, ClientMessage.backupAction, MigrateMessage.action]
        guard let value = root["action"] else {
            throw .unsupported("An `admin` needs an `action`: \(actions.listed).", at: "/action")
        }
        guard value.kind == .string else { throw value.mismatch("a string", at: "/action") }
        switch actions.first(where: { value.isText($0) }) {
        case KickMessage.action?: return .kick(try KickMessage(root))
        case ClientMessage.backupAction?: return try backup(in: root)
        case MigrateMessage.action?:
            return .migrate(try MigrateMessage(root))
        case let action?: return .admin(AdminAction(rawValue: action))
        case nil:
            throw .unsupported(
                "There is no action \(value.quotedBriefly); the actions are \(actions.listed).", at: "/action")
        }
    }

    private static func backup(in root: JSONValue) throws(WireError) -> ClientMessage {
        guard let file = try root.optionalString("file", in: "") else {
            throw .unsupported("A `backup` needs a `file` to copy the store to.", at: "/file")
        }
        guard file.utf8.first == UInt8(ascii: "/") else {
            throw .unsupported("The `file` of a `backup` is a path of the server's: an absolute one.", at: "/file")
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
        return .hello(client: try root.optionalString("client", in: ""))
    }
}

extension CommitQuery {
    fileprivate init(_ root: JSONValue) throws(WireError) {
        if let list = root["entities"], list.kind == .array {
            var count = 0
            for _ in list.elements { count += 1 }
            guard (1...Self.maximumEntities).contains(count) else {
                throw .unsupported(
                    "`entities` has 1 to \(Self.maximumEntities) names, not \(count). Omit it for all entities.",
                    at: "/entities")
            }
        }
        let entities = root["entities"] == nil ? nil : try root.optionalStrings("entities", of: "names of entities")
        self.init(of: entities, after: try root.optionalCount("after").map { Int64($0) })
        reply = try root.optionalWord("reply", Reply.known) ?? .summary
    }
}

extension JSONValue {
    fileprivate func optionalUser() throws(WireError) -> UInt32? {
        guard let count = try optionalCount("user") else { return nil }
        guard let user = UInt32(exactly: count) else {
            throw .unsupported("`user` is the number of a user, at most \(UInt32.max).", at: "/user")
        }
        return user
    }

    /// An `id` that an answer may have; nil for any other value.
    package var returnableID: String? {
        guard kind == .string, JobID.byteCounts.contains(bytes.count) else { return nil }
        return string
    }

    /// The `id` of a message that may have one, possibly of the server; nil when it has none.
    package func optionalID() throws(WireError) -> String? {
        guard let id = try optionalString("id", in: "") else { return nil }
        try WireError.check(id.utf8.count, in: JobID.byteCounts, of: "An `id`", at: "/id")
        return id
    }

    package func bookmarkName(at path: String) throws(WireError) -> String {
        guard let name = self["name"] else {
            throw .unsupported("A `bookmark` needs a `name`.", at: "\(path)/name")
        }
        guard let text = name.string else { throw name.mismatch("a string", at: "\(path)/name") }
        try WireError.check(
            text.utf8.count, in: Job.Bookmark.nameCounts, of: "The `name` of a bookmark", at: "\(path)/name")
        return text
    }
}

/// A request for lists of jobs.
package struct JobsMessage: Sendable, Equatable {
    package enum List: String, Sendable, CaseIterable {
        /// Those that have not ended.
        case running
        case failed
        /// Those that took long.
        case slow
    }

    /// The number of jobs in each list, at most.
    package static let limits = 1...1_000
    package static let defaultLimit = 20

    /// Without repetitions.
    package let lists: [List]
    package let limit: Int
    /// Only failures of jobs that were accepted then or later, in milliseconds since 1970.
    package let since: Int64?
    /// Only failures of that user.
    package let user: UInt32?
    /// Only failures of that code.
    package let code: String?
    /// The job that is asked about instead of lists: whether it runs, and how jobs of that id ended.
    package private(set) var id: String?

    package init(
        lists: [List] = List.allCases, limit: Int = defaultLimit, since: Int64? = nil, user: UInt32? = nil,
        code: String? = nil
    ) {
        self.lists = lists
        self.limit = limit
        self.since = since
        self.user = user
        self.code = code
    }

    package init(id: String) {
        self.init()
        self.id = id
    }

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        if let id { return writer.member("id", id) }
        writer.strings("lists", lists.map(\.rawValue))
        writer.member("limit", limit)
        if let since { writer.member("since", since) }
        if let user { writer.member("user", user) }
        writer.member("code", code)
    }

    init(_ root: JSONValue) throws(WireError) {
        if let id = try root.optionalString("id", in: "") {
            guard !["lists", "limit", "since", "user", "code"].contains(where: { root[$0] != nil }) else {
                throw .unsupported("A `jobs` with an `id` is about one job: it has no lists and no filters.", at: "/id")
            }
            self.init(id: id)
            return
        }
        let names = List.allCases.map(\.rawValue)
        let lists =
            try root["lists"]?.words(among: names, at: "/lists") { word, words in
                "There is no list \(word); the lists are \(words)."
            } ?? []
        let limit = try root.limit(Self.limits, of: "jobs") ?? Self.defaultLimit
        let user = try root.optionalUser()
        self.init(
            lists: List.allCases.filter { lists.isEmpty || lists.contains($0.rawValue) }, limit: limit,
            since: try root.optionalCount("since").map { Int64($0) }, user: user,
            code: try root.optionalString("code", in: ""))
    }
}

/// Finds `type`, `id` and `tag` of a message in its text, without a tape and in constant memory.
///
/// The text arrives in pieces. It need not be valid JSON: members that end before a fault are found. As everywhere, the
/// last of several members with one key counts. The scan understands only strings and brackets; the three values are
/// parsed when they are complete.
package struct EnvelopeScan {
    private enum Field: String, CaseIterable { case type, id, tag }

    /// The maximum bytes of a key, or of a value that is needed: of a tag. (Each byte of an id may be an escape of six.)
    private static let longestToken = 4 * ClientEnvelope.maximumTagCount

    /// The last `type`, when it is a string; otherwise nil.
    package private(set) var type: String?
    /// There is a `type`, of any kind.
    package private(set) var hasType = false
    package private(set) var id: String?
    package private(set) var tag: [UInt8]?

    /// The number of open brackets.
    private var depth = 0
    private var hasEnded = false
    private var isInString = false
    private var isEscaped = false
    /// A key is being read, and no value.
    private var isKey = true
    /// The meaning of the value that is being read, if it is needed.
    private var field: Field?
    /// The text of the key or the needed value that is being read, and at most a byte more than it may have.
    private var token: [UInt8] = []

    package init() {}

    package mutating func scan(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            guard !hasEnded else { return }
            if isInString { takeInString(byte) } else { take(byte) }
        }
    }

    private mutating func takeInString(_ byte: UInt8) {
        keep(byte)
        if isEscaped {
            isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
            isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
            isInString = false
            if depth == 1, !isKey { endValue() }
        }
    }

    private mutating func take(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "{"),
            UInt8(ascii: "[") where depth > 0:
            depth += 1
            if depth > 1 { keep(byte) }
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            depth -= 1
            hasEnded = depth <= 0
            if !hasEnded { keep(byte) }
            if depth <= 1, !isKey { endValue() }
        case UInt8(ascii: ":") where depth == 1 && isKey:
            field = value { key in Field.allCases.first { key.isText($0.rawValue) } }
            (isKey, token) = (false, [])
        case UInt8(ascii: ",") where depth == 1:
            endValue()
            isKey = true
        case 0x20, 0x0A, 0x0D, 0x09: if !token.isEmpty { keep(byte) }
        default:
            hasEnded = depth == 0
            isInString = byte == UInt8(ascii: "\"")
            keep(byte)
        }
    }

    private mutating func keep(_ byte: UInt8) {
        if isKey || field != nil, token.count <= Self.longestToken { token.append(byte) }
    }

    private mutating func endValue() {
        switch field {
        case .type: (hasType, type) = (true, value(\.string))
        case .id: id = value(\.returnableID)
        case .tag: tag = value { ClientEnvelope.returnableTag($0) }
        case nil: break
        }
        (field, token) = (nil, [])
    }

    /// Parses the token, which must be one value.
    private func value<Read>(_ read: (JSONValue) -> Read?) -> Read? {
        guard !token.isEmpty, token.count <= Self.longestToken else { return nil }
        let array = JSONText(copying: [UInt8(ascii: "[")] + token + [UInt8(ascii: "]")])
        return try? JSONDocument(parsing: array).withRoot { root in
            var elements = root.elements
            guard let value = elements.next(), elements.next() == nil else { return nil }
            return read(value)
        }
    }
}

extension EnvelopeScan {
    /// The message is a job, or would be one if it could be read.
    package var isJob: Bool { !hasType || type == "job" }
}
