/// Follows the WAL from COMMIT to COMMIT: its length, whether it can restart, and when to copy it.
///
/// SQLite copies the WAL into the database (a checkpoint) once it has its working size, and then restarts at its
/// beginning, unless a reader still needs its pages. So when the WAL exceeded its size before a transaction, and that
/// transaction was appended, a reader holds it.
///
/// While transactions are long, the WAL may get longer: each transaction writes the same leaves of an index whose keys
/// arrive in no order, and one checkpoint copies them once for several transactions. (Measured: the last tenth of three
/// million records is a tenth faster.)
struct WALWatch: Equatable {
    /// In units of the working size: the maximum length of the WAL before it is copied, while transactions are long.
    static let longestFactor = 4
    /// In units of a transaction's size: the length at which the WAL is copied, within the limits above.
    static let transactionsInLog = 8
    /// In units of the working size; more than the longest, because a reader may hold the WAL for a moment.
    static let heldFactor = 8
    /// The share of the working size at which an idle writer copies the WAL: so little that the next job hardly waits
    /// for it. Under a light load, the WAL never reaches its working size, and no long checkpoint is needed.
    static let idleShare = 8

    let workingPages: Int
    /// A transaction found no room: the WAL no longer exceeds its working size.
    var isShort = false
    private(set) var isHeld = false
    /// Pages in the WAL after the last commit.
    private var pages = 0
    private var copiedPages = 0
    /// Pages that the last transaction wrote.
    private var written = 0
    /// Pages in the WAL when it was last overdue; 0 when it has restarted since.
    private var overdueAt = 0
    /// Pages in the WAL when the writer last waited for a backup tool; 0 when it has restarted since.
    private var waitedAt = 0

    init(workingPages: Int) { self.workingPages = workingPages }

    var wantsCheckpoint: Bool { pages >= dueLength }

    private var dueLength: Int {
        let longest = isShort ? workingPages : workingPages * Self.longestFactor
        return min(max(workingPages, written * Self.transactionsInLog), longest)
    }

    /// The WAL was due before the last transaction, which was appended to it: a reader uses it. False again until the
    /// WAL has grown by a working size.
    var isOverdue: Bool { pages - written >= dueLength && pages >= overdueAt + workingPages }

    /// Records that the caller has handled ``isOverdue``.
    mutating func notedOverdue() { overdueAt = pages }

    /// The WAL is as long as one that a reader holds. False again until it has grown by that length.
    var isLong: Bool { pages > waitedAt + workingPages * Self.heldFactor }

    /// Records that the caller has handled ``isLong``.
    mutating func notedLong() { waitedAt = pages }
    var wantsCheckpointWhenIdle: Bool { uncheckpointedPages >= max(1, workingPages / Self.idleShare) }
    var uncheckpointedPages: Int { max(0, pages - copiedPages) }

    /// Records that a transaction was committed.
    ///
    /// - Parameters:
    ///   - pages: in the WAL now.
    ///   - written: by this transaction.
    /// - Returns: whether a reader holds the WAL, when that has changed.
    mutating func committed(pages: Int, written: Int) -> Bool? {
        // The WAL restarted: it has only this transaction, or it is shorter, and another program wrote to it before.
        let isRestarted = pages <= written || pages < self.pages
        if isRestarted {
            copiedPages = 0
            overdueAt = 0
            waitedAt = 0
        }
        self.pages = pages
        self.written = written
        let isHeldNow = pages - written > workingPages * Self.heldFactor || (isHeld && !isRestarted)
        defer { isHeld = isHeldNow }
        return isHeldNow == isHeld ? nil : isHeldNow
    }

    mutating func emptied() {
        pages = 0
        copiedPages = 0
        waitedAt = 0
    }

    /// - Parameters:
    ///   - copied: pages of the WAL that are in the database.
    ///   - pages: in the WAL.
    mutating func checkpointed(copied: Int, of pages: Int) {
        copiedPages = copied
        self.pages = pages
    }
}
