/// Reports the writer's transactions to the thread of the feed.
final class CommitObserver: Sendable {
    private let notify = Monitor<(@Sendable () -> Void)?>(nil)

    /// - Parameter notify: called on the writer's thread after each transaction; nil ends that.
    func observe(_ notify: (@Sendable () -> Void)?) { self.notify.withLock { $0 = notify } }

    func committed() { notify.withLock { $0 }?() }
}
