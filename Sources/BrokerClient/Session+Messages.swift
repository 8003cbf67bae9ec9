internal import Broker
internal import BrokerJSON
internal import BrokerWire
internal import NIOCore

/// Finds the message that an error without `id` and `tag` is about. On a new connection, all unanswered messages are sent
/// again one by one, each when the one before it is answered. A job that took effect the first time is answered as a
/// duplicate. When the error comes again, only one message is unanswered, so the error is about that one. New messages wait
/// until all have been answered.
struct ErrorAttribution: Sendable {
    /// A message that was sent.
    enum Message: Sendable, Equatable {
        case job(JobID)
        case request(Int)
    }

    /// Requests with higher numbers were added later, and wait until the end.
    let lastRequest: Int
    /// The message that is unanswered on this connection.
    var asked: Message?
}

extension Session {
    enum UnattributedFault: Sendable {
        /// An error of the server's without the `id` or `tag` of what it answers.
        case error(BrokerError)
        /// Bytes that are no message.
        case unreadable(String)
        /// The end of a job under an id that is not in flight.
        case unknownID(String)

        var reason: String {
            switch self {
            case .error(let error): error.description
            case .unreadable(let reason): "the server's answer does not follow this protocol: \(reason)"
            case .unknownID(let id):
                "the server answered a job \"\(String(decoding: id.utf8.prefix(128), as: UTF8.self))\" that this client has not in flight"
            }
        }
    }

    /// Fails the message that the fault is about, or begins to look for it.
    mutating func unattributed(
        _ fault: UnattributedFault, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if let message = onlyMessage(for: fault) {
            fail(message, fault, into: &effects)
        } else if case .connected = link, attribution == nil {
            attribution = ErrorAttribution(lastRequest: requests.last ?? 0)
        }
        lost(connection, reason: fault.reason, at: now, into: &effects)
    }

    /// The message was answered: sends the next one, or admits the jobs that have room.
    mutating func goOn(after message: ErrorAttribution.Message, into effects: inout Effects) {
        if attribution?.asked == message { attribution?.asked = nil }
        if attribution == nil { admit(into: &effects) } else { askNext(into: &effects) }
    }

    mutating func askNext(into effects: inout Effects) {
        guard case .connected = link, let attribution, attribution.asked == nil else { return }
        if let job = jobs.firstInFlight {
            self.attribution?.asked = .job(job.id)
            effects.write.append(job.frame)
        } else if let request = requests.first, request.number <= attribution.lastRequest {
            self.attribution?.asked = .request(request.number)
            effects.write.append(request.frame)
        } else {
            self.attribution = nil
            effects.write += requests.sendAll()
            admit(into: &effects)
        }
    }

    /// The only message that is unanswered on this connection; nil when there are several, or none. Unreadable bytes may be a
    /// damaged answer, which another attempt corrects, so no message fails for them the first time.
    private func onlyMessage(for fault: UnattributedFault) -> ErrorAttribution.Message? {
        guard case .connected = link else { return nil }
        if let attribution { return attribution.asked }
        guard case .error = fault, jobs.inFlightCount + requests.count == 1 else { return nil }
        return jobs.firstInFlight.map { .job($0.id) } ?? requests.first.map { .request($0.number) }
    }

    private mutating func fail(
        _ message: ErrorAttribution.Message, _ fault: UnattributedFault, into effects: inout Effects
    ) {
        switch (message, fault) {
        case (.job(let id), .error(let error)): finish(id, .failure(Self.ending(error, of: id)), into: &effects)
        case (.job(let id), .unreadable), (.job(let id), .unknownID):
            finish(id, .failure(.outcomeUnknown(id, noAnswer: fault.reason)), into: &effects)
        case (.request(let number), .error(let error)): answer(number, .failure(error), into: &effects)
        case (.request(let number), .unreadable(let reason)):
            answer(number, .failure(.protocolViolation(reason)), into: &effects)
        // Without a job in flight, the end of an unknown job answers nothing.
        case (.request, .unknownID): break
        }
    }
}

