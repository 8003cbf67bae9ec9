internal import BrokerWire

extension BrokerClient.Job {
    /// Something that a job does to objects. Each operation of a job sees what those before it did.
    public struct Operation: Sendable, Equatable {
        /// What is done, its values as they go over the socket.
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

        /// What tells the objects of a payload.
        public enum Reading: Sendable, Hashable {
            /// The model's mapping of that name.
            case mapping(String)
            /// The model's routes for the path that the payload came from, such as `/articles/5`.
            case path(String)
            /// The model's routes by key paths alone.
            case keyPaths
        }

        /// What a sync may do.
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

// MARK: - From values

extension BrokerClient.Job.Operation {
    /// Finds or creates objects of `entity`, from JSON text.
    public static func process(_ json: [UInt8], as entity: String) -> Self {
        Self(entity: entity, .process(BrokerClient.JSON(json)))
    }

    /// Finds or creates objects of `entity`, from what ``BrokerClient/JSON/init(encoding:)`` takes.
    public static func process(_ records: some Encodable, as entity: String) throws(BrokerError) -> Self {
        Self(entity: entity, .process(try BrokerClient.JSON(encoding: records)))
    }

    /// Fills one object, which must exist. A record that brings another identity renames it, and what refers to it
    /// follows.
    ///
    /// - Parameters:
    ///   - record: what ``BrokerClient/JSON/init(encoding:)`` takes.
    ///   - key: the value of the object's identity, or a value with a member for each of its attributes, or its `_pk`; see
    ///     ``BrokerClient/JSON/init(value:)``.
    public static func process(
        _ record: some Encodable, as entity: String, object key: some Encodable
    ) throws(BrokerError) -> Self {
        Self(
            entity: entity,
            .process(try BrokerClient.JSON(encoding: record), object: try BrokerClient.JSON(value: key)))
    }

    /// Gives a relationship of one object, which must exist, what a record would hold there.
    ///
    /// - Parameters:
    ///   - key: the object's, as in ``process(_:as:object:)``.
    ///   - value: an object or several, or bare keys, or `"null"`: what ``BrokerClient/JSON/init(encoding:)`` takes, so
    ///     text is JSON. For a key of the client's own type there is ``relate(_:_:_:toKey:)``.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, to value: some Encodable
    ) throws(BrokerError) -> Self {
        let value = try BrokerClient.JSON(encoding: value)
        return Self(
            entity: entity, .relate(value, relationship: relationship, object: try BrokerClient.JSON(value: key)))
    }

    /// Links one object, which must exist, to the object of another key, or to those of an array of keys. One that does
    /// not exist is dealt with as the model says; nil ends the link, or all links of a to-many.
    public static func relate(
        _ entity: String, _ key: some Encodable, _ relationship: String, toKey destination: some Encodable
    ) throws(BrokerError) -> Self {
        let value = try BrokerClient.JSON(value: destination)
        return Self(
            entity: entity, .relate(value, relationship: relationship, object: try BrokerClient.JSON(value: key)))
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all without one) and that the
    /// records did not name, at any depth.
    ///
    /// - Parameters:
    ///   - records: an array: what ``BrokerClient/JSON/init(encoding:)`` takes.
    ///   - part: for a sync that does not fit one job.
    public static func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerClient.Predicate? = nil,
        actions: Set<SyncAction> = SyncAction.all, part: SyncPart? = nil
    ) throws(BrokerError) -> Self {
        let json = try BrokerClient.JSON(encoding: records)
        return Self(entity: entity, .sync(json, where: predicate, actions: actions, part: part))
    }

    /// Reads a whole payload, as it came from its server.
    ///
    /// - Parameters:
    ///   - payload: what ``BrokerClient/JSON/init(encoding:)`` takes.
    ///   - reading: what tells the objects in it.
    public static func map(_ payload: some Encodable, by reading: Reading = .keyPaths) throws(BrokerError) -> Self {
        Self(entity: "", .map(try BrokerClient.JSON(encoding: payload), by: reading))
    }

    /// Reads a whole payload, from JSON text.
    public static func map(_ json: [UInt8], by reading: Reading = .keyPaths) -> Self {
        Self(entity: "", .map(BrokerClient.JSON(json), by: reading))
    }

    /// Deletes objects by their keys, as in ``process(_:as:object:)``. Keys that name nothing are counted in a warning.
    public static func delete(_ entity: String, keys: [some Encodable]) throws(BrokerError) -> Self {
        Self(entity: entity, .delete(try BrokerClient.JSON(value: keys)))
    }

    /// Deletes the objects that match.
    public static func delete(_ entity: String, where predicate: BrokerClient.Predicate) -> Self {
        Self(entity: entity, .deleteMatching(predicate))
    }
}

// MARK: - To the wire

extension BrokerClient.Job.Operation {
    var message: JobMessageWriter.Operation {
        switch action {
        case .process(let json, let object):
            .init(entity: entity, .process(json.bytes, object: object?.bytes))
        case .relate(let json, let relationship, let object):
            .init(entity: entity, .relate(json.bytes, object: object.bytes, relationship: relationship))
        case .sync(let json, let predicate, let actions, let part):
            .init(
                entity: entity,
                .sync(
                    json.bytes, predicate?.message, OperationMessage.SyncActions(actions.map(\.message)),
                    part: part.map { .init(id: $0.id, isLast: $0.isLast) }))
        case .map(let json, let reading):
            .init(entity: "", .map(json.bytes, mapping: reading.mapping, path: reading.path))
        case .delete(let keys): .init(entity: entity, .delete(keys.bytes))
        case .deleteMatching(let predicate): .init(entity: entity, .deleteMatching(predicate.message))
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

extension BrokerClient.Predicate {
    fileprivate var message: JobMessageWriter.Operation.Selection {
        .init(format, arguments: arguments.isEmpty ? nil : BrokerClient.JSON(array: arguments).bytes)
    }
}
