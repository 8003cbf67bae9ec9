import BrokerSQLite
import Glibc
import Testing
import TestSupport

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct WriterActivityTests {
    @Test func `a long statement is progress, and so is what the thread reads and writes`() throws {
        let activity = WriterActivity()
        activity.begin()
        let folder = TemporaryFolder()
        let connection = try Connection(store: folder.path("a.sqlite"))
        connection.work.activity = activity
        connection.work.watch(connection.handle)
        let before = activity.sample
        _ = try connection.integer(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT max(n) FROM c")
        #expect(activity.sample.steps > before.steps + 10)
        let counted = activity.sample.bytes
        try #require(counted > 0, "this kernel does not count the bytes of a thread")
        let file = open(folder.path("b"), O_WRONLY | O_CREAT, 0o600)
        defer { close(file) }
        // More than reading the counters takes.
        let bytes = [UInt8](repeating: 0, count: 100_000)
        #expect(write(file, bytes, bytes.count) == bytes.count)
        #expect(activity.sample.bytes >= counted + bytes.count)
    }
}
