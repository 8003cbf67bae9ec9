import BrokerModel
import BrokerStaging
import BrokerStore
import CSQLite
import Foundation
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Messages about the store's files for the operator.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorStoreTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
    private let folder = TemporaryFolder()

    /// Submits a row of 3,000 bytes for each id, one after the other. The ids begin at 0 and go on from call to call.
    private func submit(_ ids: Range<Int>, to test: TestCoordinator) {
        let text = String(repeating: "x", count: 3_000)
        for id in ids {
            test.submit("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}")
            _ = test.events.ends(id + 1)
        }
    }

    @Test func `a WAL that a reader holds is logged once, and its end is logged, too`() throws {
        let test = try TestCoordinator(model, in: folder) { $0.store.walPages = 8 }
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
        let test = try TestCoordinator(model, in: folder) { $0.store.walPages = 8 }
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
        let test = try TestCoordinator(model, in: folder) { $0.store.walPages = 16 }
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
        let test = try TestCoordinator(model, in: folder)
        try Locker(test.storePath).execute("ALTER TABLE Row RENAME TO elsewhere; COMMIT")
        test.submit(#"{"Row": {"id": 1}}"#, id: "a")
        let end = try #require(test.events.ends(1).first)
        #expect(end.code == "internal" && end.body.contains("because of a defect of Broker's"))
        #expect(!end.body.contains("no such table") && !end.body.contains(folder.path("store.sqlite")))
        test.log.waitUntil(#"error: A job could not be stored. ["cause", "id"]"#)
    }

    @Test func `a replaced store is logged as an error, and its jobs fail`() throws {
        let test = try TestCoordinator(model, in: folder)
        test.submit(#"{"Row": {"id": 1}}"#)
        _ = test.events.ends(1)
        try FileManager.default.copyItem(atPath: folder.path("store.sqlite"), toPath: folder.path("copy"))
        rename(folder.path("copy"), folder.path("store.sqlite"))
        for id in 2...3 { test.submit("{\"Row\": {\"id\": \(id)}}") }
        #expect(test.events.ends(3).map(\.code) == [nil, "storeUnavailable", "storeUnavailable"])
        #expect(test.events.ends(3).dropFirst().allSatisfy { $0.body.contains("was replaced by another file") })
        test.log.waitUntil("error: A job could not be stored.")
        #expect(test.coordinator.condition.haltCause?.contains("was replaced by another file") == true)
    }
}
