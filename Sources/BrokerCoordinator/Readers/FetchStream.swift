package import BrokerModel
internal import BrokerStaging
package import BrokerStore

/// An event of a streamed fetch. The last is one that is not `objects` with more.
package enum StreamEvent: Sendable {
    /// The next part. Parts follow while it has more, each after another ``FetchStream/ask()``.
    case objects(FetchedObjects)
    case failed(Fault)
    /// The server stops.
    case stopped
}

/// A fetch whose objects come in parts, all of one read transaction. Any thread may call.
///
/// The transaction begins when the first part is made, and ends with the last event or with ``cancel()``.
package final class FetchStream: Sendable {
    package let number: Int
    let request: FetchRequest
    let process: Int32
    let envelope: FetchEnvelope
    let isWanted: @Sendable () -> Bool
    private let notify: @Sendable (FetchStream, StreamEvent) -> Void
    private let thread: StreamThread

    init(
        _ number: Int, _ request: FetchRequest, of process: Int32, in envelope: FetchEnvelope, on thread: StreamThread,
        isWanted: @escaping @Sendable () -> Bool, notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) {
        self.number = number
        self.request = request
        self.process = process
        self.envelope = envelope
        self.thread = thread
        self.isWanted = isWanted
        self.notify = notify
    }

    /// The client has room for the next part. Called once for each.
    package func ask() { thread.ask(self) }

    /// Ends the stream. A part that is being made is still sent; no other event follows.
    package func cancel() { thread.cancel(self) }

    func report(_ event: StreamEvent) { notify(self, event) }
}
