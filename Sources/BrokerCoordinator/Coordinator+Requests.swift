package import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
package import BrokerStaging
package import BrokerStore

extension Coordinator {
    /// Fetches objects beside the writer. Does not block: the caller gets a call later.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question, before which all frames have been opened; the fetch sees the effects of
    ///     those of the source.
    ///   - user: the client's user; users take turns, and so do the sources of each.
    ///   - mayBeLong: whether there is room for a long answer; called once the fetch turns out to be long.
    package func fetch(
        _ request: FetchRequest, before ticket: Int, from source: Int = 0, of user: UInt32 = 0,
        in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true }, mayBeLong: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchEnd) -> Void
    ) {
        let task = FetchTask(
            request: request, source: source, user: user, envelope: envelope, isWanted: isWanted, mayBeLong: mayBeLong,
            notify: notify)
        whenEnded(before: ticket, from: source) { [readers] in readers.fetch(task) }
    }

    /// A fetch whose objects come in parts. It sees the jobs that have ended by now: call it in
    /// ``whenEnded(before:from:_:)``. Nothing is read before ``FetchStream/ask()``.
    ///
    /// - Parameter process: the client's; processes share the places for open streams.
    package func stream(
        _ request: FetchRequest, of process: Int32, in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) -> FetchStream {
        let task = StreamTask(
            request: request, process: process, envelope: envelope, isWanted: isWanted, notify: notify)
        return readers.streams.stream(task)
    }

    /// Reads a bookmark beside the writer.
    ///
    /// - Parameter ticket: the ticket of the question, which sees the jobs before it from that source.
    package func bookmark(
        named name: String, before ticket: Int, from source: Int = 0,
        _ notify: @escaping @Sendable (Result<StoredBookmark?, StoreError>) -> Void
    ) {
        whenEnded(before: ticket, from: source) { [ledger] in ledger.findBookmark(named: name, notify) }
    }

    package typealias Wait = AppliedPosition.Wait

    /// Calls `body` when everything up to that sequence has been applied, on a thread of the coordinator's.
    ///
    /// - Returns: nil when it has been already: `body` is not called then.
    package func whenApplied(through sequence: Int64, _ body: @escaping @Sendable () -> Void) -> Wait? {
        applied.wait(for: sequence, body)
    }

    /// The caller waits no longer.
    ///
    /// - Returns: the sequence up to which everything has been applied; nil when `body` was called, or is about to be.
    package func forget(_ wait: Wait) -> Int64? { applied.forget(wait) ? applied.position : nil }

    /// Calls `body` once the jobs before that ticket from that source have ended: at once, or on a thread of the
    /// coordinator's.
    package func whenEnded(before ticket: Int, from source: Int, _ body: @escaping @Sendable () -> Void) {
        let waits = jobTable.withLock { $0.ends.wait(before: ticket, from: source, body) }
        if !waits { body() }
    }
}

extension Coordinator {
    /// Follows the feed: the committed jobs that change some entities, in their order. It begins with those that have ended
    /// by now: call it in ``whenEnded(before:from:_:)``. Nothing is read before ``FeedSubscription/ask()``.
    ///
    /// - Parameters:
    ///   - entities: nil for those of the model.
    ///   - after: nil for the jobs from now on.
    ///   - asker: ids of jobs that it may not see are omitted.
    ///   - hasRoom: whether the client has room for a part when its turn has come.
    package func subscribe(
        to entities: [String]?, after: Int64?, wantsKeys: Bool, as asker: JobOwner = .server,
        hasRoom: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) -> FeedSubscription {
        let request = FeedRequest(
            entities: entities, after: after, wantsKeys: wantsKeys, asker: asker, hasRoom: hasRoom, notify: notify)
        return readers.feed.subscribe(request)
    }
}

