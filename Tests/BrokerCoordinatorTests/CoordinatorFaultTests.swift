import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStaging
import CSQLite
import Foundation
import Logging
import TestSupport
import Testing

@testable import BrokerCoordinator
@testable import BrokerStore

/// The disk under the store fails while jobs are in flight.
@Suite(.timeLimit(.minutes(15))) struct CoordinatorFaultTests {
    private let model = Models.of(["Row": "id integer64, text string", "Tag": "name string"])
    private let folder = TemporaryFolder()

    private func open(
        _ disk: FaultyDisk?, in folder: TemporaryFolder, walPages: Int = 2,
        _ configure: (inout CoordinatorOptions) -> Void = { _ in }
    ) throws -> TestCoordinator {
        try TestCoordinator(model, in: folder) {
            configure(&$0)
            $0.store.vfs = disk?.name
            $0.store.synchronous = .full
            $0.store.walPages = walPages
        }
    }

    private func row(_ id: Int) -> String { "{\"Row\": {\"id\": \(id)}}" }

    // MARK: - Room

    @Test func `where there is no room for a long WAL, jobs are stored all the same, and the WAL stays short`() throws {
        try FaultyDisk.with { disk in
            // A WAL of 2 MiB, or four times as much while transactions are long.
            let test = try open(disk, in: folder, walPages: 256)
            disk.limitFiles(to: 5 << 20)
            // Another one each time: SQLite does not write a page again that is as it was.
            let texts = "abcdefghijklmnop".map { String(repeating: $0, count: 2 << 20) }
            _ = test.coordinator.pause()
            // All of them wait from the beginning, so that the WAL is not copied by an idle writer.
            for text in texts { test.submit("{\"Row\": {\"id\": 1, \"text\": \"\(text)\"}}") }
            test.waitUntil(#""inFlight":16"#)
            test.waitUntil(unopened: 0)
            test.coordinator.resume()
            #expect(test.events.ends(16).allSatisfy { $0.code == nil })
            #expect(disk.isStruck)
            #expect(test.log.count("A transaction was undone") == 1)
            #expect(test.log.count("A job could not be stored") == 0)
            #expect(try test.rows("SELECT substr(text, 1, 1) FROM Row") == ["p"])
            // A job that exceeds the WAL is refused, and later ones are accepted.
            test.submit("{\"Row\": {\"id\": 9, \"text\": \"\(texts[0...2].joined())\"}}")
            test.submit(row(8))
            #expect(test.events.ends(18).suffix(2).map(\.code) == ["storeFull", nil])
        }
    }

    /// Rewrites one row until the log, which a reader holds, has no room left.
    ///
    /// - Returns: the reader, and how many jobs were submitted.
    private func fillLog(
        of test: TestCoordinator, _ disk: FaultyDisk, while isTaken: (Int) -> Bool
    ) throws -> (reader: Locker, jobs: Int) {
        let reader = try Locker(test.storePath)
        test.submit(row(1))
        try reader.execute("ROLLBACK; BEGIN; SELECT count(*) FROM Row")
        _ = test.events.ends(1)
        disk.limitFiles(to: 3 << 20)
        var jobs = 1
        repeat {
            let text = String(repeating: jobs % 2 == 0 ? "a" : "b", count: 200_000)
            test.submit("{\"Row\": {\"id\": 1, \"text\": \"\(text)\"}}")
            jobs += 1
        } while isTaken(jobs)
        return (reader, jobs)
    }

    @Test func `a job that waits for room in a WAL that a reader holds is applied when the reader has ended`() throws {
        try FaultyDisk.with { disk in
            let test = try open(disk, in: folder, walPages: 16) { $0.keepsJournal = true }
            let (reader, jobs) = try fillLog(of: test, disk) { jobs in
                test.waitUntil("its end, or that it waits") {
                    test.events.ends(0).count == jobs || test.log.count("The store cannot be written") > 0
                }
                return test.log.count("The store cannot be written") == 0
            }
            try reader.unlock()
            #expect(test.events.ends(jobs).allSatisfy { $0.code == nil })
            test.log.waitUntil("The store can be written again")
        }
    }

    /// With blocks of one, a sequence must be reserved for each job, which needs room as well.
    @Test(arguments: [1, 1_000], [false, true])
    func `when the reader of a full WAL has ended, the next job is stored, also after a reload`(
        sequenceBlock: Int64, reloads: Bool
    ) throws {
        try FaultyDisk.with { disk in
            let test = try open(disk, in: folder, walPages: 16) { $0.limits.sequenceBlock = sequenceBlock }
            let reader: Locker
            var jobs: Int
            (reader, jobs) = try fillLog(of: test, disk) { test.events.ends($0).last?.code == nil }
            repeat {
                test.submit(row(2))
                jobs += 1
            } while test.events.ends(jobs).last?.code == nil
            #expect(test.events.ends(jobs).last?.code == "storeFull")
            try reader.unlock()
            if reloads { #expect(test.reload(model).isEmpty) }
            test.submit(row(2))
            #expect(test.events.ends(jobs + 1).last?.code == nil)
        }
    }

    /// With blocks of one, the sequence of the job cannot be reserved, either.
    @Test(arguments: [1, 1_000])
    func `a full store is reported as waiting, and as serving when it takes writes again, without another job`(
        sequenceBlock: Int64
    ) throws {
        try FaultyDisk.with { disk in
            let test = try open(disk, in: folder) { $0.limits.sequenceBlock = sequenceBlock }
            disk.fail(.write, number: 1, with: .noSpace, always: true)
            for id in 1...3 { test.submit(row(id), id: "\(id)") }
            #expect(test.events.ends(3).map(\.code) == ["storeFull", "storeFull", "storeFull"])
            #expect(test.statistics.contains(#""store":{"state":"waiting","cause":"The store "#))
            #expect(test.coordinator.condition.waitingCause?.contains("is full") == true)
            disk.mend()
            test.waitUntil(#""store":{"state":"serving""#)
            #expect(test.coordinator.condition.waitingCause == nil)
            #expect(test.await("1").ending?.code == "storeFull")
            test.submit(row(4))
            #expect(test.events.ends(4).last?.code == nil)
        }
    }

    // MARK: - The end

    @Test func `a COMMIT whose sync fails is reported to the operator alone, and found complete by the next server`()
        throws
    {
        let events = try FaultyDisk.with { disk in
            // So many that it is not copied meanwhile.
            let test = try open(disk, in: folder, walPages: 1_000)
            let failure = Monitor<StoreError?>(nil)
            test.coordinator.onFailure { error in failure.update { $0 = error } }
            test.submit(row(1), id: "a", ends: 1)
            #expect(test.statistics.contains(#""store":{"state":"serving""#))
            disk.fail(.sync, number: 1, with: .ioError)
            for id in 2...4 { test.submit(row(id), id: "\(id)") }
            let error = failure.patiently("the failure") { $0 }
            #expect(error.isDiskFailure)
            #expect(error.message.contains(test.storePath) && error.message.contains("disk I/O error"))
            // Sound again, or so it seems: what comes later is not taken all the same.
            test.submit(row(5), id: "5")
            test.coordinator.finishAdmitted()
            #expect(test.log.count("critical: The store has failed") == 1)
            #expect(test.statistics.contains(#""store":{"state":"failed","cause":"The store "#))
            let late = Monitor(false)
            test.coordinator.onFailure { _ in late.update { $0 = true } }
            late.patiently("one who asks late") { $0 ? () : nil }
            return test.events
        }
        // Stopped by now.
        #expect(events.ends(1).map(\.id) == ["a"])
        let test = try open(nil, in: folder)
        #expect(test.await("a").ending?.sequence == 1)
        #expect(test.await("5") == .unknown)
        for id in 2...5 { test.submit(row(id), id: "\(id)") }
        #expect(test.events.ends(4).map(\.code) == [nil, nil, nil, nil])
        #expect(test.events.ends(4).first?.isDuplicate == true, "a process that ends takes nothing from the files")
        #expect(try test.rows("SELECT id FROM Row") == ["1", "2", "3", "4", "5"])
    }

    @Test func `completed jobs are there, whether a COMMIT or a copy of the WAL was the end`() throws {
        let events = try FaultyDisk.with { disk in
            let test = try open(disk, in: folder)
            let text = String(repeating: "x", count: 3_000)
            var id = 0
            while test.log.count("critical") == 0, id < 100 {
                id += 1
                disk.fail(.sync, number: 2, with: .ioError)
                test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}", id: "\(id)")
                test.coordinator.finishAdmitted()
            }
            test.submit(row(1_000))
            test.coordinator.finishAdmitted()
            return test.events
        }
        let endings = events.ends(0)
        #expect(endings.count < 100)
        let test = try open(nil, in: folder)
        let rows = try test.rows("SELECT count(*) FROM Row")
        #expect(rows == ["\(endings.count)"] || rows == ["\(endings.count + 1)"])
    }

    // MARK: - Every moment

    private func submitAll(_ test: TestCoordinator, _ ids: Set<String> = ["a", "b", "c", "d", "e"]) {
        let jobs: [(id: String, submit: () -> Void)] = [
            ("a", { test.submit(#"{"Row": [{"id": 1}, {"id": 2}, {"id": 3}], "Tag": {"name": "old"}}"#, id: "a") }),
            ("b", { test.submit(#"{"Tag": [{"name": "x"}, {"name": "y"}]}"#, id: "b", isSync: true) }),
            ("c", { test.submit(#"{"Row": [{"id": 4}, {"id": 5}]}"#, id: "c") }),
            ("d", { test.submit(#"{"Row": []}"#, id: "d", deletingWhere: "id == 2") }),
            ("e", { test.submit(row(6), id: "e") }),
        ]
        for job in jobs where ids.contains(job.id) {
            job.submit()
            test.coordinator.finishAdmitted()
        }
    }

    @Test(arguments: [
        (FaultyDisk.Operations.write, FaultyDisk.Fault.ioError), (.write, .shortWrite), (.write, .noSpace),
        (.write, .quota), (.sync, .ioError), (.read, .ioError), (.sharedLock, .ioError),
    ])
    func `whatever fails, answers are true, and unanswered jobs can be sent again`(
        operation: FaultyDisk.Operations, fault: FaultyDisk.Fault
    ) throws {
        let isFull = fault == .noSpace || fault == .quota
        let stride = Cases.count(5, of: 1)
        var generator = SeededGenerator(for: "whatever fails, \(operation) \(fault)")
        for isForGood in [false, true] {
            let first = Int.random(in: 1...stride, using: &generator)
            var number = first
            var isStruck = true
            while isStruck {
                let folder = TemporaryFolder()
                let events = try FaultyDisk.with { disk in
                    let test = try open(disk, in: folder)
                    disk.fail(operation, number: number, with: fault, always: isForGood)
                    submitAll(test)
                    isStruck = disk.isStruck
                    if isFull { #expect(!test.statistics.contains(#""state":"failed""#), "number \(number)") }
                    return test.events
                }
                try look(at: folder, events.ends(0), isFull: isFull, "number \(number)")
                number += stride
            }
            #expect(number > first + stride, "none failed")
        }
    }

    /// Opens the store again, and sends everything again.
    private func look(at folder: TemporaryFolder, _ endings: [Ending], isFull: Bool, _ what: Comment) throws {
        let test = try open(nil, in: folder)
        for ending in endings where ending.code == nil {
            #expect(test.await(ending.id).ending?.sequence == ending.sequence, what)
        }
        for ending in endings {
            #expect(ending.code == nil || (isFull && ending.code == "storeFull"), what)
        }
        if isFull { #expect(endings.count == 5, what) }
        submitAll(test)
        #expect(test.events.ends(5).map(\.code) == [nil, nil, nil, nil, nil], what)
        let completed = Set(endings.filter { $0.code == nil }.map(\.id))
        for ending in test.events.ends(5) where completed.contains(ending.id) { #expect(ending.isDuplicate, what) }
        // Whether 2 was deleted before it was made, or afterwards, depends on the failed operation.
        #expect(try test.rows("SELECT id FROM Row WHERE id <> 2") == ["1", "3", "4", "5", "6"], what)
        #expect(try Set(test.rows("SELECT name FROM Tag")).isSuperset(of: ["x", "y"]), what)
        #expect(try test.rows("PRAGMA integrity_check") == ["ok"], what)
    }
}

/// Files of a store or a journal that are deleted, moved or replaced beside a running server: it halts, and destroys nothing.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLossTests {
    private static let model = Models.of(["Row": "id integer64"])
    private static let other = Models.of(["Row": "id integer64, name string"])
    private let folder = TemporaryFolder()
    private let files = FileManager.default
    private var store: String { folder.path("store.sqlite") }
    private var moved: String { folder.path("moved") }

    private func open(keepsJournal: Bool = false) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) {
            $0.keepsJournal = keepsJournal
            $0.store.synchronous = keepsJournal ? .normal : .full
        }
    }

    private func submit(_ ids: ClosedRange<Int>, to test: TestCoordinator) {
        for id in ids { test.submit("{\"Row\": {\"id\": \(id)}}", id: "job-\(id)") }
    }

    /// Nothing is stored from now on, the state says why, and what was read before can be read still.
    private func hasHalted(_ test: TestCoordinator, _ cause: String = "was deleted or moved") throws {
        #expect(test.statistics.contains(#""store":{"state":"halted","cause":""#), "\(test.statistics)")
        #expect(test.coordinator.condition.haltCause?.contains(cause) == true)
        let count = test.events.all.count
        test.submit(#"{"Row": {"id": 1000}}"#, id: "refused")
        #expect(test.events.ends(count + 1).last?.code == "storeUnavailable")
        #expect(test.events.ends(count + 1).last?.body.contains("This server has halted. ") == true)
        #expect(test.reload(Self.other).first?.contains(cause) == true)
        #expect(test.compare(Self.other, .drop).first?.contains(cause) == true)
        let backup: BackupEnd = answer { test.coordinator.backup(to: folder.path("copy"), notify: $0) }
        #expect("\(backup)".contains(cause))
        #expect("\(answer { test.coordinator.checkpoint($0) })".contains(cause))
    }

    @Test(arguments: [true, false], ["reload", "stats", "compare", "backup"])
    func `after the store was moved, nothing is made in its place, and put back it has all rows`(
        keepsJournal: Bool, first: String
    ) throws {
        do {
            let test = try open(keepsJournal: keepsJournal)
            submit(1...200, to: test)
            _ = test.events.ends(200)
            try files.moveItem(atPath: store, toPath: moved)
            switch first {
            case "reload": #expect(test.reload(Self.other).first?.contains("was deleted or moved") == true)
            case "compare": #expect(test.compare(Self.other, .drop).first?.contains("was deleted or moved") == true)
            case "backup": test.coordinator.backup(to: folder.path("copy")) { _ in }
            default: break
            }
            try hasHalted(test)
            #expect(!files.fileExists(atPath: store) && !files.fileExists(atPath: folder.path("copy")))
        }
        #expect(!files.fileExists(atPath: store))
        try files.moveItem(atPath: moved, toPath: store)
        let again = try open(keepsJournal: keepsJournal)
        #expect(try again.rows("SELECT count(*) FROM Row") == ["200"])
        submit(1...1, to: again)
        #expect(again.events.ends(1)[0].isDuplicate)
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is put in the place of one of the store's is not touched`(suffix: String) throws {
        let foreign = Data("another program's".utf8)
        do {
            let test = try open()
            submit(1...20, to: test)
            _ = test.events.ends(20)
            try files.moveItem(atPath: store + suffix, toPath: moved)
            try foreign.write(to: URL(filePath: store + suffix))
            try hasHalted(test, "was replaced by another file")
        }
        #expect(try Data(contentsOf: URL(filePath: store + suffix)) == foreign)
        try files.removeItem(atPath: store + suffix)
        try files.moveItem(atPath: moved, toPath: store + suffix)
        #expect(try open().rows("SELECT count(*) FROM Row") == ["20"])
    }

    @Test func `rows of a WAL that was deleted are in the database after the stop`() throws {
        do {
            let test = try open()
            submit(1...20, to: test)
            _ = test.events.ends(20)
            try files.removeItem(atPath: store + "-wal")
            try hasHalted(test)
        }
        #expect(try open().rows("SELECT count(*) FROM Row") == ["20"])
    }

    @Test func `fetches go on with the database that is open, and never read another one`() throws {
        let test = try open()
        submit(1...3, to: test)
        _ = test.events.ends(3)
        let query = try test.coordinator.plan.fetchRequest(FetchDescription(entity: "Row"))
        func fetched() -> String {
            let end: FetchEnd = answer { test.coordinator.fetch(query, from: 1, notify: $0) }
            guard case .found(let objects) = end else { return "\(end)" }
            return String(decoding: objects.bytes, as: UTF8.self)
        }
        #expect(fetched().contains(#"{"id":3}"#))
        let copy = TemporaryFolder()
        let empty = try TestCoordinator(Self.model, in: copy)
        try files.moveItem(atPath: store, toPath: moved)
        try files.copyItem(atPath: copy.path("store.sqlite"), toPath: store)
        withExtendedLifetime(empty) {}
        for _ in 0..<4 {
            let answer = fetched()
            #expect(answer.contains(#"{"id":3}"#) || answer.contains("was replaced by another file"), "\(answer)")
        }
    }

    @Test(arguments: ["folder moved", "folder deleted", "file deleted", "file replaced"])
    func `a journal that is not where it was refuses jobs, and has none of them when it is put back`(
        change: String
    ) throws {
        let journal = store + ".journal"
        let file = journal + "/0000000000000001.jobs"
        do {
            let test = try open(keepsJournal: true)
            submit(1...3, to: test)
            _ = test.events.ends(3)
            switch change {
            case "folder moved": try files.moveItem(atPath: journal, toPath: moved)
            case "folder deleted": try files.removeItem(atPath: journal)
            case "file deleted": try files.removeItem(atPath: file)
            default:
                try files.moveItem(atPath: file, toPath: moved)
                try files.copyItem(atPath: moved, toPath: file)
            }
            test.submit(#"{"Row": {"id": 4}}"#, id: "job-4", wantsAcceptance: true)
            #expect(test.events.ends(4).last?.code == "storeUnavailable")
            #expect(!test.events.all.contains { $0.hasPrefix("accepted job-4") })
            test.waitUntil(#""store":{"state":"halted","cause":""#)
            #expect(test.coordinator.storageFailure.error == nil)
            #expect(test.reload(Self.other).first?.hasPrefix("refused storeUnavailable") == true)
        }
        guard change == "folder moved" else { return }
        try files.moveItem(atPath: moved, toPath: journal)
        let again = try open(keepsJournal: true)
        #expect(try again.rows("SELECT id FROM Row") == ["1", "2", "3"])
        submit(4...4, to: again)
        #expect(again.events.ends(1)[0].code == nil)
    }

    @Test func `a journal that was moved is in the state before a job meets it`() throws {
        let test = try open(keepsJournal: true)
        submit(1...1, to: test)
        _ = test.events.ends(1)
        try files.moveItem(atPath: store + ".journal", toPath: moved)
        #expect(test.statistics.contains(#""store":{"state":"halted","cause":"The journal's file "#))
    }

    @Test func `a start beside a WAL without its database is refused, and touches nothing`() throws {
        do {
            let test = try open()
            submit(1...5, to: test)
            _ = test.events.ends(5)
            try files.moveItem(atPath: store, toPath: moved)
            #expect(test.coordinator.condition.haltCause != nil)
        }
        let wal = try Data(contentsOf: URL(filePath: store + "-wal"))
        #expect(!wal.isEmpty)
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(Self.model.utf8))))
        let options = CoordinatorOptions(storePath: store, limits: CoordinatorLimits(workers: 1))
        for _ in 0..<2 {
            let error = #expect(throws: StoreError.self) {
                try OwnedStore(plan: plan, options: options, logger: Logger(label: "test") { _ in LogLines() })
            }
            #expect(error?.message.contains("is not there, and its WAL is") == true)
            #expect(try Data(contentsOf: URL(filePath: store + "-wal")) == wal)
            #expect(!files.fileExists(atPath: store))
        }
        try files.moveItem(atPath: moved, toPath: store)
        #expect(try open().rows("SELECT count(*) FROM Row") == ["5"])
    }
}

/// Another program has locked the store.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLockTests {
    @Test func `jobs wait until the store is free again, and none fails`() throws {
        let test = try TestCoordinator()
        let locker = try Locker(test.storePath)
        for number in 1...3 { test.submit("{\"Row\": {\"id\": \(number)}}", id: "\(number)") }
        test.log.waitUntil("warning: Another program has locked the store")
        test.submit(#"{"Row": {"id": "x"}}"#, id: "4")
        #expect(test.events.all.isEmpty)
        #expect(test.await("never") == .unknown)
        #expect(test.statistics.contains(#""state":"waiting","cause":"Another program has locked the store.""#))
        try locker.unlock()
        let ends = test.events.ends(4)
        #expect(ends.map(\.code) == [nil, nil, nil, "invalidValue"])
        #expect(ends.map(\.sequence) == [1, 2, 3, 4])
        test.log.waitUntil("no longer locked; jobs continue. [\"milliseconds\"]")
        #expect(test.statistics.contains(#""store":{"state":"serving""#))
        #expect(test.log.count("locked") == 2)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["3"])
    }

    @Test func `a server that stops does not wait for ever, and what failed is remembered with its number`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(in: folder)
            let locker = try Locker(test.storePath)
            test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsAcceptance: true)
            test.submit(#"{"Row": {"id": 2}}"#)
            test.log.waitUntil("warning: Another program has locked the store")
            test.coordinator.refuseNewJobs(lockSeconds: 0)
            test.coordinator.finishAdmitted()
            let ends = test.events.ends(2)
            #expect(ends.map(\.code) == ["storeUnavailable", "storeUnavailable"])
            #expect(ends.map(\.sequence) == [1, 2])
            #expect(test.events.all.first == "accepted a 1")
            #expect(test.await("a").ending == ends[0])
            try locker.unlock()
        }
        let test = try TestCoordinator(in: folder)
        #expect(test.await("a").ending?.code == "storeUnavailable")
        #expect(test.await("a").ending?.sequence == 1)
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        #expect(test.events.ends(1).map(\.sequence) == [3])
        #expect(test.await("a").ending?.code == nil)
    }

    @Test func `a store that stays locked through the end costs no number twice`() throws {
        let folder = TemporaryFolder()
        let locker: Locker
        do {
            let test = try TestCoordinator(in: folder)
            locker = try Locker(test.storePath)
            test.submit(#"{"Row": {"id": 1}}"#, id: "a")
            test.log.waitUntil("warning: Another program has locked the store")
            test.coordinator.refuseNewJobs(lockSeconds: 0)
            #expect(test.events.ends(1).map(\.sequence) == [1])
        }
        try locker.unlock()
        let test = try TestCoordinator(in: folder)
        test.submit(#"{"Row": {"id": 1}}"#, id: "b")
        #expect(test.events.ends(1).allSatisfy { $0.sequence ?? 0 > 1 })
    }
}

/// Failures that wait for a store that takes them, as a pure value.
@Suite(.timeLimit(.minutes(5))) struct UnrecordedFailuresTests {
    private func keep(_ failures: inout UnrecordedFailures, _ id: String, _ sequence: Int64) {
        let fault = Fault(.storeFull, "full")
        failures.keep(
            StoreJob(JobFacts(id: id, contentHash: nil), sequence: sequence, work: .refused(fault), now: 0),
            .failed(fault, id: id, owner: .server, sequence: sequence))
    }

    @Test func `the oldest is forgotten when there are too many`() {
        var failures = UnrecordedFailures()
        for number in 1...UnrecordedFailures.maximumCount + 5 { keep(&failures, "\(number)", Int64(number)) }
        #expect(failures.jobs.count == UnrecordedFailures.maximumCount)
        #expect(failures.jobs.first?.sequence == 6)
        #expect(failures.outcome(of: JobID("5"), as: .server) == nil)
        #expect(failures.outcome(of: JobID("6"), as: .server)?.sequence == 6)
    }

    @Test func `a job that fails again after it was read is not forgotten when that is written`() {
        var failures = UnrecordedFailures()
        keep(&failures, "a", 1)
        keep(&failures, "b", 2)
        let read = failures.jobs
        keep(&failures, "a", 3)
        failures.remove(read)
        #expect(failures.jobs.map(\.sequence) == [3])
    }
}

@Suite(.timeLimit(.minutes(5))) struct LoneAttemptsTests {
    @Test func `a job that does too much is tried once more, and a second time is a defect`() {
        for (isLogged, end) in [(true, LoneAttempts.Step.stop), (false, .fail)] {
            var attempts = LoneAttempts(isLogged: isLogged)
            #expect(attempts.next(after: .overworked) { false } == .again)
            #expect(attempts.next(after: .overworked) { false } == end)
        }
    }

    @Test func `room is made once, and then a job of the journal waits`() {
        let full = StoreError(.full, "full")
        for (isLogged, end) in [(true, LoneAttempts.Step.wait), (false, .fail)] {
            var attempts = LoneAttempts(isLogged: isLogged)
            #expect([true, true].map { hasRoom in attempts.next(after: full) { hasRoom } } == [.again, end])
        }
        var attempts = LoneAttempts(isLogged: true)
        #expect(attempts.next(after: StoreError(.constraint, "no")) { false } == .stop)
        #expect(attempts.next(after: StoreError(.defect, "no")) { false } == .stop)
    }

    /// SQLite asks the authorizer when it compiles the statements again, which setting one makes it do.
    @Test(arguments: ["RELEASE", "ROLLBACK"])
    func `a savepoint that cannot be ended stops the server before the job, which a later start applies`(
        operation: String
    ) throws {
        let folder = TemporaryFolder()
        func start() throws -> TestCoordinator {
            try TestCoordinator(in: folder) {
                $0.keepsJournal = true
                $0.store.synchronous = .full
            }
        }
        do {
            let test = try start()
            test.submit(#"{"Row": {"id": 1}}"#, id: "a", ends: 1)
            let isRelease = operation == "RELEASE"
            test.coordinator.jobTable.update {
                $0.requests.tasks.append { store in
                    // The parameters: the action, the operation, the savepoint.
                    sqlite3_set_authorizer(
                        store.connection.handle,
                        { context, action, operation, _, _, _ in
                            guard action == SQLITE_SAVEPOINT, let operation else { return SQLITE_OK }
                            let denied = context == nil ? "ROLLBACK" : "RELEASE"
                            return String(cString: operation) == denied ? SQLITE_DENY : SQLITE_OK
                        }, isRelease ? UnsafeMutableRawPointer(bitPattern: 1) : nil)
                }
            }
            // It may not delete, so its savepoint is rolled back.
            test.submit(#"{"Row": {"id": 1}}"#, id: "delete-b", deletingWhere: "TRUEPREDICATE", wantsAcceptance: true) {
                $0.terms.mayDelete = false
            }
            test.submit(#"{"Row": {"id": 3}}"#, id: "c", wantsAcceptance: true)
            test.log.waitUntil("cannot be applied because of a defect")
            #expect(!test.events.all.contains { $0.hasPrefix("ended delete-b") || $0.hasPrefix("ended c") })
        }
        #expect(try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite")) == ["1"])
        let ends = try start().events.ends(2)
        #expect(ends.map(\.id) == ["delete-b", "c"] && ends.map(\.code) == ["unauthorized", nil])
    }
}
