import BrokerStore
import CSQLite
import TestSupport
import Testing

@testable import BrokerCoordinator
@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct LoneAttemptsTests {
    @Test func `a job that does too much is tried once more, and a second time is a defect`() {
        for (isLogged, end) in [(true, LoneAttempts.Step.stop), (false, .fail)] {
            var attempts = LoneAttempts(isLogged: isLogged)
            #expect(attempts.next(after: .overworked) { false } == .again)
            #expect(attempts.next(after: .overworked) { false } == end)
        }
    }

    @Test func `room is made once, and then a job of the journal waits`() {
        let full = StoreError(.full, "full")
        for (isLogged, end) in [(true, LoneAttempts.Step.wait), (false, .fail)] {
            var attempts = LoneAttempts(isLogged: isLogged)
            #expect([true, true].map { hasRoom in attempts.next(after: full) { hasRoom } } == [.again, end])
        }
        var attempts = LoneAttempts(isLogged: true)
        #expect(attempts.next(after: StoreError(.constraint, "no")) { false } == .stop)
        #expect(attempts.next(after: StoreError(.defect, "no")) { false } == .stop)
    }

    /// SQLite asks the authorizer when it compiles the statements again, which setting one makes it do.
    @Test(arguments: ["RELEASE", "ROLLBACK"])
    func `a savepoint that cannot be ended stops the server before the job, which a later start applies`(
        operation: String
    ) throws {
        let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        let folder = TemporaryFolder()
        func start() throws -> TestCoordinator {
            try TestCoordinator(model, in: folder) {
                $0.keepsJournal = true
                $0.store.synchronous = .full
            }
        }
        do {
            let test = try start()
            test.submit(#"{"Row": {"id": 1}}"#, id: "a")
            _ = test.events.ends(1)
            let isRelease = operation == "RELEASE"
            test.coordinator.jobTable.update {
                $0.writerTasks.append { store in
                    // The parameters: the action, the operation, the savepoint.
                    sqlite3_set_authorizer(
                        store.connection.handle,
                        { context, action, operation, _, _, _ in
                            guard action == SQLITE_SAVEPOINT, let operation else { return SQLITE_OK }
                            let denied = context == nil ? "ROLLBACK" : "RELEASE"
                            return String(cString: operation) == denied ? SQLITE_DENY : SQLITE_OK
                        }, isRelease ? UnsafeMutableRawPointer(bitPattern: 1) : nil)
                }
            }
            // It may not delete, so its savepoint is rolled back.
            test.submit(#"{"Row": {"id": 1}}"#, id: "delete-b", deletingWhere: "TRUEPREDICATE", wantsAcceptance: true) {
                $0.mayDelete = false
            }
            test.submit(#"{"Row": {"id": 3}}"#, id: "c", wantsAcceptance: true)
            test.log.waitUntil("cannot be applied because of a defect")
            #expect(!test.events.all.contains { $0.hasPrefix("ended delete-b") || $0.hasPrefix("ended c") })
        }
        #expect(try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite")) == ["1"])
        let ends = try start().events.ends(2)
        #expect(ends.map(\.id) == ["delete-b", "c"] && ends.map(\.code) == ["unauthorized", nil])
    }
}