/// Jobs that are not wanted any more.
///
/// ```
///              not sent ── cancel ──▶ dropped: CancellationError
/// sent, connection lost ── cancel ──▶ outcomeUnknown, and not sent again
/// sent ── cancel ──▶ the server is asked, once ──┬─ failed `cancelled` ──▶ CancellationError
///                                                ├─ any other end ──▶ that end
///                                                └─ connection lost ──▶ outcomeUnknown, and not sent again
/// ```
extension Session {
    /// The `tag` of a `cancel` for which no task waits. Its answer is ignored, because the end of the job has the same
    /// information.
    static let cancelTag = Array(#""cancel""#.utf8)

    /// No task waits for that job any more: if it still waits for room, it will not be sent.
    mutating func withdraw(_ place: Jobs.Place) -> Effects { withdraw(place, fromWindow: false) }

    /// That job is cancelled: it is not sent, or the server is asked to cancel it.
    ///
    /// - Parameter frame: of the message that asks for it, with ``cancelTag``.
    mutating func cancel(_ place: Jobs.Place, frame: [UInt8]) -> Effects {
        guard let job = jobs[place], job.wasSent else { return withdraw(place, fromWindow: true) }
        var effects = Effects()
        guard !job.isCancelled else { return effects }
        if isConnected, attribution == nil || attribution?.asked == .job(job.id) {
            jobs.noteCancelled(place)
            effects.write = [frame]
        } else if jobs.remove(job.id) != nil {
            // Written again on the next connection, it might take effect after all.
            let error = BrokerError.connectionLost("its task was cancelled before there was another one")
                .doubting(job.id)
            effects.deliveries = [.finished(job.waiter, .failure(error))]
            admit(into: &effects)
        }
        return effects
    }

    private mutating func withdraw(_ place: Jobs.Place, fromWindow: Bool) -> Effects {
        var effects = Effects()
        guard let waiter = jobs.withdraw(place, fromWindow: fromWindow) else { return effects }
        effects.deliveries = [.withdrawn(waiter)]
        // The job may have been too large for the available room, and those after it may not be.
        admit(into: &effects)
        return effects
    }

    /// The server has taken the job back. True when its task had wished for that.
    mutating func endCancelled(_ id: JobID, into effects: inout Effects) -> Bool {
        guard jobs.inFlight(id)?.isCancelled == true, let waiter = jobs.remove(id) else { return false }
        reconnection = nil
        effects.deliveries.append(.withdrawn(waiter))
        goOn(after: .job(id), into: &effects)
        return true
    }

    /// The connection is lost: what was written to it and must not be written to another.
    mutating func giveUpWhatIsSentOnce(reason: String, into effects: inout Effects) {
        let error = BrokerError.connectionLost(reason)
        for (id, waiter) in jobs.removeCancelled() {
            effects.deliveries.append(.finished(waiter, .failure(error.doubting(id))))
        }
        for waiter in requests.removeSentOnce() { effects.deliveries.append(.answered(waiter, .failure(error))) }
    }
}

/// A message that arrived on a connection.
enum Arrival: Sendable {
    /// The `completed` of a job in its plain form.
    case completion(Completion)
    case message(ServerEnvelope)
    /// None of the following bytes can be read.
    case unreadable(WireError)
}

extension Session {
    /// The messages of a connection, one after the other.
    mutating func received(_ arrivals: [Arrival], on connection: Int, at now: NIODeadline) -> Effects {
        var effects = Effects()
        heard(arrivals, at: now)
        for arrival in arrivals {
            // Each may be the last that counts.
            guard connection == currentConnection else { break }
            switch arrival {
            case .completion(let completion):
                ended(completion.id, .success(completion), on: connection, at: now, into: &effects)
            case .message(let envelope): received(envelope, on: connection, at: now, into: &effects)
            case .unreadable(let error): received(error, on: connection, at: now, into: &effects)
            }
        }
        return effects
    }

