// The errors of the libraries, with their texts.
extension BrokerError {
    package static func cannotConnect(path: String, reason: String) -> BrokerError {
        BrokerError(.cannotConnect, "Cannot connect to \(path): \(reason).")
    }

    package static func connectionLost(_ reason: String) -> BrokerError {
        var error = BrokerError(
            .connectionLost, "The connection was lost: \(reason). Ask again when the server is back.")
        error.reason = reason
        return error
    }

    /// The job was sent, and its end is not known.
    ///
    /// - Parameter what: a sentence that says why.
    package static func outcomeUnknown(_ id: JobID, _ what: String, cause: BrokerError? = nil) -> BrokerError {
        let remedy =
            id.text.isEmpty
            ? "The outcome of the job, which has no id, is not known: look for what it would have done."
            : "The outcome of the job \"\(id)\" is not known: `await` that id to learn it, or send the job again under "
                + "the same id, which applies it once."
        return BrokerError(.outcomeUnknown, "\(what) \(remedy)", jobID: id, cause: cause)
    }

    /// The answer is no message, or the server could not send it.
    package static func outcomeUnknown(_ id: JobID, noAnswer reason: String) -> BrokerError {
        outcomeUnknown(id, "The server's answer was not received: \(reason)", cause: protocolViolation(reason))
    }

    package static func waitCancelled(_ id: JobID) -> BrokerError {
        outcomeUnknown(
            id, "The task that waited for the job was cancelled.",
            cause: BrokerError(.waitCancelled, "The task was cancelled; the job continues."))
    }

    /// The task of a job that had been accepted was cancelled, before its merge began.
    package static let jobCancelled = BrokerError(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")

    /// The task that waited for the answer to a request that changes something was cancelled.
    package static let actionWaitCancelled = BrokerError(
        .outcomeUnknown, "The task was cancelled before the answer came, and the action may have been done.",
        cause: BrokerError(.waitCancelled, "The task was cancelled; the action goes on."))

    /// The meaning of this error for a job that was sent.
    package func doubting(_ id: JobID) -> BrokerError {
        switch code {
        case .outcomeUnknown: self
        case .closed: .outcomeUnknown(id, "The client was closed before the answer came.", cause: self)
        case .connectionLost:
            .outcomeUnknown(id, "The connection was lost: \(reason ?? message).", cause: self)
        default: .outcomeUnknown(id, "The connection was lost: \(self).", cause: self)
        }
    }

    package static func tooLarge(_ reason: String) -> BrokerError { BrokerError(.tooLarge, reason) }

    package static func notEncodable(_ reason: String) -> BrokerError {
        BrokerError(.notEncodable, "The records cannot be written as JSON: \(reason).")
    }

    package static func invalidJSON(_ fault: Fault) -> BrokerError {
        BrokerError(.invalidJSON, fault.message, fault: fault)
    }

    package static func idInUse(_ id: JobID) -> BrokerError {
        BrokerError(
            .idInUse, "A job with the id \"\(id)\" is unanswered; await it, or choose another id.", jobID: id)
    }

    package static func invalidID(_ id: JobID) -> BrokerError {
        BrokerError(.invalidID, "An id has 1 to 128 bytes; the job's has \(id.text.utf8.count).", jobID: id)
    }

    package static func protocolViolation(_ reason: String) -> BrokerError {
        BrokerError(.protocolViolation, "The server's answer does not follow this protocol: \(reason)")
    }

    package static let closed = BrokerError(
        .closed, "The client was closed, and nothing was sent. Connect a new client and call again.")

    /// The error that a server, or the coordinator, reports.
    package static func reported(
        _ fault: Fault, jobID: JobID? = nil, sequence: Int64? = nil, retryAfter: Duration? = nil
    ) -> BrokerError {
        let isTooLarge = ["frameTooLarge", "contentTooLarge"].contains(fault.code.rawValue)
        var error = BrokerError(isTooLarge ? .tooLarge : fault.code, fault.message, jobID: jobID, fault: fault)
        error.sequence = sequence
        error.retryAfter = retryAfter
        return error
    }
}
