import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// A closed store and a backup open where nothing can be written beside them.
@Suite(.timeLimit(.minutes(5))) struct JournalModeTests {
    private static let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    /// The format versions for writing and reading: 1 without a WAL, 2 with one (sqlite.org/fileformat2.html, 1.3).
    private func versions(_ path: String) throws -> [UInt8] {
        try Array(Data(contentsOf: URL(filePath: path))[18..<20])
    }

    private func files(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path("")).sorted()
    }

    @Test func `a store that is left is one file, and has a WAL when it is opened again`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"A": {"id": 1}}"#)
        #expect(try versions(store.path) == [2, 2])
        try store.store.leaveWALMode()
        #expect(try versions(store.path) == [1, 1])
        #expect(try SQLRows.of("SELECT id FROM A", in: store.path) == ["1"])
        #expect(try files(store.folder) == ["store.sqlite"])
        try store.reopen()
        #expect(try versions(store.path) == [2, 2])
        try store.apply(#"{"A": {"id": 2}}"#)
        #expect(try store.isSound())
    }

    @Test func `a reader that has the store open leaves it in WAL mode, until the next time`() throws {
        let store = try TestStore(Self.model)
        do {
            let reader = try Connection(store: store.path, .read)
            #expect(try reader.integer("SELECT count(*) FROM A") == 0)
            try store.store.leaveWALMode()
            #expect(try versions(store.path) == [2, 2])
            try store.apply(#"{"A": {"id": 1}}"#)
            #expect(try reader.integer("SELECT count(*) FROM A") == 1)
        }
        try store.store.leaveWALMode()
        #expect(try versions(store.path) == [1, 1])
    }

    @Test func `a store whose files were replaced is not touched`() throws {
        let store = try TestStore(Self.model)
        try FileManager.default.moveItem(atPath: store.path, toPath: store.folder.path("moved"))
        try Data("other".utf8).write(to: URL(filePath: store.path))
        #expect(throws: StoreError.self) { try store.store.leaveWALMode() }
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
