internal import BrokerJSON

/// Makes the content of a `job` message.
package struct JobMessageWriter: Sendable {
    /// One operation. Its values are JSON; the server checks what they mean.
    package struct Operation: Sendable {
        package enum Action: Sendable {
            /// Records, and the key of the object that the one record is about.
            case process(RawJSON, object: RawJSON? = nil)
            /// What the object of that key is to hold at the relationship.
            case relate(RawJSON, object: RawJSON, relationship: String)
            /// An array of records, what of the entity they are all of, what may be done, and which part of a sync it is.
            case sync(RawJSON, Selection?, OperationMessage.SyncActions, part: OperationMessage.SyncPart? = nil)
            /// A payload, and the name of its mapping, or the path that it came from.
            case map(RawJSON, mapping: String?, path: String?)
            /// An array of keys.
            case delete(RawJSON)
            case deleteMatching(Selection)
        }

        /// A predicate, and an array of values for its `%@`.
        package struct Selection: Sendable {
            package var predicate: String
            package var arguments: RawJSON?

            package init(_ predicate: String, arguments: RawJSON? = nil) {
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
        package init(entity: String, json: RawJSON) {
            self.init(entity: entity, .process(json))
        }
    }

    /// 1 to 128 bytes; with an id the job is applied exactly once. Nil: the server makes one, and promises at most once.
    package var id: String?
    /// In the order in which they take effect.
    package var operations: [Operation]
    package var onInvalid = JobMessage.OnInvalid.fail
    package var unknownKeys = JobMessage.UnknownKeys.warn
    package var reply = JobMessage.Reply.summary
    package var notify = JobMessage.Notify.completed
    package var isLenient = false
    /// Any JSON value, given back in every answer.
    package var tag: RawJSON?

    package init(id: String?, operations: [Operation]) {
        self.id = id
        self.operations = operations
    }

    /// The message as JSON: what differs from the defaults, then the operations, each copied once. The same values
    /// give the same bytes, so that a job sent again is known as the same.
    package func content() -> [UInt8] {
        let records = operations.reduce(0) { $0 + $1.byteCount }
        var writer = JSONWriter(capacity: records + 320 + (tag?.bytes.count ?? 0))
        writer.object { writer in
            if let id { writer.member("id", id) }
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if unknownKeys != .warn { writer.member("unknown", unknownKeys.rawValue) }
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if notify != .completed { writeNotify(to: &writer) }
            if isLenient {
                writer.key("lenient")
                writer.bool(true)
            }
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
    /// About as many bytes as it takes in the message.
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

    /// Its members. A `process`, the default, goes without its name.
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
    /// Writes a member that is JSON text; nothing when there is none.
    fileprivate mutating func member(_ key: String, raw json: RawJSON?) {
        guard let json else { return }
        self.key(key)
        raw(json.bytes)
    }
}
