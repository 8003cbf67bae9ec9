internal import Broker
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
    enum Trouble: Sendable {
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

    /// Fails the message that the trouble is about, or begins to look for it.
    mutating func unattributed(
        _ trouble: Trouble, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if let message = onlyMessage(for: trouble) {
            fail(message, trouble, into: &effects)
        } else if case .connected = link, attribution == nil {
            attribution = ErrorAttribution(lastRequest: requests.last ?? 0)
        }
        lost(connection, reason: trouble.reason, at: now, into: &effects)
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
    private func onlyMessage(for trouble: Trouble) -> ErrorAttribution.Message? {
        guard case .connected = link else { return nil }
        if let attribution { return attribution.asked }
        guard case .error = trouble, jobs.inFlightCount + requests.count == 1 else { return nil }
        return jobs.firstInFlight.map { .job($0.id) } ?? requests.first.map { .request($0.number) }
    }

    private mutating func fail(_ message: ErrorAttribution.Message, _ trouble: Trouble, into effects: inout Effects) {
        switch (message, trouble) {
        case (.job(let id), .error(let error)): finish(id, .failure(Self.ending(error, of: id)), into: &effects)
        case (.job(let id), .unreadable), (.job(let id), .unknownID):
            finish(id, .failure(.outcomeUnknown(id, noAnswer: trouble.reason)), into: &effects)
        case (.request(let number), .error(let error)): answer(number, .failure(error), into: &effects)
        case (.request(let number), .unreadable(let reason)):
            answer(number, .failure(.protocolViolation(reason)), into: &effects)
        // Without a job in flight, the end of an unknown job answers nothing.
        case (.request, .unknownID): break
        }
    }
}
