internal import Synchronization

/// The calls that a client of a server and an embedded broker share: jobs, fetches and questions. Code that is written against it
/// runs with either.
///
/// ```swift
/// func importStaff(_ broker: some BrokerService) async throws {
///     try await broker.process(employees, as: "Employee", id: "load-7")
///     for try await employee in broker.objects(Employee.self, from: "Employee", where: "age > \(40)") {
///         print(employee)
///     }
/// }
/// ```
///
/// Any task may call it at any time. Jobs of one task that waits for each take effect in that order.
///
/// A double of a test implements ``close()`` and the calls that the test needs; the others throw ``BrokerError/Code/unsupported``.
///
/// **Cancellation** has one meaning, with a server and embedded: a call that ends with `CancellationError` has no effect.
///
/// - ``process(_:)``, and ``submit(_:)`` until it returns: the job is cancelled. When its merge has begun (for `submit`, when it
///   has been accepted) it is too late, and the call ends as if its task were not cancelled. When the acceptance and the
///   cancellation cross, `submit` returns, and the completion is ``BrokerError/Code/cancelled``.
/// - ``SubmittedJob/completion`` and ``completion(of:)`` only wait. They end with ``BrokerError/Code/outcomeUnknown``; the job goes on,
///   and ``cancel(_:)`` cancels it.
/// - Fetches and other questions end with `CancellationError`.
/// - ``cancel(_:)``, ``administer(_:)`` and ``backUp(to:replacing:)``: when the request was made, the call ends with
///   ``BrokerError/Code/outcomeUnknown``, unless it is certain that nothing was done. A copy that is not finished is given up.
///
/// **Timeouts** have one meaning as well: `timeout` is the maximum time of a call, nil for no limit. After it the call is
/// cancelled as above. Where that is `CancellationError`, the call throws ``BrokerError/Code/timedOut``: it has no effect. Otherwise
/// it throws ``BrokerError/Code/outcomeUnknown`` with ``BrokerError/Code/timedOut`` as its `cause`. The latter also happens when
/// a server does not answer the cancellation of a job within two seconds. Of a sequence, `timeout` is the maximum time of each
/// `next()`, the first one among them.
public protocol BrokerService: Sendable {
    /// Applies a job and waits until it is committed.
    ///
    /// - Throws: ``BrokerError`` with the code of the fault when the job was refused or failed.
    @discardableResult func process(_ job: Job) async throws -> Completion

    /// Sends a job and waits until it has its place in the order of all jobs; the result has its outcome.
    ///
    /// - Throws: ``BrokerError`` when the job was refused.
    func submit(_ job: Job) async throws -> SubmittedJob

    /// The outcome of a job by its id, now or when it ends.
    ///
    /// - Throws: ``BrokerError`` as the job failed; with ``BrokerError/Code/unknownJob``; or with
    ///   ``BrokerError/Code/outcomeUnknown`` when the task is cancelled.
    func completion(of id: JobID) async throws -> Completion

    /// Cancels the jobs of that id: they fail with ``BrokerError/Code/cancelled`` and have no effect. Either all jobs of that id
    /// that have not ended are cancelled, or none is.
    ///
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/tooLate`` when the merge of one has begun or it has ended, with
    ///   ``BrokerError/Code/unknownJob`` when it is not known or belongs to another user, or with
    ///   ``BrokerError/Code/outcomeUnknown`` when the answer did not come.
    func cancel(_ id: JobID) async throws

    /// Fetches objects, in one answer. It sees every job that was completed before, and those sent before by this client.
    ///
    /// - Throws: ``BrokerError`` with the code of what is wrong with the query.
    func fetch(_ query: Query) async throws -> QueryResult

    /// The bookmark of that name, which a ``Job/bookmark-swift.property`` wrote; nil when there is none. It sees the jobs that a ``fetch(_:)`` sees.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/unsupported`` when the server does not know bookmarks.
    func bookmark(named name: String) async throws -> StoredBookmark?

