import Testing
import TestSupport

@testable import BrokerCoordinator

/// A number belongs to one job for ever.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorSequenceTests {
    private let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    @Test func `the number that a duplicate took is not given again`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(model, in: folder)
            for _ in 0..<2 { test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsAcceptance: true) }
            _ = test.events.ends(2)
            #expect(test.events.all.contains("accepted a 2"))
        }
        let test = try TestCoordinator(model, in: folder)
        test.submit("{}")
        #expect(test.events.ends(1).map(\.sequence) == [3])
    }

    @Test func `sequences are reserved in the store before any is sent`() throws {
        let test = try TestCoordinator(model) { $0.limits.sequenceBlock = 20 }
        let reserved = "SELECT CAST(value AS INTEGER) FROM _broker_meta WHERE key = 'reservedSequence'"
        #expect(try test.rows(reserved) == ["20"])
        for _ in 0..<9 { test.submit("{}") }
        _ = test.events.ends(9)
        #expect(try test.rows(reserved) == ["20"])
        test.submit("{}")
        _ = test.events.ends(10)
        #expect(try test.rows(reserved) == ["30"])
    }

    @Test func `more jobs than a block has numbers are numbered without gaps`() throws {
        let test = try TestCoordinator(model) { $0.limits.sequenceBlock = 4 }
        let gate = Gate()
        test.submit("{}", behind: gate)
        for _ in 0..<199 { test.submit("{}", wantsAcceptance: true) }
        test.waitUntil(#""accepted":199,"#)
        gate.open()
        #expect(test.events.ends(200).map(\.sequence) == (1...200).map { $0 })
        #expect(test.events.all.count == 399)
    }

    @Test func `jobs for which no sequence can be reserved fail without one, and delay no other`() throws {
        let test = try TestCoordinator(model) { $0.limits.sequenceBlock = 4 }
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
            let test = try TestCoordinator(model, in: folder)
            test.submit("{}")
            let ends = test.events.ends(1)
            #expect(ends.map(\.sequence) == [Int64(run + 1)])
            ids += ends.map(\.id)
        }
        #expect(Set(ids).count == 3)
        #expect(ids.allSatisfy { $0.hasPrefix("broker-") })
    }

    @Test func `failures are counted by their codes`() throws {
        let test = try TestCoordinator(model)
        for _ in 0..<2 { test.submit(#"{"Row": {"id": "x"}}"#) }
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        test.submit(#"{"Row": {"id": 2}}"#, id: "a")
        _ = test.events.ends(4)
        test.coordinator.refuseNewJobs()
        test.submit("{}")
        test.waitUntil(#""failures":{"draining":1,"idConflict":1,"invalidValue":2}"#)
        #expect(test.statistics.contains(#""failed":4,"#))
    }

    @Test func `the newest sequence whose outcome may be forgotten is known from the start`() throws {
        let folder = TemporaryFolder()
        let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        func coordinator() throws -> TestCoordinator {
            try TestCoordinator(model, in: folder) { $0.store.retention.count = 10 }
        }
        do {
            let test = try coordinator()
            #expect(test.coordinator.forgottenThrough == 0)
            for number in 1...13 {
                test.submit(#"{"Row": {"id": \#(number)}}"#)
                _ = test.events.ends(number)
            }
            #expect(test.coordinator.forgottenThrough == 3)
        }
        #expect(try coordinator().coordinator.forgottenThrough == 3)
    }
}
