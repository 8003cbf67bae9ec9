import BrokerJournal
import BrokerModel
import BrokerStore
import Foundation
import TestSupport
import Testing

@testable import BrokerCoordinator

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
