import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// A closed store can be read while another process opens it; a backup opens where nothing can be written beside it.
@Suite(.timeLimit(.minutes(5))) struct JournalModeTests {
    private static let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    /// The format versions for writing and reading: 1 without a WAL, 2 with one (sqlite.org/fileformat2.html, 1.3).
    private func versions(_ path: String) throws -> [UInt8] {
        try Array(Data(contentsOf: URL(filePath: path))[18..<20])
    }

    private func files(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path("")).sorted()
    }

    @Test func `a store that was closed is one file in WAL mode`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"A": {"id": 1}}"#)
        let path = store.folder.path("closed")
        do {
            let open = try Store(path: path, plan: store.plan)
            try open.checkpoint()
        }
        #expect(try versions(path) == [2, 2])
        #expect(try files(store.folder).filter { $0.hasPrefix("closed") } == ["closed"])
        #expect(try SQLRows.of("SELECT count(*) FROM A", in: path) == ["0"])
    }

    @Test func `a reader's open transaction keeps no one from opening, writing and closing the store`() throws {
        let test = try TestStore(Self.model)
        let path = test.folder.path("read")
        do { try Store(path: path, plan: test.plan).checkpoint() }
        let reader = try Connection(store: path, .read)
        try reader.execute("BEGIN; SELECT count(*) FROM A")
        for number in 1...3 {
            let store = try Store(path: path, plan: test.plan)
            try store.begin()
            _ = try store.apply(test.job("{\"A\": {\"id\": \(number)}}"))
            try store.commit()
            try store.checkpoint()
        }
        #expect(try reader.integer("SELECT count(*) FROM A") == 0)
        try reader.execute("COMMIT")
        #expect(try reader.integer("SELECT count(*) FROM A") == 3)
    }

    @Test func `a store whose files were replaced is not touched when it is closed`() throws {
        let store = try TestStore(Self.model)
        try FileManager.default.moveItem(atPath: store.path, toPath: store.folder.path("moved"))
        try Data("other".utf8).write(to: URL(filePath: store.path))
        #expect(throws: StoreError.self) { try store.store.checkpoint() }
        #expect(try versions(store.folder.path("moved")) == [2, 2])
        #expect(try Data(contentsOf: URL(filePath: store.path)) == Data("other".utf8))
    }

    @Test func `a backup is not in WAL mode`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"A": {"id": 1}}"#)
        let copy = store.folder.path("copy.sqlite")
        #expect(try StoreBackup(of: store.path, to: copy).run()?.sequence == 1)
        #expect(try versions(copy) == [1, 1])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: copy) == ["ok"])
        #expect(try SQLRows.of("SELECT id FROM A", in: copy) == ["1"])
    }
}
