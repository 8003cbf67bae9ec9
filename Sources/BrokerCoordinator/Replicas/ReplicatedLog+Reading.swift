#if Replication
internal import BrokerReplication
internal import BrokerStore

/// Entries in the order of their positions, from the stream and from memory.
extension ReplicatedLog {
    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
        guard let reader = reading.reader else { preconditionFailure("the log was not begun") }
        while true {
            var items = takeRefused() + (try takeStored())
            if !items.isEmpty { return items }
            if let failure = way.withLock({ $0.failure }), !queue.withLock({ $0.isStopping }) { throw failure }
            let entries: [DeliveredEntry]?
            do throws(ReplicationError) {
                entries = try reader.read(bytes: bytes)
            } catch {
                throw StoreError(error)
            }
            guard let entries else { return nil }
            for delivered in entries {
                guard delivered.position > reading.position else {
                    guard delivered.entry.session == session.id else { throw LogViolation.unexpectedJob.error }
                    continue
                }
                items.append(try item(of: delivered.entry, at: delivered.position))
                items += takeRefused()
            }
            if let last = entries.last { positions.withLock { $0.last = max($0.last, last.position) } }
            if !items.isEmpty { return items }
        }
    }

    /// Own entries that the stream refused and that are next, in the order in which they were appended.
    private func takeRefused() -> [LogItem] {
        way.withLock { way in
            var items: [LogItem] = []
            while case .refused(let entry, let error)? = way.sent.first {
                way.sent.removeFirst()
                items.append(.refused(entry, error))
            }
            return items
        }
    }

    /// Own entries that the stream has stored, as far as everything before them was delivered.
    private func takeStored() throws(StoreError) -> [LogItem] {
        var items: [LogItem] = []
        while let group = takeStoredGroup() {
            for (index, entry) in group.entries.enumerated() where group.first + Int64(index) > reading.position {
                items.append(try item(of: entry, at: group.first + Int64(index)))
                items += takeRefused()
            }
        }
        return items
    }

    private func takeStoredGroup() -> (first: Int64, entries: [ReplicatedEntry])? {
        way.withLock { way in
            guard let first = way.stored.first?.first, first <= reading.position + 1 else { return nil }
            return way.stored.removeFirst()
        }
    }

    private func item(of entry: ReplicatedEntry, at position: Int64) throws(StoreError) -> LogItem {
        reading.time = max(reading.time, entry.time)
        reading.position = position
        let time = reading.time
        let place = LogPlace(position: position, time: time)
        let isOwn = entry.session == session.id
        var own: Waiting?
        if isOwn {
            own = way.withLock { way -> Waiting? in
                guard case .stored(let waiting)? = way.sent.first else { return nil }
                way.sent.removeFirst()
                return waiting
            }
            guard own != nil else { throw LogViolation.unexpectedJob.error }
        }
        switch entry.kind {
        case .job:
            if case .entry(let waiting)? = own {
                let stored = LogPlace(position: position, time: time, durableAt: monotonicMicroseconds())
                return .job(ticket: waiting.ticket, stored, payload: entry.payload)
            }
            let job = JournaledJob(
                sequence: position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                mayDelete: entry.mayDelete, isPrivileged: entry.isPrivileged, time: time, isCancelled: false)
            return .other(job, payload: entry.payload)
        case .model, .limits:
            var ticket: Int?
            if case .entry(let waiting)? = own { ticket = waiting.ticket }
            return .change(
                LoggedChange(
                    kind: entry.kind == .model ? .model : .limits, payload: entry.payload, place: place, ticket: ticket)
            )
        case .replica, .checkpoint, .upgrade:
            guard let note = ReplicaNote(entry) else { throw StoreError(.unknownPayload(at: position)) }
            return .note(note, LogMark(position: position, time: time, content: entry.payload), isOwn: isOwn)
        }
    }
}
#endif
