import BrokerJournal
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

/// Which subscription the next part is read for.
@Suite(.timeLimit(.minutes(5))) struct FeedTableTests {
    private func table(_ numbers: Int...) -> FeedTable {
        var table = FeedTable()
        for number in numbers { table.add(number) }
        return table
    }

    @Test func `a subscription that has read everything waits for a commit`() throws {
        var table = table(1)
        #expect(table.next() == nil, "the client has not asked")
        table.ask(1)
        #expect(table.next() == 1, "the first part is read at once")
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == nil)
        table.committed()
        #expect(table.next() == 1)
        #expect(table.position(of: 1) == 7)
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == nil, "the commit was one without a line in the ledger")
    }

    @Test func `a commit while a part is read, and what did not fit into it, are read next`() throws {
        var table = table(1)
        table.ask(1)
        #expect(table.next() == 1)
        table.committed()
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == 1)
        table.read(1, through: 9, isLast: false, isSent: false)
        #expect(table.next() == 1)
    }

    @Test func `after a part the client must ask, and commits meanwhile are not lost`() throws {
        var table = table(1)
        table.ask(1)
        _ = table.next()
        table.read(1, through: 3, isLast: true, isSent: true)
        table.committed()
        #expect(table.next() == nil, "the client has no room")
        table.ask(1)
        #expect(table.next() == 1)
        table.postpone(1)
        #expect(table.next() == nil)
        table.ask(1)
        #expect(table.next() == 1)
        table.end(1)
        table.read(1, through: 9, isLast: true, isSent: false)
        table.ask(1)
        #expect(table.count == 0)
        #expect(table.next() == nil)
    }

    @Test func `one that has much to read does not delay another one`() throws {
        var table = table(1, 2)
        table.ask(2)
        _ = table.next()
        table.read(2, through: 1, isLast: true, isSent: false)
        table.ask(1)
        for _ in 1...3 {
            #expect(table.next() == 1)
            table.read(1, through: 1, isLast: false, isSent: true)
            table.ask(1)
        }
        table.committed()
        #expect(Set([table.next(), table.next()]) == [1, 2])
    }

    /// The test's own record of a subscription.
    private struct Known {
        /// Transactions whose jobs it has read; nil before the first part.
        var read: Int?
        var hasRoom = false
    }

    @Test func `whatever happens, each subscription with room reads all commits`() throws {
        var generator = SeededGenerator()
        for _ in 0..<200 {
            var table = FeedTable()
            var known: [Int: Known] = [:]
            var (commits, commitsAtNext, last): (Int, Int, Int) = (0, 0, 0)
            var reading: Int?
            for _ in 0..<200 {
                let number = Int.random(in: 1...max(1, last), using: &generator)
                switch Int.random(in: 0..<8, using: &generator) {
                case 0:
                    commits += 1
                    table.committed()
                case 1 where known.count < 6:
                    last += 1
                    table.add(last)
                    known[last] = Known()
                case 2, 3:
                    table.ask(number)
                    if reading != number { known[number]?.hasRoom = true }
                case 4 where generator.next() % 4 == 0:
                    table.end(number)
                    known[number] = nil
                    if reading == number { reading = nil }
                default:
                    guard let current = reading else {
                        reading = table.next()
                        commitsAtNext = commits
                        if let next = reading {
                            let state = try #require(known[next])
                            #expect(state.hasRoom && state.read ?? -1 < commits)
                        } else {
                            let isIdle = known.values.allSatisfy { !$0.hasRoom || $0.read ?? -1 >= commits }
                            #expect(isIdle, "a subscription with room and news was not read")
                        }
                        continue
                    }
                    reading = nil
                    switch Int.random(in: 0..<4, using: &generator) {
                    case 0:
                        table.postpone(current)
                        known[current]?.hasRoom = false
                    case 1:
                        table.read(current, through: 1, isLast: false, isSent: false)
                        known[current]?.read = -1
                    case let choice:
                        table.read(current, through: 1, isLast: true, isSent: choice == 2)
                        known[current] = Known(read: choice == 2 ? -1 : commitsAtNext, hasRoom: choice != 2)
                    }
                }
                #expect(table.count == known.count)
            }
        }
    }
}

/// A follower of a coordinator, and its events: `opened AFTER OLDEST`, `SEQUENCE CHANGES KEYS`, the code of a failure.
private final class Follower: Sendable {
    private let list = Monitor<[String]>([])
    private let room = Monitor(true)

