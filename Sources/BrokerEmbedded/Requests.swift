internal import Broker
internal import BrokerCoordinator
internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import Synchronization

/// Jobs and questions of the process, on their way to the coordinator; each is answered once.
///
/// Their JSON texts are parsed on the coordinator's workers, within its memory, as the frames of a server's clients are.
final class Requests: Sendable {
    private struct Unanswered: Sendable {
        /// By number: ends the wait for an answer that will not come.
        var waits: [Int: @Sendable (_ reason: String) -> Void] = [:]
        var next = 0
        /// Why nothing is answered any more.
        var failure: String?
    }

    private let coordinator: Coordinator
    private let queue: AdmissionQueue
    private let unanswered = Mutex(Unanswered())

    /// The memory for each byte of a fetch: names, and their resolved forms.
    private static let memoryPerFetchByte = 8
    /// Bytes of memory that an operation takes until it is staged, besides its records.
    private static let operationMemory = 512

    init(_ coordinator: Coordinator) {
        self.coordinator = coordinator
        queue = AdmissionQueue(coordinator)
    }

    var waitingCount: Int { queue.count }

    func close() { queue.close() }

    /// The store has failed: the coordinator answers nothing from now on.
    func fail(_ error: StoreError) {
        unanswered.withLock { $0.failure = error.message }
        // First the messages that were not admitted: they have no effect.
        queue.close()
        let waits = unanswered.withLock { $0.waits.values }
        for end in waits { end("the store has failed. \(error.message)") }
    }

    /// Why a message that is not admitted is refused.
    private var refusal: BrokerError {
        guard let failure = unanswered.withLock({ $0.failure }) else { return .stopped }
        return Self.storeFailed(failure)
    }

    private static func storeFailed(_ failure: String) -> BrokerError {
        let message = "The store has failed: \(failure) Stop the broker, and open the store again."
        return BrokerError(.storeUnavailable, message)
    }

    /// - Parameter id: the job's; nil for a message that is no job.
    /// - Returns: a number by which to forget it.
    private func note<Value>(_ answer: Answer<Value>, _ id: JobID?) throws -> Int {
        try unanswered.withLock { unanswered in
            if let failure = unanswered.failure { throw Self.storeFailed(failure) }
            unanswered.next += 1
            unanswered.waits[unanswered.next] = { reason in
                let error: BrokerError =
                    id.map { .outcomeUnknown($0, noAnswer: reason) } ?? Self.storeFailed(reason)
                answer.finish(.failure(error))
            }
            return unanswered.next
        }
    }

    /// - Parameters:
    ///   - text: ``Broker/Job/checkedText(id:)`` of the job.
    ///   - accepted: called when the job has its sequence.
    func job(
        _ job: Broker.Job, id: JobID, _ text: JSONText, accepted: (@Sendable (_ sequence: Int64) -> Void)? = nil
    ) async throws -> JobCompletion {
        let answer = Answer<JobCompletion>()
        return try await value(of: answer, bytes: text.count, id: id) { memory throws(JSONRefusal) in
            let document = try Self.parse(text, isLenient: job.isLenient, memory)
            guard memory.take(job.operations.count * Self.operationMemory) else { throw .noRoom }
            return .job(
                BrokerCoordinator.Job(job, id: id, in: document, text, wantsAcceptance: accepted != nil) { event in
                    switch event {
                    case .accepted(_, let sequence): accepted?(sequence)
                    case .progress: break
                    case .ended(let outcome): answer.finish(.success(outcome))
                    }
                })
        }
    }

    private static func parse(
        _ text: JSONText, isLenient: Bool = false, _ memory: JobMemory
    ) throws(JSONRefusal) -> JSONDocument {
        guard memory.take(text.count) else { throw .noRoom }
        return try JSONDocument.parse(text, allowance: memory) { _ in isLenient }
    }

