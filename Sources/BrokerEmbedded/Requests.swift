internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerRequests
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
internal import Synchronization

/// Messages made in the process, on their way to the coordinator; each is answered once.
///
/// They are opened on the coordinator's workers, within its memory, as the frames of a server's clients are.
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

    /// The calls that wait for room.
    var waitingCount: Int { queue.count }

    /// Admits nothing more.
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
    private func note<Value>(_ answer: Answer<Value>, _ id: String?) throws -> Int {
        try unanswered.withLock { unanswered in
            if let failure = unanswered.failure { throw Self.storeFailed(failure) }
            unanswered.next += 1
            unanswered.waits[unanswered.next] = { reason in
                let error: BrokerError =
                    id.map { .outcomeUnknown(JobID($0), noAnswer: reason) } ?? Self.storeFailed(reason)
                answer.finish(.failure(error))
            }
            return unanswered.next
        }
    }

    /// - Parameters:
    ///   - id: the job's.
    ///   - accepted: called when the job has its sequence, if its message asks for that.
    func job(
        _ content: JSONText, id: String, accepted: (@Sendable (_ id: String, _ sequence: Int64) -> Void)?
    ) async throws -> JobCompletion {
        let answer = Answer<JobCompletion>()
        return try await value(of: answer, content, id: id) { envelope, _ in
            guard case .job(let message) = envelope.message else {
                answer.finish(.failure(Self.unexpectedMessage(not: "a job")))
                return .nothing
            }
            return .job(
                BrokerCoordinator.Job(message, of: envelope, content: content) { event in
                    switch event {
                    case .accepted(let id, let sequence): accepted?(id, sequence)
                    case .progress: break
                    case .ended(let outcome): answer.finish(.success(outcome))
                    }
                })
        }
    }

    func fetch(_ content: JSONText) async throws -> FetchedObjects {
        let answer = Answer<FetchedObjects>()
        let isWanted = Wanted()
        return try await withTaskCancellationHandler {
            try await fetch(content, answer) { [coordinator] request, ticket in
                coordinator.fetch(request, before: ticket, isWanted: { isWanted.value }) { end in
                    answer.finish(Result(end))
                }
            }
        } onCancel: {
            isWanted.end()
        }
    }

    /// Reads a fetch, and asks for its objects by `ask`, which sees to the answer.
    private func fetch<Value>(
        _ content: JSONText, _ answer: Answer<Value>, ask: @escaping @Sendable (FetchRequest, _ ticket: Int) -> Void
    ) async throws -> Value {
        try await value(of: answer, content) { [coordinator] envelope, memory in
            guard case .fetch(let message) = envelope.message else {
                answer.finish(.failure(Self.unexpectedMessage(not: "a fetch")))
                return .nothing
            }
            guard memory.take(content.count * Self.memoryPerFetchByte) else { return .noRoom }
            do throws(Fault) {
                let request = try coordinator.plan.fetchRequest(FetchDescription(message))
                return .question { ticket in ask(request, ticket) }
            } catch {
                answer.finish(.failure(BrokerError(error)))
                return .nothing
            }
        }
    }

    func bookmark(_ content: JSONText) async throws -> BrokerStore.StoredBookmark? {
        let answer = Answer<BrokerStore.StoredBookmark?>()
        return try await value(of: answer, content) { [coordinator] envelope, _ in
            guard case .bookmark(let name) = envelope.message else {
                answer.finish(.failure(Self.unexpectedMessage(not: "a bookmark")))
                return .nothing
            }
            return .question { ticket in
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
        _ content: JSONText, notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) async throws -> FetchStream {
        let answer = Answer<FetchStream>()
        return try await fetch(content, answer) { [coordinator] request, ticket in
            coordinator.whenEnded(before: ticket, from: 0) {
                answer.finish(.success(coordinator.stream(request, of: 0, notify: notify)))
            }
        }
    }

    /// Begins to follow the feed, when the jobs before it have ended.
    ///
    /// - Parameter notify: called for each event, on a thread of the coordinator's.
    func subscribe(
        _ content: JSONText, notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) async throws -> FeedSubscription {
        let answer = Answer<FeedSubscription>()
        return try await value(of: answer, content) { [coordinator] envelope, _ in
            guard case .subscribe(let message) = envelope.message else {
                answer.finish(.failure(Self.unexpectedMessage(not: "a subscription")))
                return .nothing
            }
            return .question { ticket in
                coordinator.whenEnded(before: ticket, from: 0) {
                    let subscription = coordinator.subscribe(
                        to: message.entities, after: message.after, wantsKeys: message.reply == .keys, notify: notify)
                    answer.finish(.success(subscription))
                }
            }
        }
    }

    /// Admits a message when there is room, and waits for its answer.
    ///
    /// - Parameter open: called on a worker with the message, and perhaps called again; sees to the answer, but where it
    ///   says that there is no room.
    private func value<Value>(
        of answer: Answer<Value>, _ content: JSONText, id: String? = nil,
        open: @escaping @Sendable (ClientEnvelope, JobMemory) -> Opened
    ) async throws -> Value {
        try Task.checkCancellation()
        let wait = try note(answer, id)
        defer { unanswered.withLock { $0.waits[wait] = nil } }
        let number = queue.add {
            self.coordinator.admit(
                payloadBytes: content.count,
                open: { memory in
                    do throws(FrameRefusal) {
                        guard memory.take(content.count) else { return .noRoom }
                        return open(try ClientEnvelope.decode(parsing: content, allowance: memory), memory)
                    } catch {
                        guard case .fault(let error) = error else { return .noRoom }
                        answer.finish(.failure(BrokerError(error)))
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
                    open: { _ in .question { ticket in coordinator.cancel(id, before: ticket) { _ in } } },
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

    private static func unexpectedMessage(not expected: String) -> BrokerError {
        .protocolViolation("the message is not \(expected), so it was not run; this is a defect of the library")
    }
}

/// Whether a task still waits for an answer.
final class Wanted: Sendable {
    private let isWanted = Atomic(true)

    var value: Bool { isWanted.load(ordering: .relaxed) }
    func end() { isWanted.store(false, ordering: .relaxed) }
}

// MARK: - Into the client's words

extension Completion {
    /// Converted by way of the message: an outcome of an earlier run in the ledger has no other form.
    init(_ outcome: JobCompletion, isBrief: Bool) throws(BrokerError) {
        let content = outcome.message(tag: nil, isBrief: isBrief)
        if outcome.objects == nil, let completion = content.withUnsafeBytes({ Completion(plainly: $0) }) {
            self = completion
            return
        }
        let message: ServerMessage
        do throws(WireError) {
            message = try ServerEnvelope.decode(parsing: JSONText(copying: content)).message
        } catch {
            throw BrokerError.protocolViolation("\(error)")
        }
        switch message {
        case .completed(let completed):
            self = completed
            guard let objects = outcome.objects, objects.json == nil else { return }
            warnings.append(Warning(code: .answerShortened, key: "objects", count: objects.count))
        case .failed(let failed): throw BrokerError(failed: failed, jobID: JobID(outcome.id))
        default:
            throw BrokerError.protocolViolation("the job ended with another message than completed or failed")
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

    fileprivate init(_ error: WireError) {
        var fault = Fault(code: Code(rawValue: error.code.rawValue), message: error.message, path: error.path)
        fault.line = error.position?.line
        fault.column = error.position?.column
        fault.offset = error.position?.offset
        self = .reported(fault, retryAfter: error.retryAfterMilliseconds.map { .milliseconds($0) })
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

    /// How many wait.
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
