import BrokerStore
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Jobs whose statements are interrupted, because their work budget is spent.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorWorkTests {
    private static let model = """
        {"entities": {
            "Parent": {"identity": "id", "attributes": {"id": "integer64"}},
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
        test.events.ends(count).suffix(3).map { end in
            let remedy = end.body.contains("Send the operations in several jobs") ? ", with a remedy" : ""
            return "\(end.sequence ?? 0) \(end.id) \(end.code ?? "completed")\(remedy)"
        }
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
        test.submit(#"{"Parent": null}"#, id: "delete-1", deletingWhere: "TRUEPREDICATE", from: 1)
        test.submit(#"{"Row": {"id": 6002}}"#, id: "later", wantsAcceptance: true, from: 2)
        test.events.waitUntil("accepted later 4")
        let folder = journal ? try CoordinatorJournalTests().crashed(test) : nil
        test.coordinator.resume()
        let expected = ["2 before completed", "3 delete-1 busy, with a remedy", "4 later completed"]
        #expect(ends(test, 4) == expected)
        let found = "SELECT count(*), sum(parent), (SELECT count(*) FROM Parent) FROM Row"
        #expect(try test.rows(found) == ["5002|5000|1"])
        #expect(test.log.count("warning: A transaction was undone") == 0, "a client must not fill the log")
        #expect(test.log.count("debug: A transaction was undone") == 1)
        guard let folder else { return }
        let again = try coordinator(in: folder, journal: true)
        #expect(ends(again, 3) == expected)
        #expect(try again.rows(found) == ["5002|5000|1"])
        #expect(again.await("delete-1").ending?.code == "busy")
    }
}
