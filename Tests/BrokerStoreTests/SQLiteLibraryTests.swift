import CSQLite
import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct SQLiteLibraryTests {
    @Test func `the library of this machine works`() throws {
        try SQLiteLibrary.check()
    }

    @Test func `an older library is refused with the version that is needed`() throws {
        let error = try #require(throws: StoreError.self) {
            try SQLiteLibrary.check(version: 3_037_002, name: "3.37.2")
        }
        #expect(error.code == .unavailable)
        #expect(
            error.message
                == "The SQLite library has version 3.37.2, and Broker needs 3.38.0 or later. Install another libsqlite3, as "
                + "Debian 12 has it, and start again; nothing was touched.")
    }

    @Test func `a library without the preupdate hook is refused`() throws {
        let error = try #require(throws: StoreError.self) {
            try SQLiteLibrary.check(version: 3_046_001, name: "3.46.1", hasPreupdateHook: false)
        }
        #expect(error.message.contains("(version 3.46.1) was built without SQLITE_ENABLE_PREUPDATE_HOOK"))
    }
}
