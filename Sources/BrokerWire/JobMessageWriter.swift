package import BrokerJSON

/// Writes the content of a `job` message.
package struct JobMessageWriter: Sendable {
    /// One operation. Its values are JSON; the server checks their meaning.
    package struct Operation: Sendable {
        package enum Action: Sendable {
            /// Records, and the key of the object that a single record describes.
            case process(ProvenJSON, object: ProvenJSON? = nil)
            /// The objects to which the relationship of the object with that key is set.
            case relate(ProvenJSON, object: ProvenJSON, relationship: String)
            /// An array of records, the predicate that selects the synchronised objects, the permitted changes, and the
            /// part of the sync.
            case sync(ProvenJSON, Selection?, OperationMessage.SyncActions, part: OperationMessage.SyncPart? = nil)
            /// A payload, and the name of its mapping, or the resource path that it came from.
            case map(ProvenJSON, mapping: String?, path: String?)
            /// An array of keys.
            case delete(ProvenJSON)
            case deleteMatching(Selection)
        }

        /// A predicate, and an array of values for its `%@`.
        package struct Selection: Sendable {
            package var predicate: String
            package var arguments: ProvenJSON?

            package init(_ predicate: String, arguments: ProvenJSON? = nil) {
                self.predicate = predicate
                self.arguments = arguments
            }
        }

        package var entity: String
        package var action: Action

        package init(entity: String, _ action: Action) {
            self.entity = entity
            self.action = action
        }

        /// One `process`.
        package init(entity: String, json: ProvenJSON) {
            self.init(entity: entity, .process(json))
        }
    }

    /// 1 to 128 bytes; with an id the job is applied exactly once. Nil: the server makes one, and the job is applied at
    /// most once.
    package var id: String?
    /// In the order in which they take effect.
    package var operations: [Operation]
    package var onInvalid = JobMessage.OnInvalid.fail
    package var unknownKeys = JobMessage.UnknownKeys.warn
    package var isDryRun = false
    package var maximumDeletions: JobMessage.DeletionLimit?
    package var bookmark: JobMessage.Bookmark?
    package var reply = JobMessage.Reply.summary
    package var dates = FetchMessage.Dates.model
    package var notify = JobMessage.Notify.completed
    package var isLenient = false
    /// The W3C `traceparent` of the sender's span.
    package var trace: String?
    /// Any JSON value, which every answer returns.
    package var tag: ProvenJSON?

    package init(id: String?, operations: [Operation]) {
        self.id = id
        self.operations = operations
    }

    /// Returns the message as JSON: the fields that differ from the defaults, then the operations, each copied once.
    /// Equal values give equal bytes, so that the server recognises a job that is sent again.
    package func content() -> [UInt8] {
        let records = operations.reduce(0) { $0 + $1.byteCount }
        var writer = JSONWriter(capacity: records + 320 + (tag?.bytes.count ?? 0))
        writer.object { writer in
            if let id { writer.member("id", id) }
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if unknownKeys != .warn { writer.member("unknown", unknownKeys.rawValue) }
            if isDryRun {
                writer.key("dryRun")
                writer.bool(true)
            }
            maximumDeletions?.write(to: &writer)
            bookmark?.write(to: &writer)
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if dates != .model { writer.member("dates", dates.rawValue) }
            if notify != .completed { writeNotify(to: &writer) }
            if isLenient {
                writer.key("lenient")
                writer.bool(true)
            }
            if let trace { writer.member("trace", trace) }
            writer.tag(tag?.bytes)
            if let only = operations.first, operations.count == 1 {
                only.write(to: &writer)
            } else {
                writer.key("operations")
                writer.array { writer in
                    for operation in operations {
                        writer.object { operation.write(to: &$0) }
                    }
                }
            }
        }
        return writer.bytes
    }

    private func writeNotify(to writer: inout JSONWriter) {
        writer.key("notify")
        writer.array { writer in
            if notify.contains(.accepted) { writer.string("accepted") }
            if notify.contains(.completed) { writer.string("completed") }
        }
    }
}

extension JobMessageWriter.Operation {
    /// Approximate bytes in the message.
    fileprivate var byteCount: Int {
        let values =
            switch action {
            case .process(let json, let object): json.bytes.count + (object?.bytes.count ?? 0)
            case .relate(let json, let object, let name): json.bytes.count + object.bytes.count + name.utf8.count
            case .sync(let json, let selection, _, _): json.bytes.count + (selection?.byteCount ?? 0)
            case .map(let json, let mapping, let path):
                json.bytes.count + (mapping?.utf8.count ?? 0) + (path?.utf8.count ?? 0)
            case .delete(let keys): keys.bytes.count
            case .deleteMatching(let selection): selection.byteCount
            }
        return entity.utf8.count + values + 100
    }

    /// Writes the members. A `process`, the default, has no name.
    fileprivate func write(to writer: inout JSONWriter) {
        switch action {
        case .process(let json, let object):
            writer.member("entity", entity)
            writer.member("object", raw: object)
            writer.member("json", raw: json)
        case .relate(let json, let object, let relationship):
            begin("relate", &writer)
            writer.member("object", raw: object)
            writer.member("relationship", relationship)
            writer.member("json", raw: json)
        case .sync(let json, let selection, let actions, let part):
            begin("sync", &writer)
            selection?.write(to: &writer)
            if actions != .all { actions.write(to: &writer) }
            part?.write(to: &writer)
            writer.member("json", raw: json)
        case .map(let json, let mapping, let path):
            writer.member("op", "map")
            if let mapping { writer.member("mapping", mapping) }
            if let path { writer.member("path", path) }
            writer.member("json", raw: json)
        case .delete(let keys):
            begin("delete", &writer)
            writer.member("objects", raw: keys)
        case .deleteMatching(let selection):
            begin("delete", &writer)
            selection.write(to: &writer)
        }
    }

    private func begin(_ word: String, _ writer: inout JSONWriter) {
        writer.member("op", word)
        writer.member("entity", entity)
    }
}

extension JobMessageWriter.Operation.Selection {
    fileprivate var byteCount: Int { predicate.utf8.count + (arguments?.bytes.count ?? 0) }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("where", predicate)
        writer.member("arguments", raw: arguments)
    }
}

extension OperationMessage.SyncActions {
    /// The words of the protocol.
    static let words: [(String, Self)] = [("insert", .insert), ("update", .update), ("delete", .delete)]

    fileprivate func write(to writer: inout JSONWriter) {
        writer.key("actions")
        writer.array { writer in
            for (word, action) in Self.words where contains(action) { writer.string(word) }
        }
    }
}

extension OperationMessage.SyncPart {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.key("part")
        writer.object { writer in
            writer.member("id", id)
            writer.key("last")
            writer.bool(isLast)
        }
    }
}

extension JSONWriter {
    /// Writes a member that is JSON text; writes nothing for nil.
    fileprivate mutating func member(_ key: String, raw json: ProvenJSON?) {
        guard let json else { return }
        self.key(key)
        raw(json.bytes)
    }
}

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
