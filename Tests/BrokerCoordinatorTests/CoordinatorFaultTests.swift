import BrokerStore
import Testing
import TestSupport

@testable import BrokerCoordinator

/// The disk under the store fails while jobs are in flight.
@Suite(.timeLimit(.minutes(15))) struct CoordinatorFaultTests {
    private let model = """
        {"entities": {
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}},
          "Tag": {"identity": "name", "attributes": {"name": "string"}}
        }}
        """
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
            test.coordinator.onFailure { error in
                failure.broadcast {
                    $0 = error
                    return true
                }
            }
            test.submit(row(1), id: "a")
            _ = test.events.ends(1)
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
            test.coordinator.onFailure { _ in
                late.broadcast {
                    $0 = true
                    return true
                }
            }
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
