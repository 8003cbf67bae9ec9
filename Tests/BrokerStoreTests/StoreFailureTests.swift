import BrokerJSON
import BrokerStaging
import CSQLite
import Testing
import TestSupport

@testable import BrokerStore

/// A disk that fails under an open store: what is only full goes on, and anything else is the end.
@Suite(.timeLimit(.minutes(5))) struct StoreFailureTests {
    private let folder = TemporaryFolder()
    private let plan: StagingPlan

    init() throws {
        plan = try stagingPlan(
            #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#)
    }

    private func open(
        _ disk: FaultyDisk?, in folder: TemporaryFolder? = nil, walPages: Int = StoreOptions().walPages
    ) throws -> Store {
        var options = StoreOptions()
        options.walPages = walPages
        options.vfs = disk?.name
        return try Store(path: (folder ?? self.folder).path("store.sqlite"), plan: plan, options: options)
    }

    private func apply(_ id: Int, to store: Store) throws {
        do {
            try store.begin()
            let text = JSONText(copying: Array("{\"Row\": {\"id\": \(id), \"text\": \"\(id)\"}}".utf8))
            _ = try store.apply(
                StoreJob(
                    id: "\(id)", contentHash: [1], sequence: Int64(id), policy: .fail, wantsKeys: false,
                    work: try stage(text, plan), now: 0))
            try store.commit()
            store.copyWALIfDue()
        } catch {
            store.rollback()
            throw error
        }
    }

    private func rows() throws -> [String] { try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite")) }

    /// The error of a transaction that meets the fault; the store is repaired afterwards.
    private func error(
        _ operation: FaultyDisk.Operations, _ fault: FaultyDisk.Fault, _ disk: FaultyDisk, _ store: Store
    ) throws -> StoreError {
        disk.fail(operation, number: 1, with: fault)
        defer { disk.mend() }
        return try #require(throws: StoreError.self) { try apply(2, to: store) }
    }

    @Test(arguments: [FaultyDisk.Fault.noSpace, .quota])
    func `a write that finds no room undoes its transaction, and the store goes on`(_ fault: FaultyDisk.Fault) throws {
        try FaultyDisk.with { disk in
            let store = try open(disk)
            try apply(1, to: store)
            let error = try error(.write, fault, disk, store)
            #expect(error.code == .full && !error.isDiskFailure)
            #expect(error.message.contains("is full") && error.message.contains("free some space"))
            #expect(store.failure == nil)
            try apply(3, to: store)
            // A later error is reported with its own cause.
            #expect(try self.error(.write, .ioError, disk, store).isDiskFailure)
        }
        _ = try open(nil)
        #expect(try rows() == ["1", "3"])
    }

    @Test(arguments: [
        (FaultyDisk.Operations.write, FaultyDisk.Fault.ioError), (.write, .shortWrite), (.sync, .ioError),
        (.sync, .noSpace), (.sharedLock, .ioError),
    ])
    func `after any other fault the store accepts nothing, and leaves its WAL unchanged`(
        operation: FaultyDisk.Operations, fault: FaultyDisk.Fault
    ) throws {
        try FaultyDisk.with { disk in
            let store = try open(disk)
            try apply(1, to: store)
            let first = try error(operation, fault, disk, store)
            #expect(first.code == .unavailable && first.isDiskFailure)
            #expect(store.failure?.message == first.message)
            #expect(!store.hasIdleWork)
            for id in 3...4 {
                let error = try #require(throws: StoreError.self) { try apply(id, to: store) }
                #expect(error.message == first.message)
            }
            #expect(throws: StoreError.self) { try store.checkpoint() }
            #expect(throws: StoreError.self) { try store.openSequences(10) }
        }
        #expect(fileSize(folder.path("store.sqlite-wal")) ?? 0 > 0, "closing leaves it to the next one")
        let store = try open(nil)
        let isFound = try store.outcome(ofJob: "2") != nil
        #expect(try rows() == (isFound ? ["1", "2"] : ["1"]))
        // All of it was written, and only the sync failed.
        if operation == .sync { #expect(isFound) }
    }

    @Test func `a COMMIT after which the WAL cannot be copied is durable, and the last one`() throws {
        var isSeen = false
        for number in 1...10 where !isSeen {
            let folder = TemporaryFolder()
            try FaultyDisk.with { disk in
                let store = try open(disk, in: folder, walPages: 0)
                try apply(1, to: store)
                disk.fail(.sync, number: number, with: .ioError)
                do {
                    try apply(2, to: store)
                } catch {
                    // One that is before the end of the COMMIT.
                    return
                }
                isSeen = store.failure != nil
                #expect(isSeen && disk.isStruck)
                disk.mend()
                #expect(throws: StoreError.self) { try apply(3, to: store) }
                for notice in store.takeWALNotices() {
                    if case .uncopied(let error) = notice {
                        Issue.record("it is reported as less severe than it is: \(error)")
                    }
                }
            }
            _ = try open(nil, in: folder)
            let rows = try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite"))
            if isSeen { #expect(rows == ["1", "2"]) }
        }
        #expect(isSeen)
    }

    @Test func `a COMMIT that cannot enlarge the shared memory has an unknown outcome, though the disk is only full`()
        throws
    {
        try FaultyDisk.with { disk in
            let store = try open(disk, walPages: 100_000)
            var id = 0
            // Its first region is there; the next one is for the 4,063rd page of the log.
            disk.fail(.sharedMap, number: 1, with: .noSpace)
            while !disk.isStruck, id < 10_000 {
                id += 1
                do {
                    try apply(id, to: store)
                } catch let error as StoreError {
                    #expect(error.isDiskFailure)
                    #expect(disk.isStruck)
                }
            }
            #expect(disk.isStruck)
            #expect(store.failure != nil)
        }
        // The end of the transaction was on the disk before.
        _ = try open(nil)
        #expect(try SQLRows.of("PRAGMA integrity_check", in: folder.path("store.sqlite")) == ["ok"])
    }
}
