import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStore
import TestSupport

@testable import BrokerCoordinator

/// A log in memory that the servers of a test share. Each server has a ``View`` of it.
final class MemorySharedLog: Sendable {
    struct Entry: Sendable {
        let session: Int
        /// Nil for an entry of no server.
        let ticket: Int?
        let content: LogEntry
    }

    private struct State {
        var entries: [Entry] = []
        var beginning: LogBeginning?
        var sessions = 0
        /// Entries are refused with this.
        var refusal: StoreError?
        var clock: Int64 = 1_000
        var trimmed: Int64 = 0
    }

    static let name = "\(SharedLogSource.prefix)0123"
    private let state = Monitor(State())

    /// A source for a server of that name.
    ///
    /// - Parameter made: called with its view.
    func source(_ replica: String, _ made: @escaping @Sendable (View) -> Void = { _ in }) -> SharedLogSource {
        SharedLogSource { [self] identity throws(StoreError) in
            guard identity == nil || identity == Self.name else { throw StoreError(.unavailable, "another stream") }
            let session = state.withLock { state in
                state.sessions += 1
                return state.sessions
            }
            let view = View(self, replica, session)
            made(view)
            return view
        }
    }

    /// From now on entries get times from that one on, in milliseconds.
    func set(clock: Int64) { state.withLock { $0.clock = clock } }

    /// From now on entries are refused; nil for no more.
    func refuse(_ error: StoreError?) { state.withLock { $0.refusal = error } }

    var count: Int64 { state.withLock { Int64($0.entries.count) } }

    var trimmed: Int64 { state.withLock { $0.trimmed } }

    /// Appends a note of no server.
    func append(_ note: ReplicaNote) { append(note.entry, nil, of: 0) }

    fileprivate func append(_ entry: LogEntry, _ ticket: Int?, of session: Int) {
        state.update { state in
            state.clock += 1
            var entry = entry
            entry.position = Int64(state.entries.count + 1)
            entry.time = state.clock
            state.entries.append(Entry(session: session, ticket: ticket, content: entry))
        }
    }

    /// One server's.
    final class View: BrokerCoordinator.SharedLog {
        private struct Own {
            /// Own entries that were refused, with the number of own entries that are before them.
            var refused: [(before: Int, entry: PendingEntry, error: StoreError)] = []
            var appended = 0
            var delivered = 0
            var isStopped = false
            var isHeld = false
            var report: (@Sendable (String?) -> Void)?
        }

        private let log: MemorySharedLog
        let replica: String
        private let session: Int
        private let own = Monitor(Own())
        private let applied = Monitor<(position: Int64, time: Int64)>((0, 0))

        init(_ log: MemorySharedLog, _ replica: String, _ session: Int) {
            self.log = log
            self.replica = replica
            self.session = session
        }

        var identity: String { MemorySharedLog.name }
        var address: String { "memory" }
        var durability: Durability { .quorum }
        let takesCancellations = false
        var backlog: Int { Int(log.count - applied.withLock { $0.position }) }
        var lastPosition: Int64 { log.count }
        var waiting: String? { own.withLock { $0.isHeld } ? "held" : nil }

        /// While held, nothing is delivered to this server.
        func hold(_ isHeld: Bool) {
            own.withLock { $0.isHeld = isHeld }
            log.state.update { _ in }
        }

        /// As if entries waited for long, or did not any more.
        func report(_ reason: String?) { own.withLock { $0.report }?(reason) }

        func first(_ wanted: LogBeginning) throws(StoreError) -> LogBeginning {
            var beginning: LogBeginning?
            log.state.update { state in
                if state.beginning == nil {
                    state.beginning = wanted
                    state.beginning!.position = 1
                    state.beginning!.time = state.clock
                    var first = ReplicaNote.upgrade(fingerprint: wanted.fingerprint).entry
                    (first.position, first.time) = (1, state.clock)
                    state.entries = [Entry(session: 0, ticket: nil, content: first)]
                }
                beginning = state.beginning
            }
            return beginning!
        }

        func begin(after position: Int64, at time: Int64, reporting report: @escaping @Sendable (String?) -> Void) {
            applied.withLock { $0 = (position, time) }
            own.withLock { $0.report = report }
        }

        func append(_ entry: PendingEntry) {
            let refusal = log.state.withLock { $0.refusal }
            guard let refusal else {
                own.withLock { $0.appended += 1 }
                return log.append(entry.whole, entry.ticket, of: session)
            }
            own.withLock { $0.refused.append((before: $0.appended, entry: entry, error: refusal)) }
            log.state.update { _ in }
        }

        func append(_ note: ReplicaNote) {
            own.withLock { $0.appended += 1 }
            log.append(note.entry, nil, of: session)
        }

        func trim(through position: Int64) { log.state.withLock { $0.trimmed = position } }

        func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
            log.state.wait { state -> [LogItem]?? in
                let items = self.own.withLock { own -> [LogItem]? in
                    if own.isStopped { return nil }
                    return own.isHeld ? [] : self.items(in: state.entries, after: position, &own)
                }
                guard let items else { return .some(nil) }
                return items.isEmpty ? nil : .some(items)
            }
        }

        private func items(in entries: [Entry], after position: Int64, _ own: inout Own) -> [LogItem] {
            var items: [LogItem] = []
            func takeRefused() {
                while let first = own.refused.first, first.before <= own.delivered {
                    items.append(.refused(first.entry, first.error))
                    own.refused.removeFirst()
                }
            }
            takeRefused()
            for index in Int(position)..<min(entries.count, Int(position) + 100) {
                let entry = entries[index]
                items.append(item(entry))
                if entry.session == session { own.delivered += 1 }
                takeRefused()
            }
            return items
        }

        private func item(_ entry: Entry) -> LogItem {
            var content = entry.content
            content.time = applied.withLock { applied in
                applied.time = max(applied.time, content.time)
                return applied.time
            }
            let isOwn = entry.session == session
            let ticket = isOwn ? entry.ticket : nil
            if let note = ReplicaNote(content) { return .note(note, content.mark, isOwn: isOwn) }
            guard content.kind == .job else { return .change(content, ticket: ticket) }
            return ticket.map { .job(ticket: $0, content.place, payload: content.payload) } ?? .other(content)
        }

        func applied(through position: Int64) {}

        func write(to writer: inout JSONWriter) { writer.member("kind", "memory") }

        func stop() {
            own.withLock { $0.isStopped = true }
            log.state.update { _ in }
        }
    }
}
