public import BrokerStore

extension Coordinator {
    /// Copies the store to a file beside the writer, which goes on. It blocks nobody: whoever must wait is called later.
    ///
    /// One at a time; another is refused as `busy`. One that nobody wants, or during which the server stops, leaves nothing
    /// behind.
    ///
    /// - Parameters:
    ///   - file: absolute, or from the folder in which this process runs.
    ///   - replaces: whether a file that is there gives way.
    ///   - place: of the question among the frames, all of which before it have been opened; what the jobs in them did is
    ///     in the copy. Nil asks for what is committed now.
    ///   - isWanted: whether whoever asked is still there.
    ///   - progress: called at most ten times a second, on the backup's thread; must not block.
    ///   - tell: called once, on a thread of the coordinator's.
    public func backup(
        to file: String, replaces: Bool = false, before place: Int? = nil,
        isWanted: @escaping @Sendable () -> Bool = { true },
        progress: @escaping @Sendable (StoreBackup.Progress) -> Void = { _ in },
        tell: @escaping @Sendable (BackupEnd) -> Void
    ) {
        let task = BackupTask(
            backup: StoreBackup(of: storePath, to: file, replaces: replaces), file: file, isWanted: isWanted,
            progress: progress, tell: tell)
        let begin: @Sendable () -> Void = { [backups, completions] in
            if let refusal = backups.run(task) { completions.run { tell(.failed(refusal)) } }
        }
        let waits = place.map { place in jobTable.withLock { $0.ends.wait(before: place, begin) } } ?? false
        if !waits { begin() }
    }
}
