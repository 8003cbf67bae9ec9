import BrokerJSON
import BrokerJournal

@testable import BrokerCoordinator

/// The journal of one run of the server: entries that wait for the disk, and the store's position.
final class SimulatedLog: JobLog {
    struct State {
        var waiting: [LogEntry] = []
        var appliedThrough: Int64 = 0
    }

    private let state = Monitor(State())
    let takesCancellations: Bool

    init(takesCancellations: Bool = true) { self.takesCancellations = takesCancellations }

    /// The simulation reads what is on the disk itself, and what waits with ``takeWaiting()``.
    let backlog = 0

    func append(_ entry: LogEntry) { state.withLock { $0.waiting.append(entry) } }

    func read(after position: Int64, bytes: Int) -> [LogItem]? { nil }

    func applied(through position: Int64) {
        state.withLock { $0.appliedThrough = max($0.appliedThrough, position) }
    }

    var appliedThrough: Int64 { state.withLock { $0.appliedThrough } }

    var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    func takeWaiting() -> [LogEntry] {
        state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    func write(to writer: inout JSONWriter) {}

    func stop() {}
}

/// The log's disk: what is in `entries` was synced, and is read again after a crash.
struct SimulatedDisk {
    private(set) var entries: [JournalEntry] = []
    /// The position of the newest job that was ever in it.
    private(set) var lastPosition: Int64 = 0
    private(set) var lastTime: Int64 = 0

    mutating func sync(_ added: some Sequence<JournalEntry>) {
        entries += added
        for entry in added where entry.kind == .job { (lastPosition, lastTime) = (entry.position, entry.time) }
    }

    mutating func trim(through position: Int64) { entries.removeAll { $0.position <= position } }

    func jobs(after position: Int64) -> [JournalEntry] {
        entries.filter { $0.kind == .job && $0.position > position }
    }

    func holds(_ position: Int64) -> Bool { entries.contains { $0.kind == .job && $0.position == position } }

    var cancelled: Set<Int64> { Set(entries.filter { $0.kind == .cancellation }.map(\.position)) }
}
