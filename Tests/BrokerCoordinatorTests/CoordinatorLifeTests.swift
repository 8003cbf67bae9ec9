import BrokerJournal
import BrokerModel
import BrokerStore
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Exactly once, awaiting, draining, and stores that refuse.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLifeTests {
    @Test func `awaiting answers when the job ends, or at once when it has`() throws {
        let test = try TestCoordinator()
        let gate = Gate()
        test.submit(#"{"Row": {"id": 1}}"#, id: "good", wantsAcceptance: true)
        test.submit(#"{"Row": {"id": "x"}}"#, id: "bad", ends: 2)
        test.submit("{}", behind: gate)
        test.submit(#"{"Row": {"id": 2}}"#, id: "late")
        // Not before the job has been opened is anything known of its id.
        test.waitUntil(#""accepted":3,"#)
        let late = [test.startAwaiting("late"), test.startAwaiting("late")]
        #expect(late.allSatisfy { $0.withLock { $0 } == nil })
        gate.open()
        #expect(late.map { $0.answer.ending?.sequence } == [4, 4])
        #expect(test.await("late").ending?.sequence == 4)
        #expect(test.await("good").ending?.code == nil)
        #expect(test.await("good").ending?.body.contains(#""inserted":1"#) == true)
        #expect(test.await("bad").ending?.code == "invalidValue")
        #expect(test.await("never") == .unknown)
    }

    @Test func `a coordinator that drains finishes what was admitted and refuses the rest`() throws {
        let test = try TestCoordinator()
        let gate = Gate()
        test.submit(#"{"Row": {"id": 1}}"#, id: "before", behind: gate)
        test.submit(#"{"Row": {"id": 2}}"#, id: "behind")
        test.coordinator.refuseNewJobs()
        test.submit(#"{"Row": {"id": 3}}"#, id: "after")
        gate.open()
        test.coordinator.finishAdmitted()
        let ends = test.events.ends(3)
        #expect(Set(ends.filter { $0.code == nil }.map(\.id)) == ["before", "behind"])
        let refused = ends.filter { $0.code == "draining" }
        #expect(refused.map(\.id) == ["after"])
        #expect(refused.map(\.sequence) == [nil])
        #expect(try test.rows("SELECT id FROM Row") == ["1", "2"])
        #expect(test.await("after") == .unknown)
    }

    @Test func `a job that does not fit into the store fails alone, and the store goes on`() throws {
        let test = try TestCoordinator { $0.store.maximumPages = 60 }
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit(#"{"Row": {"id": 1, "text": "a"}}"#, id: "before")
        test.submit("{\"Row\": {\"id\": 2, \"text\": \"\(String(repeating: "x", count: 600_000))\"}}", id: "large")
        test.submit(#"{"Row": {"id": 3, "text": "c"}}"#, id: "behind")
        gate.open()
        let ends = test.events.ends(4).dropFirst()
        #expect(ends.map(\.id) == ["before", "large", "behind"])
        #expect(ends.map(\.code) == [nil, "storeFull", nil])
        #expect(try test.rows("SELECT id FROM Row") == ["1", "3"])
    }

    // MARK: - Room

    @Test func `room is reported when a job ends`() throws {
        let test = try TestCoordinator { $0.limits.jobs = 2 }
        #expect(test.coordinator.hasRoom())
        let gate = Gate()
        test.submit("{}", behind: gate)
        test.submit("{}")
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        for _ in 0..<2 { test.coordinator.whenRoom { calls.increase() } }
        #expect(calls.withLock { $0 } == 0)
        gate.open()
        calls.patiently("room") { $0 == 2 ? () : nil }
        _ = test.events.ends(2)
        test.coordinator.whenRoom { calls.increase() }
        calls.patiently("room") { $0 == 3 ? () : nil }
    }

    @Test func `few frames with unknown contents are admitted`() throws {
        let test = try TestCoordinator { $0.limits.workers = 1 }
        let gate = Gate()
        for _ in 0..<CoordinatorLimits.unopenedFrames {
            #expect(test.coordinator.hasRoom())
            test.submit("{}", behind: gate)
        }
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        test.coordinator.whenRoom { calls.increase() }
        gate.open()
        calls.patiently("room") { $0 == 1 ? () : nil }
        _ = test.events.ends(CoordinatorLimits.unopenedFrames)
        #expect(test.coordinator.hasRoom())
    }

    @Test func `room is reported when a frame turns out to be no job`() throws {
        let test = try TestCoordinator { $0.limits.bytes = 10 }
        let gate = Gate()
        test.submit("this is no JSON, and longer than all the room there is", behind: gate)
        #expect(test.coordinator.hasRoom(), "one may be staged while another is merged")
        test.submit("nor is this", behind: gate)
        #expect(!test.coordinator.hasRoom())
        let calls = Monitor(0)
        test.coordinator.whenRoom { calls.increase() }
        gate.open()
        calls.patiently("room") { $0 == 1 ? () : nil }
        #expect(test.coordinator.hasRoom())
    }

    @Test func `the numbers of a run are those of its jobs`() throws {
        let test = try TestCoordinator()
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}]}"#, id: "a")
        test.submit(#"{"Row": [{"id": 1}, {"id": 2}]}"#, id: "a")
        test.submit(#"{"Row": [{"id": "x"}]}"#)
        #expect(test.events.ends(3).count == 3)
        #expect(test.statistics.contains(#""jobs":{"accepted":3,"completed":1,"failed":1,"duplicate":1,"inFlight":0}"#))
        let objects = #""objects":{"inserted":2,"updated":0,"unchanged":0,"deleted":0,"rejected":0}"#
        #expect(test.statistics.contains(objects))
    }
}

extension Monitor<Int> {
    fileprivate func increase() {
        update { $0 += 1 }
    }
}

/// A number belongs to one job for ever.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorSequenceTests {
    @Test func `the number that a duplicate took is not given again`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(in: folder)
            for _ in 0..<2 { test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsAcceptance: true) }
            _ = test.events.ends(2)
            #expect(test.events.all.contains("accepted a 2"))
        }
        let test = try TestCoordinator(in: folder)
        test.submit("{}")
        #expect(test.events.ends(1).map(\.sequence) == [3])
    }

    @Test func `sequences are reserved in the store before any is sent`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 20 }
        let reserved = "SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'reservedSequence'"
        #expect(try test.rows(reserved) == ["20"])
        for _ in 0..<9 { test.submit("{}") }
        _ = test.events.ends(9)
        #expect(try test.rows(reserved) == ["20"])
        test.submit("{}", ends: 10)
        #expect(try test.rows(reserved) == ["30"])
    }

    @Test func `more jobs than a block has numbers are numbered without gaps`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 4 }
        let gate = Gate()
        test.submit("{}", behind: gate)
        for _ in 0..<199 { test.submit("{}", wantsAcceptance: true) }
        test.waitUntil(#""accepted":199,"#)
        gate.open()
        #expect(test.events.ends(200).map(\.sequence) == (1...200).map { $0 })
        #expect(test.events.all.count == 399)
    }

    @Test func `jobs for which no sequence can be reserved fail without one, and delay no other`() throws {
        let test = try TestCoordinator { $0.limits.sequenceBlock = 4 }
        try Locker(test.storePath).execute("DROP TABLE _broker_meta; COMMIT")
        for number in 1...20 { test.submit("{}", id: "\(number)", wantsAcceptance: true) }
        let ends = test.events.ends(20)
        #expect(ends.map(\.sequence) == [1, 2, 3, 4] + [Int64?](repeating: nil, count: 16))
        #expect(ends.map(\.code) == [String?](repeating: nil, count: 4) + [String?](repeating: "internal", count: 16))
        #expect(test.events.all.count { $0.hasPrefix("accepted") } == 4)
        #expect(test.await("20") == .unknown)
    }

    @Test func `a clean stop leaves no gap, and ids of the server differ after it`() throws {
        let folder = TemporaryFolder()
        var ids: [String] = []
        for run in 0..<3 {
            let test = try TestCoordinator(in: folder)
            test.submit("{}")
            let ends = test.events.ends(1)
            #expect(ends.map(\.sequence) == [Int64(run + 1)])
            ids += ends.map(\.id)
        }
        #expect(Set(ids).count == 3)
        #expect(ids.allSatisfy { $0.hasPrefix("broker-") })
    }

    @Test func `failures are counted by their codes`() throws {
        let test = try TestCoordinator()
        for _ in 0..<2 { test.submit(#"{"Row": {"id": "x"}}"#) }
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        test.submit(#"{"Row": {"id": 2}}"#, id: "a", ends: 4)
        test.coordinator.refuseNewJobs()
        test.submit("{}")
        test.waitUntil(#""failures":{"draining":1,"idConflict":1,"invalidValue":2}"#)
        #expect(test.statistics.contains(#""failed":4,"#))
    }

    @Test func `the newest sequence whose outcome may be forgotten is known from the start`() throws {
        let folder = TemporaryFolder()
        func coordinator() throws -> TestCoordinator {
            try TestCoordinator(in: folder) { $0.store.retention.count = 10 }
        }
        do {
            let test = try coordinator()
            #expect(test.coordinator.forgottenThrough == 0)
            for number in 1...13 {
                test.submit(#"{"Row": {"id": \#(number)}}"#, ends: number)
            }
            #expect(test.coordinator.forgottenThrough == 3)
        }
        #expect(try coordinator().coordinator.forgottenThrough == 3)
    }
}
