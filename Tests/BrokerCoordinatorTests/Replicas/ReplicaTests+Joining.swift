import BrokerModel
import BrokerStore
import Foundation
import Logging
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The stores that may and may not be fed from a log.
extension ReplicaTests {
    @Test func `a server begins with a copy of another one's store`() throws {
        let first = try Replica("a", log)
        for number in 0..<50 { first.test.submit(Self.row(number), id: "\(number)") }
        _ = first.test.events.ends(50)
        let folder = TemporaryFolder()
        let copied = Monitor(false)
        first.test.coordinator.backup(to: folder.path("store.sqlite")) { end in
            if case .done = end { copied.update { $0 = true } }
        }
        copied.patiently("a backup") { $0 ? () : nil }
        first.test.submit(Self.row(50), id: "50")
        _ = first.test.events.ends(51)
        try expectEqual([first, try Replica("b", log, in: folder)])
    }

    @Test func `a store with objects, jobs, or a journal of its own cannot take part`() throws {
        for journal in [false, true] {
            let folder = TemporaryFolder()
            do {
                let test = try TestCoordinator(Self.model, in: folder) {
                    $0.keepsJournal = journal
                    $0.store.synchronous = .normal
                }
                test.submit(Self.row(1), id: "1")
                _ = test.events.ends(1)
            }
            #expect(throws: StoreError.self) { try Replica("a", log, in: folder) }
            #expect(try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite")) == ["1"])
        }
    }

    @Test func `a store without objects may take part, if its model is that of the log`() throws {
        let folder = TemporaryFolder()
        do { _ = try TestCoordinator(Self.model, in: folder) }
        let first = try Replica("a", log, in: folder)
        first.test.submit(Self.row(1), id: "1")
        #expect(first.test.events.ends(1)[0].code == nil)
        let other = TemporaryFolder()
        do { _ = try TestCoordinator(Self.wider, in: other) }
        #expect(throws: StoreError.self) { try Replica("b", log, in: other) }
    }

    @Test func `a replica's store is refused by every other way to open it`() throws {
        let folder = TemporaryFolder()
        do {
            let replica = try Replica("a", log, in: folder)
            replica.test.submit(Self.row(1), id: "1")
            _ = replica.test.events.ends(1)
        }
        let path = folder.path("store.sqlite")
        let before = try Data(contentsOf: URL(filePath: path))
        for journal in [false, true] {
            var options = CoordinatorOptions(storePath: path, limits: CoordinatorLimits())
            options.keepsJournal = journal
            let plan = try #require(try Store.planInForce(path: path))
            let error = #expect(throws: StoreError.self) {
                try OwnedStore(plan: plan, options: options, logger: Logger(label: "test"))
            }
            #expect(error?.message.contains("is a replica") == true)
        }
        #expect(throws: StoreError.self) { try OwnedStore.unchanged(path: path, logger: Logger(label: "test")) }
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        // A restored copy is a store of its own.
        let copy = folder.path("copy.sqlite")
        _ = try StoreRestore(of: path, to: copy, time: "t").run()
        #expect(try SQLRows.of("SELECT count(*) FROM _broker_meta WHERE key IN ('log', 'replicas')", in: copy) == ["0"])
    }
}
