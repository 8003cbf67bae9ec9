import BrokerJournal
import BrokerModel
import BrokerStaging
import BrokerStore
import CSQLite
import Foundation
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Messages about the store's files for the operator.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorStoreTests {
    private let folder = TemporaryFolder()

    /// Submits a row of 3,000 bytes for each id, one after the other. The ids begin at 0 and go on from call to call.
    private func submit(_ ids: Range<Int>, to test: TestCoordinator) {
        let text = String(repeating: "x", count: 3_000)
        for id in ids {
            test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}", ends: id + 1)
        }
    }

    @Test func `a WAL that a reader holds is logged once, and its end is logged, too`() throws {
        let test = try TestCoordinator(in: folder) { $0.store.walPages = 8 }
        submit(0..<1, to: test)
        var reader: OpaquePointer?
        defer { sqlite3_close_v2(reader) }
        #expect(sqlite3_open_v2(folder.path("store.sqlite"), &reader, SQLITE_OPEN_READONLY, nil) == SQLITE_OK)
        #expect(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM Row", nil, nil, nil) == SQLITE_OK)
        submit(1..<61, to: test)
        let warning = "The store's WAL grows, because another program's read transaction stays open"
        test.log.waitUntil(warning)
        #expect(!test.statistics.contains(#""uncheckpointedPages":0"#))
        #expect(sqlite3_exec(reader, "COMMIT", nil, nil, nil) == SQLITE_OK)
        submit(61..<71, to: test)
        let release = "No reader holds the store's WAL any more"
        test.log.waitUntil(release)
        #expect([warning, release].map(test.log.count) == [1, 1])
    }

    @Test func `a WAL that grows for a reader of the server's own is not said to be another program's`() throws {
        let test = try TestCoordinator(in: folder) { $0.store.walPages = 8 }
        submit(0..<100, to: test)
        let (gate, begun, end) = (Gate(), Gate(), Gate())
        test.coordinator.backup(
            to: folder.path("copy"),
            progress: { _ in
                begun.open()
                gate.pass()
            }, notify: { _ in end.open() })
        begun.pass()
        submit(100..<160, to: test)
        test.log.waitUntil("The store's WAL grows while a backup of this server runs")
        gate.open()
        end.pass()
        submit(160..<180, to: test)
        test.log.waitUntil("No reader holds the store's WAL any more")

        // More than one part of a stream.
        submit(180..<480, to: test)
        let read = Gate()
        let stream = test.coordinator.stream(
            try test.coordinator.plan.fetchRequest(FetchDescription(entity: "Row")), of: 1
        ) { _, _ in read.open() }
        stream.ask()
        read.pass()
        submit(480..<540, to: test)
        test.log.waitUntil("The store's WAL grows while a long fetch of this server runs")
        #expect(test.log.count("another program") == 0)
        stream.cancel()
    }

    @Test func `the WAL is copied between transactions though jobs wait all the time`() throws {
        let test = try TestCoordinator(in: folder) { $0.store.walPages = 16 }
        _ = test.coordinator.pause()
        let text = String(repeating: "x", count: 2 << 20)
        for id in 1...16 { test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}") }
        test.waitUntil(#""inFlight":16"#)
        test.waitUntil(#""opening":0,"staging":0"#)
        test.coordinator.resume()
        #expect(test.events.ends(16).allSatisfy { $0.code == nil })
        // Some 8 MiB are in a transaction, and all of it are more than 32.
        let log = folder.path("store.sqlite-wal")
        let bytes = try #require(FileManager.default.attributesOfItem(atPath: log)[.size] as? Int)
        #expect((4 << 20..<20 << 20).contains(bytes))
    }

    @Test func `a job that meets a defect fails in words of Broker's own, and the log has SQLite's`() throws {
        let test = try TestCoordinator(in: folder)
        try Locker(test.storePath).execute("ALTER TABLE Row RENAME TO elsewhere; COMMIT")
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        let end = try #require(test.events.ends(1).first)
        #expect(end.code == "internal" && end.body.contains("because of a defect of Broker's"))
        #expect(!end.body.contains("no such table") && !end.body.contains(folder.path("store.sqlite")))
        test.log.waitUntil(#"error: A job could not be stored. ["cause", "id"]"#)
    }

    @Test func `a replaced store is logged as an error, and its jobs fail`() throws {
        let test = try TestCoordinator(in: folder)
        test.submit(#"{"Row": {"id": 1}}"#, ends: 1)
        try FileManager.default.copyItem(atPath: folder.path("store.sqlite"), toPath: folder.path("copy"))
        rename(folder.path("copy"), folder.path("store.sqlite"))
        for id in 2...3 { test.submit("{\"Row\": {\"id\": \(id)}}") }
        #expect(test.events.ends(3).map(\.code) == [nil, "storeUnavailable", "storeUnavailable"])
        #expect(test.events.ends(3).dropFirst().allSatisfy { $0.body.contains("was replaced by another file") })
        test.log.waitUntil("error: A job could not be stored.")
        #expect(test.coordinator.condition.haltCause?.contains("was replaced by another file") == true)
    }
}

/// Backups beside jobs that are merged.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorBackupTests {
    private let folder = TemporaryFolder()

    /// A job for each of them: a row of 3,000 bytes under the job's own number.
    private func submit(_ numbers: Range<Int>, to test: TestCoordinator) {
        let text = String(repeating: "x", count: 3_000)
        for number in numbers {
            test.submit("{\"Row\": {\"id\": \(number), \"text\": \"\(text)\"}}", id: "job \(number)")
        }
    }

    /// How a backup ends, and what holds it after its first step until it is opened.
    private func backup(
        _ test: TestCoordinator, to name: String = "copy", behind gate: Gate? = nil, isWanted: Monitor<Bool>? = nil
    ) -> (end: Monitor<BackupEnd?>, begun: Monitor<Bool>) {
        let end = Monitor<BackupEnd?>(nil)
        let begun = Monitor(false)
        test.coordinator.backup(
            to: folder.path(name), isWanted: { isWanted?.withLock { $0 } ?? true },
            progress: { _ in
                begun.update { $0 = true }
                gate?.pass()
            },
            notify: { result in end.update { $0 = result } })
        return (end, begun)
    }

    private func result(_ end: Monitor<BackupEnd?>) -> BackupEnd { end.patiently("a backup to end") { $0 } }

    private func copy(_ end: Monitor<BackupEnd?>) throws -> StoreBackup.Copy {
        guard case .done(let copy) = result(end) else { throw TestSupport.SQLRows.Failure(message: "\(result(end))") }
        return copy
    }

    private func code(_ end: Monitor<BackupEnd?>) -> String {
        if case .failed(let fault) = result(end) { fault.code.rawValue } else { "\(result(end))" }
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path("")).sorted() }
    }

    @Test func `a backup among jobs is the state at the sequence that it returns`() throws {
        let test = try TestCoordinator(in: folder)
        submit(1..<1_001, to: test)
        _ = test.events.ends(1_000)
        for round in 0..<5 {
            // They are merged before, while and after the copy is made.
            let first = 1_001 + round * 200
            submit(first..<first + 200, to: test)
            let copy = try copy(backup(test, to: "copy \(round)").end)
            let file = folder.path("copy \(round)")
            // Each job has made the one row of its sequence's number.
            #expect(copy.sequence >= 1_000 && copy.sequence < first + 200)
            #expect(
                try TestSupport.SQLRows.of(
                    "SELECT count(*), max(id), (SELECT max(sequence) FROM _broker_jobs) FROM Row", in: file)
                    == ["\(copy.sequence)|\(copy.sequence)|\(copy.sequence)"])
        }
        _ = test.events.ends(2_000)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["2000"])
    }

    @Test func `a restored copy continues with its jobs known and its sequences after all that may have been sent`()
        throws
    {
        let sequences: [Int64]
        do {
            let test = try TestCoordinator(in: folder)
            submit(1..<6, to: test)
            _ = test.events.ends(5)
            #expect(try copy(backup(test, to: "copy").end).sequence == 5)
            // Sent after the copy was made, from sequences that were reserved before.
            submit(6..<9, to: test)
            sequences = test.events.ends(8).compactMap(\.sequence)
        }
        let restored = try TestCoordinator(in: folder) { $0.storePath = folder.path("copy") }
        submit(5..<7, to: restored)
        let ends = restored.events.ends(2)
        #expect(ends[0].isDuplicate && ends[0].sequence == 5)
        #expect(!ends[1].isDuplicate && ends[1].sequence! > sequences.max()!)
        #expect(try TestSupport.SQLRows.of("SELECT count(*) FROM Row", in: folder.path("copy")) == ["6"])
    }

    @Test func `jobs are merged while a backup waits, and there is one at a time`() throws {
        let test = try TestCoordinator(in: folder)
        submit(1..<11, to: test)
        _ = test.events.ends(10)
        let gate = Gate()
        let (end, begun) = backup(test, behind: gate)
        begun.patiently("a backup to begin") { $0 ? () : nil }
        submit(11..<21, to: test)
        _ = test.events.ends(20)
        #expect(code(backup(test, to: "other").end) == "busy")
        gate.open()
        #expect(try copy(end).sequence == 10)
        #expect(try copy(backup(test, to: "other").end).sequence == 20)
    }

    @Test func `the time of the newest backup is reported after a restart, too`() throws {
        let time = try {
            let test = try TestCoordinator(in: folder)
            #expect(!test.statistics.contains("backedUpAt"))
            _ = try copy(backup(test).end)
            return try #require(test.statistics.firstMatch(of: /"backedUpAt":[0-9]+/)).output
        }()
        #expect(try TestCoordinator(in: folder).statistics.contains(time))
    }

    @Test func `a stop gives a backup up, and takes no other`() throws {
        let test = try TestCoordinator(in: folder)
        submit(1..<1_001, to: test)
        _ = test.events.ends(1_000)
        let gate = Gate()
        let (end, begun) = backup(test, behind: gate)
        begun.patiently("a backup to begin") { $0 ? () : nil }
        test.coordinator.refuseNewJobs()
        #expect(code(backup(test, to: "other").end) == "draining")
        gate.open()
        #expect(code(end) == "stopped")
        #expect(try !names.contains { $0.hasPrefix("copy") })
    }

    @Test func `a backup sees the jobs before its question`() throws {
        let test = try TestCoordinator(in: folder)
        let gate = Gate()
        let end = Monitor<BackupEnd?>(nil)
        test.submit(#"{"Row": {"id": 1}}"#, behind: gate)
        test.coordinator.admit(
            payloadBytes: 1,
            open: { [coordinator = test.coordinator, file = folder.path("copy")] _ in
                .question { ticket in
                    coordinator.backup(to: file, before: ticket) { result in end.update { $0 = result } }
                }
            }, refuse: { _ in })
        gate.open()
        #expect(try copy(end).sequence == 1)
    }
}

