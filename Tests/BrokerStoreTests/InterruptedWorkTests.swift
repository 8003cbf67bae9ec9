import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// An operation that exceeds the work budget is ended in the middle of what follows from it, and nothing of it is left.
@Suite(.timeLimit(.minutes(5))) struct InterruptedWorkTests {
    private static let model = """
        {"entities": {
            "Office": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"desks": {"entity": "Desk", "toMany": true, "inverse": "office", "deleteRule": "cascade"}}},
            "Desk": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"office": {"entity": "Office", "inverse": "desks"}}},
            "Team": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"members": {"entity": "Member", "toMany": true, "inverse": "team", "assignment": "replace"}}},
            "Member": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"team": {"entity": "Team", "inverse": "members"}}}}}
        """
    private static let count = 5_000
    private static let limit = 40_000

    /// A store of one office with many desks, and one team with many members.
    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        func records(_ link: String) -> String {
            (0..<Self.count).map { "{\"id\": \($0), \"\(link)\": 1}" }.joined(separator: ",")
        }
        try test.apply("{\"Desk\": [\(records("office"))], \"Member\": [\(records("team"))]}")
        return test
    }

    /// Applies jobs in one transaction, or one by one when that is undone, as the writer does.
    ///
    /// - Returns: how often a transaction was undone; `code path` of each job's fault.
    private func apply(_ jobs: [StoreJob], _ test: TestStore) throws -> (undone: Int, ends: [String]) {
        func end(_ job: StoreJob) throws -> String {
            guard case .failed(let fault) = try test.store.apply(job) else { return "" }
            return "\(fault.code.rawValue) \(fault.path ?? "")"
        }
        var undone = 0
        func transaction(_ jobs: [StoreJob]) throws -> [String]? {
            do {
                try test.store.begin()
                let ends = try jobs.map(end)
                try test.store.commit()
                return ends
            } catch let error as StoreError where error.code == .overworked {
                #expect(test.store.connection.isAutocommit)
                test.store.rollback()
                undone += 1
                return nil
            }
        }
        if let ends = try transaction(jobs) { return (undone, ends) }
        var ends: [String] = []
        for job in jobs { ends += try transaction([job]) ?? transaction([job]) ?? ["never ended"] }
        return (undone, ends)
    }

    @Test(arguments: [
        (#"{"op": "delete", "entity": "Desk"}"#, true),
        (#"{"op": "sync", "entity": "Desk", "json": []}"#, false),
        (#"{"op": "delete", "entity": "Office", "objects": [1]}"#, true),
        (#"{"op": "delete", "entity": "Team", "objects": [1]}"#, true),
        (#"{"entity": "Team", "object": 1, "json": {"id": 9}}"#, true),
        (#"{"entity": "Team", "json": {"id": 1, "members": []}}"#, false),
    ])
    func `an operation is ended soon after its budget is spent, and other jobs stay`(
        operation: String, undoes: Bool
    ) throws {
        let test = try store()
        let whole = try store()
        _ = try whole.apply(whole.job(operations: operation, wantsKeys: false))
        test.store.connection.work.jobLimit = Self.limit
        let before = try test.rows(
            "SELECT count(*), sum(team) FROM Member, Team UNION ALL SELECT count(*), sum(office) FROM Desk")
        let outcome = try apply(
            [
                test.job(#"{"Office": [{"id": 77}]}"#),
                test.job(
                    operations:
                        #"{"entity": "Office", "json": {"id": 5}}, {"op": "delete", "entity": "Office", "objects": [6]}, \#(operation)"#,
                    wantsKeys: false),
                test.job(#"{"Office": [{"id": 78}]}"#),
            ], test)
        #expect(outcome.ends == ["", "busy /2", ""])
        #expect(outcome.undone == (undoes ? 1 : 0))
        #expect(whole.store.connection.work.newest > 2 * Self.limit, "\(whole.store.connection.work.newest)")
        #expect(
            try test.rows(
                "SELECT count(*), sum(team) FROM Member, Team UNION ALL SELECT count(*), sum(office) FROM Desk")
                == before)
        #expect(try test.rows("SELECT id FROM Office ORDER BY id") == ["1", "77", "78"])
        #expect(try test.isSound())
    }

    @Test func `a job that was interrupted twice takes the same work, and ends at the same operation`() throws {
        var work: [Int] = []
        for other in [0, 3] {
            let test = try store()
            for _ in 0..<other {
                _ = try test.apply(test.job(operations: #"{"op": "delete", "entity": "Desk", "objects": [-1]}"#))
            }
            test.store.connection.work.jobLimit = Self.limit
            let job = try test.job(operations: #"{"entity": "Team", "object": 1, "json": {"id": 9}}"#)
            #expect(try apply([job], test).ends == ["busy /0"])
            work.append(test.store.connection.work.newest)
            #expect(try test.run(#"{"op": "delete", "entity": "Desk", "objects": [1]}"#) == "Desk -1")
        }
        #expect(work[0] == work[1] && work[0] > Self.limit && work[0] < Self.limit + 20_000, "\(work)")
    }
}
