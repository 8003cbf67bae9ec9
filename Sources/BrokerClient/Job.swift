internal import BrokerWire

extension BrokerClient {
    /// A job to be submitted: operations that take effect together or not at all.
    public struct Job: Sendable {
        /// The treatment of invalid records.
        public enum OnInvalid: String, Sendable, CaseIterable {
            /// The job fails and changes nothing.
            case fail
            /// The invalid record is rejected and listed.
            case skip
        }

        /// The treatment of keys of records that the model does not name.
        public enum UnknownKeys: String, Sendable, CaseIterable {
            /// They are ignored, and counted in ``BrokerClient/Completion/warnings``.
            case warn
            /// A record with such a key is invalid, with the code ``BrokerError/Code/unknownKey``.
            case fail
        }

        /// The contents of the completion.
        public enum Reply: String, Sendable, CaseIterable {
            case none, summary, keys
            /// ``BrokerClient/Completion/objects``.
            case objects
        }

        /// In the order in which they take effect.
        public var operations: [Operation]
        /// 1 to 128 bytes, compared byte by byte; a job is applied exactly once under one id. Nil: the client makes one.
        public var id: String?
        public var onInvalid = OnInvalid.fail
        public var unknownKeys = UnknownKeys.warn
        public var reply = Reply.summary
        /// Trailing commas are accepted.
        public var isLenient = false

        public init(
            operations: [Operation], id: String? = nil, onInvalid: OnInvalid = .fail, reply: Reply = .summary
        ) {
            self.operations = operations
            self.id = id
            self.onInvalid = onInvalid
            self.reply = reply
        }

        /// Finds or creates objects of `entity` from JSON text in bytes.
        public static func process(_ json: [UInt8], as entity: String) -> Job {
            Job(operations: [.process(json: json, as: entity)])
        }

        /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
        public static func process(json: some JSONTextSource, as entity: String) -> Job {
            Job(operations: [.process(json: json, as: entity)])
        }

        /// Finds or creates objects of `entity` from a record or an array of records; see
        /// ``BrokerClient/JSON/init(encoding:)``.
        public static func process(_ records: some Encodable, as entity: String) throws(BrokerError) -> Job {
            Job(operations: [try .process(records, as: entity)])
        }
    }
}

extension BrokerClient.Job {
    /// The content of the message. The same job gives the same bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    /// - Throws: ``BrokerError/invalidJSON(_:)`` when a text of an operation is not exactly one JSON value.
    package func content(id: String?, wantsAcceptance: Bool) throws(BrokerError) -> [UInt8] {
        var message = JobMessageWriter(id: id, operations: try operationMessages())
        message.onInvalid =
            switch onInvalid {
            case .fail: .fail
            case .skip: .skip
            }
        message.unknownKeys =
            switch unknownKeys {
            case .warn: .warn
            case .fail: .fail
            }
        message.reply =
            switch reply {
            case .none: .none
            case .summary: .summary
            case .keys: .keys
            case .objects: .objects
            }
        message.notify = wantsAcceptance ? [.accepted, .completed] : .completed
        message.isLenient = isLenient
        return message.content()
    }

    private func operationMessages() throws(BrokerError) -> [JobMessageWriter.Operation] {
        if let only = operations.first, operations.count == 1 {
            return [try only.message(at: "", isLenient: isLenient, levels: 1)]
        }
        // A value of an operation is inside the message, the array `operations` and the operation.
        var messages: [JobMessageWriter.Operation] = []
        for (index, operation) in operations.enumerated() {
            messages.append(try operation.message(at: "/operations/\(index)", isLenient: isLenient, levels: 3))
        }
        return messages
    }
}
