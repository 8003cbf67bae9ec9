internal import BrokerModel
package import BrokerStore

extension Coordinator {
    /// Copies the store to a file beside the writer, which goes on. Does not block: the caller gets a call later.
    ///
    /// One at a time; another is refused as `busy`. A backup that the client does not want any more, or during which
    /// the server stops, leaves no file.
    ///
    /// - Parameters:
    ///   - file: an absolute path, or one relative to this process's working directory.
    ///   - replaces: whether an existing file is replaced.
    ///   - ticket: the ticket of the question, before which all frames have been opened; the copy has the effects of the
    ///     jobs in them. Nil copies what is committed now.
    ///   - isWanted: whether the client is still there.
    ///   - progress: called at most ten times a second, on the backup's thread; must not block.
    ///   - notify: called once, on a thread of the coordinator's.
    package func backup(
        to file: String, replaces: Bool = false, before ticket: Int? = nil,
        isWanted: @escaping @Sendable () -> Bool = { true },
        progress: @escaping @Sendable (StoreBackup.Progress) -> Void = { _ in },
        notify: @escaping @Sendable (BackupEnd) -> Void
    ) {
        do throws(StoreError) {
            try checkFiles()
        } catch {
            return completions.run { notify(.failed(Fault(error.faultCode, error.message))) }
        }
        let task = BackupTask(
            backup: StoreBackup(of: storePath, to: file, replaces: replaces), file: file, isWanted: isWanted,
            progress: progress,
            notify: { [jobTable, statistics] end in
                if case .done(let copy) = end { Self.noteBackup(jobTable, statistics, copy.sequence) }
                notify(end)
            })
        let begin: @Sendable () -> Void = { [backups, completions] in
            if let refusal = backups.run(task) { completions.run { notify(.failed(refusal)) } }
        }
        let waits = ticket.map { ticket in jobTable.withLock { $0.ends.wait(before: ticket, begin) } } ?? false
        if !waits { begin() }
    }

    /// A store that takes no writes now does not remember it.
    private static func noteBackup(_ jobTable: Monitor<JobTable>, _ statistics: Statistics, _ sequence: Int64) {
        let time = wallClockMilliseconds()
        statistics.count {
            $0.backedUpAt = time
            $0.backedUpThrough = max($0.backedUpThrough, sequence)
        }
        jobTable.update { jobTable in jobTable.writerTasks.append { store in try? store.noteBackup(at: time) } }
    }
}
