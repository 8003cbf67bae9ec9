public import BrokerStaging
public import BrokerStore

extension Coordinator {
    /// Fetches objects beside the writer. It blocks nobody: whoever must wait is called later.
    ///
    /// - Parameters:
    ///   - place: of the question among the frames, all of which before it have been opened; what those of the source did is
    ///     seen. Nil asks after everything admitted so far from that source.
    ///   - source: whose it is; sources take turns.
    ///   - envelope: what is to stand around the objects.
    ///   - isWanted: whether whoever asked is still there.
    ///   - mayBeLong: whether there is room for a long answer; asked once the fetch turns out to be long.
    ///   - tell: called once, on a thread of the coordinator's.
    public func fetch(
        _ request: FetchRequest, before place: Int? = nil, from source: Int = 0, in envelope: FetchEnvelope = .none,
        isWanted: @escaping @Sendable () -> Bool = { true }, mayBeLong: @escaping @Sendable () -> Bool = { true },
        tell: @escaping @Sendable (FetchEnd) -> Void
    ) {
        guard let place else {
            // A frame of its own, with nothing in it but the question.
            return admit(from: source, payloadBytes: 0) { [self] _ in
                .question { place in
                    self.fetch(
                        request, before: place, from: source, in: envelope, isWanted: isWanted, mayBeLong: mayBeLong,
                        tell: tell)
                }
            } refuse: { _ in
                preconditionFailure("there is room for nothing")
            }
        }
        let task = FetchTask(
            request: request, source: source, envelope: envelope, isWanted: isWanted, mayBeLong: mayBeLong, tell: tell)
        let waits = jobTable.withLock { jobTable in
            jobTable.ends.wait(before: place, from: source) { [readers] in readers.fetch(task) }
        }
        if !waits { readers.fetch(task) }
    }
}
