import Foundation
import Testing
import TestSupport

@testable import BrokerStore

/// A store whose files are deleted, moved or replaced while it is open: nothing more is acknowledged.
@Suite(.timeLimit(.minutes(5))) struct StoreLossTests {
    private let store: TestStore
    private let files = FileManager.default

    init() throws {
        store = try TestStore(#"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try store.apply(#"{"Row": {"id": 1}}"#)
    }

    private func lossIsNoticed(_ what: String, _ name: String) throws {
        for id in 2...3 {
            let error = try #require(throws: StoreError.self) { try store.apply("{\"Row\": {\"id\": \(id)}}") }
            #expect(error.code == .unavailable)
            #expect(error.message.contains("\(name) was \(what)"), "\(error)")
        }
        #expect(store.store.connection.isAutocommit, "nothing is left open")
        #expect(throws: StoreError.self) { try store.store.checkpoint() }
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is deleted is noticed before the next COMMIT`(suffix: String) throws {
        try files.removeItem(atPath: store.path + suffix)
        try lossIsNoticed("deleted or moved", store.path + suffix)
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is replaced is noticed before the next COMMIT`(suffix: String) throws {
        let path = store.path + suffix
        try files.copyItem(atPath: path, toPath: store.folder.path("copy"))
        rename(store.folder.path("copy"), path)
        try lossIsNoticed("replaced by another file", path)
    }

    @Test func `a store that is moved away and back is not used again`() throws {
        rename(store.path, store.folder.path("elsewhere"))
        try lossIsNoticed("deleted or moved", store.path)
        rename(store.folder.path("elsewhere"), store.path)
        try lossIsNoticed("deleted or moved", store.path)
        try store.reopen()
        try store.apply(#"{"Row": {"id": 4}}"#)
        #expect(try store.rows("SELECT id FROM Row") == ["1", "4"])
    }

    @Test func `a symbolic link that leads elsewhere is noticed`() throws {
        let link = store.folder.path("link")
        try files.createSymbolicLink(atPath: link, withDestinationPath: "store.sqlite")
        let linked = try Store(path: link, plan: store.plan)
        try linked.begin()
        try linked.commit()
        try files.removeItem(atPath: link)
        try files.createSymbolicLink(atPath: link, withDestinationPath: "other")
        try linked.begin()
        #expect(throws: StoreError.self) { try linked.commit() }
        linked.rollback()
    }
}
