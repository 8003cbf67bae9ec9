import BrokerModel
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Jobs take effect, and end, in the order of their tickets.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorOrderTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#

    private func row(_ value: some CustomStringConvertible) -> String {
        "{\"Row\": {\"id\": 1, \"value\": \(value)}}"
    }

    @Test func `200 jobs of several threads leave the last ticket's value, and end in order`() throws {
        let test = try TestCoordinator(model)
        let threads = (0..<8).map { number in
            BrokerCoordinator.Thread(named: "sender-\(number)") { [self] in
                for job in 0..<25 { test.submit(row(number * 100 + job), id: "\(number * 100 + job)") }
            }
        }
        for thread in threads { thread.join() }
        let ends = test.events.ends(200)
        #expect(ends.map(\.sequence) == (1...200).map { $0 })
        #expect(ends.allSatisfy { $0.code == nil })
        #expect(try test.rows("SELECT id, value FROM Row") == ["1|\(ends[199].id)"])
        for sender in 0..<8 {
            let own = ends.compactMap { Int($0.id) }.filter { $0 / 100 == sender }
            #expect(own == own.sorted(), "sender \(sender) was overtaken by itself")
        }
    }

    @Test func `a frame that is opened late retains its ticket, and later ones wait`() throws {
        let test = try TestCoordinator(model)
        let gate = Gate()
        test.submit(row(1), id: "first", behind: gate)
        test.submit(row(2), id: "second")
        gate.open()
        #expect(test.events.ends(2).map(\.id) == ["first", "second"])
        #expect(try test.rows("SELECT value FROM Row") == ["2"])
    }

    @Test func `a job that fails, or is none, stalls nothing`() throws {
        let test = try TestCoordinator(model)
        test.submit(row(1), id: "a")
        test.submit(row("\"wrong\""), id: "b")
        test.submit("no JSON at all")
        test.submit(#"{"Nobody": []}"#, id: "c")
        test.submit("{}", id: "d")
        test.submit(row(3), id: "e")
        let ends = test.events.ends(5)
        #expect(ends.map(\.id) == ["a", "b", "c", "d", "e"])
        #expect(ends.map(\.sequence) == [1, 2, 3, 4, 5])
        #expect(ends.map(\.code) == [nil, "invalidValue", "unknownEntity", nil, nil])
        #expect(ends[1].body.contains(#""path":"/Row/value""#))
        #expect(ends[2].body.contains(#""path":"/Nobody""#))
        #expect(try test.rows("SELECT value FROM Row") == ["3"])
    }

    @Test func `a job is accepted with its sequence before it ends`() throws {
        let test = try TestCoordinator(model)
        let gate = Gate()
        test.submit(row(1), id: "a", wantsAcceptance: true, behind: gate)
        test.submit(row(2), id: "b")
        test.submit(row("[]"), id: "c", wantsAcceptance: true)
        gate.open()
        _ = test.events.ends(3)
        let all = test.events.all
        #expect(all.filter { !$0.contains("accepted") } == ["ended a 1", "ended b 2", "ended c 3"])
        for (id, sequence) in [("a", 1), ("c", 3)] {
            let accepted = all.firstIndex(of: "accepted \(id) \(sequence)")
            #expect(accepted.map { $0 < all.firstIndex(of: "ended \(id) \(sequence)")! } == true, "\(all)")
        }
        #expect(all.count == 5)
    }

    @Test func `the first of several invalid collections in the payload is reported`() throws {
        let test = try TestCoordinator(
            """
            {"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}},
              "B": {"identity": "id", "attributes": {"id": "integer64"}}}}
            """)
        for _ in 0..<20 { test.submit(#"{"A": [], "B": {"id": "x"}, "A": {"id": "y"}}"#) }
        #expect(test.events.ends(20).allSatisfy { $0.body.contains(#""path":"/B/id""#) })
    }

    @Test func `sequences and outcomes go on after a restart`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(model, in: folder)
            test.submit(row(1), id: "a")
            test.submit(row(2))
            _ = test.events.ends(2)
        }
        let test = try TestCoordinator(model, in: folder)
        test.submit(row(1), id: "a")
        test.submit(row(3))
        let ends = test.events.ends(2)
        #expect(ends.map(\.sequence) == [1, 4])
        #expect(ends.map(\.isDuplicate) == [true, false])
        #expect(try test.rows("SELECT value FROM Row") == ["3"])
    }
}
