import BrokerJournal
import BrokerModel
import BrokerSchema
import BrokerStore
import Foundation
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Accepted jobs are applied, in order and once, whatever happens to the process.
///
/// A crash is a copy of the folder, made while the coordinator runs: the files of a killed process.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorJournalTests {

    private let model = Models.of(["Row": "id integer64, value integer64"])

    /// The folder of a server that has applied the job "a", and has stopped.
    func folderOfOneJob() throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        let test = try coordinator(in: folder)
        test.submit(row(1), id: "a", ends: 1)
        return folder
    }

    func coordinator(
        in folder: TemporaryFolder = TemporaryFolder(), of model: String? = nil,
        _ configure: (inout CoordinatorOptions) -> Void = { _ in }
    ) throws -> TestCoordinator {
        try TestCoordinator(model ?? self.model, in: folder) { options in
            options.keepsJournal = true
            options.store.synchronous = .full
            configure(&options)
        }
    }

    /// The files of the process if it were killed now.
    ///
    /// - Parameter isStuck: the writer waits for room. Else the copy is made on its thread, so that it belongs together.
    func crashed(_ test: TestCoordinator, isStuck: Bool = false) throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        let copied = Monitor<Result<Void, any Error>?>(nil)
        let copy: @Sendable () -> Void = { [path = test.storePath] in
            let source = (path as NSString).deletingLastPathComponent
            let result = Result {
                for name in try FileManager.default.contentsOfDirectory(atPath: source) where !name.hasSuffix("-shm") {
                    try FileManager.default.copyItem(atPath: "\(source)/\(name)", toPath: folder.path(name))
                }
            }
            copied.update { $0 = result }
        }
        if isStuck { copy() } else { test.coordinator.history { _ in copy() } }
        try copied.patiently("a copy of the store") { $0 }.get()
        return folder
    }

    @Test func `jobs accepted before a crash are applied at the start, in order, at their own sequences`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        for number in 1...20 {
            test.submit(row(1, number), id: number % 2 == 0 ? "job-\(number)" : nil, wantsAcceptance: true)
        }
        test.submit(#"{"Nobody": []}"#, id: "wrong", accepted: 21)
        let folder = try crashed(test)
        let again = try coordinator(in: folder)
        #expect(again.events.ends(21).map(\.sequence) == (1...21).map { $0 })
        #expect(try again.rows("SELECT value FROM Row") == ["20"])
        #expect(again.await("wrong").ending?.code == "unknownEntity")
        // Sent again, it is a duplicate; a new job follows all sent sequences.
        again.submit(row(1, 4), id: "job-4")
        again.submit(row(1, 99), id: "new")
        let ends = again.events.ends(23)
        #expect(ends[21].isDuplicate && ends[21].sequence == 4)
        #expect(ends[22].sequence ?? 0 > 21)
        #expect(try again.rows("SELECT value FROM Row") == ["99"])
    }

    @Test func `a job that the store has applied is not applied again`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try coordinator(in: folder)
            for number in 1...5 { test.submit(row(number), id: "\(number)") }
            _ = test.events.ends(5)
            let crashed = try crashed(test)
            let again = try coordinator(in: crashed)
            again.submit(row(6), id: "6")
            #expect(again.events.ends(1).map(\.id) == ["6"])
            #expect(again.events.all.count == 1)
        }
        // After a stop, too.
        let again = try coordinator(in: folder)
        again.submit(row(6), id: "6")
        #expect(again.events.ends(1).map(\.id) == ["6"])
    }

    @Test func `a cancellation is stored like a job`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        for number in 1...3 { test.submit(row(number), id: "\(number)", wantsAcceptance: true) }
        test.events.waitUntil("accepted 3 3")
        #expect(test.cancel("2") == "cancelled")
        let again = try coordinator(in: crashed(test))
        #expect(again.events.ends(2).map(\.id) == ["1", "3"])
        #expect(again.await("2").ending?.code == "cancelled")
        #expect(try again.rows("SELECT id FROM Row ORDER BY id") == ["1", "3"])
    }

    @Test func `a job of a client that may not delete may not delete after a crash either`() throws {
        let test = try coordinator()
        test.submit(row(1), id: "first", ends: 1)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "delete-1", deletingWhere: "TRUEPREDICATE", wantsAcceptance: true) {
            $0.terms.mayDelete = false
        }
        test.submit(row(2), id: "last", wantsAcceptance: true) { $0.terms.mayDelete = false }
        test.events.waitUntil("accepted last 3")
        let again = try coordinator(in: crashed(test))
        _ = again.events.ends(2)
        #expect(again.await("delete-1").ending?.code == "unauthorized")
        #expect(try again.rows("SELECT id FROM Row ORDER BY id") == ["1", "2"])
    }

    @Test func `waiting jobs are applied with the model under which they were accepted, then the model is changed`()
        throws
    {
        let test = try coordinator()
        _ = test.coordinator.pause()
        test.submit(#"{"Row": {"id": 1, "value": 5, "other": 6}}"#, id: "a", accepted: 1)
        let folder = try crashed(test)
        let attributes = #""id": "integer64", "value": "integer64", "other": "integer64""#
        let wider = "{\"entities\": {\"Row\": {\"identity\": \"id\", \"attributes\": {\(attributes)}}}}"
        do {
            let again = try coordinator(in: folder, of: wider)
            #expect(again.events.ends(1).map(\.sequence) == [1])
            // The other attribute was none then.
            #expect(try again.rows("SELECT id, value, other FROM Row") == ["1|5|NULL"])
            again.submit(#"{"Row": {"id": 2, "value": 5, "other": 6}}"#, id: "b", ends: 2)
            #expect(try again.rows("SELECT id, value, other FROM Row ORDER BY id") == ["1|5|NULL", "2|5|6"])
        }
        // Gone from the model: that is refused whether or not anything waits, and nothing is lost by it.
        #expect(throws: StoreError.self) { try coordinator(in: folder) }
        let after = try coordinator(in: folder, of: wider)
        #expect(try after.rows("SELECT count(*) FROM Row") == ["2"])
    }

    @Test(arguments: [false, true])
    func `parts of an earlier model in the file are there again with a model that has them`(isJournaled: Bool) throws {
        let folder = TemporaryFolder()
        let row = #""Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}"#
        let extra = #""Extra": {"identity": "id", "attributes": {"id": "integer64"}}"#
        let start = { (entities: String, removal: RemovalPolicy) in
            try coordinator(in: folder, of: "{\"entities\": {\(entities)}}") {
                $0.keepsJournal = isJournaled
                $0.store.removal = removal
            }
        }
        do {
            let test = try start("\(row), \(extra)", .refuse)
            test.submit(#"{"Extra": {"id": 1}}"#, ends: 1)
        }
        do { _ = try start(row, .keep) }
        let test = try start("\(row), \(extra)", .drop)
        #expect(try test.rows("SELECT id FROM Extra") == ["1"])
    }

    @Test func `a store that is full keeps what was accepted, refuses what comes, and goes on when there is room`()
        throws
    {
        let folder = TemporaryFolder()
        let test = try coordinator(in: folder) { $0.store.maximumPages = 12 }
        let rows = (1...20_000).map { "{\"id\": \($0), \"value\": \($0)}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", accepted: 1)
        test.log.waitUntil("The store cannot be written")
        test.submit(row(0, 7), id: "refused", wantsAcceptance: true)
        #expect(test.events.ends(1).map(\.code) == ["storeFull"])
        #expect(test.events.ends(1)[0].sequence == nil)
        #expect(test.reload(model).first?.hasPrefix("refused storeFull") == true)
        // Killed and started with room, it applies the job.
        let again = try coordinator(in: crashed(test, isStuck: true))
        #expect(again.events.ends(1).map(\.id) == ["large"])
        #expect(try again.rows("SELECT count(*) FROM Row") == ["20000"])
        // Stopped, the first one leaves it where it is.
        test.coordinator.refuseNewJobs(lockSeconds: 0)
        #expect(test.events.ends(2)[1].code == "draining")
    }

    @Test func `when the store has room again it takes what waits, and new jobs are accepted`() throws {
        let folder = TemporaryFolder()
        let rows = { (ids: ClosedRange<Int>) in
            "{\"Row\": [" + ids.map { "{\"id\": \($0), \"value\": \($0)}" }.joined(separator: ",") + "]}"
        }
        let pages: Int
        do {
            let test = try coordinator(in: folder)
            test.submit(rows(1...8_000), id: "first", ends: 1)
            pages = Int(try test.rows("PRAGMA page_count")[0])!
        }
        let test = try coordinator(in: folder) { $0.store.maximumPages = pages + 4 }
        test.submit(rows(8_001...14_000), id: "second", wantsAcceptance: true)
        test.log.waitUntil("The store cannot be written")
        #expect(test.statistics.contains(#""state":"waiting","cause":"The store "#))
        let other = try Locker(test.storePath)
        try other.execute("DELETE FROM Row WHERE id <= 8000; COMMIT")
        #expect(test.events.ends(1)[0].code == nil)
        test.log.waitUntil("The store can be written again")
        #expect(test.statistics.contains(#""store":{"state":"serving""#))
        test.submit(row(1), id: "third")
        #expect(test.events.ends(2)[1].code == nil)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["6001"])
    }

    @Test func `a job that the journal has no room for is refused, never accepted, and no job after a crash`() throws {
        let disk = FailingSystem()
        let test = try coordinator { $0.journalSystem = disk }
        test.submit(row(1), id: "a", wantsAcceptance: true, ends: 1)
        disk.failWrites(after: 0, with: ENOSPC)
        test.submit(row(2), id: "b", wantsAcceptance: true)
        #expect(test.events.ends(2)[1].code == "storeFull")
        #expect(!test.events.all.contains { $0.hasPrefix("accepted b") })
        #expect(test.statistics.contains(#""store":{"state":"waiting","cause":"The disk of the journal "#))
        #expect(test.coordinator.condition.waitingCause?.contains("is full") == true)
        disk.failWrites(after: .max, with: 0)
        test.submit(row(3), id: "c", wantsAcceptance: true)
        #expect(test.events.ends(3)[2].code == nil)
        test.log.waitUntil("The journal has room again")
        test.waitUntil(#""store":{"state":"serving""#)
        let again = try coordinator(in: crashed(test))
        #expect(try again.rows("SELECT id FROM Row ORDER BY id") == ["1", "3"])
    }

    @Test func `a journal's disk that has room again is reported without another job`() throws {
        let disk = FailingSystem()
        let test = try coordinator { $0.journalSystem = disk }
        disk.failWrites(after: 0, with: ENOSPC)
        test.submit(row(1), id: "a")
        #expect(test.events.ends(1)[0].code == "storeFull")
        #expect(test.statistics.contains(#""store":{"state":"waiting""#))
        disk.failWrites(after: .max, with: 0)
        test.waitUntil(#""store":{"state":"serving""#)
        let again = try coordinator(in: crashed(test))
        #expect(try again.rows("SELECT count(*) FROM Row") == ["0"])
    }

    @Test func `when the journal's disk fails no client gets an answer any more, and the operator gets an error`()
        throws
    {
        let disk = FailingSystem()
        let test = try coordinator { $0.journalSystem = disk }
        test.submit(row(1), id: "a", wantsAcceptance: true, ends: 1)
        let failure = Monitor<String?>(nil)
        test.coordinator.onFailure { error in failure.update { $0 = error.message } }
        disk.failSyncs(with: EIO)
        test.submit(row(2), id: "b", wantsAcceptance: true)
        #expect(failure.patiently("the failure") { $0 }.contains("cannot be made durable"))
        test.log.waitUntil("The journal failed")
        #expect(test.events.all.count == 2, "\(test.events.all)")
        #expect(try test.rows("SELECT id FROM Row") == ["1"])
        disk.failSyncs(with: 0)
        let again = try coordinator(in: crashed(test, isStuck: true))
        // Whether it was durable is unknown: it is complete or missing.
        #expect(try ["1", "2"].contains(again.rows("SELECT count(*) FROM Row")[0]))
    }

    @Test func `without its journal a store is not opened while jobs wait in it, and goes on once none do`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", accepted: 1)
        let folder = try crashed(test)
        #expect(throws: StoreError.self) { try coordinator(in: folder) { $0.keepsJournal = false } }
        do {
            let again = try coordinator(in: folder)
            #expect(again.events.ends(1).map(\.id) == ["a"])
        }
        do {
            let without = try coordinator(in: folder) { $0.keepsJournal = false }
            #expect(!FileManager.default.fileExists(atPath: without.storePath + ".journal"))
            without.submit(row(2), id: "b", ends: 1)
        }
        let with = try coordinator(in: folder)
        with.submit(row(3), id: "c", ends: 1)
        #expect(try with.rows("SELECT count(*) FROM Row") == ["3"])
    }

    @Test func `without its journal a store is migrated after the journal was checked`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        test.submit(row(1, 7), id: "a", accepted: 1)
        let folder = try crashed(test)
        let smaller = Models.of(["Row": "id integer64"])
        let startWithout = {
            try coordinator(in: folder, of: smaller) {
                $0.keepsJournal = false
                $0.store.removal = .drop
            }
        }
        let refusal = #expect(throws: StoreError.self) { _ = try startWithout() }
        #expect(refusal?.message.contains("Nothing was touched") == true)
        do {
            let again = try coordinator(in: folder)
            #expect(again.events.ends(1).map(\.id) == ["a"])
            #expect(try again.rows("SELECT id, value FROM Row") == ["1|7"])
        }
        let without = try startWithout()
        #expect(without.coordinator.migration.changes.map(\.subject) == ["Row.value"])
        #expect(!FileManager.default.fileExists(atPath: without.storePath + ".journal"))
        #expect(try without.rows("SELECT * FROM Row") == ["1"])
    }

    @Test func `another file at the journal's path does not count as a missing journal`() throws {
        let folder = try folderOfOneJob()
        let journal = folder.path("store.sqlite.journal")
        try FileManager.default.moveItem(atPath: journal, toPath: folder.path("moved"))
        // It cannot be examined, like a folder of another user.
        try Data("no folder".utf8).write(to: URL(filePath: journal))
        #expect(throws: StoreError.self) { try coordinator(in: folder) { $0.keepsJournal = false } }
        #expect(throws: StoreError.self) { try coordinator(in: folder) }
        try FileManager.default.removeItem(atPath: journal)
        try FileManager.default.moveItem(atPath: folder.path("moved"), toPath: journal)
        let again = try coordinator(in: folder)
        #expect(try again.rows("SELECT count(*) FROM Row") == ["1"])
    }

    @Test func `another store's journal and a journal that was cut short stop the start`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try coordinator(in: folder)
            for number in 1...5 { test.submit(row(number), id: "\(number)") }
            _ = test.events.ends(5)
        }
        let other = TemporaryFolder()
        do {
            let test = try coordinator(in: other)
            test.submit(row(1), id: "a", ends: 1)
        }
        let journal = folder.path("store.sqlite.journal")
        try FileManager.default.moveItem(atPath: journal, toPath: folder.path("moved"))
        try FileManager.default.copyItem(atPath: other.path("store.sqlite.journal"), toPath: journal)
        #expect(throws: StoreError.self) { try coordinator(in: folder) }
        try FileManager.default.removeItem(atPath: journal)
        try FileManager.default.moveItem(atPath: folder.path("moved"), toPath: journal)
        let file = "\(journal)/0000000000000001.jobs"
        try Data(contentsOf: URL(filePath: file)).dropLast(1).write(to: URL(filePath: file))
        #expect(throws: StoreError.self) { try coordinator(in: folder) }
    }
}

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
        test.submit(row(1), id: "a", ends: 1)
        return folder
    }

    private func entry(_ change: LogChange, at position: Int64) -> LogEntry {
        LogEntry(
            change.entry.kind, position: position, time: 1_000_000_000_000, payload: change.entry.payload)
    }

    private func job(_ payload: String, at position: Int64) -> LogEntry {
        LogEntry(
            .job, position: position, id: "job-\(position)", time: 1_000_000_000_000, payload: Array(payload.utf8))
    }

    @Test func `a change is read as it was written, and one of a later version is not read`() {
        let model = LogChange.model("{\"entities\":\n{}}", .keep)
        let limits = LogChange.limits(LoggedLimits(StoreOptions()))
        for change in [model, limits] { #expect(LogChange(change.entry) == change) }
        let unreadable: [(LogEntry.Kind, String)] = [
            (.model, "{}"), (.model, "burn\n{}"), (.limits, ""), (.limits, "outcomesKept=1\nseconds=2"),
            (.limits, "outcomesKept=1\noutcomesKeptSeconds=1\nmore=3"),
            (.limits, "outcomesKept=-1\noutcomesKeptSeconds=1"), (.job, "{}"),
        ]
        for (kind, text) in unreadable {
            #expect(LogChange(LogEntry(kind, payload: Array(text.utf8))) == nil, "\(text)")
        }
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
        test.submit(row(1), id: "a", ends: 1)
        #expect(test.reload(model(with: "more")).count == 1)
        let without = Models.of(["Row": "id integer64"])
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
        let unknown = LogEntry(.limits, position: 3, time: 0, payload: Array("outcomesKept=1\nmore=2".utf8))
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
        test.submit(row(1), id: "a", ends: 1)
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
        test.submit(row(1), id: "a", ends: 1)
        disk.failSyncs(with: EIO)
        #expect(test.reload(model(with: "more"))[0].hasPrefix("refused storeUnavailable"))
        #expect(test.coordinator.storageFailure.error != nil)
    }
}

