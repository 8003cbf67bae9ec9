internal import Broker
internal import NIOCore

/// How a session finds out whose an error is that does not say it: over a new connection everything that is unanswered
/// is sent again one by one, the next when the one before is answered. A job that took effect the first time answers as
/// a duplicate. The second such error can then be only one's. Nothing new is sent until it is over.
struct BatchBackoff: Sendable {
    enum Question: Sendable, Equatable {
        case job(JobID)
        case request(Int)
    }

    /// Requests with higher numbers came later, and wait until it is over.
    let lastRequest: Int
    /// The one that is unanswered.
    var asked: Question?
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
            case .unreadable(let reason): "the server's answer is not of this protocol: \(reason)"
            case .unknownID(let id):
                "the server answered a job \"\(String(decoding: id.utf8.prefix(128), as: UTF8.self))\" that this client has not in flight"
            }
        }
    }

    /// Fails the job that must have caused the trouble, or begins to find out which one it is.
    mutating func unattributed(
        _ trouble: Trouble, on connection: Int, at now: NIODeadline, into effects: inout Effects
    ) {
        if let question = culprit(trouble) {
            blame(question, trouble, into: &effects)
        } else if case .connected = link, caution == nil {
            caution = BatchBackoff(lastRequest: requests.last ?? 0)
        }
        lost(connection, reason: trouble.reason, at: now, into: &effects)
    }

    /// An answer came: the next one is asked, or what has room is admitted.
    mutating func goOn(after question: BatchBackoff.Question, into effects: inout Effects) {
        if caution?.asked == question { caution?.asked = nil }
        if caution == nil { admit(into: &effects) } else { askNext(into: &effects) }
    }

    mutating func askNext(into effects: inout Effects) {
        guard case .connected = link, let caution, caution.asked == nil else { return }
        if let job = jobs.firstInFlight {
            self.caution?.asked = .job(job.id)
            effects.write.append(job.frame)
        } else if let request = requests.first, request.number <= caution.lastRequest {
            self.caution?.asked = .request(request.number)
            effects.write.append(request.frame)
        } else {
            self.caution = nil
            effects.write += requests.sendAll()
            admit(into: &effects)
        }
    }

    /// The one message that is unanswered on this connection; nil when there are several, or none. Unreadable bytes may
    /// be a damaged answer, which another attempt corrects, so the first time no message is blamed.
    private func culprit(_ trouble: Trouble) -> BatchBackoff.Question? {
        guard case .connected = link else { return nil }
        if let caution { return caution.asked }
        guard case .error = trouble, jobs.inFlightCount + requests.count == 1 else { return nil }
        return jobs.firstInFlight.map { .job($0.id) } ?? requests.first.map { .request($0.number) }
    }

    private mutating func blame(_ question: BatchBackoff.Question, _ trouble: Trouble, into effects: inout Effects) {
        switch (question, trouble) {
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