    /// Fetches any number of objects, in answers of which all are of one moment.
    ///
    /// - Parameter query: of the form ``Query/Form/collection``; without a `limit` for all objects.
    func results(of query: Query) -> QueryResults

    /// Follows the committed jobs that change objects; see `commits(of:after:reply:)`.
    func commits(for query: CommitQuery) -> Commits

    /// Counters and measurements since the start.
    func statistics() async throws -> Statistics

    /// The model in force.
    func model() async throws -> ModelDescription

    /// Does an administrative action. A server allows them to its own user and root only.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/connectionLost``, and with ``BrokerError/Code/outcomeUnknown`` when the
    ///   task is cancelled while this waits for the answer, the action may have been done.
    @discardableResult func administer(_ action: AdminAction) async throws -> AdminResult

    /// Copies the store to a file while jobs go on.
    ///
    /// - Parameters:
    ///   - file: an absolute path on the machine of the store.
    ///   - replacing: whether an existing file is replaced.
    /// - Throws: ``BrokerError``. There is no copy then, except that with ``BrokerError/Code/connectionLost`` and with
    ///   ``BrokerError/Code/outcomeUnknown`` a server may have finished it.
    func backUp(to file: String, replacing: Bool) async throws -> Backup

    /// Ends the connections of a client, or finishes the admitted jobs of an embedded broker and closes its store. Later calls fail.
    func close() async
}

/// An administrative action.
public struct AdminAction: RawRepresentable, Sendable, Hashable {
    /// The protocol's word.
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// Jobs are accepted, and none is merged.
    public static let pause = AdminAction(rawValue: "pause")
    /// Ends a ``pause``.
    public static let resume = AdminAction(rawValue: "resume")
    /// New jobs are refused, those accepted are finished, and the server ends.
    public static let drain = AdminAction(rawValue: "drain")
    /// SQLite's WAL is copied into the database.
    public static let checkpoint = AdminAction(rawValue: "checkpoint")
    /// The model is read again, and applied completely or not at all.
    public static let reload = AdminAction(rawValue: "reload")

    /// Lists the connections of clients.
    package static let clients = AdminAction(rawValue: "clients")

    package static let known: [Self] = [.pause, .resume, .drain, .checkpoint, .reload, .clients]
}

/// The result of an administrative action.
public struct AdminResult: Sendable, Equatable {
    /// With ``AdminAction/checkpoint``: what is left of the WAL.
    public var wal: Statistics.WAL?
    /// With ``AdminAction/reload``: what changed in the store, a text for people for each change; else empty.
    public var changes: [String]

    /// A result, for doubles of a broker.
    public init(wal: Statistics.WAL? = nil, changes: [String] = []) {
        self.wal = wal
        self.changes = changes
    }
}

/// A copy of a store.
public struct Backup: Sendable, Equatable {
    /// The newest job in the copy: it has every job up to that one, and no later one.
    public var sequence: Int64
    /// The size of the file in bytes.
    public var byteCount: Int64

    /// A copy, for doubles of a broker.
    public init(sequence: Int64, byteCount: Int64) {
        self.sequence = sequence
        self.byteCount = byteCount
    }
}

/// A job that has its place in the order of all jobs.
public struct SubmittedJob: Sendable {
    /// The job's id: the one that it was sent with, or the one that was made for it.
    public let id: JobID
    /// The job's position in the total order of jobs.
    public let sequence: Int64
    private let outcome: @Sendable () async throws -> Completion

    /// - Parameter outcome: waits for the end; holds what keeps the connection open.
    public init(id: JobID, sequence: Int64, outcome: @escaping @Sendable () async throws -> Completion) {
        self.id = id
        self.sequence = sequence
        self.outcome = outcome
    }

    /// The job's outcome, once it is committed. Any number of tasks may wait for it.
    ///
    /// - Throws: ``BrokerError``. Cancelling the calling task ends its waiting and nothing else: it gets
    ///   ``BrokerError/Code/outcomeUnknown``, and the job goes on.
    public var completion: Completion { get async throws { try await outcome() } }

