internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
package import BrokerStore

/// The durable order of jobs: the writer gets only jobs that are in it, in its order.
///
/// Without one, ``MergeOrder`` is the only order, and ends with the process. ``DiskJournal`` stores it on the disk; a
/// journal that several machines share has the same interface, with the confirmation of its quorum in place of the
/// disk's.
protocol JobJournal: Sendable {
    /// Appends an entry; entries are stored in the order of the calls. Must not block: it is called while the job table
    /// is locked. `JobTable.logged(_:)` or `JobTable.unjournaled(_:_:)` is called when the result is known.
    func append(_ entry: JournalWrite)

    /// The effects of the jobs up to that position are durable in the store: the journal may delete them.
    func applied(through position: Int64)

    /// The members of `stats`.
    func write(to writer: inout JSONWriter)

    /// Ends when everything that was appended is stored. Blocks.
    func stop()
}

/// An entry of the journal: a job that has its sequence, or a cancellation.
struct JournalWrite: Sendable {
    let kind: JournalEntry.Kind
    /// The ticket in the merge order of this run of the server.
    let ticket: Int
    /// The job's sequence.
    var position: Int64
    let id: JobID
    let isIDMade: Bool
    let owner: JobOwner
    let mayDelete: Bool
    /// In milliseconds since 1970.
    let time: Int64
    /// The frame as it was received, without its length.
    let payload: @Sendable () -> [UInt8]

    var stored: JournalEntry {
        JournalEntry(
            kind, position: position, id: id.text, isIDMade: isIDMade, mayDelete: mayDelete, user: owner.user,
            time: time,
            payload: payload())
    }
}

/// A job that was read from the journal, with its former sequence, id and time.
package struct JournaledJob: Sendable {
    package let sequence: Int64
    package let id: String
    package let owner: JobOwner
    package let isIDMade: Bool
    package let mayDelete: Bool
    /// When it was accepted, in milliseconds since 1970.
    let time: Int64
    let isCancelled: Bool
}
