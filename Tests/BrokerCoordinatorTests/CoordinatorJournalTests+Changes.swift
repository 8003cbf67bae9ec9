import BrokerJournal
import BrokerModel
import BrokerSchema
import BrokerStore
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Changes of the model and of the limits, which are entries of the journal.
extension CoordinatorJournalTests {
    private func model(with attributes: String...) -> String {
        let all = (["id", "value"] + attributes).map { "\"\($0)\": \"integer64\"" }.joined(separator: ", ")
        return "{\"entities\": {\"Row\": {\"identity\": \"id\", \"attributes\": {\(all)}}}}"
    }

    /// A stopped server's folder, whose store has applied the job "a" at position 1.
    private func folder(_ configure: (inout CoordinatorOptions) -> Void = { _ in }) throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        let test = try coordinator(in: folder, configure)
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        return folder
    }

    private func entry(_ change: LogChange, at position: Int64) -> JournalEntry {
        JournalEntry(change.kind, position: position, time: 1_000_000_000_000, payload: change.payload)
    }

    private func job(_ payload: String, at position: Int64) -> JournalEntry {
        JournalEntry(
            .job, position: position, id: "job-\(position)", time: 1_000_000_000_000, payload: Array(payload.utf8))
    }

    @Test func `a change is read as it was written, and one of a later version is not read`() {
        let model = LogChange.model("{\"entities\":\n{}}", .keep)
        let limits = LogChange.limits(LoggedLimits(StoreOptions()))
        for change in [model, limits] { #expect(LogChange(change.kind, change.payload) == change) }
        let unreadable: [(JournalEntry.Kind, String)] = [
            (.model, "{}"), (.model, "burn\n{}"), (.limits, ""), (.limits, "outcomesKept=1\nseconds=2"),
            (.limits, "outcomesKept=1\noutcomesKeptSeconds=1\nmore=3"),
            (.limits, "outcomesKept=-1\noutcomesKeptSeconds=1"), (.job, "{}"),
        ]
        for (kind, text) in unreadable { #expect(LogChange(kind, Array(text.utf8)) == nil, "\(text)") }
    }

    @Test func `a reload that a crash interrupted is made at the start, in its place among the jobs`() throws {
        let folder = try folder()
        let wider = model(with: "more")
        let payload = #"{"Row": {"id": 1, "value": 1, "more": 5}}"#
        try append(
            [
                job(payload.replacing("1,", with: "2,"), at: 2), entry(.model(wider, .refuse), at: 3),
                job(payload, at: 4),
            ], to: folder)
        let test = try coordinator(in: folder, of: model(with: "more"))
        #expect(test.events.ends(2).map(\.code) == [nil, nil])
        #expect(try test.rows("SELECT id, more FROM Row ORDER BY id") == ["1|5", "2|NULL"])
        // The time of the migration is that of the entry.
        #expect(try test.rows("SELECT after, time FROM _broker_migrations") == ["2|2001-09-09T01:46:40.000Z"])
        // The start wanted the same model, so the journal has no other entry.
        #expect(test.history.hasPrefix("4 "))
        test.submit(payload, id: "next")
        #expect(test.events.ends(3).last?.sequence == 5)
    }

    @Test func `a start with the model before an interrupted reload makes the reload, then returns to that model`()
        throws
    {
        let folder = try folder()
        let payload = #"{"Row": {"id": 2, "value": 1, "more": 5}}"#
        try append([entry(.model(model(with: "more"), .refuse), at: 2), job(payload, at: 3)], to: folder)
        let refused = try #require(throws: StoreError.self) { try coordinator(in: folder) }
        #expect(refused.message.contains("more"))
        let test = try coordinator(in: folder) { $0.store.removal = .keep }
        #expect(test.coordinator.model.entities[0].attributes.map(\.name) == ["id", "value"])
        #expect(try test.rows("SELECT id, more FROM Row ORDER BY id") == ["1|NULL", "2|5"])
    }

    @Test func `a reload takes a position, also one that is refused, and a replay makes neither again`() throws {
        let test = try coordinator()
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        #expect(test.reload(model(with: "more")).count == 1)
        let without = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        #expect(test.reload(without)[0].hasPrefix("refused storeUnavailable"))
        #expect(test.history.hasPrefix("3 "))
        test.submit(row(2), id: "b")
        #expect(test.events.ends(2).last?.sequence == 4)
        let before = test.history
        let again = try coordinator(in: crashed(test), of: model(with: "more"))
        #expect(again.history == before)
        #expect(try again.rows("SELECT count(*) FROM _broker_migrations") == ["1"])
    }

    @Test func `jobs of the journal are applied under the limits under which they were accepted`() throws {
        let folder = try folder { $0.store.retention = LedgerRetention(count: 3) }
        var options = StoreOptions()
        options.retention.count = 2
        let narrower = entry(.limits(LoggedLimits(options)), at: 10)
        try append(
            (2...9).map { job(row(Int($0)), at: $0) } + [narrower] + (11...12).map { job(row(Int($0)), at: $0) },
            to: folder)
        let test = try coordinator(in: folder) { $0.store.retention = LedgerRetention(count: 100) }
        #expect(test.events.ends(10).map(\.code) == Array(repeating: nil, count: 10))
        // Two under the limits of the entry, and then those of the start.
        #expect(try test.rows("SELECT sequence FROM _broker_jobs ORDER BY sequence") == ["11", "12"])
        for number in 13...20 { test.submit(row(number), id: "\(number)") }
        #expect(test.events.ends(18).first { $0.id == "13" }?.sequence == 14)
        #expect(try test.rows("SELECT count(*) FROM _broker_jobs WHERE sequence > 12") == ["8"])
        #expect(
            try test.rows("SELECT value FROM _broker_meta WHERE key = 'limits'")
                == ["outcomesKept=100\noutcomesKeptSeconds=604800\nmergeMemory=\(CoordinatorLimits.defaultJobMemory)"])
    }

    @Test func `the limits of a new journal are recorded with it, and a start with the same ones adds no entry`()
        throws
    {
        let folder = try folder()
        #expect(try coordinator(in: folder).history.hasPrefix("1 "))
        // Those of a server without a journal are the options of its start.
        do { _ = try coordinator(in: folder) { $0.keepsJournal = false } }
        let limits = "SELECT value FROM _broker_meta WHERE key = 'limits'"
        #expect(try SQLRows.of(limits, in: folder.path("store.sqlite")) == [])
    }

    @Test func `a change that a later version wrote stops the start, and every later start`() throws {
        let folder = try folder()
        let unknown = JournalEntry(.limits, position: 3, time: 0, payload: Array("outcomesKept=1\nmore=2".utf8))
        try append([job(row(2), at: 2), unknown, job(row(4), at: 4)], to: folder)
        for _ in 0..<2 {
            let error = try #require(throws: StoreError.self) { try coordinator(in: folder) }
            #expect(
                error.message.contains("Entry 3 of the journal cannot be applied: it was written by a later version."))
            #expect(try SQLRows.of("SELECT id FROM Row ORDER BY id", in: folder.path("store.sqlite")) == ["1", "2"])
        }
    }

    @Test func `a reload for which the journal has no room is refused, and the server goes on`() throws {
        let disk = FailingSystem()
        let test = try coordinator { $0.journalSystem = disk }
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        disk.failWrites(after: 0, with: ENOSPC)
        #expect(test.reload(model(with: "more"))[0].hasPrefix("refused storeFull"))
        disk.failWrites(after: 0, with: 0)
        test.submit(row(2), id: "b")
        #expect(test.events.ends(2).last?.code == nil)
        #expect(test.reload(model(with: "more")).count == 1)
    }

    @Test func `a reload whose entry cannot be synced is answered, and the server ends`() throws {
        let disk = FailingSystem()
        let test = try coordinator { $0.journalSystem = disk }
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        disk.failSyncs(with: EIO)
        #expect(test.reload(model(with: "more"))[0].hasPrefix("refused storeUnavailable"))
        #expect(test.coordinator.storageFailure.error != nil)
    }
}
