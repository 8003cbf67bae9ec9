import BrokerJournal
import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
import Foundation
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Another model, between two jobs.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorReloadTests {
    private let old = Models.of(["Row": "id integer64, value integer64"])
    private let new = Models.of(["Row": "id integer64, value integer64, name string"])

    private func row(_ id: Int) -> String { "{\"Row\": {\"id\": \(id), \"value\": 1, \"name\": \"n\"}}" }

    @Test func `jobs before a reload are read with the old model, and later jobs with the new one`() throws {
        let test = try TestCoordinator(old)
        let gate = Gate()
        test.submit(row(1), id: "before", behind: gate)
        let changes = test.startReloading(new)
        test.waitUntilHolding()
        for number in 2...200 { test.submit(row(number), id: "\(number)") }
        #expect(test.events.all.isEmpty)
        gate.open()
        #expect(test.events.ends(200).allSatisfy { $0.code == nil })
        #expect(changes.patiently("the new model") { $0 }.count == 1)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["1"])
        #expect(try test.rows("SELECT name FROM Row WHERE id = 200") == ["n"])
        // Known outcomes stay known.
        test.submit(row(7), id: "7")
        #expect(test.events.ends(201)[200].isDuplicate)
        #expect(test.await("before").ending?.sequence == 1)
        #expect(test.await("150").ending?.sequence == 150)
    }

    @Test func `a job that is being staged ends before the model is changed`() throws {
        let test = try TestCoordinator(old)
        let rows = (1...50_000).map { "{\"id\": \($0), \"value\": 1, \"name\": \"n\"}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", accepted: 1)
        #expect(test.reload(new).count == 1)
        #expect(test.events.all.count == 2)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["50000"])
    }

    @Test func `a reload does not wait for paused jobs`() throws {
        let test = try TestCoordinator(old)
        #expect(test.coordinator.pause())
        #expect(test.reload(new)[0].hasPrefix("refused busy"))
        test.coordinator.resume()
        #expect(test.reload(new).count == 1)
    }

    @Test func `a comparison reports what a reload would do, and changes nothing, also while jobs are paused`() throws {
        let test = try TestCoordinator(new)
        test.submit(row(1), id: "a", ends: 1)
        let schema = "SELECT name, sql FROM sqlite_schema ORDER BY 1"
        let before = try test.rows(schema)
        #expect(test.coordinator.pause())
        for (removal, verdict) in [(RemovalPolicy.refuse, "refused"), (.keep, "kept"), (.drop, "dropped")] {
            let lost = verdict == "kept" ? "0" : "1"
            #expect(test.compare(old, removal) == ["\(verdict) Row.name \(lost)"])
        }
        #expect(test.compare("{}", .drop)[0].hasPrefix("refused validationFailed"))
        test.coordinator.resume()
        #expect(try test.rows(schema) == before)
        #expect(try test.rows("SELECT name FROM Row") == ["n"])
    }

    @Test func `a journal goes on with the new model, over a crash`() throws {
        let folder = TemporaryFolder()
        let journaled = { (model: String) in try TestCoordinator(model, in: folder) { $0.keepsJournal = true } }
        do {
            let test = try journaled(old)
            test.submit(row(1), id: "a", ends: 1)
            #expect(test.reload(new).count == 1)
            test.submit(row(2), id: "b")
            #expect(test.events.ends(2)[1].code == nil)
        }
        let test = try journaled(new)
        test.submit(row(3), id: "c", ends: 1)
        #expect(try test.rows("SELECT id, ifnull(name, '') FROM Row ORDER BY id") == ["1|", "2|n", "3|n"])
    }
}

extension TestCoordinator {
    /// Waits until a reload holds what comes.
    func waitUntilHolding() {
        while coordinator.jobTable.withLock({ $0.reload.ticket == nil }) { sched_yield() }
    }
}

