import Foundation
import Testing
import TestSupport

@testable import BrokerStore

/// The write-ahead log: its working size, and what a long reader does to it.
@Suite(.timeLimit(.minutes(5))) struct WALTests {
    private static let workingPages = 16
    /// Pages of 8,192 bytes, each with a header of 24, after one of 32.
    private static let workingBytes = 32 + workingPages * (8192 + 24)
    private static let longestBytes = 32 + workingPages * WALWatch.longestFactor * (8192 + 24)
    private let store: TestStore

    init() throws {
        var options = StoreOptions()
        options.walPages = Self.workingPages
        options.synchronous = .off
        store = try TestStore(
            #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#,
            options: options)
    }

    private func write(_ id: Int, bytes: Int = 3_000) throws {
        try store.apply("{\"Row\": {\"id\": \(id), \"text\": \"\(String(repeating: "x", count: bytes))\"}}")
    }

    private var logBytes: Int { fileSize(store.path + "-wal") ?? -1 }

    @Test func `without readers the WAL stays at its working size, and no reader holds it`() throws {
        for id in 0..<200 {
            try write(id)
            #expect(store.store.wal.bytes == logBytes)
            #expect(logBytes < 2 * Self.workingBytes)
        }
        #expect(store.store.takeWALNotices().isEmpty)
        try store.store.begin()
        try store.store.commit()
        #expect(logBytes >= Self.workingBytes / 2, "it is not emptied in service")
    }

    @Test func `a COMMIT copies nothing, and what is due is copied once`() throws {
        func commit(_ id: Int, bytes: Int) throws {
            try store.store.begin()
            let text = String(repeating: "x", count: bytes)
            _ = try store.store.apply(store.job("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}"))
            try store.store.commit()
        }
        try commit(1, bytes: 10)
        store.store.copyWALIfDue()
        let few = store.store.wal.uncheckpointedPages
        #expect((1..<Self.workingPages).contains(few), "it has not its size yet")
        try commit(2, bytes: 600_000)
        #expect(store.store.wal.uncheckpointedPages > Self.workingPages)
        store.store.copyWALIfDue()
        #expect(store.store.wal.uncheckpointedPages == 0)
        try commit(3, bytes: 10)
        #expect(store.store.wal.uncheckpointedPages <= few, "it began again")
    }

    @Test func `the WAL is copied while no job waits, and restarts`() throws {
        var longest = 0
        for id in 0..<100 {
            try write(id)
            longest = max(longest, store.store.wal.uncheckpointedPages)
            store.store.idle()
            #expect(store.store.wal.uncheckpointedPages < max(1, Self.workingPages / WALWatch.idleShare))
        }
        #expect(longest < Self.workingPages)
        #expect(logBytes < Self.workingBytes)
    }

    @Test func `a long reader's growth of the WAL is reported once, and truncated when it has ended`() throws {
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        var notices: [WALNotice] = []
        for id in 0..<200 {
            try write(id)
            notices += store.store.takeWALNotices()
        }
        guard case .held(let bytes)? = notices.first, notices.count == 1 else {
            Issue.record("not reported once: \(notices)")
            return
        }
        #expect(bytes > WALWatch.heldFactor * Self.workingBytes)
        #expect(store.store.wal.bytes == logBytes)
        #expect(store.store.wal.uncheckpointedPages > WALWatch.heldFactor * Self.workingPages)
        try reader.execute("COMMIT")
        notices = []
        for id in 200..<210 {
            try write(id)
            notices += store.store.takeWALNotices()
        }
        guard case .released(let rest)? = notices.first, notices.count == 1 else {
            Issue.record("not reported once: \(notices)")
            return
        }
        #expect(rest <= Self.longestBytes)
        #expect(logBytes <= Self.longestBytes)
        #expect(store.store.wal.uncheckpointedPages < Self.workingPages)
        #expect(try store.isSound())
    }

    @Test
    func
        `the length of a log that another connection made is known from the opening on, and it is copied as far as it can be`()
        throws
    {
        for id in 0..<5 { try write(id) }
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        for id in 5..<10 { try write(id) }
        let few = store.store.wal.uncheckpointedPages
        try store.reopen()
        #expect(store.store.wal.uncheckpointedPages == few, "what the reader sees was copied before")
        #expect(!store.store.makeRoom(), "a reader is there")
        try reader.execute("COMMIT")
        #expect(store.store.makeRoom())
        #expect(store.store.wal.uncheckpointedPages == 0)
        #expect(!store.store.makeRoom(), "there is nothing more to copy")
        try store.execute("UPDATE Row SET text = 'another program wrote this'")
        #expect(store.store.makeRoom() && !store.store.makeRoom())
        try write(10)
        let some = store.store.wal.uncheckpointedPages
        #expect((1..<few).contains(some))
        try store.reopen()
        #expect(store.store.wal.uncheckpointedPages == 0)
    }

    @Test func `a store whose WAL has no room left is opened, and the WAL is overwritten`() throws {
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        for id in 0..<100 { try write(id % 2) }
        let crashed = TemporaryFolder()
        for name in ["store.sqlite", "store.sqlite-wal"] {
            try FileManager.default.copyItem(atPath: store.folder.path(name), toPath: crashed.path(name))
        }
        try FaultyDisk.with { disk in
            disk.limitFiles(to: logBytes)
            var options = StoreOptions()
            options.vfs = disk.name
            let opened = try Store(path: crashed.path("store.sqlite"), plan: store.plan, options: options)
            _ = try opened.openSequences(10)
        }
        #expect(fileSize(crashed.path("store.sqlite-wal")) ?? 0 <= logBytes)
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: crashed.path("store.sqlite")) == ["2"])
    }

    @Test func `the growth of the WAL by large transactions is not reported as a reader's`() throws {
        for id in 0..<4 { try write(id, bytes: (id + 1) << 20) }
        #expect(store.store.takeWALNotices().isEmpty)
        #expect(store.store.wal.bytes > WALWatch.heldFactor * Self.workingBytes)
        try write(5)
        #expect(logBytes <= Self.longestBytes)
    }

    @Test func `the watch reports the beginning and the end of a reader that holds the WAL, once each`() {
        var watch = WALWatch(workingPages: 10)
        #expect(watch.committed(pages: 9, written: 9) == nil)
        #expect(!watch.wantsCheckpoint)
        #expect(watch.committed(pages: 12, written: 1) == nil)
        #expect(watch.wantsCheckpoint)
        watch.checkpointed(copied: 5, of: 12)
        #expect(watch.uncheckpointedPages == 7)
        #expect(watch.committed(pages: 82, written: 70) == nil, "what was there before is not beyond the threshold")
        #expect(watch.committed(pages: 85, written: 3) == true)
        #expect(watch.committed(pages: 88, written: 3) == nil)
        watch.checkpointed(copied: 88, of: 88)
        #expect(watch.committed(pages: 2, written: 2) == false)
        #expect(watch.uncheckpointedPages == 2)
        #expect(watch.committed(pages: 100, written: 100) == nil)
    }

    @Test func `a WAL that another program restarts, and writes to first, has restarted for the watch`() {
        var watch = WALWatch(workingPages: 10)
        #expect(watch.committed(pages: 85, written: 3) == true)
        watch.checkpointed(copied: 87, of: 87)
        #expect(watch.committed(pages: 5, written: 3) == false)
        #expect(watch.uncheckpointedPages == 5)
    }

    @Test func `the WAL is long from eight times its working size on, and again after as much growth or a restart`() {
        var watch = WALWatch(workingPages: 10)
        func isLong(_ pages: Int) -> Bool {
            _ = watch.committed(pages: pages, written: 1)
            defer { if watch.isLong { watch.notedLong() } }
            return watch.isLong
        }
        #expect([80, 81, 82, 161, 162, 163].map(isLong) == [false, true, false, false, true, false])
        #expect([1, 80, 81].map(isLong) == [false, false, true])
    }

    @Test func `the WAL grows while transactions are long, to at most four times its working size`() {
        // Pages in the log and of the newest transaction, of a log of ten pages, and whether it is copied.
        for (pages, written, isDue) in [
            (9, 1, false), (10, 1, true), (15, 2, false), (16, 2, true), (39, 5, false), (40, 5, true), (39, 30, false),
            (40, 30, true), (90, 90, true),
        ] {
            var watch = WALWatch(workingPages: 10)
            _ = watch.committed(pages: pages, written: written)
            #expect(watch.wantsCheckpoint == isDue, "\(pages) pages, \(written) of them new")
            watch.isShort = true
            #expect(watch.wantsCheckpoint == (pages >= 10), "\(pages) pages, where there is little room")
        }
    }

    @Test func `long transactions are copied together, from a WAL of four times its working size`() throws {
        var copies = 0
        var most = 0
        for id in 0..<40 {
            try store.store.begin()
            let text = String(repeating: "x", count: 50_000)
            _ = try store.store.apply(store.job("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}"))
            try store.store.commit()
            most = max(most, store.store.wal.uncheckpointedPages)
            store.store.copyWALIfDue()
            if store.store.wal.uncheckpointedPages == 0 { copies += 1 }
        }
        // Each is seven pages of text, and some others.
        let longest = Self.workingPages * WALWatch.longestFactor
        #expect((longest..<longest + 16).contains(most))
        #expect((3...8).contains(copies))
        #expect(logBytes >= Self.longestBytes && logBytes < 2 * Self.longestBytes)
        #expect(store.store.takeWALNotices().isEmpty)
    }
}