    /// The job's outcome, once it is committed, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over: the job goes on.
    public func completion(timeout: Duration?) async throws -> Completion {
        try await withTimeout(timeout, job: id) { [outcome] in try await outcome() }
    }
}

// The calls of the protocol within a time. See ``BrokerService`` for what a `timeout` means.
extension BrokerService {
    /// Applies a job and waits until it is committed, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/timedOut`` when the time is over and the job has no effect.
    @discardableResult public func process(_ job: Job, timeout: Duration?) async throws -> Completion {
        try await withTimeout(timeout, job: job.id) { try await process(job) }
    }

    /// Sends a job and waits, within a time, until it has its place in the order of all jobs.
    ///
    /// - Throws: as ``process(_:timeout:)``.
    public func submit(_ job: Job, timeout: Duration?) async throws -> SubmittedJob {
        try await withTimeout(timeout, job: job.id) { try await submit(job) }
    }

    /// The outcome of a job by its id, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over: the job goes on.
    public func completion(of id: JobID, timeout: Duration?) async throws -> Completion {
        try await withTimeout(timeout, job: id) { try await self.completion(of: id) }
    }

    /// Cancels the jobs of that id, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over.
    public func cancel(_ id: JobID, timeout: Duration?) async throws {
        try await withTimeout(timeout, job: id) { try await cancel(id) }
    }

    /// Fetches objects, in one answer, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/timedOut`` when the time is over.
    public func fetch(_ query: Query, timeout: Duration?) async throws -> QueryResult {
        try await withTimeout(timeout) { try await fetch(query) }
    }

    /// Fetches any number of objects, in answers of which all are of one moment, each within a time.
    ///
    /// - Parameter timeout: the maximum time of each answer, from when it is asked for. The iteration ends when one takes longer,
    ///   with ``BrokerError/Code/timedOut``.
    public func results(of query: Query, timeout: Duration?) -> QueryResults {
        let results = results(of: query)
        guard let timeout else { return results }
        return QueryResults {
            let next = results.begin()
            return { try await withTimeout(timeout) { try await next() } }
        }
    }

    /// The bookmark of that name, within a time.
    public func bookmark(named name: String, timeout: Duration?) async throws -> StoredBookmark? {
        try await withTimeout(timeout) { try await bookmark(named: name) }
    }

    /// Counters and measurements since the start, within a time.
    public func statistics(timeout: Duration?) async throws -> Statistics {
        try await withTimeout(timeout) { try await statistics() }
    }

    /// The model in force, within a time.
    public func model(timeout: Duration?) async throws -> ModelDescription {
        try await withTimeout(timeout) { try await model() }
    }

    /// Does an administrative action, within a time.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/outcomeUnknown`` when the time is over: the action may have been done.
    @discardableResult public func administer(_ action: AdminAction, timeout: Duration?) async throws -> AdminResult {
        try await withTimeout(timeout) { try await administer(action) }
    }

    /// Copies the store to a file while jobs go on, within a time; else as ``backUp(to:replacing:)``.
    public func backUp(
        to file: String, replacing: Bool = false, timeout: Duration? = nil
    ) async throws -> Backup {
        try await withTimeout(timeout) { try await backUp(to: file, replacing: replacing) }
    }
}

extension BrokerService {
    /// Fetches the first object that matches as a value; nil when there is none.
    ///
    /// - Parameters:
    ///   - sort: attributes to sort by, or key paths to them; with `-` before them in descending order.
    ///   - include: paths of relationships whose objects are nested.
    ///   - dates: the form of dates; a property of the type `Date` needs ``Query/Dates/iso8601``.
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchFirst<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        sort: Query.SortKeys = [], include: [String] = [], names: Query.Names = .payload, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> Value? {
        let query = Query(
            entity, where: predicate, sort: sort, include: include, names: names, dates: dates, form: .object)
        return try await fetch(query, timeout: timeout).decode(Value?.self)
    }