    func fetch(_ query: Query) async throws -> FetchedObjects {
        let answer = Answer<FetchedObjects>()
        return try await fetch(query, isStreamed: false, answer) { [coordinator] request, ticket in
            // A cancelled task has finished the answer.
            coordinator.fetch(request, before: ticket, isWanted: { !answer.isFinished }) { end in
                answer.finish(Result(end))
            }
        }
    }

    /// Asks for the objects of a query by `ask`, which sees to the answer.
    private func fetch<Value>(
        _ query: Query, isStreamed: Bool, _ answer: Answer<Value>,
        ask: @escaping @Sendable (FetchRequest, _ ticket: Int) -> Void
    ) async throws -> Value {
        var writer = JSONWriter()
        try writer.object { writer throws(BrokerError) in try query.write(isStreamed: isStreamed, to: &writer) }
        let text = JSONText(copying: writer.bytes)
        return try await value(of: answer, bytes: text.count) { [coordinator] memory throws(JSONRefusal) in
            let document = try Self.parse(text, memory)
            guard memory.take(text.count * Self.memoryPerFetchByte) else { throw .noRoom }
            return withExtendedLifetime(document) {
                do throws(Fault) {
                    let request = try coordinator.plan.fetchRequest(
                        FetchDescription(query, document.root, isStreamed: isStreamed))
                    return .question { ticket in ask(request, ticket) }
                } catch {
                    answer.finish(.failure(BrokerError(error)))
                    return .nothing
                }
            }
        }
    }

    func bookmark(named name: String) async throws -> BrokerStore.StoredBookmark? {
        let answer = Answer<BrokerStore.StoredBookmark?>()
        return try await value(of: answer) { [coordinator] _ in
            .question { ticket in
                coordinator.bookmark(named: name, before: ticket) { result in
                    answer.finish(result.mapError { BrokerError(.storeUnavailable, $0.message) })
                }
            }
        }
    }

    /// Begins a streamed fetch, when the jobs before it have ended.
    ///
    /// - Parameter notify: called for each event, on a thread of the coordinator's.
    func stream(
        _ query: Query, notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) async throws -> FetchStream {
        let answer = Answer<FetchStream>()
        return try await fetch(query, isStreamed: true, answer) { [coordinator] request, ticket in
            coordinator.whenEnded(before: ticket, from: 0) {
                answer.finish(.success(coordinator.stream(request, of: 0, notify: notify)))
            }
        }
    }

    /// Begins to follow the feed, when the jobs before it have ended.
    ///
    /// - Parameter notify: called for each event, on a thread of the coordinator's.
    func subscribe(
        _ query: CommitQuery, notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) async throws -> FeedSubscription {
        try query.check()
        let answer = Answer<FeedSubscription>()
        return try await value(of: answer) { [coordinator] _ in
            .question { ticket in
                coordinator.whenEnded(before: ticket, from: 0) {
                    let subscription = coordinator.subscribe(
                        to: query.entities, after: query.after, wantsKeys: query.reply == .keys, notify: notify)
                    answer.finish(.success(subscription))
                }
            }
        }
    }