    private mutating func received(
        _ envelope: ServerEnvelope, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if let number = requests.number(tag: envelope.tag) {
            return answer(number, .success(envelope), into: &effects)
        }
        if envelope.tag == Self.cancelTag { return }
        switch envelope.message {
        case .completed(let completion):
            ended(completion.id, .success(completion), on: connection, at: now, into: &effects)
        case .failed(let failed):
            let error = failed.ofJob
            if let id = error.jobID {
                if error.code == .cancelled, endCancelled(id, into: &effects) { break }
                ended(id, .failure(error), on: connection, at: now, into: &effects)
            } else {
                unattributed(.error(error), on: connection, at: now, into: &effects)
            }
        case .accepted(let id, let sequence):
            guard let job = jobs.inFlight(JobID(id)) else { break }
            reconnection = nil
            effects.deliveries.append(.accepted(job.waiter, sequence: sequence))
        case .welcome(let welcome): welcomed(welcome, on: connection, at: now, into: &effects)
        case .error(let error): refused(error, on: connection, at: now, into: &effects)
        // Answers for which no task waits any more, and unrequested messages of newer servers.
        case .progress, .cancelled, .done, .pong, .stats, .jobs, .model, .objects, .bookmark, .subscribed,
            .committed, .other:
            break
        }
    }

    /// Bytes of a connection cannot be read.
    private mutating func received(
        _ error: WireError, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if wasWelcomed {
            unattributed(.unreadable("\(error)"), on: connection, at: now, into: &effects)
        } else {
            abandon(.protocolViolation("\(error)"), at: now, into: &effects)
        }
    }

    /// Everything unanswered is sent (again) in order, and then whatever has room.
    private mutating func welcomed(
        _ welcome: ServerInformation, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard link == .connecting(connection: connection) else { return }
        effects.deliveries.append(.welcomed(.success(welcome)))
        link = .connected(connection: connection)
        if !wasWelcomed { reconnection = nil }
        wasWelcomed = true
        isLossNoted = false
        reconnection?.connected(at: now)
        effects.notes.append(.connected(resent: jobs.resendCount))
        if attribution == nil {
            effects.write += jobs.sendAll() + requests.sendAll()
            admit(into: &effects)
        } else {
            askNext(into: &effects)
        }
    }

    /// The server has answered a job.
    ///
    /// Each job in flight is answered once, under its own id. An answer under an id that is not in flight is an answer that
    /// another job lacks, so that job would wait without end; see ``ErrorAttribution`` for how it is found.
    private mutating func ended(
        _ id: JobID, _ result: Result<Completion, BrokerError>, on connection: Int, at now: NIODeadline,
        into effects: inout Effects
    ) {
        if jobs.inFlight(id) == nil, jobs.inFlightCount > 0 {
            return unattributed(.unknownID(id.text), on: connection, at: now, into: &effects)
        }
        finish(id, result, into: &effects)
    }

    mutating func finish(
        _ id: JobID, _ result: Result<Completion, BrokerError>, into effects: inout Effects
    ) {
        guard let waiter = jobs.remove(id) else { return }
        reconnection = nil
        effects.deliveries.append(.finished(waiter, result))
        goOn(after: .job(id), into: &effects)
    }

    mutating func answer(
        _ number: Int, _ result: Result<ServerEnvelope, BrokerError>, into effects: inout Effects
    ) {
        guard let waiter = requests.remove(number) else { return }
        reconnection = nil
        effects.deliveries.append(.answered(waiter, result))
        goOn(after: .request(number), into: &effects)
    }

    private mutating func refused(
        _ error: BrokerError, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard wasWelcomed else { return abandon(error, at: now, into: &effects) }
        if case .connecting = link, error.code != .busy {
            // It does not want us any more, and would say so again.
            return abandon(.connectionLost(error.description), at: now, into: &effects)
        }
        if let id = error.jobID {
            return ended(id, .failure(Self.ending(error, of: id)), on: connection, at: now, into: &effects)
        }
        switch error.code {
        case .busy, .unauthorized:
            // They are about the connection. A server that is full may have room when it is tried again.
            lost(connection, reason: error.description, at: now, into: &effects)
        default:
            unattributed(.error(error), on: connection, at: now, into: &effects)
        }
    }

    /// The meaning of an `error` about a job. An error of the server itself does not show that nothing was done.
    static func ending(_ error: BrokerError, of id: JobID) -> BrokerError {
        error.code == .internal ? .outcomeUnknown(id, noAnswer: error.description) : error
    }
}
