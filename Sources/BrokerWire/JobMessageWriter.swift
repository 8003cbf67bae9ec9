internal import BrokerJSON

/// Makes the content of a `job` message.
package struct JobMessageWriter: Sendable {
    /// One `process`, with its records as JSON text.
    package struct Operation: Sendable {
        package var entity: String
        /// One JSON value, not checked here: the server tells what is wrong with it.
        package var json: [UInt8]

        package init(entity: String, json: [UInt8]) {
            self.entity = entity
            self.json = json
        }
    }

    /// 1 to 128 bytes; with an id the job is applied exactly once. Nil: the server makes one, and promises at most once.
    package var id: String?
    /// In the order in which they take effect.
    package var operations: [Operation]
    package var onInvalid = JobMessage.OnInvalid.fail
    package var reply = JobMessage.Reply.summary
    package var notify = JobMessage.Notify.completed
    package var isLenient = false
    /// Any JSON value, given back in every answer.
    package var tag: [UInt8]?

    package init(id: String?, operations: [Operation]) {
        self.id = id
        self.operations = operations
    }

    /// The message as JSON: what differs from the defaults, then the operations, each copied once. The same values
    /// give the same bytes, so that a job sent again is known as the same.
    package func content() -> [UInt8] {
        let records = operations.reduce(0) { $0 + $1.json.count + $1.entity.utf8.count + 40 }
        var writer = JSONWriter(capacity: records + 320 + (tag?.count ?? 0))
        writer.object { writer in
            if let id { writer.member("id", id) }
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if notify != .completed { writeNotify(to: &writer) }
            if isLenient {
                writer.key("lenient")
                writer.bool(true)
            }
            writer.tag(tag)
            if let only = operations.first, operations.count == 1 {
                Self.write(only, to: &writer)
            } else {
                writer.key("operations")
                writer.array { writer in
                    for operation in operations {
                        writer.object { Self.write(operation, to: &$0) }
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

    private static func write(_ operation: Operation, to writer: inout JSONWriter) {
        writer.member("entity", operation.entity)
        writer.key("json")
        writer.raw(operation.json)
    }
}
