package import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
package import BrokerStaging
package import BrokerStore
internal import Glibc

extension Coordinator {
    /// Fetches objects beside the writer.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question; the fetch sees the effects of the jobs before it from that source.
    ///   - user: the client's; users take turns, and so do the sources of each.
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

    /// A fetch whose objects come in parts. It sees the jobs that have ended by now: call it in ``whenEnded(before:from:_:)``.
    /// Nothing is read before ``FetchStream/ask()``. Processes share the places for open streams.
    package func stream(
        _ request: FetchRequest, of process: Int32, in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) -> FetchStream {
        let task = StreamTask(
            request: request, process: process, envelope: envelope, isWanted: isWanted, notify: notify)
        return readers.streams.stream(task)
    }

    /// Reads a bookmark beside the writer, as the jobs before that ticket from that source leave it.
    package func bookmark(
        named name: String, before ticket: Int, from source: Int = 0,
        _ notify: @escaping @Sendable (Result<StoredBookmark?, StoreError>) -> Void
    ) {
        whenEnded(before: ticket, from: source) { [ledger] in
            ledger.read({ reader throws(StoreError) in try reader.bookmark(named: name) }, notify)
        }
    }

    package typealias Wait = AppliedPosition.Wait

    /// Calls `body` when everything up to that sequence has been applied, on a thread of the coordinator's. Returns nil, and does
    /// not call it, when that is so already.
    package func whenApplied(through sequence: Int64, _ body: @escaping @Sendable () -> Void) -> Wait? {
        applied.wait(for: sequence, body)
    }

    /// The caller waits no longer. Returns the sequence up to which everything has been applied; nil when `body` was called, or is
    /// about to be.
    package func forget(_ wait: Wait) -> Int64? { applied.forget(wait) ? applied.position : nil }

    /// Calls `body` once the jobs before that ticket from that source have ended: at once, or on a thread of the
    /// coordinator's.
    package func whenEnded(before ticket: Int, from source: Int, _ body: @escaping @Sendable () -> Void) {
        let waits = jobTable.withLock { $0.ends.wait(before: ticket, from: source, body) }
        if !waits { body() }
    }
}

extension Coordinator {
    /// Follows the feed: the committed jobs that change some entities, in their order. It begins with those that have ended by now:
    /// call it in ``whenEnded(before:from:_:)``. Nothing is read before ``FeedSubscription/ask()``.
    ///
    /// - Parameters:
    ///   - entities: nil for those of the model.
    ///   - after: nil for the jobs from now on.
    ///   - asker: ids of jobs that it may not see are omitted.
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
    /// Cancels the jobs of that id before a ticket that the asker may see, if the merge of none has begun. Nil means all that were
    /// admitted so far.
    ///
    /// A cancelled job ends at once, before earlier ones; it keeps its ticket, and the ledger records its failure in its turn.
    /// `notify` is called before the job's observer.
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
            case .success(let end?): notify(.tooLate(end))
            case .failure(let error): notify(.failed(error))
            }
        }
    }

    /// Jobs are accepted and staged, and none is merged until ``resume()``, or until new jobs are refused. False while the model is
    /// changed, which waits for jobs.
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

    /// Copies the WAL into the database and truncates its file, as far as readers allow. `notify` is called on the writer's thread,
    /// with the rest of the WAL.
    package func checkpoint(_ notify: @escaping @Sendable (Result<WALStatus, StoreError>) -> Void) {
        onWriter({ store throws(StoreError) in try store.checkpointAtOnce() }, notify)
    }

    /// Runs `body` on the writer's thread, between two transactions. `notify` is called there, too.
    func onWriter<Value>(
        _ body: @escaping @Sendable (Store) throws(StoreError) -> Value,
        _ notify: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) {
        jobTable.update { [statistics] jobTable in
            jobTable.requests.tasks.append { store in
                let result = Result { () throws(StoreError) in try body(store) }
                statistics.note(store)
                notify(result)
            }
        }
    }

    /// The digest of the journal's jobs and of the rows that they wrote; nil without a journal. `notify` is called on the writer's
    /// thread.
    package func history(_ notify: @escaping @Sendable (StateDigest?) -> Void) {
        jobTable.update { jobTable in jobTable.requests.tasks.append { notify($0.history) } }
    }
}

