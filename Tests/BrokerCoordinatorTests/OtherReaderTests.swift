import BrokerStaging
import BrokerStore
import Foundation
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Readers of the store in other processes, of which one may be a backup tool that checkpoints the WAL by itself.
@Suite(.timeLimit(.minutes(5))) struct OtherReaderTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
    private let folder = TemporaryFolder()
    private let test: TestCoordinator

    init() throws {
        test = try TestCoordinator(Self.model, in: folder) { $0.store.walPages = 8 }
        submit(0..<1)
    }

    /// Submits a row of 3,000 bytes for each id, one after the other.
    ///
    /// - Returns: the most bytes that the WAL had.
    @discardableResult private func submit(_ ids: Range<Int>) -> Int {
        let text = String(repeating: "x", count: 3_000)
        var most = 0
        for id in ids {
            test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}")
            _ = test.events.ends(id + 1)
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