    /// Admits something when there is room, and waits for its answer.
    ///
    /// - Parameters:
    ///   - bytes: of its text.
    ///   - id: the job's; nil for a question.
    ///   - open: called on a worker, and perhaps called again; sees to the answer, but where it throws.
    private func value<Value>(
        of answer: Answer<Value>, bytes: Int = 0, id: JobID? = nil,
        open: @escaping @Sendable (JobMemory) throws(JSONRefusal) -> Opened
    ) async throws -> Value {
        try Task.checkCancellation()
        let wait = try note(answer, id)
        defer { unanswered.withLock { $0.waits[wait] = nil } }
        let number = queue.add {
            self.coordinator.admit(
                payloadBytes: bytes,
                open: { memory in
                    do throws(JSONRefusal) {
                        return try open(memory)
                    } catch {
                        guard case .fault(let error) = error else { return .noRoom }
                        answer.finish(.failure(BrokerError(.invalidJSON, "\(error)")))
                        return .nothing
                    }
                },
                refuse: { message in answer.finish(.failure(BrokerError.tooLarge(message))) })
        } drop: {
            answer.finish(.failure(self.refusal))
        }
        return try await answer.value(onCancel: { [queue, coordinator] in
            if queue.withdraw(number) || id == nil {
                // A job that is not admitted has no effect, and neither has a fetch.
                answer.finish(.failure(CancellationError()))
            } else if let id {
                // The job's own end is the answer: `cancelled`, or its outcome when its merge had begun. The coordinator knows
                // the id when it has opened the job, so the cancellation is a frame after the job's.
                coordinator.admit(
                    payloadBytes: 0,
                    open: { _ in .question { ticket in coordinator.cancel(id.text, before: ticket) { _ in } } },
                    refuse: { _ in })
            }
        })
    }

    /// Asks something after everything that was admitted before, and waits for the answer.
    ///
    /// - Parameters:
    ///   - cancellation: thrown when the task is cancelled, which ends the waiting.
    ///   - question: called with the ticket of the question; calls back once.
    func ask<Value: Sendable>(
        orOnCancellation cancellation: BrokerError,
        _ question: @escaping @Sendable (Int, @escaping @Sendable (Result<Value, BrokerError>) -> Void) -> Void
    ) async throws -> Value {
        try Task.checkCancellation()
        let answer = Answer<Value>()
        let wait = try note(answer, nil)
        defer { unanswered.withLock { $0.waits[wait] = nil } }
        _ = queue.add {
            self.coordinator.admit(
                payloadBytes: 0,
                open: { _ in
                    .question { ticket in question(ticket) { answer.finish($0.mapError { $0 }) } }
                }, refuse: { message in answer.finish(.failure(BrokerError(.busy, message))) })
        } drop: {
            answer.finish(.failure(self.refusal))
        }
        return try await answer.value(orOnCancellation: cancellation)
    }
}

// MARK: - Into the coordinator's words

extension Broker.Job {
    /// The JSON texts of the job's operations as one text.
    ///
    /// - Throws: as a job that is sent to a server.
    func checkedText(id: JobID) throws(BrokerError) -> JSONText {
        try checkOptions(id: id)
        var writer = JSONWriter()
        try writer.object { writer throws(BrokerError) in try writeOperations(to: &writer) }
        return JSONText(copying: writer.bytes)
    }
}

extension BrokerCoordinator.Job {
    /// - Parameter document: that of `text`, which is ``Broker/Job/checkedText(id:)`` of the job.
    fileprivate convenience init(
        _ job: Broker.Job, id: JobID, in document: JSONDocument, _ text: JSONText, wantsAcceptance: Bool,
        observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        let root = document.root
        var operations = ShortList<JobOperation>()
        if let list = root["operations"] {
            for (operation, fields) in zip(job.operations, list.elements) {
                operations.append(JobOperation(operation, fields, at: "/operations/\(operations.count)"))
            }
        } else {
            operations.append(JobOperation(job.operations[0], root, at: ""))
        }
        self.init(
            id: id.text, document: document, operations: operations, policy: job.onInvalid == .skip ? .skip : .fail,
            wantsKeys: job.reply == .keys, wantsObjects: job.reply == .objects, wantsAcceptance: wantsAcceptance,
            content: text, observer: observer)
        refusesUnknownKeys = job.effectiveUnknownKeys == .fail
        isDryRun = job.isDryRun
        maximumDeletions = job.maximumDeletions.map {
            switch $0 {
            case .objects(let count): .objects(count)
            case .percent(let percent):
                .share(thousandthsOfPercent: Broker.Job.DeletionLimit.thousandths(percent))
            }
        }
        bookmark = job.bookmark.map { Bookmark(name: $0.name, value: $0.value) }
        objectDates = job.dates == .model ? .model : .iso8601
    }
}