    /// Fetches the object of a key as a value; nil when there is none.
    ///
    /// - Parameter key: the identity's value; where it has several attributes, a value with a member for each.
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchObject<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, key: some Encodable, include: [String] = [],
        names: Query.Names = .payload, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> Value? {
        let query = Query(
            entity, key: try RawJSON(value: key), include: include, names: names, dates: dates, form: .object)
        return try await fetch(query, timeout: timeout).decode(Value?.self)
    }

    /// Fetches objects as values by the texts of their identities. One answer's worth: 10,000 objects unless `limit` says
    /// otherwise, 100,000 at most.
    ///
    /// - Throws: ``BrokerError``, or `DecodingError`.
    public func fetchDictionary<Value: Decodable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        include: [String] = [], limit: Int? = nil, names: Query.Names = .payload, dates: Query.Dates = .iso8601,
        timeout: Duration? = nil
    ) async throws -> [String: Value] {
        let query = Query(
            entity, where: predicate, limit: limit, include: include, names: names, dates: dates, form: .dictionary)
        return try await fetch(query, timeout: timeout).decode()
    }

    /// Counts objects.
    ///
    /// - Throws: ``BrokerError``
    public func fetchCount(
        of entity: String, where predicate: BrokerPredicate? = nil, timeout: Duration? = nil
    ) async throws -> Int {
        try await fetch(Query(entity, where: predicate, form: .count), timeout: timeout).decode()
    }

    /// The objects as values, as many as there are, all of one moment, read as they are iterated over.
    ///
    /// ```swift
    /// for try await employee in broker.objects(Employee.self, from: "Employee", where: "age > \(40)") {
    ///     print(employee)
    /// }
    /// let all = try await broker.objects(Employee.self, from: "Employee").collect()
    /// ```
    ///
    /// - Parameters:
    ///   - sort: attributes to sort by, or key paths to them; with `-` before them in descending order. Without it objects come
    ///     in the order of their keys.
    ///   - include: paths of relationships whose objects are nested.
    ///   - offset: objects to skip; with `limit` for pages of sorted objects.
    ///   - limit: objects at most; nil for all.
    ///   - dates: the form of dates; a property of the type `Date` needs ``Query/Dates/iso8601``.
    ///   - timeout: the maximum time of each `next()` that waits for an answer.
    public func objects<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self, from entity: String, where predicate: BrokerPredicate? = nil,
        sort: Query.SortKeys = [], include: [String] = [], offset: Int = 0, limit: Int? = nil,
        names: Query.Names = .payload, dates: Query.Dates = .iso8601, timeout: Duration? = nil
    ) -> FetchedValues<Value> {
        let query = Query(
            entity, where: predicate, sort: sort, offset: offset, limit: limit, include: include, names: names,
            dates: dates)
        return FetchedValues { results(of: query, timeout: timeout) }
    }
}

extension BrokerService {
    /// Follows the committed jobs that change objects of some entities, for a cache, a search index or a copy of them.
    ///
    /// ```swift
    /// for try await commit in broker.commits(of: ["Employee"], after: index.position) {
    ///     if index.position == nil {
    ///         // The first commit of a feed without a position says where it begins.
    ///         try await index.replaceAll(by: broker)
    ///     } else if !commit.changes.isEmpty {
    ///         try await index.apply(commit, by: broker)
    ///     }
    ///     index.position = commit.sequence
    ///     try index.write(to: file)
    /// }
    /// ```
    ///
    /// Without `after`, the first element has no changes, and says where the feed begins: fetch the objects then, and apply the
    /// further elements to them. What a fetch returns may be newer than a commit; a later commit names the object again. See
    /// <doc:FollowingAStore>.
    ///
    /// With a server, the feed goes on by itself after a lost connection. When the server is not back in time, it ends with
    /// ``BrokerError/Code/connectionLost``: call again with the newest sequence as `after`. A feed has no `timeout`: it waits.
    ///
    /// - Parameters:
    ///   - entities: each with its subentities; nil for all of the model.
    ///   - after: the ``Commit/sequence`` of the newest commit that was applied; nil for the commits from now on.
    ///   - reply: whether a commit has the keys of its objects.
    public func commits(
        of entities: [String]? = nil, after: Int64? = nil, reply: CommitQuery.Reply = .keys
    ) -> Commits {
        var query = CommitQuery(of: entities, after: after)
        query.reply = reply
        return commits(for: query)
    }
}

