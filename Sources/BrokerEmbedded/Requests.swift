internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
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
    ///   - content: the job's message.
    ///   - accepted: called when the job has its sequence.
    func job(
        _ content: [UInt8], id: JobID, accepted: (@Sendable (_ sequence: Int64) -> Void)? = nil
    ) async throws -> JobCompletion {
        let answer = Answer<JobCompletion>()
        return try await value(of: answer, JSONText(copying: content), id: id) { envelope, text, _ in
            .job(
                try .read(envelope, content: text) { _ in
                    { event in
                        switch event {
                        case .accepted(_, let sequence): accepted?(sequence)
                        case .progress: break
                        case .ended(let outcome): answer.finish(.success(outcome))
                        }
                    }
                })
        }
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

    /// Asks for the objects of a query by `ask`, which sees to the answer.
    private func fetch<Value>(
        _ query: Query, isStreamed: Bool, _ answer: Answer<Value>,
        ask: @escaping @Sendable (FetchRequest, _ ticket: Int) -> Void
    ) async throws -> Value {
        let text = try message("fetch") { json throws(BrokerError) in
            try query.write(isStreamed: isStreamed, to: &json)
        }
        return try await value(of: answer, text) { [coordinator] envelope, text, memory in
            guard memory.take(text.count * Self.memoryPerFetchByte) else { return .noRoom }
            let request = try coordinator.plan.fetchRequest(FetchDescription(envelope.document.root))
            return .question { ticket in ask(request, ticket) }
        }
    }

    func bookmark(named name: String) async throws -> BrokerStore.StoredBookmark? {
        let answer = Answer<BrokerStore.StoredBookmark?>()
        let text = message("bookmark") { $0.member("name", name) }
        return try await value(of: answer, text) { [coordinator] _, _, _ in
            .question { ticket in
                coordinator.bookmark(named: name, before: ticket) { result in
                    answer.finish(result.mapError { BrokerError(.storeUnavailable, $0.message) })
                }
            }
        }
    }

    /// Begins to follow the feed, when the jobs before it have ended.
    ///
    /// - Parameter notify: called for each event, on a thread of the coordinator's.
    func subscribe(
        _ query: CommitQuery, notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) async throws -> FeedSubscription {
        let answer = Answer<FeedSubscription>()
        return try await value(of: answer, message("subscribe") { query.write(to: &$0) }) {
            [coordinator] _, _, _ in
            .question { ticket in
                coordinator.whenEnded(before: ticket, from: 0) {
                    let subscription = coordinator.subscribe(
                        to: query.entities, after: query.after, wantsKeys: query.reply == .keys, notify: notify)
                    answer.finish(.success(subscription))
                }
            }
        }
    }

    private func message<Failure>(
        _ type: String, _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) -> JSONText {
        var writer = JSONWriter()
        try writer.object { json throws(Failure) in
            json.member("type", type)
            try members(&json)
        }
        return JSONText(copying: writer.bytes)
    }

    /// Admits a message when there is room, and waits for its answer.
    ///
    /// - Parameters:
    ///   - id: the job's; nil for a question.
    ///   - open: called on a worker, and perhaps called again; sees to the answer, but where it throws.
    private func value<Value>(
        of answer: Answer<Value>, _ text: JSONText, id: JobID? = nil,
        open: @escaping @Sendable (ClientEnvelope, JSONText, JobMemory) throws -> Opened
    ) async throws -> Value {
        try Task.checkCancellation()
        let wait = try note(answer, id)
        defer { unanswered.withLock { $0.waits[wait] = nil } }
        let number = queue.add {
            self.coordinator.admit(
                payloadBytes: text.count,
                open: { memory in
                    do {
                        guard memory.take(text.count) else { return .noRoom }
                        return try open(try ClientEnvelope.decode(parsing: text, allowance: memory), text, memory)
                    } catch let error as WireError {
                        answer.finish(.failure(BrokerError(error, id)))
                    } catch let error as Fault {
                        answer.finish(.failure(BrokerError(error)))
                    } catch {
                        return .noRoom
                    }
                    return .nothing
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
            self = try JSONDocument(ofStore: [UInt8(ascii: "{")] + members + [UInt8(ascii: "}")]).withRoot {
                Completion(id: id, sequence: outcome.sequence ?? 0, members: $0)
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
            throw try JSONDocument(ofStore: error).withRoot {
                BrokerError.reported($0, jobID: id, sequence: outcome.sequence).ofJob
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

    /// A message that the coordinator's side refuses, in the words of a server.
    init(_ error: WireError, _ id: JobID?) {
        var fault = Fault(code: error.code, message: error.message, path: error.path)
        fault.line = error.position?.line
        fault.column = error.position?.column
        fault.offset = error.position?.offset
        self = .reported(fault, jobID: id)
    }

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
