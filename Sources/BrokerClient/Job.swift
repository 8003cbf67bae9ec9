internal import BrokerWire

extension BrokerClient {
    /// A job to be submitted: operations that take effect together or not at all.
    public struct Job: Sendable {
        /// What becomes of a job with a bad record.
        public enum OnInvalid: String, Sendable, CaseIterable {
            /// The job changes nothing.
            case fail
            /// The bad record is left out and listed.
            case skip
        }

        /// What the completion tells.
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
        public var reply = Reply.summary
        /// Trailing commas are to be forgiven.
        public var isLenient = false

        public init(
            operations: [Operation], id: String? = nil, onInvalid: OnInvalid = .fail, reply: Reply = .summary
        ) {
            self.operations = operations
            self.id = id
            self.onInvalid = onInvalid
            self.reply = reply
        }

        /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
        public static func process(_ json: [UInt8], as entity: String) -> Job {
            Job(operations: [.process(json, as: entity)])
        }

        /// Finds or creates objects of `entity` from a record or an array of records that can be encoded, or is JSON
        /// already; see ``BrokerClient/JSON/init(encoding:)``.
        public static func process(_ records: some Encodable, as entity: String) throws(BrokerError) -> Job {
            Job(operations: [try .process(records, as: entity)])
        }
    }
}

extension BrokerClient.Job {
    /// The content of the message. The same job gives the same bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    package func content(id: String?, wantsAcceptance: Bool) -> [UInt8] {
        var message = JobMessageWriter(id: id, operations: operations.map(\.message))
        message.onInvalid =
            switch onInvalid {
            case .fail: .fail
            case .skip: .skip
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
}