// One operation each; several in one job are a ``Job`` of several. `id`, `onInvalid`, `unknownKeys`, `names` and `reply` are those
// of the ``Job``; see ``BrokerService`` for `timeout`.
extension BrokerService {
    /// Finds or creates objects of `entity` from a record or an array of records, and waits until that is committed.
    ///
    /// A member that is nil is not in the record, so the column stays as it is; see ``Nullable`` and ``RawJSON/Nulls``.
    ///
    /// - Parameter records: values that can be encoded; see ``RawJSON/init(encoding:nulls:)``.
    /// - Throws: ``BrokerError``
    @discardableResult public func process(
        _ records: some Encodable, as entity: String, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload, reply: Job.Reply = .summary,
        nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .process(records, as: entity, nulls: nulls)
        }
    }

    /// Finds or creates objects of `entity` from JSON text: a record, or an array of records.
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/invalidJSON`` when the text is not exactly one JSON value.
    @discardableResult public func process(
        json: some JSONTextSource, as entity: String, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) { .process(json: json, as: entity) }
    }

    /// Fills one object, which must exist. A record that has another identity renames it, and what refers to it follows.
    ///
    /// ```swift
    /// try await broker.update("Employee", key: 3, with: Employee(id: 3, name: "Ada King"))
    /// ```
    ///
    /// - Parameter key: the value of the object's identity; of a compound one a value with a member for each of its
    ///   attributes; where objects may lack an identity, the `_pk`.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` when there is no such object.
    @discardableResult public func update(
        _ entity: String, key: some Encodable, with record: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload,
        reply: Job.Reply = .summary,
        nulls: RawJSON.Nulls = .omitted, timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .update(entity, key: key, with: record, nulls: nulls)
        }
    }

    /// Fills one object, which must exist, from JSON text; else as
    /// ``update(_:key:with:id:onInvalid:unknownKeys:names:reply:nulls:timeout:)``.
    @discardableResult public func update(
        _ entity: String, key: some Encodable, json: some JSONTextSource, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload,
        reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .update(entity, key: key, json: json)
        }
    }

    /// Gives a relationship of one object, which must exist, what a record would have there.
    ///
    /// ```swift
    /// try await broker.set("department", of: "Employee", key: 3, to: Department(id: 7, name: "R&D"))
    /// try await broker.set("tags", of: "Employee", key: 3, to: ["swift", "sql"])  // keys
    /// try await broker.set("department", of: "Employee", key: 3, to: nil)
    /// ```
    ///
    /// - Parameters:
    ///   - key: the object's, as in ``update(_:key:with:id:onInvalid:unknownKeys:names:reply:nulls:timeout:)``.
    ///   - value: an object or several, or bare keys; nil ends the link, or all links of a to-many. A `String` is a key.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/objectNotFound`` or ``BrokerError/Code/unknownRelationship``.
    @discardableResult public func set(
        _ relationship: String, of entity: String, key: some Encodable, to value: some Encodable, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload,
        reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .set(relationship, of: entity, key: key, to: value)
        }
    }

    /// Ends the link of a relationship of one object, or all links of a to-many; else as
    /// ``set(_:of:key:to:id:onInvalid:unknownKeys:names:reply:timeout:)``.
    @discardableResult public func set(
        _ relationship: String, of entity: String, key: some Encodable, to nothing: RawJSON?, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload,
        reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .set(relationship, of: entity, key: key, to: nothing)
        }
    }

    /// Processes records, then deletes the objects of `entity` that match the predicate (all of them without one) and
    /// that the records did not name, at any depth. If a record was rejected, nothing is deleted, and a warning reports
    /// that.
    ///
    /// ```swift
    /// try await broker.sync(staff, as: "Employee", where: "department.name == \(name)")
    /// ```
    ///
    /// - Parameters:
    ///   - records: an array of values that can be encoded; see ``RawJSON/init(encoding:nulls:)``.
    ///   - actions: what the sync may do.
    /// - Throws: ``BrokerError``
    @discardableResult public func sync(
        _ records: some Encodable, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Job.Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload, reply: Job.Reply = .summary,
        nulls: RawJSON.Nulls = .omitted,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            try .sync(records, as: entity, where: predicate, actions: actions, nulls: nulls)
        }
    }

    /// A sync from JSON text, an array; else as ``sync(_:as:where:actions:id:onInvalid:unknownKeys:names:reply:nulls:timeout:)``.
    @discardableResult public func sync(
        json: some JSONTextSource, as entity: String, where predicate: BrokerPredicate? = nil,
        actions: Set<Job.Operation.SyncAction> = .all, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        unknownKeys: Job.UnknownKeys? = nil, names: Query.Names = .payload, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, names, reply, timeout) {
            .sync(json: json, as: entity, where: predicate, actions: actions)
        }
    }

    /// Reads a whole payload that is a value; else as
    /// ``processPayload(json:by:id:onInvalid:unknownKeys:reply:timeout:)``.
    @discardableResult public func processPayload(
        _ payload: some Encodable, by reading: Job.Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            try .processPayload(payload, by: reading)
        }
    }

    /// Reads a whole payload, as its server sent it: by a mapping of the model, by the routes for its resource path, or
    /// by the routes without a path.
    ///
    /// ```swift
    /// try await broker.processPayload(json: payload, by: .path("/articles/5"))
    /// ```
    ///
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/unknownMapping``, with ``BrokerError/Code/unmappable`` when no route
    ///   fits, or with ``BrokerError/Code/remoteError`` and the payload's own text when a route says that it is an error.
    @discardableResult public func processPayload(
        json: some JSONTextSource, by reading: Job.Operation.Reading = .keyPaths, id: JobID? = nil,
        onInvalid: Job.OnInvalid = .fail, unknownKeys: Job.UnknownKeys? = nil, reply: Job.Reply = .summary,
        timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, unknownKeys, nil, reply, timeout) {
            .processPayload(json: json, by: reading)
        }
    }

    /// Deletes objects by their keys, and further objects by the delete rules of their relationships. Keys without an
    /// object are counted in a warning.
    ///
    /// - Parameter keys: as in ``update(_:key:with:id:onInvalid:unknownKeys:names:reply:nulls:timeout:)``.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ entity: String, keys: [some Encodable], id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, nil, nil, reply, timeout) { try .delete(entity, keys: keys) }
    }

    /// Deletes the objects that match, and further objects by the delete rules of their relationships.
    ///
    /// ```swift
    /// try await broker.delete("Employee", where: "hiredAt < \(Date(timeIntervalSince1970: 0))")
    /// ```
    ///
    /// - Parameter predicate: ``BrokerPredicate/all`` deletes all.
    /// - Throws: ``BrokerError``; with ``BrokerError/Code/constraintViolation`` when a `deny` rule prevents the deletion.
    @discardableResult public func delete(
        _ entity: String, where predicate: BrokerPredicate, id: JobID? = nil, onInvalid: Job.OnInvalid = .fail,
        reply: Job.Reply = .summary, timeout: Duration? = nil
    ) async throws -> Completion {
        try await processing(id, onInvalid, nil, nil, reply, timeout) { .delete(entity, where: predicate) }
    }
}

