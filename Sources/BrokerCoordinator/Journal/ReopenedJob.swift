/// The result of opening a frame of the journal: a job that an earlier run of the server accepted.
package enum ReopenedJob: Sendable {
    case job(Job)
    /// The memory was refused; the same may be tried again.
    case noRoom
    /// This server cannot read the frame.
    case unreadable(_ reason: String)
}
