/// The content of a frame, known when a worker has opened it.
package enum Opened: Sendable {
    case job(Job)
    /// A message that has been answered already, or that cannot be answered.
    case nothing
    /// A question about jobs. The coordinator calls it with its own ticket when every frame before it has been opened,
    /// so that it sees the jobs in them; on a thread of the coordinator's.
    case question(@Sendable (_ ticket: Int) -> Void)
    /// The memory was refused. Nothing was answered, and nothing is retained.
    case noRoom
}
