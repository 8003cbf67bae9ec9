internal import BrokerModel
internal import BrokerStore

/// Jobs that keep their places and are not merged: taken back, or refused by the log.
extension JobTable {
    enum Cancelled {
        case cancelled(tell: [@Sendable () -> Void])
        /// Who is to be told is told when the log knows.
        case pending
        case tooLate
        /// No such job is in flight.
        case unknown
    }

    /// Takes back the jobs of that id before a place, as far as the asker may see them: all, or none if the merge of one has
    /// begun. Each keeps its place, and fails there.
    ///
    /// - Parameter answer: tells the asker, before anybody else is told of the jobs.
    mutating func cancel(
        _ id: JobID, before place: Int?, as asker: JobOwner, _ answer: @escaping @Sendable (Cancellation) -> Void
    ) -> Cancelled {
        var found = running.find(id, before: place, as: asker)
        // In the log a job is known by its sequence.
        if logging.isOn { found.removeAll { order.holds($0.place) && order.sequence(at: $0.place) == nil } }
        guard !found.isEmpty else { return .unknown }
        // What the log has no room for ends as that.
        guard found.allSatisfy({ order.holds($0.place) && logging.fault(at: $0.place) == nil }) else { return .tooLate }
        guard logging.isOn else {
            return .cancelled(tell: [{ answer(.cancelled) }] + found.flatMap { takeBack($0, id) })
        }
        let fresh = found.filter { !cancelled.contains($0.place) }
        guard let last = fresh.last else { return .cancelled(tell: [{ answer(.cancelled) }]) }
        for job in fresh {
            let entry = JournalWrite(
                kind: .cancellation, place: job.place, position: order.sequence(at: job.place) ?? 0, id: id,
                isIDMade: false, owner: asker, time: wallClockMilliseconds(), payload: { [] })
            logging.cancel(entry, job, job.place == last.place ? answer : nil)
        }
        return .pending
    }

    /// Gives back who is to be told that the job has ended.
    private mutating func takeBack(_ job: RunningJobs.Found, _ id: JobID) -> [@Sendable () -> Void] {
        guard cancelled.insert(job.place).inserted else { return [] }
        order.change(job.place) { $0.cancelled() }
        let sequence = order.sequence(at: job.place)
        let told = JobCompletion.failed(.cancelled, id: id.text, owner: job.owner, sequence: sequence)
        let waiters = running.cancelled(id, at: job.place, told)
        return [
            {
                job.observer(.ended(told))
                for waiter in waiters { waiter.tell(told) }
            }
        ]
    }

    /// The log has taken the entries, in order. Gives back who is to be told.
    mutating func logged(_ entries: [JournalWrite]) -> [@Sendable () -> Void] {
        var tasks = logging.logged(entries)
        for entry in entries where entry.kind == .cancellation {
            if let wish = logging.takeWish(at: entry.place) {
                // The log had no room for the job itself, which ends, or has ended, as that.
                let isThere = order.holds(entry.place) && logging.fault(at: entry.place) == nil
                let told = isThere ? takeBack(wish.job, entry.id) : []
                tasks += wish.answer.map { answer in [{ answer(isThere ? .cancelled : .tooLate) }] } ?? []
                tasks += told
            }
        }
        return tasks
    }

    /// The log has no room for the entries: the jobs are none, and those that were to be taken back are merged.
    mutating func unjournaled(_ entries: [JournalWrite], _ error: StoreError) -> [@Sendable () -> Void] {
        let fault = Fault(error.faultCode, error.message)
        logging.unjournaled(entries, fault)
        var tasks: [@Sendable () -> Void] = []
        for entry in entries {
            switch entry.kind {
            case .job: if order.holds(entry.place) { order.change(entry.place) { $0.unjournaled(fault) } }
            case .cancellation:
                if let wish = logging.takeWish(at: entry.place) {
                    tasks += wish.answer.map { answer in [{ answer(.failed(error)) }] } ?? []
                }
            }
        }
        return tasks
    }
}

extension Fault {
    static let cancelled = Fault(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")
}
