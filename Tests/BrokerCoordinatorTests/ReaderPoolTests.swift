import BrokerModel
import BrokerStaging
import BrokerStore
import Foundation
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Brief fetches, long ones, and whose turn it is.
@Suite(.timeLimit(.minutes(5))) struct ReaderPoolTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#

    /// A store with more than a brief answer holds.
    private func fullStore() throws -> TestCoordinator {
        let test = try TestCoordinator(Self.model)
        let text = String(repeating: "x", count: 1_000)
        let rows = (0..<400).map { #"{"id": \#($0), "text": "\#(text)"}"# }.joined(separator: ",")
        test.submit(#"{"Row": [\#(rows)]}"#)
        _ = test.events.ends(1)
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
        ) { end in
            fetched.broadcast {
                $0 = end
                return true
            }
        }
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
        var queue = FetchQueue<String>()
        for number in 1...3 { queue.append("a\(number)", from: 1, of: 7) }
        queue.append("b1", from: 2, of: 7)
        queue.append("c1", from: 3, of: 8)
        #expect(queue.next(of: 8) == "c1")
        #expect(queue.next(of: 8) == nil)
        #expect((0..<5).map { _ in queue.next(of: 7) } == ["a1", "b1", "a2", "a3", nil])
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
                order.broadcast {
                    $0.append(user)
                    return true
                }
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
        let test = try TestCoordinator(Self.model)
        test.submit(#"{"Row": [{"id": 1, "text": "\#(String(repeating: "x", count: 4 << 20))"}]}"#)
        _ = test.events.ends(1)
        func fetch(_ count: Int) throws -> FaultCode? {
            var description = FetchDescription(entity: "Row")
            description.predicate = (0..<count).map { "text LIKE 'y\($0)*'" }.joined(separator: " OR ")
            let fetched = Monitor<FetchEnd?>(nil)
            test.coordinator.fetch(try test.coordinator.plan.fetchRequest(description)) { end in
                fetched.broadcast {
                    $0 = end
                    return true
                }
            }
            return fetched.code
        }
        #expect(try fetch(3) == nil)
        #expect(try fetch(400) == .busy)
        #expect(try fetch(3) == nil, "the next one is answered")
    }

    @Test func `a source with several long fetches gets no brief attempt until they are done`() {
        var long = LongFetches()
        for _ in 0..<LongFetches.besideBrief {
            #expect(long.triesBriefly(1))
            long.began(from: 1)
        }
        #expect(!long.triesBriefly(1))
        #expect(long.triesBriefly(2), "others are")
        long.began(from: 1)
        long.ended(from: 1)
        #expect(!long.triesBriefly(1), "what was not tried counts, too")
        long.ended(from: 1)
        #expect(long.triesBriefly(1))
        for _ in 1..<LongFetches.besideBrief { long.ended(from: 1) }
        #expect(long.isEmpty)
    }

    @Test func `stopping leaves the store's file alone, whichever readers were open`() throws {
        for _ in 0..<30 {
            let folder = TemporaryFolder()
            do {
                let test = try TestCoordinator(Self.model, in: folder)
                test.submit(#"{"Row": [{"id": 1}]}"#)
                _ = test.events.ends(1)
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
