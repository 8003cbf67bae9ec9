import BrokerModel
import BrokerStaging
import BrokerStore
import Testing
import TestSupport

@testable import BrokerCoordinator

/// The writer makes room in the WAL between the server's own reads.
@Suite(.timeLimit(.minutes(5))) struct ReaderGateTests {
    private final class Reading: Sendable {
        let isActive = Monitor(false)
        let mayEnd = Monitor(false)
        private let thread: Monitor<BrokerCoordinator.Thread?>

        init(_ gate: ReaderGate, _ kind: ReaderGate.Kind) {
            thread = Monitor(nil)
            let (isActive, mayEnd) = (isActive, mayEnd)
            let started = BrokerCoordinator.Thread(named: "reading") {
                gate.read(kind) { _ in
                    isActive.broadcast {
                        $0 = true
                        return true
                    }
                    mayEnd.patiently("the end of a read") { $0 ? () : nil }
                }
            }
            thread.withLock { $0 = started }
        }

        func waitUntilActive() { isActive.patiently("a read") { $0 ? () : nil } }

        func end() {
            mayEnd.broadcast {
                $0 = true
                return true
            }
            thread.withLock { $0 }?.join()
        }
    }

    @Test func `the writer works while no brief read is active, and new ones wait for it`() {
        let gate = ReaderGate()
        let before = Reading(gate, .brief)
        before.waitUntilActive()
        before.end()
        var during: Reading?
        var wasActive = true
        let isIdle = gate.whileIdle {
            during = Reading(gate, .brief)
            wasActive = gate.isReading
        }
        #expect(isIdle)
        #expect(!wasActive)
        during?.waitUntilActive()
        during?.end()
        #expect(!gate.isReading)
    }

    @Test func `the writer does not wait for a long read, which the next one may not follow at once`() {
        let gate = ReaderGate()
        let asked = Monitor(0)
        gate.onLongEnd {
            asked.broadcast {
                $0 += 1
                return true
            }
        }
        let first = Reading(gate, .long)
        first.waitUntilActive()
        var worked = 0
        #expect(!gate.whileIdle { worked += 1 })
        // Brief reads go on beside it.
        let brief = Reading(gate, .brief)
        brief.waitUntilActive()
        brief.end()
        let second = Reading(gate, .long)
        first.end()
        asked.patiently("the writer to be asked") { $0 == 1 ? () : nil }
        #expect(!second.isActive.withLock { $0 })
        #expect(gate.whileIdle { worked += 1 })
        second.waitUntilActive()
        second.end()
        #expect(worked == 2)
        #expect(asked.withLock { $0 } == 1)
    }

    @Test func `the writer waits for streams to end, and meanwhile no other begins`() {
        let gate = ReaderGate()
        let (asked, waits) = (Monitor(0), Monitor<[Bool]>([]))
        gate.onLongEnd { asked.withLock { $0 += 1 } }
        gate.onWriterWaiting { wait in waits.withLock { $0.append(wait) } }
        #expect(gate.beginStream() != nil)
        #expect(gate.beginStream() != nil)
        #expect(gate.longReader == .fetch)
        var worked = 0
        #expect(!gate.whileIdle { worked += 1 })
        #expect(gate.beginStream() == nil)
        // Long reads go on: the streams hold the WAL in any case.
        let long = Reading(gate, .long)
        long.waitUntilActive()
        gate.endStream()
        #expect(asked.withLock { $0 } == 0)
        gate.endStream()
        #expect(asked.withLock { $0 } == 0, "the long read is active")
        let next = Reading(gate, .long)
        long.end()
        #expect(asked.withLock { $0 } == 1)
        #expect(!next.isActive.withLock { $0 })
        #expect(gate.beginStream() == nil)
        #expect(gate.whileIdle { worked += 1 })
        #expect(waits.withLock { $0 } == [true, false])
        next.waitUntilActive()
        #expect(gate.beginStream() != nil)
        gate.endStream()
        next.end()
        #expect(worked == 2)
        #expect(!gate.isReading)
    }

    @Test func `the WAL grows for a fetch or else for a backup, until they have ended`() throws {
        let gate = ReaderGate()
        #expect(gate.longReader == nil)
        try gate.backUp { () throws(StoreError) in
            #expect(gate.longReader == .backup)
            #expect(gate.beginStream() != nil)
            #expect(gate.longReader == .fetch)
            gate.endStream()
            #expect(gate.longReader == .backup)
        }
        #expect(gate.longReader == nil)
        #expect(throws: StoreError.self) {
            try gate.backUp { () throws(StoreError) in throw StoreError(.unavailable, "the copy's disk failed") }
        }
        #expect(gate.longReader == nil)
    }

    @Test func `a snapshot expires when the WAL has grown by a limit since it began`() {
        let gate = ReaderGate(snapshotBytes: 100)
        let first = gate.beginStream()
        #expect(!gate.whileIdle(walBytes: 60) {})
        let second = gate.read(.long) { snapshot in
            #expect(!gate.whileIdle(walBytes: 99) {})
            #expect(!gate.hasExpired(snapshot))
            return snapshot
        }
        #expect(first.map(gate.hasExpired) == false)
        #expect(!gate.whileIdle(walBytes: 100) {})
        #expect(first.map(gate.hasExpired) == true)
        #expect(!gate.hasExpired(second), "it began when the WAL had 60 bytes")
        #expect(!gate.whileIdle(walBytes: 160) {})
        #expect(gate.hasExpired(second))
        gate.endStream()
        #expect(gate.whileIdle(walBytes: 160) {})
        let third = gate.beginStream()
        #expect(third.map(gate.hasExpired) == false, "the WAL was copied, and begins again")
        gate.endStream()
    }

    @Test func `when the readers stop, no read waits for the writer`() {
        let gate = ReaderGate()
        let first = Reading(gate, .long)
        first.waitUntilActive()
        gate.whileIdle {}
        first.end()
        let second = Reading(gate, .long)
        gate.stop()
        second.waitUntilActive()
        second.end()
    }

    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#

    @Test func `the WAL is bounded beside clients whose fetches overlap without a gap`() throws {
        let pages = 64
        let test = try TestCoordinator(model) { $0.store.walPages = pages }
        let text = String(repeating: "x", count: 4_000)
        test.submit("{\"Row\": [\((0..<40).map { #"{"id": \#($0), "text": "\#(text)"}"# }.joined(separator: ","))]}")
        _ = test.events.ends(1)
        let plan = test.coordinator.plan
        let request = try plan.fetchRequest(FetchDescription(entity: "Row"))
        let pollers = Poller.start(4, test.coordinator, request)
        var most = 0
        for round in 0..<400 {
            test.submit("{\"Row\": {\"id\": \(round % 40), \"text\": \"\(round)\(text)\"}}", from: 99)
            _ = test.events.ends(round + 2)
            let size = Monitor<Int?>(nil)
            test.coordinator.walBytes { bytes in
                size.broadcast {
                    $0 = bytes
                    return true
                }
            }
            most = max(most, size.patiently("the log's size") { $0 })
        }
        for poller in pollers { poller.stop() }
        // The longest WAL beside no reader is four times the working size; each attempt that fails adds a working size.
        #expect(most <= (LogBound.longestFactor + 4) * pages * (8_192 + 24) + 32, "\(most) bytes")
    }
}

private enum LogBound { static let longestFactor = 4 }

extension Coordinator {
    fileprivate func walBytes(_ notify: @escaping @Sendable (Int) -> Void) {
        jobTable.broadcast { jobTable in
            jobTable.writerTasks.append { notify($0.wal.bytes) }
            return true
        }
    }
}

/// A client that fetches without a pause.
private final class Poller: Sendable {
    private let isStopped = Monitor(false)
    private let hasEnded = Monitor(false)

    static func start(_ count: Int, _ coordinator: Coordinator, _ request: FetchRequest) -> [Poller] {
        (1...count).map { number in
            let poller = Poller()
            poller.poll(coordinator, request, source: number)
            return poller
        }
    }

    private func poll(_ coordinator: Coordinator, _ request: FetchRequest, source: Int) {
        coordinator.fetch(request, from: source) { [self] _ in
            if isStopped.withLock({ $0 }) {
                hasEnded.broadcast {
                    $0 = true
                    return true
                }
            } else {
                poll(coordinator, request, source: source)
            }
        }
    }

    func stop() {
        isStopped.withLock { $0 = true }
        hasEnded.patiently("the last fetch") { $0 ? () : nil }
    }
}
