import Testing
import TestSupport

@testable import BrokerStore

@Suite struct StoreLockTests {
    private let folder = TemporaryFolder()

    @Test func `a second owner is refused and told who the first is`() throws {
        let lock = try StoreLock(storePath: folder.path("store"))
        let error = try #require(throws: StoreError.self) { try StoreLock(storePath: folder.path("store")) }
        #expect(error.code == .unavailable)
        #expect(error.message.contains("process "))
        #expect(error.message.contains("--store"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a lock ends with its owner, and another store has another`() throws {
        do {
            let lock = try StoreLock(storePath: folder.path("store"))
            _ = try StoreLock(storePath: folder.path("other"))
            withExtendedLifetime(lock) {}
        }
        _ = try StoreLock(storePath: folder.path("store"))
    }

    @Test func `a folder that is not there is told with the lock's path`() throws {
        let error = try #require(throws: StoreError.self) { try StoreLock(storePath: "/nowhere/at/all/store") }
        #expect(error.message.contains("/nowhere/at/all/store.lock"))
    }
}