extension JobOperation {
    /// - Parameter fields: the operation's JSON texts, by the names that they have in a message.
    fileprivate init(_ operation: Broker.Job.Operation, _ fields: JSONValue, at pointer: String) {
        // They were written for this very operation.
        func field(_ name: String) -> JSONValue { fields[name]! }
        let action: Action
        var json = fields
        switch operation.action {
        case .process:
            json = field("json")
            action = .process(object: fields["object"])
        case .relate:
            json = field("json")
            action = .relate(object: field("object"), relationship: field("relationship"))
        case .sync(_, let predicate, let actions, let part):
            json = field("json")
            action = .sync(
                where: predicate?.format, arguments: fields["arguments"],
                actions: (actions.contains(.insert), actions.contains(.update), actions.contains(.delete)),
                part: part.map { ($0.id, $0.isLast) })
        case .map:
            json = field("json")
            action = .map(mapping: fields["mapping"], path: fields["path"])
        case .delete:
            json = field("objects")
            action = .delete
        case .deleteMatching(let predicate):
            action = .deleteMatching(where: predicate.format, arguments: fields["arguments"])
        }
        self.init(
            entity: operation.entity, json: json, action,
            entityPointer: operation.entity.isEmpty ? pointer : "\(pointer)/entity", pointer: pointer)
    }
}

extension FetchDescription {
    /// - Parameter fields: the query's JSON texts, by the names that they have in a message.
    fileprivate init(_ query: Query, _ fields: JSONValue, isStreamed: Bool) {
        self.init(entity: query.entity)
        predicate = query.predicate?.format
        arguments = fields["arguments"]
        object = fields["object"]
        after = fields["after"]
        sort = query.sort
        limit = query.limit
        offset = query.offset
        include = query.include
        select = query.select
        names = query.names == .remote ? .remote : .local
        dates = query.dates == .model ? .model : .iso8601
        result = FetchResult(rawValue: query.form.rawValue) ?? .collection
        self.isStreamed = isStreamed
    }
}

// MARK: - Into the client's words

extension Completion {
    init(_ outcome: JobCompletion, isBrief: Bool) throws(BrokerError) {
        let id = JobID(outcome.id)
        switch outcome.result {
        case .completed(let members, let isDuplicate):
            guard !isBrief else {
                self.init(id: id, sequence: outcome.sequence ?? 0)
                isDryRun = outcome.isDryRun
                return
            }
            let document = try JSONDocument(ofStore: [UInt8(ascii: "{")] + members + [UInt8(ascii: "}")])
            self = withExtendedLifetime(document) {
                Completion(id: id, sequence: outcome.sequence ?? 0, members: document.root)
            }
            self.isDuplicate = isDuplicate
            isDryRun = outcome.isDryRun
            timing = outcome.timing.map(Timing.init)
            guard let objects = outcome.objects else { return }
            self.objects = objects.json.map { RawJSON($0) }
            if objects.json == nil {
                warnings.append(Warning(code: .answerShortened, key: "objects", count: objects.count))
            }
        case .failed(let error):
            let document = try JSONDocument(ofStore: error)
            throw withExtendedLifetime(document) {
                BrokerError.reported(document.root, jobID: id, sequence: outcome.sequence).ofJob
            }
        }
    }
}

extension Completion.Timing {
    fileprivate init(_ times: StageTimes) {
        self.init(
            queued: .microseconds(times.queued), staged: .microseconds(times.staged),
            journalWaited: .microseconds(times.journalWaited), journalSynced: .microseconds(times.journalSynced),
            waited: .microseconds(times.waited), merged: .microseconds(times.merged),
            committed: .microseconds(times.committed))
    }
}

extension JSONDocument {
    /// Parses what the store has written.
    convenience init(ofStore text: [UInt8]) throws(BrokerError) {
        do throws(JSONError) {
            try self.init(fast: JSONText(copying: text))
        } catch {
            throw BrokerError(.internal, "The store has a text that is no JSON: \(error)")
        }
    }
}

