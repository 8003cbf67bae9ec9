import BrokerModel
import BrokerStore
import Testing

@testable import BrokerCoordinator

/// Jobs that may look at all objects, and those of others beside them.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorSearchTests {
    private let test: TestCoordinator
    /// Delays the order: nothing after it ends before it is opened. It leaves one thread to open frames in order.
    private let gate = Gate()

    init() throws {
        let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        test = try TestCoordinator(model) { $0.limits.workers = 1 }
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]}"#, id: "gate", behind: gate, from: 9)
    }

    private func search(_ id: Int, from source: Int) {
        test.submit(#"{"Row": null}"#, id: "search \(id)", deletingWhere: "id == \(id)", from: source)
    }

    /// The ids of so many jobs in the order of their ends, which is that of their sequences.
    private func ends(_ count: Int) -> [String] {
        let ends = test.events.ends(count)
        #expect(ends.map(\.sequence) == (1...count).map { Int64($0) })
        #expect(ends.allSatisfy { $0.code == nil })
        return ends.map(\.id)
    }

    @Test func `a flood of searches lets another source's job pass, and takes effect as sent`() throws {
        for number in 1...3 { search(number, from: 1) }
        test.submit(#"{"Row": {"id": 3}}"#, id: "same source", from: 1)
        test.submit(#"{"Row": {"id": 5}}"#, id: "good", from: 2)
        // The first search, and the good one; and the others have been looked at before the first has ended.
        test.waitUntil(unopened: 1)
        test.waitUntil(#""accepted":2,"#)
        gate.open()
        #expect(ends(6) == ["gate", "search 1", "good", "search 2", "search 3", "same source"])
        #expect(try test.rows("SELECT id FROM Row ORDER BY id") == ["3", "4", "5"])
        test.waitUntil(#""staging":0,"bytes":0,"#)
    }

    @Test func `a flood of jobs that end all links of an object lets another user's job pass`() throws {
        self.gate.open()
        let model = """
            {"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"parts": {"entity": "Part", "toMany": true, "owned": true}}},
                "Part": {"identity": "id", "attributes": {"id": "integer64"}}}}
            """
        let gate = Gate()
        let test = try TestCoordinator(model) { $0.limits.workers = 1 }
        test.submit(#"{"Row": {"id": 1}}"#, id: "gate", behind: gate, from: 9)
        for number in 1...20 {
            let source = number % 2
            test.submit(#"{"Row": {"id": 1, "parts": null}}"#, id: "flood \(number)", from: source) {
                $0.isDryRun = true
            }
        }
        test.submit(#"{"Row": {"id": 2}}"#, id: "good", from: 2, as: JobOwner(user: 7))
        test.waitUntil(unopened: 1)
        gate.open()
        let ends = test.events.ends(22)
        #expect(ends.prefix(3).map(\.id) == ["gate", "flood 1", "good"])
        #expect(ends.allSatisfy { $0.code == nil })
    }

    @Test func `sources whose scans wait have no room, and are called when they have`() {
        for number in 1...2 { search(number, from: 1) }
        test.submit("{}", id: "good", from: 2)
        test.waitUntil(unopened: 1)
        #expect(!test.coordinator.hasRoom(for: 1))
        #expect(test.coordinator.hasRoom(for: 2))
        let hasRoom = Monitor(false)
        test.coordinator.whenRoom(for: 1) {
            hasRoom.broadcast {
                $0 = true
                return true
            }
        }
        #expect(!hasRoom.withLock { $0 })
        gate.open()
        hasRoom.patiently("room") { $0 ? () : nil }
        #expect(ends(4).last == "search 2")
        #expect(test.coordinator.hasRoom(for: 1))
    }

    @Test func `a question after a waiting scan is asked when the scan has its ticket`() {
        search(1, from: 1)
        search(2, from: 2)
        let awaited = Monitor<Awaited?>(nil)
        test.coordinator.admit(from: 2, payloadBytes: 1) { [coordinator = test.coordinator] _ in
            .question { ticket in coordinator.await("search 2", before: ticket) { awaited.notify($0) } }
        } refuse: { _ in
        }
        test.waitUntil(unopened: 1)
        gate.open()
        #expect(awaited.answer.ending?.sequence == 3)
    }

    @Test func `searches that wait when the coordinator drains take effect`() throws {
        for number in 1...4 { search(number, from: number % 2) }
        test.coordinator.refuseNewJobs()
        search(5, from: 1)
        gate.open()
        test.coordinator.finishAdmitted()
        let ends = test.events.ends(6)
        #expect(ends.count { $0.code == nil } == 5)
        #expect(ends.first { $0.id == "search 5" }?.code == "draining")
        #expect(try test.rows("SELECT count(*) FROM Row") == ["0"])
    }

    @Test func `jobs before a scan are committed without waiting for it`() {
        test.submit(#"{"Row": {"id": 5}}"#, id: "before", from: 2)
        test.waitUntil(#""accepted":1,"#)
        search(1, from: 1)
        test.waitUntil(#""accepted":2,"#)
        gate.open()
        #expect(ends(3) == ["gate", "before", "search 1"])
        // Whatever the writer found ready first, the search began a transaction.
        #expect(!test.statistics.contains(#""commits":1,"#))
    }
}
