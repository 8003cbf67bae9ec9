internal import BrokerModel
internal import BrokerStore

/// Entries that the log delivers.
extension JobTable {
    /// Delivers the jobs for which the store has reserved sequences. Returns the calls that report them as accepted.
    mutating func deliverReserved() -> [Effects.Call] {
        var calls: [Effects.Call] = []
        while let (ticket, place) = memoryLog.read() {
            do throws(LogViolation) {
                calls += try deliver(ticket, at: place).calls
            } catch {
                preconditionFailure("the log in memory gives rising positions in the order of tickets: \(error)")
            }
        }
        return calls
    }

    /// A job of this server that was staged under an earlier model than the one in force at its place in the log.
    struct StaleJob {
        let job: AcceptedJob
        let place: LogPlace
        /// Its frame.
        let payload: [UInt8]
    }

    /// Delivers the next items of the log, in its order.
    ///
    /// - Returns: jobs that are to be staged again.
    /// - Throws: ``LogViolation`` when they cannot be next. Those before the first of these are delivered.
    mutating func deliver(_ items: [LogItem], _ effects: inout Effects) throws(LogViolation) -> [StaleJob] {
        defer { effects.notifies = hasWork }
        var stale: [StaleJob] = []
        for item in items {
            switch item {
            case .job(let ticket, let place, let payload):
                let (calls, isStale) = try deliver(ticket, at: place)
                effects.completions += calls
                memoryLog.note(place.position ?? 0)
                guard isStale else { break }
                guard let payload, let job = ends.job(at: ticket) else { throw .unexpectedJob }
                stale.append(StaleJob(job: job, place: place, payload: payload))
            case .cancellation(let entry): effects.completions += decideCancellation(entry)
            case .refused(let entry, let error) where entry.kind == .cancellation:
                effects.completions += failCancellation(entry, error)
            case .refused(let entry, let error):
                effects.completions += try refuse(entry.ticket, Fault(error.faultCode, error.message))
            case .other, .change, .note: preconditionFailure("these are no jobs of this server")
            }
        }
        return stale
    }

    private mutating func deliver(
        _ ticket: Int, at place: LogPlace
    ) throws(LogViolation) -> (calls: [Effects.Call], isStale: Bool) {
        let isStale = try application.deliver(own: ticket, at: place)
        for entry in cancellations.entries(of: ticket, at: place) { log?.append(entry) }
        guard !acceptances.isEmpty, let position = place.position, let notify = acceptances.removeValue(forKey: ticket)
        else { return ([], isStale) }
        return ([{ notify(position) }], isStale)
    }
}
