internal import BrokerModel
internal import BrokerStore

/// Jobs that keep their tickets and are not merged: cancelled, or refused by the journal.
extension JobTable {
    /// Cancels the jobs of that id before a ticket that the asker may see: all of them, or none if the merge of one has
    /// begun. A cancelled job keeps its ticket, and fails when its turn comes.
    ///
    /// - Parameter answer: answers the asker, before the observers and waiters of the jobs are called; with a journal, when
    ///   the cancellation is in it.
    /// - Returns: nil when no such job is in flight; the asker is then not answered.
    mutating func cancel(
        _ id: JobID, before ticket: Int?, as asker: JobOwner, _ answer: @escaping @Sendable (Cancellation) -> Void
    ) -> Effects? {
        var found = running.find(id, before: ticket, as: asker)
        // The journal names a job by its sequence.
        if journal.isOn { found.removeAll { order.holds($0.ticket) && order.sequence(at: $0.ticket) == nil } }
        guard !found.isEmpty else { return nil }
        // A job that the journal has no room for fails for that reason.
        guard found.allSatisfy({ order.holds($0.ticket) && journal.fault(at: $0.ticket) == nil }) else {
            return Effects(completions: [{ answer(.tooLate) }], notifies: hasWork)
        }
        guard journal.isOn else {
            let completions = [{ answer(.cancelled) }] + found.flatMap { markCancelled($0, id) }
            return Effects(completions: completions, notifies: hasWork)
        }
        let fresh = found.filter { !cancelled.contains($0.ticket) }
        guard let last = fresh.last else {
            return Effects(completions: [{ answer(.cancelled) }], notifies: hasWork)
        }
        for job in fresh {
            let entry = JournalWrite(
                kind: .cancellation, ticket: job.ticket, position: order.sequence(at: job.ticket) ?? 0, id: id,
                isIDMade: false, owner: asker, mayDelete: true, time: wallClockMilliseconds(), payload: { [] })
            journal.cancel(entry, job, job.ticket == last.ticket ? answer : nil)
        }
        return Effects(notifies: hasWork)
    }

    /// Marks the job as cancelled. Returns the calls of its observer and waiters.
    private mutating func markCancelled(_ job: RunningJobs.Found, _ id: JobID) -> [@Sendable () -> Void] {
        guard cancelled.insert(job.ticket).inserted else { return [] }
        order.change(job.ticket) { $0.cancelled() }
        let sequence = order.sequence(at: job.ticket)
        let completion = JobCompletion.failed(.cancelled, id: id.text, owner: job.owner, sequence: sequence)
        let waiters = running.cancelled(id, at: job.ticket, completion)
        return [
            {
                job.observer(.ended(completion))
                for waiter in waiters { waiter.notify(completion) }
            }
        ]
    }

    /// The journal has stored the entries, in order.
    mutating func logged(_ entries: [JournalWrite]) -> Effects {
        var tasks = journal.logged(entries)
        for entry in entries where entry.kind == .cancellation {
            if let request = journal.takeCancellation(at: entry.ticket) {
                // The journal had no room for the job itself, which fails, or has failed, for that reason.
                let isThere = order.holds(entry.ticket) && journal.fault(at: entry.ticket) == nil
                let calls = isThere ? markCancelled(request.job, entry.id) : []
                tasks += request.answer.map { answer in [{ answer(isThere ? .cancelled : .tooLate) }] } ?? []
                tasks += calls
            }
        }
        return Effects(completions: tasks, notifies: hasWork)
    }

    /// The journal has no room for the entries: jobs among them fail, and jobs that should be cancelled are merged.
    mutating func unjournaled(_ entries: [JournalWrite], _ error: StoreError) -> Effects {
        let fault = Fault(error.faultCode, error.message)
        journal.unjournaled(entries, fault)
        var tasks: [@Sendable () -> Void] = []
        for entry in entries {
            switch entry.kind {
            case .job: if order.holds(entry.ticket) { order.change(entry.ticket) { $0.unjournaled(fault) } }
            case .cancellation:
                if let request = journal.takeCancellation(at: entry.ticket) {
                    tasks += request.answer.map { answer in [{ answer(.failed(error)) }] } ?? []
                }
            }
        }
        return Effects(completions: tasks, notifies: hasWork)
    }
}

extension Fault {
    static let cancelled = Fault(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")
}
