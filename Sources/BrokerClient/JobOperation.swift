internal import BrokerWire

extension BrokerClient.Job {
    /// Something that a job does to objects. Each operation of a job sees what those before it did.
    public struct Operation: Sendable, Equatable {
        /// The operation's kind, with its values in the form in which they are sent.
        public enum Action: Sendable, Equatable {
            /// Finds or creates the objects of a record or an array of records; with the key of an object, which must
            /// exist, the one record is about that.
            case process(BrokerClient.JSON, object: BrokerClient.JSON? = nil)
            /// Gives a relationship of the object of that key, which must exist, what a record would hold there.
            case relate(BrokerClient.JSON, relationship: String, object: BrokerClient.JSON)
            /// Processes an array of records, then deletes what matches and was not named.
            case sync(
                BrokerClient.JSON, where: BrokerClient.Predicate? = nil, actions: Set<SyncAction> = SyncAction.all,
                part: SyncPart? = nil)
            /// Reads a whole payload by a mapping of the model, or by the routes for a path, or by those for no path.
            case map(BrokerClient.JSON, by: Reading)
            /// Deletes the objects of an array of keys.
            case delete(BrokerClient.JSON)
            /// Deletes the objects that match.
            case deleteMatching(BrokerClient.Predicate)
        }

        /// The rule by which a payload's objects are found.
        public enum Reading: Sendable, Hashable {
            /// The model's mapping of that name.
            case mapping(String)
            /// The model's routes for the path that the payload came from, such as `/articles/5`.
            case path(String)
            /// The model's routes by key paths alone.
            case keyPaths
        }

        /// The changes that a sync may make.
        public enum SyncAction: String, Sendable, CaseIterable {
            case insert, update, delete

            public static let all = Set(allCases)
        }

        /// One of several jobs, over any connections, that do one sync: the last one deletes what none of them named.
        ///
        /// A part that fails has named nothing, so do not send the last one before all others are committed.
        public struct SyncPart: Sendable, Hashable {
            /// The whole sync's, 1 to 128 bytes; free again after the last part.
            public var id: String
            public var isLast: Bool

            public init(id: String, isLast: Bool) {
                self.id = id
                self.isLast = isLast
            }
        }

        /// Empty of a ``Action/map(_:by:)``.
        public var entity: String
        public var action: Action

        public init(entity: String, _ action: Action) {
            self.entity = entity
            self.action = action
        }
    }
}

// MARK: - To the wire

extension BrokerClient.Job.Operation {
    /// - Parameters:
    ///   - pointer: a JSON Pointer to the operation's fields in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - levels: objects and arrays of the message around a value of the operation.
    /// - Throws: ``BrokerError/invalidJSON(_:)``
    func message(
        at pointer: String, isLenient: Bool, levels: Int
    ) throws(BrokerError) -> JobMessageWriter.Operation {
        func proven(_ json: BrokerClient.JSON, _ field: String) throws(BrokerError) -> RawJSON {
            try json.proven(at: "\(pointer)/\(field)", isLenient: isLenient, enclosingLevels: levels)
        }
        func selection(
            _ predicate: BrokerClient.Predicate
        ) throws(BrokerError) -> JobMessageWriter.Operation.Selection {
            guard !predicate.arguments.isEmpty else { return .init(predicate.format) }
            let arguments = try BrokerClient.JSON.proven(
                predicate.arguments, at: "\(pointer)/arguments", isLenient: isLenient, enclosingLevels: levels)
            return .init(predicate.format, arguments: arguments)
        }
        switch action {
        case .process(let json, nil): return .init(entity: entity, .process(try proven(json, "json")))
        case .process(let json, let object?):
            return .init(
                entity: entity, .process(try proven(json, "json"), object: try proven(object, "object")))
        case .relate(let json, let relationship, let object):
            return .init(
                entity: entity,
                .relate(
                    try proven(json, "json"), object: try proven(object, "object"), relationship: relationship))
        case .sync(let json, let predicate, let actions, let part):
            return .init(
                entity: entity,
                .sync(
                    try proven(json, "json"), try predicate.map(selection),
                    OperationMessage.SyncActions(actions.map(\.message)),
                    part: part.map { .init(id: $0.id, isLast: $0.isLast) }))
        case .map(let json, let reading):
            return .init(entity: "", .map(try proven(json, "json"), mapping: reading.mapping, path: reading.path))
        case .delete(let keys): return .init(entity: entity, .delete(try proven(keys, "objects")))
        case .deleteMatching(let predicate):
            return .init(entity: entity, .deleteMatching(try selection(predicate)))
        }
    }
}

extension BrokerClient.Job.Operation.Reading {
    fileprivate var mapping: String? { if case .mapping(let name) = self { name } else { nil } }
    fileprivate var path: String? { if case .path(let path) = self { path } else { nil } }
}

extension BrokerClient.Job.Operation.SyncAction {
    fileprivate var message: OperationMessage.SyncActions {
        switch self {
        case .insert: .insert
        case .update: .update
        case .delete: .delete
        }
    }
}