/// Accepted jobs that a server cannot apply within its limits, or at all.
extension CoordinatorJournalTests {
    @Test func `jobs that the store lost with the power are applied again at their sequences`() throws {
        let test = try coordinator {
            $0.store.synchronous = .normal
            $0.limits.sequenceBlock = 4
        }
        test.submit(row(1), id: "1", ends: 1)
        // The file as it was on the disk when the power failed: COMMIT has not waited for the disk since.
        let early = try crashed(test)
        for number in 2...20 { test.submit(row(number), id: "\(number)") }
        let ends = test.events.ends(20)
        let folder = try crashed(test)
        for name in ["store.sqlite", "store.sqlite-wal"] {
            try FileManager.default.removeItem(atPath: folder.path(name))
            try FileManager.default.copyItem(atPath: early.path(name), toPath: folder.path(name))
        }
        let again = try coordinator(in: folder) { $0.limits.sequenceBlock = 4 }
        #expect(again.events.ends(19).map(\.sequence) == ends.dropFirst().map(\.sequence))
        again.submit(row(21), id: "21")
        #expect(again.events.ends(20).last?.sequence ?? 0 > ends.last?.sequence ?? .max)
        #expect(try again.rows("SELECT count(*) FROM Row") == ["21"])
    }

    @Test func `an accepted job is applied by a server whose limits it exceeds`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        let rows = (1...2_000).map { "{\"id\": \($0), \"value\": \($0)}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", wantsAcceptance: true)
        test.submit(row(0, 7), id: "small", accepted: 2)
        let again = try coordinator(in: crashed(test)) {
            ($0.limits.memory, $0.limits.jobMemory, $0.limits.bytes, $0.limits.jobs) = (1, 1, 1, 1)
        }
        #expect(again.events.ends(2).map(\.code) == [nil, nil])
        #expect(try again.rows("SELECT count(*) FROM Row") == ["2001"])
        // The limits apply to new jobs.
        again.submit("{\"Row\": [\(rows)]}", id: "new")
        #expect(again.events.refusal.contains("needs more memory"))
    }

    /// A server without the memory to stage a large job, which it can open.
    private func shortOfMemory() throws -> TestCoordinator {
        for limit in stride(from: 4_000_000, to: 400_000, by: -300_000) {
            let test = try coordinator { ($0.limits.memory, $0.limits.jobMemory) = (300_000, limit) }
            test.submit(rows(20_000), id: "large", wantsAcceptance: true)
            test.waitUntil("an answer") { test.events.hasRefusal || test.events.all.contains { $0.hasPrefix("ended") } }
            if !test.events.hasRefusal, test.events.ends(1)[0].code == "busy" { return test }
        }
        throw StoreError(.defect, "no limit is such that the job fails there")
    }

    @Test func `a job that needs too much memory in its merge fails there, also in a replay with more memory`() throws {
        let test = try coordinator { ($0.limits.memory, $0.limits.jobMemory) = (300_000, 600_000) }
        for number in 0..<10 {
            let rows = (1...1_000).map { "{\"id\": \(number * 1_000 + $0)}" }.joined(separator: ",")
            test.submit("{\"Row\": [\(rows)]}", id: "\(number)")
        }
        #expect(test.events.ends(10).allSatisfy { $0.code == nil })
        let delete = { (id: String, server: TestCoordinator) in
            server.submit(
                #"{"Row": 1}"#, id: id, wantsKeys: true, deletingWhere: "TRUEPREDICATE", wantsAcceptance: true)
        }
        delete("delete-keys-1", test)
        let end = test.events.ends(11).last
        #expect(end?.code == "busy" && end?.sequence == 11)
        _ = test.coordinator.pause()
        delete("delete-keys-2", test)
        test.events.waitUntil("accepted delete-keys-2 12")
        // The limit was that of the server which accepted it.
        let again = try coordinator(in: crashed(test))
        #expect(again.events.ends(1).map(\.id) == ["delete-keys-2"])
        #expect(again.await("delete-keys-1").ending?.code == "busy")
        #expect(again.await("delete-keys-2").ending?.code == "busy")
        delete("delete-keys-3", again)
        #expect(again.events.ends(2).last?.code == nil)
        #expect(try again.rows("SELECT count(*) FROM Row") == ["0"])
        #expect(test.events.all.filter { $0.contains("delete-keys-2") } == ["accepted delete-keys-2 12"])
    }

    @Test func `a large job for whose staging there is no memory is not in the journal, and has no sequence`() throws {
        let test = try shortOfMemory()
        #expect(test.events.all == ["ended large -"])
        test.submit(row(1), id: "small", wantsAcceptance: true)
        #expect(test.events.ends(2).last?.sequence == 1)
        let limit = test.coordinator.jobMemory
        let again = try coordinator(in: crashed(test)) { ($0.limits.memory, $0.limits.jobMemory) = (300_000, limit) }
        #expect(again.history.hasPrefix("1 ") && again.events.all.isEmpty)
        #expect(again.await("large") == .unknown)
        // Later jobs keep their order after large ones, also after those that fail.
        for number in 2...40 {
            if number % 10 == 0 { test.submit(rows(20_000), id: "huge-\(number)") }
            if number % 15 == 0 { test.submit(rows(5_000), id: "large-\(number)", wantsAcceptance: true) }
            test.submit(row(number), id: "\(number)", wantsAcceptance: true)
        }
        let ends = test.events.ends(2 + 39 + 4 + 2).dropFirst(2)
        let sequences = ends.compactMap(\.sequence)
        #expect(sequences == sequences.sorted() && sequences.count == 41)
        #expect(ends.filter { $0.sequence == nil }.map(\.code) == Array(repeating: "busy", count: 4))
    }

    @Test func `a large job is cancelled while it is staged, in the journal or out of memory`() throws {
        let test = try coordinator()
        _ = test.coordinator.pause()
        test.submit(rows(20_000), id: "large", wantsAcceptance: true)
        test.waitUntil("the job") { test.coordinator.jobTable.withLock { $0.jobCount == 1 } }
        #expect(test.cancel("large") == "cancelled")
        test.coordinator.resume()
        #expect(test.events.ends(1)[0].code == "cancelled")
        let again = try coordinator(in: crashed(test))
        #expect(again.await("large").ending?.code == "cancelled")
        #expect(try again.rows("SELECT count(*) FROM Row") == ["0"])
        let short = try shortOfMemory()
        short.submit(rows(20_000), id: "other")
        short.waitUntil("the job") {
            short.coordinator.jobTable.withLock { $0.jobCount == 1 } || short.events.all.count == 2
        }
        #expect(["tooLate", "unknown"].contains(short.cancel("other")))
        #expect(short.events.ends(2)[1].code == "busy")
    }

    @Test func `an accepted job that cannot be read stops the start before it, and every later start`() throws {
        let folder = try folderOfOneJob()
        let entries = [(2, row(2)), (3, "no JSON"), (4, row(4))].map { position, text in
            LogEntry(.job, position: Int64(position), id: "job-\(position)", time: 0, payload: Array(text.utf8))
        }
        try append(entries, to: folder)
        for _ in 0..<2 {
            let error = try #require(throws: StoreError.self) { try coordinator(in: folder) }
            #expect(error.message.contains("Job 3 of the log (id \"job-3\") cannot be applied"))
            #expect(try SQLRows.of("SELECT id FROM Row ORDER BY id", in: folder.path("store.sqlite")) == ["1", "2"])
        }
    }

    /// Appends entries after the job "a" at position 1, as a server that accepted them and was killed would have.
    func append(_ entries: [LogEntry], to folder: TemporaryFolder) throws {
        let stored = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key IN ('log', 'logApplied') ORDER BY key",
            in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(stored[0]), applied: 1,
            idOfApplied: "a", mode: 0o600, system: PosixSystem())
        try journal.append(entries)
    }

    @Test func `the time of a job is never before that of an earlier one, though the clock is set back`() throws {
        let folder = try folderOfOneJob()
        // The clock was an hour ahead; now it is right.
        let future = wallClockMilliseconds() + 3_600_000
        let entries = (0..<2).map { index in
            LogEntry(
                .job, position: Int64(index + 2), id: "job-\(index)", time: future, payload: Array(row(index + 2).utf8))
        }
        try append(entries, to: folder)
        let test = try coordinator(in: folder)
        test.submit(row(4), id: "later", ends: 3)
        #expect(
            try test.rows("SELECT ended FROM _broker_jobs WHERE sequence > 1 ORDER BY sequence")
                == Array(repeating: "\(future)", count: 3))
    }

    /// Each entry has the user that it would be privileged for in one of the two servers, and not in the other.
    @Test func `whether a job may repeat another user's is decided when it is accepted, by no server that applies it`()
        throws
    {
        let folder = TemporaryFolder()
        do {
            let test = try coordinator(in: folder)
            test.submit(row(1), id: "a", as: JobOwner(user: 70_001), ends: 1)
        }
        let senders = [(2, JobOwner.server.user, false), (3, 70_002, true)]
        let entries = senders.map { position, user, isPrivileged in
            LogEntry(
                .job, position: Int64(position), id: "a", isPrivileged: isPrivileged, user: user, time: 0,
                payload: Array(row(1).utf8))
        }
        try append(entries, to: folder)
        let ends = try coordinator(in: folder).events.ends(2)
        #expect(ends.map(\.code) == ["idConflict", nil])
        #expect(ends.map(\.isDuplicate) == [false, true])
    }

    @Test func `a defect of the store stops the server before the job, which a later start applies`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try coordinator(in: folder)
            test.submit(row(1), id: "a", ends: 1)
            let failure = Monitor<String?>(nil)
            test.coordinator.onFailure { error in failure.update { $0 = error.message } }
            let other = try Locker(test.storePath)
            try other.execute("ALTER TABLE _broker_jobs RENAME TO elsewhere; COMMIT")
            test.submit(row(2), id: "b", wantsAcceptance: true)
            test.submit(row(3), id: "c", wantsAcceptance: true)
            #expect(failure.patiently("the failure") { $0 }.contains("defect"))
            test.log.waitUntil("cannot be applied because of a defect")
            try other.execute("ALTER TABLE elsewhere RENAME TO _broker_jobs")
            #expect(!test.events.all.contains { $0.hasPrefix("ended b") || $0.hasPrefix("ended c") })
        }
        #expect(try SQLRows.of("SELECT max(id) FROM Row", in: folder.path("store.sqlite")) == ["1"])
        let again = try coordinator(in: folder)
        #expect(again.events.ends(2).map(\.id) == ["b", "c"])
        #expect(again.history.hasPrefix("3 "))
    }

    @Test(arguments: [true, false])
    func `a journal's folder without its files stops the start`(keepsJournal: Bool) throws {
        let folder = try folderOfOneJob()
        let segment = folder.path("store.sqlite.journal/0000000000000001.jobs")
        try FileManager.default.moveItem(atPath: segment, toPath: folder.path("moved"))
        let error = #expect(throws: StoreError.self) {
            try coordinator(in: folder) { $0.keepsJournal = keepsJournal }
        }
        #expect(error?.message.contains("lacks its files") == true)
        try FileManager.default.moveItem(atPath: folder.path("moved"), toPath: segment)
        _ = try coordinator(in: folder)
    }

    @Test(arguments: [true, false])
    func `a store whose journal is gone goes on, and the log says what may be lost`(keepsJournal: Bool) throws {
        let folder = try folderOfOneJob()
        try FileManager.default.removeItem(atPath: folder.path("store.sqlite.journal"))
        let test = try coordinator(in: folder) { $0.keepsJournal = keepsJournal }
        test.log.waitUntil("warning: The store was fed from a journal that is missing")
        #expect(test.log.count("all that was in it is applied") == 0)
    }
}