extension Result where Success == FetchedObjects, Failure == any Error {
    fileprivate init(_ end: FetchEnd) {
        switch end {
        case .found(let objects): self = .success(objects)
        case .failed(let fault): self = .failure(BrokerError(fault))
        case .postponed, .stopped: self = .failure(BrokerError.stopped)
        }
    }
}

extension BrokerError {
    static let stopped = BrokerError(
        .draining, "The broker is stopped and accepts nothing more. Open the store again.")

    init(_ fault: BrokerModel.Fault) {
        var reported = Fault(
            code: Code(rawValue: fault.code.rawValue), message: fault.message, path: fault.path, entity: fault.entity,
            attribute: fault.attribute)
        reported.oldest = fault.oldest
        self = .reported(reported, retryAfter: fault.retryAfterMilliseconds.map { .milliseconds($0) })
    }
}

/// The calls that wait for room in the coordinator, in the order of their arrival. May be called from any thread.
///
/// Invariants:
/// 1. Everything is admitted in the order of ``add(_:drop:)``, or dropped, once.
/// 2. A call that was withdrawn before it was admitted is never admitted.
/// 3. While something waits, the coordinator has been asked to notify when there is room.
final class AdmissionQueue: Sendable {
    private struct Waiting: Sendable {
        /// Called under the lock, so that the order holds.
        let admit: @Sendable () -> Void
        let drop: @Sendable () -> Void
    }

    private struct State: Sendable {
        /// By number; those that were withdrawn are missing.
        var waiting: [Int: Waiting] = [:]
        var first = 0
        var next = 0
        var isAsking = false
        var isClosed = false

        /// Takes the first that waits; nil when nothing does.
        mutating func take() -> Waiting? {
            while first < next {
                defer { first += 1 }
                if let waiting = waiting.removeValue(forKey: first) { return waiting }
            }
            return nil
        }
    }

    private let coordinator: Coordinator
    private let state = Mutex(State())

    init(_ coordinator: Coordinator) { self.coordinator = coordinator }

    var count: Int { state.withLock { $0.waiting.count } }

    /// Admits something as soon as there is room and everything before it is admitted.
    ///
    /// - Parameters:
    ///   - admit: must not call back here.
    ///   - drop: called instead when the queue is closed before.
    /// - Returns: what it may be withdrawn by.
    func add(_ admit: @escaping @Sendable () -> Void, drop: @escaping @Sendable () -> Void) -> Int {
        let number: Int? = state.withLock { state in
            guard !state.isClosed else { return nil }
            defer { state.next += 1 }
            state.waiting[state.next] = Waiting(admit: admit, drop: drop)
            return state.next
        }
        if number == nil { drop() } else { admitWaiting() }
        return number ?? -1
    }

    /// If it still waits, it is neither admitted nor dropped.
    ///
    /// - Returns: whether it still waited.
    func withdraw(_ number: Int) -> Bool {
        state.withLock { $0.waiting.removeValue(forKey: number) != nil }
    }

    /// Admits nothing from now on, and drops what waits.
    func close() {
        let dropped = state.withLock { state in
            state.isClosed = true
            var dropped: [Waiting] = []
            while let waiting = state.take() { dropped.append(waiting) }
            return dropped
        }
        for waiting in dropped { waiting.drop() }
    }

    private func admitWaiting() {
        let mustAsk = state.withLock { state in
            while coordinator.hasRoom() {
                guard let waiting = state.take() else { return false }
                waiting.admit()
            }
            guard !state.waiting.isEmpty, !state.isAsking else { return false }
            state.isAsking = true
            return true
        }
        guard mustAsk else { return }
        coordinator.whenRoom { [self] in
            state.withLock { $0.isAsking = false }
            admitWaiting()
        }
    }
}