    func follow(
        _ test: TestCoordinator, _ entities: [String]? = nil, after: Int64? = nil, asks: Bool = true
    ) -> FeedSubscription {
        let subscription = test.coordinator.subscribe(
            to: entities, after: after, wantsKeys: true, hasRoom: { [room] in room.withLock { $0 } }
        ) { [list] subscription, event in
            list.broadcast { list in
                switch event {
                case .opened(let after, let oldest): list.append("opened \(after) \(oldest)")
                case .commits(let commits): list += commits.isEmpty ? ["postponed"] : commits.map(Self.text)
                case .failed(let fault): list.append("\(fault.code)")
                case .stopped: list.append("stopped")
                }
                return true
            }
            if asks, case .commits = event { subscription.ask() }
        }
        subscription.ask()
        return subscription
    }

    private static func text(_ commit: FeedCommit) -> String {
        "\(commit.sequence) \(String(decoding: commit.changes, as: UTF8.self)) "
            + String(decoding: commit.keys ?? [], as: UTF8.self)
    }

    func set(hasRoom: Bool) { room.withLock { $0 = hasRoom } }

    /// Waits for so many events.
    func events(_ count: Int) -> [String] {
        list.patiently("\(count) events of the feed") { $0.count >= count ? $0 : nil }
    }
}

/// The thread of the feed.
@Suite(.timeLimit(.minutes(5))) struct FeedThreadTests {
    private let renamed = #"""
        {"entities": {"Line": {"renamedFrom": "Row", "identity": "id",
          "attributes": {"id": "integer64", "value": "integer64", "text": "string"}}}}
        """#

    private func commit(_ number: Int, _ entity: String = "Row") -> String {
        "\(number) {\"\(entity)\":{\"inserted\":1}} {\"\(entity)\":{\"inserted\":[\(number)]}}"
    }

    @Test func `nothing is read for a client without room until it asks again`() throws {
        let test = try TestCoordinator()
        let follower = Follower()
        let subscription = follower.follow(test, asks: false)
        #expect(follower.events(1) == ["opened 0 0"])
        test.submit(row(1), id: "a")
        #expect(follower.events(2)[1] == commit(1))
        follower.set(hasRoom: false)
        subscription.ask()
        #expect(follower.events(3)[2] == "postponed")
        test.submit(row(2), id: "b", ends: 2)
        follower.set(hasRoom: true)
        subscription.ask()
        #expect(follower.events(4)[3] == commit(2))
        subscription.cancel()
        subscription.ask()
        #expect(test.statistics.contains(#""subscriptions":0"#))
    }

    @Test func `a reload ends the subscriptions of entities that are no more, and others have the new ones`() throws {
        let test = try TestCoordinator()
        let (rows, all) = (Follower(), Follower())
        _ = rows.follow(test, ["Row"])
        _ = all.follow(test)
        _ = (rows.events(1), all.events(1))
        test.submit(row(1), id: "a")
        #expect(rows.events(2)[1] == commit(1))
        #expect(all.events(2)[1] == commit(1))
        #expect(test.reload(renamed).count == 1)
        test.submit(#"{"Line": {"id": 2}}"#, id: "b")
        #expect(rows.events(3)[2] == "unknownEntity")
        #expect(all.events(3)[2] == commit(2, "Line"))
        test.waitUntil(#""subscriptions":1"#)
    }

    @Test func `a follower that was slower than the ledger forgets is gone, and others go on`() throws {
        let test = try TestCoordinator { $0.store.retention.count = 10 }
        let (slow, other) = (Follower(), Follower())
        let subscription = slow.follow(test, asks: false)
        #expect(slow.events(1) == ["opened 0 0"])
        test.submit(row(1), id: "1")
        #expect(slow.events(2)[1] == commit(1))
        for number in 2...60 {
            test.submit(row(number), id: "\(number)", ends: number)
        }
        _ = other.follow(test)
        #expect(other.events(1)[0].hasPrefix("opened 60 "))
        subscription.ask()
        #expect(slow.events(3)[2] == "gone")
        test.submit(row(61), id: "61")
        #expect(other.events(2)[1] == commit(61))
        test.waitUntil(#""subscriptions":1"#)
    }

    @Test func `a stop ends the subscriptions`() throws {
        let (waiting, reading) = (Follower(), Follower())
        do {
            let test = try TestCoordinator()
            _ = waiting.follow(test)
            _ = waiting.events(1)
            test.submit(row(1), id: "a")
            _ = reading.follow(test, after: 0, asks: false)
            _ = (waiting.events(2), reading.events(2))
        }
        #expect(waiting.events(3)[2] == "stopped")
        #expect(reading.events(3)[2] == "stopped")
    }
}
