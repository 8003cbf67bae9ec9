import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import Foundation
import Logging
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Files of a store or a journal that are deleted, moved or replaced beside a running server: it halts, and destroys nothing.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorLossTests {
    private static let model = #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
    private static let other = #"""
        {"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}
        """#
    private let folder = TemporaryFolder()
    private let files = FileManager.default
    private var store: String { folder.path("store.sqlite") }
    private var moved: String { folder.path("moved") }

    private func open(keepsJournal: Bool = false) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) {
            $0.keepsJournal = keepsJournal
            $0.store.synchronous = keepsJournal ? .normal : .full
        }
    }

    private func submit(_ ids: ClosedRange<Int>, to test: TestCoordinator) {
        for id in ids { test.submit("{\"Row\": {\"id\": \(id)}}", id: "job-\(id)") }
    }

    /// Nothing is stored from now on, the state says why, and what was read before can be read still.
    private func hasHalted(_ test: TestCoordinator, _ cause: String = "was deleted or moved") throws {
        #expect(test.statistics.contains(#""store":{"state":"halted","cause":""#), "\(test.statistics)")
        #expect(test.coordinator.condition.haltCause?.contains(cause) == true)
        let count = test.events.all.count
        test.submit(#"{"Row": {"id": 1000}}"#, id: "refused")
        #expect(test.events.ends(count + 1).last?.code == "storeUnavailable")
        #expect(test.events.ends(count + 1).last?.body.contains("This server has halted. ") == true)
        #expect(test.reload(Self.other).first?.contains(cause) == true)
        #expect(test.compare(Self.other, .drop).first?.contains(cause) == true)
        let backup = Monitor<String?>(nil)
        test.coordinator.backup(to: folder.path("copy")) { end in backup.update { $0 = "\(end)" } }
        #expect(backup.patiently("a backup") { $0 }.contains(cause))
        let checkpoint = Monitor<String?>(nil)
        test.coordinator.checkpoint { end in checkpoint.update { $0 = "\(end)" } }
        #expect(checkpoint.patiently("a checkpoint") { $0 }.contains(cause))
    }

    @Test(arguments: [true, false], ["reload", "stats", "compare", "backup"])
    func `after the store was moved, nothing is made in its place, and put back it has all rows`(
        keepsJournal: Bool, first: String
    ) throws {
        do {
            let test = try open(keepsJournal: keepsJournal)
            submit(1...200, to: test)
            _ = test.events.ends(200)
            try files.moveItem(atPath: store, toPath: moved)
            switch first {
            case "reload": #expect(test.reload(Self.other).first?.contains("was deleted or moved") == true)
            case "compare": #expect(test.compare(Self.other, .drop).first?.contains("was deleted or moved") == true)
            case "backup": test.coordinator.backup(to: folder.path("copy")) { _ in }
            default: break
            }
            try hasHalted(test)
            #expect(!files.fileExists(atPath: store) && !files.fileExists(atPath: folder.path("copy")))
        }
        #expect(!files.fileExists(atPath: store))
        try files.moveItem(atPath: moved, toPath: store)
        let again = try open(keepsJournal: keepsJournal)
        #expect(try again.rows("SELECT count(*) FROM Row") == ["200"])
        submit(1...1, to: again)
        #expect(again.events.ends(1)[0].isDuplicate)
    }

    @Test(arguments: ["", "-wal", "-shm"])
    func `a file that is put in the place of one of the store's is not touched`(suffix: String) throws {
        let foreign = Data("another program's".utf8)
        do {
            let test = try open()
            submit(1...20, to: test)
            _ = test.events.ends(20)
            try files.moveItem(atPath: store + suffix, toPath: moved)
            try foreign.write(to: URL(filePath: store + suffix))
            try hasHalted(test, "was replaced by another file")
        }
        #expect(try Data(contentsOf: URL(filePath: store + suffix)) == foreign)
        try files.removeItem(atPath: store + suffix)
        try files.moveItem(atPath: moved, toPath: store + suffix)
        #expect(try open().rows("SELECT count(*) FROM Row") == ["20"])
    }

    @Test func `rows of a WAL that was deleted are in the database after the stop`() throws {
        do {
            let test = try open()
            submit(1...20, to: test)
            _ = test.events.ends(20)
            try files.removeItem(atPath: store + "-wal")
            try hasHalted(test)
        }
        #expect(try open().rows("SELECT count(*) FROM Row") == ["20"])
    }

    @Test func `fetches go on with the database that is open, and never read another one`() throws {
        let test = try open()
        submit(1...3, to: test)
        _ = test.events.ends(3)
        let query = try test.coordinator.plan.fetchRequest(FetchDescription(entity: "Row"))
        func fetched() -> String {
            let answer = Monitor<String?>(nil)
            test.coordinator.fetch(query, from: 1) { end in
                answer.update {
                    guard case .found(let objects) = end else { return $0 = "\(end)" }
                    $0 = String(decoding: objects.bytes, as: UTF8.self)
                }
            }
            return answer.patiently("objects") { $0 }
        }
        #expect(fetched().contains(#"{"id":3}"#))
        let copy = TemporaryFolder()
        let empty = try TestCoordinator(Self.model, in: copy)
        try files.moveItem(atPath: store, toPath: moved)
        try files.copyItem(atPath: copy.path("store.sqlite"), toPath: store)
        withExtendedLifetime(empty) {}
        for _ in 0..<4 {
            let answer = fetched()
            #expect(answer.contains(#"{"id":3}"#) || answer.contains("was replaced by another file"), "\(answer)")
        }
    }

    @Test(arguments: ["folder moved", "folder deleted", "file deleted", "file replaced"])
    func `a journal that is not where it was refuses jobs, and has none of them when it is put back`(
        change: String
    ) throws {
        let journal = store + ".journal"
        let file = journal + "/0000000000000001.jobs"
        do {
            let test = try open(keepsJournal: true)
            submit(1...3, to: test)
            _ = test.events.ends(3)
            switch change {
            case "folder moved": try files.moveItem(atPath: journal, toPath: moved)
            case "folder deleted": try files.removeItem(atPath: journal)
            case "file deleted": try files.removeItem(atPath: file)
            default:
                try files.moveItem(atPath: file, toPath: moved)
                try files.copyItem(atPath: moved, toPath: file)
            }
            test.submit(#"{"Row": {"id": 4}}"#, id: "job-4", wantsAcceptance: true)
            #expect(test.events.ends(4).last?.code == "storeUnavailable")
            #expect(!test.events.all.contains { $0.hasPrefix("accepted job-4") })
            test.waitUntil(#""store":{"state":"halted","cause":""#)
            #expect(test.coordinator.storageFailure.error == nil)
            #expect(test.reload(Self.other).first?.hasPrefix("refused storeUnavailable") == true)
        }
        guard change == "folder moved" else { return }
        try files.moveItem(atPath: moved, toPath: journal)
        let again = try open(keepsJournal: true)
        #expect(try again.rows("SELECT id FROM Row") == ["1", "2", "3"])
        submit(4...4, to: again)
        #expect(again.events.ends(1)[0].code == nil)
    }

    @Test func `a journal that was moved is in the state before a job meets it`() throws {
        let test = try open(keepsJournal: true)
        submit(1...1, to: test)
        _ = test.events.ends(1)
        try files.moveItem(atPath: store + ".journal", toPath: moved)
        #expect(test.statistics.contains(#""store":{"state":"halted","cause":"The journal's file "#))
    }

    @Test func `a start beside a WAL without its database is refused, and touches nothing`() throws {
        do {
            let test = try open()
            submit(1...5, to: test)
            _ = test.events.ends(5)
            try files.moveItem(atPath: store, toPath: moved)
            #expect(test.coordinator.condition.haltCause != nil)
        }
        let wal = try Data(contentsOf: URL(filePath: store + "-wal"))
        #expect(!wal.isEmpty)
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(Self.model.utf8))))
        let options = CoordinatorOptions(storePath: store, limits: CoordinatorLimits(workers: 1))
        for _ in 0..<2 {
            let error = #expect(throws: StoreError.self) {
                try OwnedStore(plan: plan, options: options, logger: Logger(label: "test") { _ in LogLines() })
            }
            #expect(error?.message.contains("is not there, and its WAL is") == true)
            #expect(try Data(contentsOf: URL(filePath: store + "-wal")) == wal)
            #expect(!files.fileExists(atPath: store))
        }
        try files.moveItem(atPath: moved, toPath: store)
        #expect(try open().rows("SELECT count(*) FROM Row") == ["5"])
    }
}