/// Cancellation, and the operator's commands.
extension Coordinator {
    /// Cancels the jobs of that id before a ticket, if the merge of none has begun.
    ///
    /// A cancelled job ends at once, before earlier ones; it keeps its ticket, and the ledger records its failure in
    /// its turn.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the cancellation; nil means all jobs that were admitted so far.
    ///   - asker: a job that it may not see counts as unknown.
    ///   - notify: called once, on a thread of the coordinator's, and before the job's observer.
    package func cancel(
        _ id: String, before ticket: Int? = nil, as asker: JobOwner = .server,
        _ notify: @escaping @Sendable (Cancellation) -> Void
    ) {
        var isInFlight = false
        jobTable.change(completions) { jobTable in
            let effects = jobTable.cancel(JobID(id), before: ticket, as: asker, notify)
            isInFlight = effects != nil
            return effects ?? Effects()
        }
        if isInFlight { return }
        // A job that is not in flight has ended, or is unknown.
        self.await(id, before: ticket, as: asker) { result in
            switch result {
            case .success(nil): notify(.unknown)
            case .success: notify(.tooLate)
            case .failure(let error): notify(.failed(error))
            }
        }
    }

    /// Jobs are accepted and staged, and none is merged until ``resume()``. A coordinator that refuses new jobs pauses
    /// no longer. Any number of calls.
    ///
    /// - Returns: false while the model is changed, which waits for jobs.
    package func pause() -> Bool {
        jobTable.withLock { jobTable in
            guard jobTable.reload.ticket == nil else { return false }
            if !jobTable.service.isDraining { jobTable.service.isPaused = true }
            return true
        }
    }

    package func resume() {
        jobTable.broadcast { jobTable in
            jobTable.service.isPaused = false
            return jobTable.hasWork
        }
    }

    /// Copies the WAL into the database and truncates its file, as far as readers allow.
    ///
    /// - Parameter notify: called once, on the writer's thread, with the rest of the WAL.
    package func checkpoint(_ notify: @escaping @Sendable (Result<WALStatus, StoreError>) -> Void) {
        let statistics = statistics
        jobTable.update { jobTable in
            jobTable.requests.tasks.append { store in
                let result = Result { () throws(StoreError) in try store.checkpointAtOnce() }
                statistics.note(store)
                notify(result)
            }
        }
    }

    /// The digest of the journal's jobs and of the rows that they wrote; nil without a journal.
    ///
    /// - Parameter notify: called once, on the writer's thread.
    package func history(_ notify: @escaping @Sendable (StateDigest?) -> Void) {
        jobTable.update { jobTable in jobTable.requests.tasks.append { notify($0.history) } }
    }
}

extension Coordinator {
    /// Copies the store to a file beside the writer, which goes on. Does not block: the caller gets a call later.
    ///
    /// One at a time; another is refused as `busy`. A backup that the client does not want any more, or during which
    /// the server stops, leaves no file.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question, before which all frames have been opened; the copy has the effects of the
    ///     jobs in them. Nil copies what is committed now.
    ///   - progress: called at most ten times a second, on the backup's thread; must not block.
    package func backup(
        to file: String, replaces: Bool = false, before ticket: Int? = nil,
        isWanted: @escaping @Sendable () -> Bool = { true },
        progress: @escaping @Sendable (StoreBackup.Progress) -> Void = { _ in },
        notify: @escaping @Sendable (BackupEnd) -> Void
    ) {
        do throws(StoreError) {
            try checkFiles()
        } catch {
            return completions.run { notify(.failed(Fault(error))) }
        }
        let task = BackupTask(
            backup: StoreBackup(of: storePath, to: file, replaces: replaces), file: file, isWanted: isWanted,
            progress: progress,
            notify: { [jobTable, statistics] end in
                if case .done(let copy) = end { Self.noteBackup(jobTable, statistics, through: copy.sequence) }
                notify(end)
            })
        let begin: @Sendable () -> Void = { [backups, completions] in
            if let refusal = backups.run(task) { completions.run { notify(.failed(refusal)) } }
        }
        let waits = ticket.map { ticket in jobTable.withLock { $0.ends.wait(before: ticket, begin) } } ?? false
        if !waits { begin() }
    }

