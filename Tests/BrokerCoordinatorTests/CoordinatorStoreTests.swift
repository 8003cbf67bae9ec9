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

    @Test func `a WAL that a reader holds is logged once, and its end is logged, too`() throws {
        let test = try TestCoordinator(model, in: folder) { $0.store.logPages = 8 }
        let text = String(repeating: "x", count: 3_000)
        var ended = 0
        func submit(_ count: Int) {
            for _ in 0..<count {
                test.submit("{\"Row\": {\"id\": \(ended), \"text\": \"\(text)\"}}")
                ended += 1
                _ = test.events.ends(ended)
            }
        }
        submit(1)
        var reader: OpaquePointer?
        defer { sqlite3_close_v2(reader) }
        #expect(sqlite3_open_v2(folder.path("store.sqlite"), &reader, SQLITE_OPEN_READONLY, nil) == SQLITE_OK)
        #expect(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM Row", nil, nil, nil) == SQLITE_OK)
        submit(60)
        let warning = "The store's log grows"
        test.log.waitUntil(warning)
        #expect(!test.statistics.contains(#""uncheckpointedPages":0"#))
        #expect(sqlite3_exec(reader, "COMMIT", nil, nil, nil) == SQLITE_OK)
        submit(10)
        let release = "No reader holds the store's log any more"
        test.log.waitUntil(release)
        #expect([warning, release].map(test.log.count) == [1, 1])
    }

    @Test func `the log is copied between transactions though jobs wait all the time`() throws {
        let test = try TestCoordinator(model, in: folder) { $0.store.logPages = 16 }
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
    }
}