/// The same journal makes the same store, down to the row keys, and the digest distinguishes different stores.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorHistoryTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "note": "string"}},
          "Row": {"identity": "id", "unique": [["mail"]], "attributes": {"id": "integer64", "mail": "string"}}}}
        """

    private struct Job {
        /// `sync-` and `delete-` at its beginning say what the job does.
        let id: String
        let payload: String
        var isIDMade = false
    }

    private func start(_ folder: TemporaryFolder) throws -> String { try coordinator(folder).history }

    private func coordinator(_ folder: TemporaryFolder) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) {
            $0.keepsJournal = true
            $0.store.synchronous = .full
        }
    }

    /// Appends the jobs to the journal of a server that is not running, as one that accepted them and was killed would have.
    private func append(_ jobs: [Job], after position: Int64, to folder: TemporaryFolder) throws {
        let identity = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key = 'log'", in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(identity[0]), applied: position,
            idOfApplied: nil, mode: 0o600, system: PosixSystem())
        try journal.append(
            jobs.enumerated().map { number, job in
                LogEntry(
                    .job, position: position + Int64(number) + 1, id: job.id, isIDMade: job.isIDMade, user: 1,
                    time: 1_000_000, payload: Array(job.payload.utf8))
            })
    }

    @Test func `a failed job leaves no gap in the keys, and a start and other entities' deletions none`() throws {
        let note = #"{"Note": {"text": "a"}}"#
        let failing = #"{"Note": [{"text": "b"}], "Row": [{"id": 1, "mail": "x"}, {"id": 2, "mail": "x"}]}"#
        let cards = "{\"Card\": [\(Array(repeating: "{}", count: 20).joined(separator: ","))]}"
        let folder = TemporaryFolder()
        _ = try start(folder)
        let jobs = [
            Job(id: "1", payload: note), Job(id: "sync-2", payload: failing), Job(id: "3", payload: note),
            Job(id: "4", payload: cards), Job(id: "delete-5", payload: #"{"Card": []}"#), Job(id: "6", payload: note),
        ]
        for (number, job) in jobs.enumerated() {
            try append([job], after: Int64(number), to: folder)
            _ = try start(folder)
        }
        #expect(
            try SQLRows.of("SELECT _pk FROM Note ORDER BY _pk", in: folder.path("store.sqlite")) == ["1", "2", "3"])
    }

    @Test func `another content gives another history, also of a job without an id`() throws {
        let histories = try [#"{"Note": {"text": "a"}}"#, #"{"Note": {"text":  "a"}}"#, #"{"Note": {"text": "b"}}"#].map
        {
            let folder = TemporaryFolder()
            _ = try start(folder)
            try append([Job(id: "made", payload: $0, isIDMade: true)], after: 0, to: folder)
            return try start(folder)
        }
        #expect(Set(histories).count == 3, "\(histories)")
    }

    @Test(arguments: [true, false])
    func `a start warns of waiting jobs that were accepted under another fingerprint, and applies them`(isOther: Bool)
        throws
    {
        let folder = TemporaryFolder()
        do {
            let statistics = try coordinator(folder).statistics
            #expect(statistics.contains(/"fingerprint":"[0-9a-f]{16}"/))
        }
        let store = folder.path("store.sqlite")
        if isOther {
            try Locker(store).execute(
                "UPDATE _broker_meta SET value = replace(value, 'sqlite=20', 'sqlite=19') WHERE key = 'fingerprint'; COMMIT"
            )
        }
        try append([Job(id: "a", payload: #"{"Row": {"id": 1, "mail": "x"}}"#)], after: 0, to: folder)
        let warning = "warning: Jobs wait in the journal that were accepted by a server with other versions"
        for count in [isOther ? 1 : 0, 0] {
            let test = try coordinator(folder)
            #expect(try test.rows("SELECT id FROM Row") == ["1"])
            #expect(test.log.count(warning) == count)
        }
    }
}