extension Coordinator {
    /// Copies what is committed of the store to a file, beside the writer, which goes on.
    ///
    /// One at a time; another is refused as `busy`. A backup that the client does not want any more, or during which the server
    /// stops, leaves no file.
    ///
    /// - Parameter progress: called at most ten times a second, on the backup's thread; must not block.
    package func backup(
        to file: String, replaces: Bool = false,
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
        if let refusal = backups.run(task) { completions.run { notify(.failed(refusal)) } }
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

/// The members of `stats`: the counters, and what the rest of the coordinator holds at that moment.
extension Coordinator {
    package func writeStatistics(to writer: inout JSONWriter) {
        let oldest = jobTable.withLock { $0.ends.oldest?.admittedAt }
        var counters = statistics.now
        counters.store = storeState
        let (condition, log, depths, now) = (condition, self.writer.opened.log, pool.depths, monotonicMicroseconds())
        writer.member("uptimeMilliseconds", (now - statistics.startedAt) / 1_000)
        writer.member("paused", condition.isPaused)
        writer.member("draining", condition.isDraining)
        counters.writeJobs(to: &writer, inFlight: condition.jobs)
        writer.member("commits", counters.totals.commits)
        if let reload = counters.lastReload {
            writer.key("lastReload")
            reload.write(to: &writer)
        }
        writer.key("batches")
        counters.batches.write(to: &writer)
        writer.object("queues") { writer in
            writer.member("opening", depths.opening)
            writer.member("staging", depths.staging)
            writer.member("bytes", memory.total)
            writer.member("oldestMilliseconds", oldest.map { max(0, now - $0) / 1_000 } ?? 0)
        }
        counters.writeStore(at: storePath, keeping: retention.count, to: &writer)
        if let history = counters.facts.history, let log { write(log, history, counters, to: &writer) }
        writer.key("latencyMicroseconds")
        counters.latencies.write(to: &writer, isJournaled: log != nil)
        writer.key("lastMinute")
        counters.recent.write(to: &writer, at: now, isJournaled: log != nil)
        counters.writeHistograms(to: &writer, isJournaled: log != nil)
        writer.object("memory") { writer in
            writer.member("residentBytes", Self.residentBytes())
            if let allocations { writer.member("allocations", allocations()) }
        }
        writer.member("subscriptions", readers.feed.count)
    }

    private func write(
        _ log: any JobLog, _ history: StateDigest, _ counters: Statistics.Counters, to writer: inout JSONWriter
    ) {
        let shared = log as? any SharedLog
        writer.object(shared == nil ? "journal" : "log") { writer in
            log.write(to: &writer)
            writer.member(shared == nil ? "applied" : "position", history.position)
            if let shared { writer.member("lag", max(0, shared.lastPosition - history.position)) }
            writer.member(shared == nil ? "history" : "digest", history.digits)
            if let fingerprint = counters.fingerprint { writer.member("fingerprint", fingerprint) }
            guard shared != nil else { return }
            var reason: String?
            if case .halted(let cause) = counters.store { reason = cause }
            writer.member("halted", reason != nil)
            if let reason { writer.member("reason", reason) }
            if let replicas = logReader.withLock({ $0 })?.replicas?.table {
                writer.key("replicas")
                replicas.write(to: &writer)
            }
        }
    }

    /// Bytes of memory that the process holds (proc(5), statm); 0 where the kernel does not report them.
    private static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let fields = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self).split(
            separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
    }
}

/// Lists of jobs.
extension Coordinator {
    /// Calls `notify` for each slow job from now on, on a thread of the coordinator's; must not block.
    package func onSlowJob(_ notify: @escaping @Sendable (EndedJob) -> Void) { statistics.slowObserver.set(notify) }

    /// The jobs that have not ended, the oldest first.
    package func runningJobs(_ count: Int, as asker: JobOwner) -> [RunningJob] {
        jobTable.withLock { jobTable in jobTable.ends.oldest(count, as: asker).map { jobTable.running($0) } }
    }

    /// The jobs of that id that have not ended, the oldest first.
    package func runningJobs(of id: String, as asker: JobOwner) -> [RunningJob] {
        jobTable.withLock { jobTable in
            jobTable.running.find(JobID(id), before: nil, as: asker).map { jobTable.running($0) }
        }
    }

    /// The jobs of that id that ended lately, the newest first; or, without one, the job as the ledger has it.
    package func endedJobs(
        of id: String, as asker: JobOwner, _ notify: @escaping @Sendable (Result<[EndedJob], StoreError>) -> Void
    ) {
        let recent = statistics.endedJobs(id).filter { asker.maySee(jobOf: $0.owner) }
        guard recent.isEmpty else { return notify(.success(recent)) }
        ledger.find(id, as: asker) { result in notify(result.map { stored in stored.map { [EndedJob($0)] } ?? [] }) }
    }

    /// The slow jobs that are remembered, those with the most work of their own first.
    package func slowJobs(_ count: Int, as asker: JobOwner) -> [EndedJob] {
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
        failures.read(
            { reader throws(StoreError) in
                let recorded = try reader.failures(count, filter, as: asker)
                let known = Set(recorded.map(\.sequence))
                let all = recorded + unrecorded.filter { !known.contains($0.sequence) }
                return Array(all.sorted { $0.sequence > $1.sequence }.prefix(count))
            }, notify)
    }
}

/// Rejected records that are kept.
extension Coordinator {
    /// Reads those that the asker may see, beside the writer.
    package func rejects(
        _ query: RejectQuery, as asker: JobOwner,
        _ notify: @escaping @Sendable (Result<(rejects: [StoredReject], hasMore: Bool), StoreError>) -> Void
    ) {
        failures.read({ reader throws(StoreError) in try reader.rejects(query, as: asker) }, notify)
    }

    /// Deletes those that the asker may see. `notify` is called on the writer's thread.
    package func dropRejects(
        _ selection: RejectSelection, as asker: JobOwner,
        _ notify: @escaping @Sendable (Result<Int, StoreError>) -> Void
    ) {
        onWriter({ store throws(StoreError) in try store.drop(selection, as: asker) }, notify)
    }
}

extension JobTable {
    fileprivate func running(_ job: AcceptedJob) -> RunningJob {
        RunningJob(
            id: job.id, sequence: application.place(of: job.ticket)?.position, owner: job.owner, stage: stage(of: job),
            age: max(0, monotonicMicroseconds() - job.admittedAt))
    }

    private func stage(of job: AcceptedJob) -> RunningJob.Stage {
        if job.skipReason == .cancelled { return .cancelled }
        guard application.holds(job.ticket) else { return .merging }
        return application.isReady(job.ticket) ? .staged : .staging
    }
}
