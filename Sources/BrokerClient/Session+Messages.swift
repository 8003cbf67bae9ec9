internal import Broker
internal import BrokerJSON
internal import BrokerRequests
internal import BrokerWire
internal import NIOCore

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
        if envelope.tag == Self.cancelTag.bytes { return }
        switch envelope.message {
        case .completed(let message):
            ended(
                JobID(message.id), .success(Completion(message)), on: connection, at: now,
                into: &effects)
        case .failed(let failed):
            let id = failed.id.map { JobID($0) }
            let error = BrokerError(failed)
            if let id {
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
        _ welcome: Welcome, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        guard link == .connecting(connection: connection) else { return }
        do throws(BrokerError) {
            effects.deliveries.append(.welcomed(.success(try ServerInformation(welcome))))
        } catch {
            return abandon(error, at: now, into: &effects)
        }
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
        _ error: ErrorMessage, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        let id = error.id.map { JobID($0) }
        let error = BrokerError(error.error, jobID: id)
        guard wasWelcomed else { return abandon(error, at: now, into: &effects) }
        if case .connecting = link, error.code != .busy {
            // It does not want us any more, and would say so again.
            return abandon(.connectionLost(error.description), at: now, into: &effects)
        }
        if let id {
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