extension BrokerService {
    /// Makes an operation and processes it, both within the time: encoding ends when the time is over or the task is cancelled.
    func processing(
        _ id: JobID?, _ onInvalid: Job.OnInvalid, _ unknownKeys: Job.UnknownKeys?, _ names: Query.Names?,
        _ reply: Job.Reply, _ timeout: Duration?, _ makeOperation: () throws -> Job.Operation
    ) async throws -> Completion {
        let limit = EncodingLimit(timeout: timeout)
        let operation: Job.Operation
        do {
            operation = try EncodingLimit.$current.withValue(limit, operation: makeOperation)
        } catch {
            try Task.checkCancellation()
            throw error
        }
        let job = Job(operation, id: id, onInvalid: onInvalid, unknownKeys: unknownKeys, names: names, reply: reply)
        return try await withTimeout(timeout, since: limit.begin, job: id) { try await process(job) }
    }
}

/// A bookmark of a store: a text that a job wrote with its changes.
public struct StoredBookmark: Sendable, Equatable {
    /// Shared by all clients of the store.
    public var name: String
    /// The text, as the job wrote it.
    public var value: String
    /// The job that wrote it.
    public var sequence: Int64

    /// A bookmark, for doubles of a broker.
    public init(name: String, value: String, sequence: Int64) {
        self.name = name
        self.value = value
        self.sequence = sequence
    }
}

