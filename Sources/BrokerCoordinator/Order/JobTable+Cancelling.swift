internal import BrokerModel
internal import BrokerStore

/// Jobs that keep their tickets and are not merged, because they are cancelled.
extension JobTable {
    /// Cancels the jobs of that id before a ticket that the asker may see: all of them, or none if the merge of one has
    /// begun. A cancelled job keeps its ticket, and fails when its turn comes.
    ///
    /// - Parameter answer: answers the asker, before the observers and waiters of the jobs are called; with a log on the
    ///   disk, when the cancellation is in it.
    /// - Returns: nil when no such job is in flight; the asker is then not answered.
    mutating func cancel(
        _ id: JobID, before ticket: Int?, as asker: JobOwner, _ answer: @escaping @Sendable (Cancellation) -> Void
    ) -> Effects? {
        let found = running.find(id, before: ticket, as: asker)
        guard !found.isEmpty else { return nil }
        // A job that the log refused fails for that reason.
        let mayCancel = log?.takesCancellations ?? true
        guard mayCancel, found.allSatisfy({ application.holds($0.ticket) && fault(of: $0.ticket) == nil }) else {
            return Effects(completions: [{ answer(.tooLate) }], notifies: hasWork)
        }
        guard log != nil else {
            let completions = [{ answer(.cancelled) }] + found.flatMap { markCancelled($0, id) }
            return Effects(completions: completions, notifies: hasWork)
        }
        let fresh = found.filter { !cancelled.contains($0.ticket) }
        guard let last = fresh.last else {
            return Effects(completions: [{ answer(.cancelled) }], notifies: hasWork)
        }
        for job in fresh { log(job, id, asker, job.ticket == last.ticket ? answer : nil) }
        return Effects(notifies: hasWork)
    }

    /// Has the log store the cancellation, as soon as it has the job.
    private mutating func log(
        _ job: RunningJobs.Found, _ id: JobID, _ asker: JobOwner, _ answer: (@Sendable (Cancellation) -> Void)?
    ) {
        let entry = { (place: LogPlace) in
            LogEntry(
                kind: .cancellation, ticket: job.ticket, position: place.position ?? 0, id: id, isIDMade: false,
                owner: asker, mayDelete: true, isPrivileged: asker.isPrivileged, time: wallClockMilliseconds(),
                payload: { [] })
        }
        cancellations.add(LoggedCancellations.Request(job: job, id: id, answer: answer, entry: entry))
        if let place = application.place(of: job.ticket) { log?.append(entry(place)) }
    }

    /// Marks the job as cancelled. Returns the calls of its observer and waiters.
    private mutating func markCancelled(_ job: RunningJobs.Found, _ id: JobID) -> [@Sendable () -> Void] {
        guard cancelled.insert(job.ticket).inserted else { return [] }
        application.change(job.ticket) { $0.cancelled() }
        // A job that has ended is not accepted any more.
        if !acceptances.isEmpty { acceptances[job.ticket] = nil }
        let sequence = application.place(of: job.ticket)?.position
        let completion = JobCompletion.failed(.cancelled, id: id.text, owner: job.owner, sequence: sequence)
        let waiters = running.cancelled(id, at: job.ticket, completion)
        return [
            {
                job.observer(.ended(completion))
                for waiter in waiters { waiter.notify(completion) }
            }
        ]
    }

    /// The log has stored a cancellation. Returns the calls that follow.
    mutating func decideCancellation(_ entry: LogEntry) -> [Effects.Call] {
        guard let request = cancellations.take(entry.ticket) else { return [] }
        let calls = markCancelled(request.job, request.id)
        guard let answer = request.answer else { return calls }
        return [{ answer(.cancelled) }] + calls
    }

    /// The log has no room for a cancellation: the job is merged. Returns the calls that follow.
    mutating func failCancellation(_ entry: LogEntry, _ error: StoreError) -> [Effects.Call] {
        guard let answer = cancellations.take(entry.ticket)?.answer else { return [] }
        return [{ answer(.failed(error)) }]
    }
}

extension Fault {
    static let cancelled = Fault(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")
}