/// Readers of the store in other processes, of which one may be a backup tool that checkpoints the WAL by itself.
@Suite(.timeLimit(.minutes(5))) struct OtherReaderTests {
    private let folder = TemporaryFolder()
    private let test: TestCoordinator

    init() throws {
        test = try TestCoordinator(in: folder) { $0.store.walPages = 8 }
        submit(0..<1)
    }

    /// Submits a row of 3,000 bytes for each id, one after the other.
    ///
    /// - Returns: the most bytes that the WAL had.
    @discardableResult private func submit(_ ids: Range<Int>) -> Int {
        let text = String(repeating: "x", count: 3_000)
        var most = 0
        for id in ids {
            test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}", ends: id + 1)
            let status = try? FileManager.default.attributesOfItem(atPath: folder.path("store.sqlite-wal"))
            most = max(most, status?[.size] as? Int ?? 0)
        }
        return most
    }

    @Test func `the log and the statistics name the process that holds the WAL`() throws {
        #expect(!test.statistics.contains("readers"))
        var reader: OtherProcess? = try OtherProcess(
            named: "notebook", store: folder.path("store.sqlite"), then: "sys.stdin.read()")
        let pid = try #require(reader?.pid)
        #expect(test.statistics.contains(#""readers":[{"process":"notebook","pid":\#(pid)}]"#), "\(test.statistics)")
        submit(1..<61)
        test.log.waitUntil(
            #"because another program's read transaction stays open: find it and end it. ["bytes", "pid", "process"]"#)
        reader = nil
        #expect(!test.statistics.contains("readers"))
        submit(61..<71)
        test.log.waitUntil("No reader holds the store's WAL any more")
    }

    @Test func `the log names a backup tool that is stuck, and jobs go on`() throws {
        let tool = try OtherProcess(
            named: "litestream", store: folder.path("store.sqlite"), then: "sys.stdin.read()")
        submit(1..<61)
        test.log.waitUntil("because a backup tool has not copied it: see whether it runs")
        #expect(test.statistics.contains(#""readers":[{"process":"litestream","pid":\#(tool.pid)}]"#))
    }

    /// As Litestream does it: it tries ten times a second to lock the store, and holds the WAL until it has.
    @Test func `the writer waits for a backup tool that copies a long WAL, so the WAL has a bound`() throws {
        let tool = try OtherProcess(
            named: "litestream", store: folder.path("store.sqlite"),
            then: """
                writer = connection()
                while True:
                    time.sleep(0.1)
                    try:
                        writer.execute("BEGIN IMMEDIATE")
                    except sqlite3.OperationalError:
                        continue
                    reader.execute("ROLLBACK")
                    reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    read()
                    writer.execute("ROLLBACK")
                    writer.execute("PRAGMA user_version = 1")
                """)
        // Eight times the working size.
        let pages = 8 * 8
        let bytes = submit(1..<400)
        #expect(bytes > pages * 8_192, "the WAL never became long: \(bytes)")
        // On a busy machine the writer may have to wait for the tool more than once; without any wait it is ten times as much.
        #expect(bytes < 4 * pages * (8_192 + 24), "the bound and a transaction: \(bytes)")
        withExtendedLifetime(tool) {}
    }
}