    /// A store that takes no writes now does not remember it.
    private static func noteBackup(_ jobTable: Monitor<JobTable>, _ statistics: Statistics, through sequence: Int64) {
        let time = wallClockMilliseconds()
        statistics.count {
            $0.backedUpAt = time
            $0.backedUpThrough = max($0.backedUpThrough, sequence)
        }
        jobTable.update { jobTable in jobTable.requests.tasks.append { store in try? store.noteBackup(at: time) } }
    }
}

/// Measurements, and lists of jobs.
extension Coordinator {
    package func writeStatistics(to writer: inout JSONWriter) {
        let oldest = jobTable.withLock { $0.ends.oldest?.admittedAt }
        var counters = statistics.now
        counters.store = storeState
        let report = StatisticsReport(
            counters: counters, storePath: storePath, log: self.writer.opened.log,
            replicas: logReader.withLock { $0 }?.replicas?.table)
        report.write(to: &writer, condition, since: statistics.startedAt) { writer in
            let depths = pool.depths
            writer.member("opening", depths.opening)
            writer.member("staging", depths.staging)
            writer.member("bytes", memoryTotal)
            writer.member("oldestMilliseconds", oldest.map { max(0, monotonicMicroseconds() - $0) / 1_000 } ?? 0)
        }
        writer.object("memory") { writer in
            writer.member("residentBytes", StatisticsReport.residentBytes())
            if let allocations { writer.member("allocations", allocations()) }
        }
        writer.member("subscriptions", readers.feed.count)
    }

    /// Calls `notify` for each slow job from now on, on a thread of the coordinator's; must not block.
    package func onSlowJob(_ notify: @escaping @Sendable (SlowJob) -> Void) { statistics.observeSlow(notify) }

    /// The jobs that have not ended, the oldest first.
    package func runningJobs(_ count: Int, as asker: JobOwner) -> [RunningJob] {
        let now = monotonicMicroseconds()
        return jobTable.withLock { jobTable in
            jobTable.ends.oldest(count, as: asker).map { job in
                let isHeld = jobTable.application.holds(job.ticket)
                return RunningJob(
                    id: job.id, sequence: jobTable.application.place(of: job.ticket)?.position, owner: job.owner,
                    stage: jobTable.stage(of: job.ticket, isHeld: isHeld), age: max(0, now - job.admittedAt))
            }
        }
    }

    /// The slow jobs that are remembered, those with the most work of their own first.
    package func slowJobs(_ count: Int, as asker: JobOwner) -> [SlowJob] {
        Array(statistics.slowJobs.filter { asker.maySee(jobOf: $0.owner) }.prefix(count))
    }

    /// The newest failed jobs that have outcomes and pass the filter: the newest first. Refused jobs have none.
    package func failedJobs(
        _ count: Int, _ filter: FailureFilter = FailureFilter(), as asker: JobOwner,
        _ notify: @escaping @Sendable (Result<[FailedJob], StoreError>) -> Void
    ) {
        let unrecorded = jobTable.withLock { $0.unrecorded.newest(as: asker) }.compactMap { job, outcome in
            if case .failed(let error) = outcome.result,
                filter.includes(acceptedAt: job.now, of: job.owner, error: error)
            {
                FailedJob(id: job.id, sequence: job.sequence, owner: job.owner, acceptedAt: job.now, error: error)
            } else {
                nil
            }
        }
        failures.findFailures(count, filter, as: asker) { result in
            notify(
                result.map { recorded in
                    let known = Set(recorded.map(\.sequence))
                    let all = recorded + unrecorded.filter { !known.contains($0.sequence) }
                    return Array(all.sorted { $0.sequence > $1.sequence }.prefix(count))
                })
        }
    }
}

extension JobTable {
    fileprivate func stage(of ticket: Int, isHeld: Bool) -> RunningJob.Stage {
        if cancellations.tickets.contains(ticket) { return .cancelled }
        guard isHeld else { return .merging }
        return application.isReady(ticket) ? .staged : .staging
    }
}