/// How long a call that was cancelled because of its time may take to end: for the server's answer to the cancellation.
package let timeoutGrace = Duration.seconds(2)

/// Runs a call, and cancels it when the time is over.
///
/// - Parameters:
///   - timeout: nil for no limit.
///   - begin: from when the time counts.
///   - grace: the maximum time from the cancellation to the call's end.
///   - id: the job's, if it is known.
/// - Throws: what the call throws; ``BrokerError/Code/timedOut`` when it ended because of the time, without an effect;
///   ``BrokerError/Code/outcomeUnknown`` when it only waited, or when it did not end in the grace period. It goes on then, without
///   a waiter.
package func withTimeout<Value: Sendable>(
    _ timeout: Duration?, since begin: ContinuousClock.Instant = .now, grace: Duration = timeoutGrace,
    job id: JobID? = nil, _ call: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    guard let timeout else { return try await call() }
    let end = Answer<Value>()
    let isLate = Atomic(false)
    let work = Task {
        do {
            end.finish(.success(try await call()))
        } catch {
            end.finish(.failure(error))
        }
    }
    let clock = Task {
        try await Task.sleep(until: begin + timeout, clock: .continuous)
        isLate.store(true, ordering: .relaxed)
        work.cancel()
        try await Task.sleep(for: grace)
        let what = ", and the server did not answer its cancellation within \(grace)"
        end.finish(.failure(BrokerError.outcomeUnknown(afterTimeout: timeout, what, job: id)))
    }
    defer { clock.cancel() }
    do {
        return try await end.value(onCancel: { work.cancel() })
    } catch is CancellationError {
        try Task.checkCancellation()
        guard isLate.load(ordering: .relaxed) else { throw CancellationError() }
        throw BrokerError.timedOut(after: timeout)
    } catch let error as BrokerError where isLate.load(ordering: .relaxed) && error.isWaitCancelled {
        throw BrokerError.outcomeUnknown(afterTimeout: timeout, "", job: error.jobID)
    }
}

extension BrokerError {
    static func timedOut(after timeout: Duration) -> BrokerError {
        timedOut("The call took longer than its timeout of \(timeout) and was cancelled; it has no effect.")
    }

    private static func timedOut(_ message: String) -> BrokerError { BrokerError(.timedOut, message) }

    /// The call only waited for something that goes on, and its task was cancelled.
    fileprivate var isWaitCancelled: Bool { isOutcomeUnknown && (cause as? BrokerError)?.code == .waitCancelled }

    /// - Parameter what: the end of the first sentence.
    fileprivate static func outcomeUnknown(
        afterTimeout timeout: Duration, _ what: String, job id: JobID?
    ) -> BrokerError {
        let message = "The call took longer than its timeout of \(timeout)\(what)."
        let cause = timedOut(message)
        guard let id else {
            return BrokerError(.outcomeUnknown, "\(message) Whether it has an effect is not known.", cause: cause)
        }
        return outcomeUnknown(id, message, cause: cause)
    }
}
