package import BrokerStaging
package import BrokerStore

extension Coordinator {
    /// Fetches objects beside the writer. Does not block: the caller gets a call later.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question, before which all frames have been opened; the fetch sees the effects of
    ///     those of the source. Nil asks after everything admitted so far from that source.
    ///   - source: the client.
    ///   - user: the client's user; users take turns, and so do the sources of each.
    ///   - envelope: the text around the objects.
    ///   - isWanted: whether the client is still there.
    ///   - mayBeLong: whether there is room for a long answer; called once the fetch turns out to be long.
    ///   - notify: called once, on a thread of the coordinator's.
    package func fetch(
        _ request: FetchRequest, before ticket: Int? = nil, from source: Int = 0, of user: UInt32 = 0,
        in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true }, mayBeLong: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchEnd) -> Void
    ) {
        guard let ticket else {
            // A frame of its own, which holds only the question.
            return admit(from: source, payloadBytes: 0) { [self] _ in
                .question { ticket in
                    self.fetch(
                        request, before: ticket, from: source, of: user, in: envelope, isWanted: isWanted,
                        mayBeLong: mayBeLong,
                        notify: notify)
                }
            } refuse: { _ in
                preconditionFailure("there is room for nothing")
            }
        }
        let task = FetchTask(
            request: request, source: source, user: user, envelope: envelope, isWanted: isWanted, mayBeLong: mayBeLong,
            notify: notify)
        whenEnded(before: ticket, from: source) { [readers] in readers.fetch(task) }
    }

    /// A fetch whose objects come in parts. It sees the jobs that have ended by now: call it in
    /// ``whenEnded(before:from:_:)``. Nothing is read before ``FetchStream/ask()``.
    ///
    /// - Parameters:
    ///   - process: the client's; processes share the places for open streams.
    ///   - envelope: the text around the objects of each part.
    ///   - isWanted: whether the client is still there.
    ///   - notify: called for each event, on a thread of the coordinator's.
    package func stream(
        _ request: FetchRequest, of process: Int32, in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchStream, StreamEvent) -> Void
    ) -> FetchStream {
        readers.streams.stream(request, of: process, in: envelope, isWanted: isWanted, notify: notify)
    }

    /// Reads a bookmark beside the writer.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the question, which sees the jobs before it from that source.
    ///   - notify: called once, on a thread of the coordinator's.
    package func bookmark(
        named name: String, before ticket: Int, from source: Int = 0,
        _ notify: @escaping @Sendable (Result<StoredBookmark?, StoreError>) -> Void
    ) {
        whenEnded(before: ticket, from: source) { [ledger] in ledger.findBookmark(named: name, notify) }
    }

    /// Names a caller of ``whenApplied(through:_:)``.
    package struct Wait: Sendable {
        fileprivate let wait: AppliedPosition.Wait
    }

    /// Calls `body` when everything up to that sequence has been applied, on a thread of the coordinator's.
    ///
    /// - Returns: nil when it has been already: `body` is not called then.
    package func whenApplied(through sequence: Int64, _ body: @escaping @Sendable () -> Void) -> Wait? {
        applied.wait(for: sequence, body).map { Wait(wait: $0) }
    }

    /// The caller waits no longer.
    ///
    /// - Returns: the sequence up to which everything has been applied; nil when `body` was called, or is about to be.
    package func forget(_ wait: Wait) -> Int64? { applied.forget(wait.wait) ? applied.position : nil }

    /// Calls `body` once the jobs before that ticket from that source have ended: at once, or on a thread of the
    /// coordinator's.
    package func whenEnded(before ticket: Int, from source: Int, _ body: @escaping @Sendable () -> Void) {
        let waits = jobTable.withLock { $0.ends.wait(before: ticket, from: source, body) }
        if !waits { body() }
    }
}
