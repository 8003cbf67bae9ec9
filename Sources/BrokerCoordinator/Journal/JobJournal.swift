internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
public import BrokerStore

/// Where jobs have their places for good: nothing reaches the writer but what is in it, in its order.
///
/// Without one, ``MergeOrder`` is all the log there is, and forgets with the process. ``DiskJournal`` keeps it on the disk; a
/// log that several machines share takes the same seam, with its quorum's word in place of the disk's.
protocol JobJournal: Sendable {
    /// Takes an entry; they are kept in the order of the calls. Must not block: it is called with the flight locked, and
    /// `JobTable.logged(_:)` or `JobTable.unlogged(_:_:)` is told when it is known what became of it.
    func append(_ entry: JournalWrite)

    /// What the jobs up to that position did is durable in the store: they need not be kept any longer.
    func applied(through position: Int64)

    /// The members of `stats`.
    func write(to writer: inout JSONWriter)

    /// Ends when everything that was appended is kept. Blocks.
    func stop()
}

/// What goes into the log: a job that has its sequence, or that one was taken back.
struct JournalWrite: Sendable {
    let kind: JournalEntry.Kind
    /// In the merge order, of this run of the server.
    let place: Int
    /// The job's sequence.
    var position: Int64
    let id: JobID
    let isIDMade: Bool
    let owner: JobOwner
    /// Milliseconds since 1970.
    let time: Int64
    /// The frame, as it was received, without its length.
    let payload: @Sendable () -> [UInt8]

    var kept: JournalEntry {
        JournalEntry(
            kind, position: position, id: id.text, isIDMade: isIDMade, user: owner.user, time: time, payload: payload())
    }
}

/// A job that was read from the log: its place, its id and its time are what they were.
public struct JournaledJob: Sendable {
    public let sequence: Int64
    public let id: String
    public let owner: JobOwner
    public let isIDMade: Bool
    /// When it was accepted: milliseconds since 1970.
    let time: Int64
    let isCancelled: Bool
}
