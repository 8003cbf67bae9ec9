internal import Broker
internal import BrokerRequests
internal import BrokerWire
internal import NIOCore

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
    static let cancelTag = ProvenJSON.string("cancel")

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