/// Starts that are refused because of the journal, and what a restore would forget.
extension CoordinatorJournalTests {
    /// The files of a folder and of its folders, but for the memory that SQLite's connections share.
    private func contents(_ folder: TemporaryFolder) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path("")) where !name.hasSuffix("-shm") {
            contents[name] = FileManager.default.contents(atPath: folder.path(name))
        }
        return contents
    }

    @Test(arguments: ["damaged", "cut short", "lacks its files", "waits without --journal"])
    func `a start that is refused because of the journal leaves the WAL of a killed server`(fault: String) throws {
        let test = try coordinator()
        for number in 1...5 { test.submit(row(number), id: "\(number)") }
        _ = test.events.ends(5)
        if fault.hasPrefix("waits") {
            _ = test.coordinator.pause()
            test.submit(row(6), id: "6", accepted: 6)
        }
        let folder = try crashed(test)
        test.coordinator.resume()
        let file = folder.path("store.sqlite.journal/0000000000000001.jobs")
        var bytes = try Data(contentsOf: URL(filePath: file))
        switch fault {
        case "damaged":
            bytes[bytes.count / 2] ^= 0xFF
            try bytes.write(to: URL(filePath: file))
        case "cut short": try bytes.prefix(bytes.count / 2).write(to: URL(filePath: file))
        case "lacks its files": try FileManager.default.removeItem(atPath: file)
        default: break
        }
        let before = try contents(folder)
        #expect(before["store.sqlite-wal"]?.isEmpty == false)
        for _ in 0..<2 {
            #expect(throws: StoreError.self) {
                try coordinator(in: folder) { $0.keepsJournal = !fault.hasPrefix("waits") }
            }
            #expect(try contents(folder) == before)
        }
    }

    @Test func `the accepted jobs that a store has not applied are counted, and none after a clean stop`() throws {
        let folder = TemporaryFolder()
        let store = folder.path("store.sqlite")
        do {
            let test = try coordinator(in: folder)
            test.submit(row(1), id: "a", ends: 1)
        }
        #expect(try JournalFinding.pendingJobs(store: store) == 0)
        let entries = (2...4).map { position in
            LogEntry(
                .job, position: Int64(position), id: "job-\(position)", time: 0, payload: Array(row(position).utf8))
        }
        try append(entries, to: folder)
        #expect(try JournalFinding.pendingJobs(store: store) == 3)
        do { _ = try coordinator(in: folder) }
        #expect(try JournalFinding.pendingJobs(store: store) == 0)
    }
}
