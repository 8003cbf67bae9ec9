internal import BrokerCoordinator
internal import BrokerModel
internal import BrokerStore
internal import BrokerWire
internal import Logging

/// Streamed fetches: the next part is made when the client has taken most of its answers.
extension Connection {
    /// While the client has that much to read, no part of a stream is made: one or two frames of ordinary objects, so
    /// that a client that reads does not wait for the next one.
    static let streamAheadBytes = 256 << 10

    /// Answers a streamed fetch, when the jobs before it have ended.
    func stream(_ fetch: PendingFetch) {
        coordinator.whenEnded(before: fetch.ticket, from: source) { [self] in
            let stream = coordinator.stream(
                fetch.request, of: peer.process, in: fetch.envelope,
                isWanted: { [weak self] in self.map { !$0.isClosed } ?? false },
                notify: { [self] stream, event in put(event, of: stream, fetch) })
            streams.withLock { $0.add(stream) }
            // A closed connection retains none.
            if isClosed { cancelStreams() } else { sendStreams() }
        }
    }

    private func put(_ event: StreamEvent, of stream: FetchStream, _ fetch: PendingFetch) {
        var hasMore = false
        switch event {
        case .objects(let objects):
            let frame = codecs.encode(objects)
            hasMore = objects.hasMore && frame != nil
            if objects.hasMore, frame == nil { stream.cancel() }
            put(frame ?? codecs.apology(about: fetch.frame), finishing: !hasMore)
        case .failed(let fault):
            noteEnd(fault)
            send(fault, about: fetch.frame)
        case .stopped: send(.stopping, about: fetch.frame)
        }
        streams.withLock { $0.came(stream.number, hasMore: hasMore) }
        sendStreams()
    }

    /// Asks for the next parts, as far as there is room for them.
    func sendStreams() {
        while bytes < Self.streamAheadBytes, streams.withLock({ $0.isReady }) {
            guard budget.hasRoom(peer.process) else { return waitForRoom() }
            streams.withLock { $0.next() }?.ask()
        }
    }

    /// The connection is closed: the read transactions of its streams end.
    func cancelStreams() {
        let streams = streams.withLock { streams in
            defer { streams = ConnectionStreams() }
            return streams.all
        }
        for stream in streams { stream.cancel() }
    }

    private func noteEnd(_ fault: Fault) {
        guard fault.code == .snapshotExpired else { return }
        onHandler { [peer] handler in
            handler.connections.log.logger.info("A stream was ended: its client was too slow.", metadata: peer.metadata)
        }
    }
}
