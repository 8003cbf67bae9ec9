import BrokerStore
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Jobs whose statements are interrupted, because their work budget is spent.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorWorkTests {
    private static let model = """
        {"entities": {
            "Parent": {"identity": "id", "attributes": {"id": "integer64", "gone": "boolean"},
                "tombstone": "gone == YES"},
            "Row": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"parent": {"entity": "Parent"}}}}}
        """

    private func coordinator(in folder: TemporaryFolder = TemporaryFolder(), journal: Bool) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) { options in
            options.keepsJournal = journal
            options.store.synchronous = .full
            options.store.jobWork = 40_000
        }
    }

    private func ends(_ test: TestCoordinator, _ count: Int) -> [String] {
        test.events.ends(count).suffix(4).map { end in
            let remedy = end.body.contains("Send the operations in several jobs") ? ", with a remedy" : ""
            return "\(end.sequence ?? 0) \(end.id) \(end.code ?? "completed")\(remedy)"
        }
    }

    /// A tombstone of the parent that all rows have: no search, so any number of them may be in one transaction.
    private func submitTombstone(_ id: String, to test: TestCoordinator) {
        test.submit(#"{"Parent": {"id": 1, "gone": true}}"#, id: id)
    }

    @Test(arguments: [false, true])
    func `a job that is interrupted fails alone, at once and in a replay`(journal: Bool) throws {
        let test = try coordinator(journal: journal)
        let rows = (1...5_000).map { "{\"id\": \($0), \"parent\": 1}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "rows")
        _ = test.events.ends(1)
        _ = test.coordinator.pause()
        test.submit(#"{"Row": {"id": 6001}}"#, id: "before", wantsAcceptance: true)
        // The foreign keys of all rows follow.
        submitTombstone("gone-1", to: test)
        submitTombstone("gone-2", to: test)
        test.submit(#"{"Row": {"id": 6002}}"#, id: "later", wantsAcceptance: true)
        test.events.waitUntil("accepted later 5")
        let folder = journal ? try CoordinatorJournalTests().crashed(test) : nil
        test.coordinator.resume()
        let expected = [
            "2 before completed", "3 gone-1 busy, with a remedy", "4 gone-2 busy, with a remedy",
            "5 later completed",
        ]
        #expect(ends(test, 5) == expected)
        let found = "SELECT count(*), sum(parent), (SELECT count(*) FROM Parent) FROM Row"
        #expect(try test.rows(found) == ["5002|5000|1"])
        #expect(test.log.count("warning: A transaction was undone") == 0, "a client must not fill the log")
        // The writer may take the four jobs in one turn, or a tombstone in each of two turns.
        #expect((1...2).contains(test.log.count("debug: A transaction was undone")))
        guard let folder else { return }
        let again = try coordinator(in: folder, journal: true)
        #expect(ends(again, 4) == expected)
        #expect(try again.rows(found) == ["5002|5000|1"])
        #expect(again.await("gone-2").ending?.code == "busy")
    }
}
