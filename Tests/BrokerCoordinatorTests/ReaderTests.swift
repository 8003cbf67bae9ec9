import BrokerJournal
import BrokerModel
import BrokerStaging
import BrokerStore
import Foundation
import TestSupport
import Testing

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
                    isActive.update { $0 = true }
                    mayEnd.patiently("the end of a read") { $0 ? () : nil }
                }
            }
            thread.withLock { $0 = started }
        }

        func waitUntilActive() { isActive.patiently("a read") { $0 ? () : nil } }

        func end() {
            mayEnd.update { $0 = true }
            thread.withLock { $0 }?.join()
        }
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

    @Test func `the WAL is bounded beside clients whose fetches overlap without a gap`() throws {
        let pages = 64
        let test = try TestCoordinator { $0.store.walPages = pages }
        let text = String(repeating: "x", count: 4_000)
        test.submit("{\"Row\": [\((0..<40).map { #"{"id": \#($0), "text": "\#(text)"}"# }.joined(separator: ","))]}")
        _ = test.events.ends(1)
        let plan = test.coordinator.plan
        let request = try plan.fetchRequest(FetchDescription(entity: "Row"))
        let pollers = Poller.start(4, test.coordinator, request)
        var most = 0
        for round in 0..<400 {
            test.submit("{\"Row\": {\"id\": \(round % 40), \"text\": \"\(round)\(text)\"}}", from: 99, ends: round + 2)
            most = max(most, answer { test.coordinator.walBytes($0) })
        }
        for poller in pollers { poller.stop() }
        // The longest WAL beside no reader is four times the working size; each attempt that fails adds a working size.
        #expect(most <= (LogBound.longestFactor + 4) * pages * (8_192 + 24) + 32, "\(most) bytes")
    }
}

private enum LogBound { static let longestFactor = 4 }

extension Coordinator {
    fileprivate func walBytes(_ notify: @escaping @Sendable (Int) -> Void) {
        jobTable.update { $0.requests.tasks.append { notify($0.wal.bytes) } }
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
                hasEnded.update { $0 = true }
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

/// Brief fetches, long ones, and whose turn it is.
@Suite(.timeLimit(.minutes(5))) struct ReaderPoolTests {
    /// A store with more than a brief answer holds.
    private func fullStore(_ configure: (inout CoordinatorOptions) -> Void = { _ in }) throws -> TestCoordinator {
        let test = try TestCoordinator(Models.rows, configure)
        let text = String(repeating: "x", count: 1_000)
        let rows = (0..<400).map { #"{"id": \#($0), "text": "\#(text)"}"# }.joined(separator: ",")
        test.submit(#"{"Row": [\#(rows)]}"#, ends: 1)
        return test
    }

    private func fetch(
        _ test: TestCoordinator, limit: Int, from source: Int = 1, mayBeLong: @escaping @Sendable () -> Bool
    ) throws -> Monitor<FetchEnd?> {
        var description = FetchDescription(entity: "Row")
        description.limit = limit
        let fetched = Monitor<FetchEnd?>(nil)
        test.coordinator.fetch(
            try test.coordinator.plan.fetchRequest(description), from: source, mayBeLong: mayBeLong
        ) { end in fetched.update { $0 = end } }
        return fetched
    }

    @Test func `a fetch that is too long for a brief attempt is handed over, and answered whole`() throws {
        let test = try fullStore()
        let asked = Monitor(0)
        let long = try fetch(test, limit: 400) {
            asked.withLock { $0 += 1 }
            return true
        }
        #expect(long.byteCount > 400_000)
        #expect(asked.withLock { $0 } == 1)
        let brief = try fetch(test, limit: 1) {
            asked.withLock { $0 += 1 }
            return true
        }
        #expect(brief.byteCount > 1_000)
        #expect(asked.withLock { $0 } == 1, "a brief one needs no room for a long answer")
    }

    @Test func `a long fetch is postponed when there is no room for its answer`() throws {
        let test = try fullStore()
        let end = try fetch(test, limit: 400) { false }
        #expect(end.byteCount == 0)
        #expect(try fetch(test, limit: 1) { false }.byteCount > 0)
    }

    @Test func `a brief fetch is answered while another source's long ones wait`() throws {
        let test = try fullStore()
        let gate = Gate()
        let long = try (0..<20).map { _ in
            try fetch(test, limit: 400, from: 1) {
                gate.pass()
                return true
            }
        }
        #expect(try fetch(test, limit: 1, from: 2, mayBeLong: { true }).byteCount > 0)
        gate.open()
        for end in long { #expect(end.byteCount > 0) }
    }

    @Test func `users take turns, and so do the connections of each`() {
        var queue = TurnQueue<String>()
        for number in 1...3 { queue.append("a\(number)", from: 1, of: 7) }
        queue.append("b1", from: 2, of: 7)
        queue.append("c1", from: 3, of: 8)
        #expect((0..<6).map { _ in queue.popFirst() } == ["a1", "c1", "b1", "a2", "a3", nil])
    }

    @Test func `a long fetch waits for one of each other user, however many connections that one has`() throws {
        let test = try fullStore()
        let gate = Gate()
        let order = Monitor<[UInt32]>([])
        let request = try {
            var description = FetchDescription(entity: "Row")
            description.limit = 400
            return try test.coordinator.plan.fetchRequest(description)
        }()
        func fetch(_ source: Int, _ user: UInt32) {
            let mayBeLong = { @Sendable () -> Bool in
                gate.pass()
                return true
            }
            test.coordinator.fetch(request, from: source, of: user, mayBeLong: mayBeLong) { _ in
                order.update { $0.append(user) }
            }
        }
        for source in 1...20 { fetch(source, 7) }
        fetch(21, 8)
        // A brief one of a third user waits for none of them.
        #expect(try self.fetch(test, limit: 1, from: 22, mayBeLong: { true }).byteCount > 0)
        gate.open()
        let users = order.patiently("all fetches") { $0.count == 21 ? $0 : nil }
        #expect(users.prefix(3).contains(8), "\(users)")
    }

    @Test func `new jobs are refused, and fetches that wait and streams end`() throws {
        let test = try fullStore()
        let gate = Gate()
        let long = try (0..<3).map { _ in
            try fetch(test, limit: 400) {
                gate.pass()
                return true
            }
        }
        var description = FetchDescription(entity: "Row")
        description.isStreamed = true
        let events = Monitor<[String]>([])
        let stream = test.coordinator.stream(try test.coordinator.plan.fetchRequest(description), of: 1) { _, event in
            events.broadcast { list in
                switch event {
                case .objects(let objects): list.append(objects.hasMore ? "more" : "last")
                case .failed: list.append("failed")
                case .stopped: list.append("stopped")
                }
                return true
            }
        }
        test.coordinator.refuseNewJobs()
        gate.open()
        for end in long { #expect(end.code == .draining) }
        stream.ask()
        #expect(events.patiently("the end of the stream") { $0.isEmpty ? nil : $0 } == ["stopped"])
    }

    @Test func `a fetch ends with busy at the work that a job may do`() throws {
        let test = try TestCoordinator()
        test.submit(#"{"Row": [{"id": 1, "text": "\#(String(repeating: "x", count: 4 << 20))"}]}"#, ends: 1)
        func fetch(_ count: Int) throws -> FaultCode? {
            var description = FetchDescription(entity: "Row")
            description.predicate = (0..<count).map { "text LIKE 'y\($0)*'" }.joined(separator: " OR ")
            let request = try test.coordinator.plan.fetchRequest(description)
            let end: FetchEnd = answer { test.coordinator.fetch(request, notify: $0) }
            if case .failed(let fault) = end { return fault.code }
            return nil
        }
        #expect(try fetch(3) == nil)
        #expect(try fetch(400) == .busy)
        #expect(try fetch(3) == nil, "the next one is answered")
    }

    @Test func `a long fetch ends with snapshotExpired when the WAL has grown by a limit`() throws {
        let test = try fullStore {
            $0.limits.streams.snapshotBytes = 1 << 20
            $0.store.walPages = 32
        }
        var description = FetchDescription(entity: "Row")
        description.limit = 400
        let (isReading, hasGrown) = (Gate(), Gate())
        // The number of looks whether it is wanted; nil before it is long.
        let looks = Monitor<Int?>(nil)
        let isWanted = { @Sendable () -> Bool in
            let look = looks.withLock { count in
                count = count.map { $0 + 1 }
                return count
            }
            // The first one is before it reads.
            if look == 2 {
                isReading.open()
                hasGrown.pass()
            }
            return true
        }
        let mayBeLong = { @Sendable () -> Bool in
            looks.withLock { $0 = 0 }
            return true
        }
        let fetched = Monitor<FetchEnd?>(nil)
        test.coordinator.fetch(
            try test.coordinator.plan.fetchRequest(description), isWanted: isWanted, mayBeLong: mayBeLong
        ) { end in
            fetched.broadcast {
                $0 = end
                return true
            }
        }
        isReading.pass()
        let text = String(repeating: "x", count: 100_000)
        for number in 1...20 {
            test.submit(#"{"Row": [{"id": \#(-number), "text": "\#(text)"}]}"#, ends: 1 + number)
        }
        hasGrown.open()
        #expect(fetched.code == .snapshotExpired)
    }

    @Test func `stopping leaves the store's file alone, whichever readers were open`() throws {
        for _ in 0..<30 {
            let folder = TemporaryFolder()
            do {
                let test = try TestCoordinator(in: folder)
                test.submit(#"{"Row": [{"id": 1}]}"#, ends: 1)
                #expect(try fetch(test, limit: 1) { true }.byteCount > 0)
            }
            for suffix in ["-wal", "-shm"] {
                #expect(!FileManager.default.fileExists(atPath: folder.path("store.sqlite\(suffix)")), "\(suffix)")
            }
        }
    }
}

extension Monitor<FetchEnd?> {
    /// Waits for the end; the code of the fault.
    fileprivate var code: FaultCode? {
        if case .failed(let fault) = patiently("the end of a fetch", { $0 }) { fault.code } else { nil }
    }

    /// Waits for the end; 0 when nothing was found out.
    fileprivate var byteCount: Int {
        switch patiently("the end of a fetch", { $0 }) {
        case .found(let objects): objects.bytes.count
        case .failed, .postponed, .stopped: 0
        }
    }
}

/// Which stream makes its next part, which waits, and which ends.
@Suite(.timeLimit(.minutes(5))) struct StreamTableTests {
    private func table(open: Int = 4, wait: Int64 = 5, frameWait: Int64 = 30) -> StreamTable {
        var limits = StreamLimits()
        limits.open = open
        limits.wait = wait
        limits.frameWait = frameWait
        return StreamTable(limits)
    }

    @Test(arguments: [1, 2, 3, 4]) func `after any events every stream ends, and no place is lost`(seed: UInt64) throws
    {
        print("seed \(seed)")
        var random = RandomStreams(table(open: 3), seed: seed)
        let count = Cases.count(4_000, of: 20_000)
        for _ in 0..<count { try random.act() }
        #expect(random.ended > count / 40)
        random.endAll()
        #expect(random.table.open.isEmpty)
        #expect(!random.table.isTimed)
    }
}

/// Clients, a writer and a clock that act at random on a table of streams, as the thread of the streams would.
private struct RandomStreams {
    private(set) var table: StreamTable
    private(set) var ended = 0
    private var generator: SeededGenerator
    private var now: Int64 = 0
    private var last = 0
    /// Parts that are left of each stream.
    private var left: [Int: Int] = [:]
    private var making: Set<Int> = []
    /// Streams that wait for their clients.
    private var waiting: Set<Int> = []

    init(_ table: StreamTable, seed: UInt64) {
        self.table = table
        generator = SeededGenerator(seed: seed)
    }

    mutating func act() throws {
        switch Int.random(in: 0..<16, using: &generator) {
        case 0..<4: if let number = pick(waiting) { ask(number) }
        case 4..<7: if let number = pick(making) { make(number) }
        case 7..<11: step()
        case 11, 12: now += Int64.random(in: 0...3, using: &generator)
        case 13: table.writer(waits: Bool.random(using: &generator))
        case 14:
            // Now and then a client leaves.
            guard Int.random(in: 0..<10, using: &generator) == 0, let number = pick(Set(left.keys)) else { break }
            table.cancel(number)
            waiting.remove(number)
            if !making.contains(number) { left[number] = nil }
        default:
            last += 1
            left[last] = Int.random(in: 1...5, using: &generator)
            ask(last)
        }
        try table.checkInvariants()
    }

    /// Lets the parts that are being made end, and time pass.
    mutating func endAll() {
        table.writer(waits: false)
        for number in making.sorted() { table.ended(number) }
        for _ in 0..<100_000 {
            now += 1_000
            guard let step = table.next(at: now) else { return }
            if case .make(let number) = step { table.ended(number) }
        }
    }

    private mutating func pick(_ numbers: Set<Int>) -> Int? { numbers.sorted().randomElement(using: &generator) }

    private mutating func ask(_ number: Int) {
        waiting.remove(number)
        table.ask(number, of: Int32(number % 5), at: now)
    }

    private mutating func make(_ number: Int) {
        making.remove(number)
        left[number]? -= 1
        if left[number] == 0 {
            table.ended(number)
            end(number)
        } else {
            table.made(number, at: now)
            waiting.insert(number)
        }
    }

    private mutating func step() {
        switch table.next(at: now) {
        case .make(let number): #expect(making.insert(number).inserted)
        case .expire(let number), .close(let number):
            #expect(!making.contains(number))
            end(number)
        case nil: break
        }
    }

    private mutating func end(_ number: Int) {
        waiting.remove(number)
        left[number] = nil
        ended += 1
    }
}
