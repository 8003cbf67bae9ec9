import BrokerJSON
import BrokerModel
import BrokerStaging
import CSQLite
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// A machine that fails at any moment: every operation that SQLite asks for fails in a run of its own, once or from then on.
@Suite(.timeLimit(.minutes(20))) struct StoreFaultTests {
    /// The failing operation, and its error.
    struct Breakage: CustomTestStringConvertible, Sendable {
        let operation: FaultyDisk.Operations
        let fault: FaultyDisk.Fault
        let isForGood: Bool

        var testDescription: String { "\(operation) \(fault)\(isForGood ? ", for good" : "")" }

        /// Operations from one run to the next: a disk that fails for good fails like that after each, and there are many reads.
        var stride: Int {
            isForGood || operation == .read || operation == .size ? Cases.count(17, of: 7) : Cases.count(5, of: 1)
        }

        /// For where most is like the work of a new store.
        static var simple: [Breakage] { all.filter { !$0.isForGood && [.ioError, .noSpace].contains($0.fault) } }

        static let all: [Breakage] = FaultyDisk.Operations.single.flatMap { _, operation -> [Breakage] in
            let faults: [FaultyDisk.Fault] =
                switch operation {
                case .write: [.ioError, .shortWrite, .noSpace, .quota]
                case .sharedMap: [.ioError, .noSpace]
                default: [.ioError]
                }
            return faults.flatMap { fault in
                [false, true].map { Breakage(operation: operation, fault: fault, isForGood: $0) }
            }
        }
    }

    /// Where the work begins.
    private struct Beginning {
        /// The existing files.
        var folder: TemporaryFolder?
        var done: Set<Int> = []
        let work: TracedWork
    }

    private let files = FileManager.default

    private func copy(_ folder: TemporaryFolder, to other: TemporaryFolder) throws {
        for name in ["store.sqlite", "store.sqlite-wal"] where files.fileExists(atPath: folder.path(name)) {
            try? files.removeItem(atPath: other.path(name))
            try files.copyItem(atPath: folder.path(name), toPath: other.path(name))
        }
    }

    /// Works with the first operation failing, with the second, and so on, until nothing is left to fail.
    private func work(from beginning: Beginning, _ breakage: Breakage) throws {
        // Not the same ones each time.
        var generator = SeededGenerator(for: "work(from: _, \(breakage.testDescription))")
        var number = Int.random(in: 1...breakage.stride, using: &generator)
        while true {
            let folder = TemporaryFolder()
            if let before = beginning.folder { try copy(before, to: folder) }
            var work = beginning.work
            let path = folder.path("store.sqlite")
            let isStruck = FaultyDisk.with { disk in
                work.options.vfs = disk.name
                disk.fail(breakage.operation, number: number, with: breakage.fault, always: breakage.isForGood)
                work.run(at: path)
                return disk.isStruck
            }
            let (faults, found) = try work.faults(at: path, before: beginning.done)
            #expect(faults.isEmpty, "\(breakage.testDescription), number \(number)")
            guard isStruck else {
                #expect(found == beginning.done.union(work.transactions), "a run without a fault fails")
                return
            }
            number += breakage.stride
        }
    }

    @Test(arguments: Breakage.all)
    func `whatever fails, what was acknowledged is there, and the rest whole or absent`(_ breakage: Breakage) throws {
        try work(from: Beginning(work: TracedWork(1...5)), breakage)
    }

    @Test(arguments: Breakage.simple)
    func `whatever fails after a crash, nothing of what was acknowledged is lost`(_ breakage: Breakage) throws {
        let folder = TemporaryFolder()
        let killed = TemporaryFolder()
        var before = try TracedWork(1...4)
        before.options.synchronous = .off
        // The files as they are when the process is killed after the last COMMIT.
        before.run(at: folder.path("store.sqlite")) {
            do { try copy(folder, to: killed) } catch { Issue.record("the files cannot be copied: \(error)") }
            return true
        }
        #expect(fileSize(killed.path("store.sqlite-wal")) ?? 0 > 0)
        try work(from: Beginning(folder: killed, done: before.acknowledged, work: TracedWork(5...6)), breakage)
    }

    @Test(arguments: Breakage.simple)
    func `whatever fails in a migration, it is made whole or not at all`(_ breakage: Breakage) throws {
        let folder = TemporaryFolder()
        var before = try TracedWork(1...3)
        before.options.synchronous = .off
        before.run(at: folder.path("store.sqlite"))
        let changed = TracedWork.model
            .replacing(
                #""name": "string", "text": "string""#,
                with: """
                    "weight": {"type": "integer64", "optional": false, "default": 1},
                    "title": {"type": "string", "renamedFrom": "name", "key": "name", "optional": false, "default": "?"},
                    "text": "string"
                    """
            )
            .replacing(#""unique": [["name"]]"#, with: #""unique": [["title"]]"#)
        let plan = try stagingPlan(changed)
        try work(
            from: Beginning(folder: folder, done: before.acknowledged, work: TracedWork(4...5, plan: plan)), breakage)
    }
}

/// The power fails at any moment, and the disk has a random part of the bytes that were not synced.
@Suite(.timeLimit(.minutes(20))) struct PowerLossTests {
    /// Works, has the power fail in the midst of operations that change files, one a run, and looks at what is left.
    ///
    /// - Returns: how many transactions were lost that had been acknowledged.
    private func losses(_ synchronous: Synchronous, seed: UInt64, rounds: Int) throws -> Int {
        var generator = SeededGenerator(seed: seed)
        var lost = 0
        for _ in 0..<rounds {
            // One in three before a commit, and not the same ones each time.
            let stride = Cases.count(3, of: 1)
            var number = Int.random(in: 1...stride, using: &generator)
            var isStruck = true
            while isStruck {
                let left = TemporaryFolder()
                let folder = TemporaryFolder()
                var work = try TracedWork(1...5)
                work.options.synchronous = synchronous
                isStruck = FaultyDisk.with { disk in
                    work.options.vfs = disk.name
                    disk.recordsLosses(seed: generator.next(), into: left)
                    disk.losePower(at: number)
                    // Later acknowledgements reached no client.
                    work.run(at: folder.path("store.sqlite")) { !disk.isStruck }
                    return disk.isStruck
                }
                defer { number += stride }
                guard isStruck else { continue }
                lost += try check(work, left, synchronous, "seed \(seed), power loss \(number)")
            }
        }
        return lost
    }

    private func check(
        _ work: TracedWork, _ left: TemporaryFolder, _ synchronous: Synchronous, _ what: String
    ) throws -> Int {
        let (faults, found) = try work.faults(at: left.path("store.sqlite"))
        let (losses, others) = (faults.filter { $0.contains("is lost") }, faults.filter { !$0.contains("is lost") })
        #expect(others.isEmpty, "\(what)")
        if synchronous == .full { #expect(losses.isEmpty, "\(what)") }
        // A later commit is not there without the earlier ones.
        #expect(found == Set(1..<1 + found.count), "\(what)")
        return losses.count
    }

    @Test func `with a journal, failures and what was called durable outlast a loss of power`() throws {
        var seeds = SeededGenerator(for: "with normal and a journal, failures are there after a loss of power")
        var (durable, lost) = (0, 0)
        for number in 1...Cases.count(60, of: 120) {
            let seed = seeds.next()
            let left = TemporaryFolder()
            let folder = TemporaryFolder()
            let path = folder.path("store.sqlite")
            var work = try TracedWork(1...6)
            work.options.synchronous = .normal
            work.isLogged = true
            work.failing = number % 3 == 0 ? [] : [number % 5 + 1]
            // A reader holds the WAL, so that only a sync makes it durable.
            let holdsWAL = number % 2 == 0
            try FaultyDisk.with { disk in
                work.options.vfs = disk.name
                _ = try Store(path: path, plan: work.plan, options: work.options)
                let reader = try holdsWAL ? Connection(path: path, .read) : nil
                try reader?.execute("BEGIN")
                _ = try reader?.integer("SELECT count(*) FROM sqlite_schema")
                disk.recordsLosses(seed: seed, into: left)
                disk.losePower(at: number)
                work.run(at: path) { !disk.isStruck }
                if !disk.isStruck { disk.losePower() }
            }
            let store = try Store(path: left.path("store.sqlite"), plan: work.plan)
            let position = try store.logPosition()
            #expect(position.applied >= work.durablePosition, "seed \(seed), loss \(number)")
            for failed in work.failing.intersection(work.acknowledged) {
                #expect(try store.outcome(ofJob: "\(failed)c")?.isFailure == true, "seed \(seed), loss \(number)")
            }
            let isKnown = work.acknowledged.isEmpty || position.identity == TracedWork.log
            #expect(isKnown, "seed \(seed), loss \(number)")
            durable += work.durablePosition > 0 && holdsWAL ? 1 : 0
            lost += position.applied < Int64((work.acknowledged.max() ?? 0) * 3) ? 1 : 0
        }
        #expect(durable > 0, "a WAL that is held is called durable, too")
        #expect(lost > 0, "the disk forgets what is not synced")
    }

    @Test func `data found after a failed sync is on the disk before a client is sent anything about it`() throws {
        var seeds = SeededGenerator(for: "what is found after a sync that failed is on the disk before it is reported")
        var found = 0
        for _ in 0..<40 {
            let left = TemporaryFolder()
            let folder = TemporaryFolder()
            let path = folder.path("store.sqlite")
            var work = try TracedWork(1...2)
            // After a copy the WAL would restart, and the first sync would be that of its header.
            work.options.walPages = 1_000
            let seed = seeds.next()
            let isFound = try FaultyDisk.with { disk in
                work.options.vfs = disk.name
                disk.recordsLosses(seed: seed, into: left)
                // The process ends after that, and the system takes what it could not write for written.
                work.run(at: path) {
                    disk.fail(.sync, number: 1, with: .ioError)
                    return true
                }
                #expect(disk.isStruck && work.failed == [2])
                disk.mend()
                let store = try Store(path: path, plan: work.plan, options: work.options)
                let isFound = try store.outcome(ofJob: "2a") != nil
                disk.losePower()
                return isFound
            }
            let (faults, there) = try work.faults(at: left.path("store.sqlite"))
            #expect(faults.isEmpty, "seed \(seed)")
            #expect(there.contains(2) || !isFound, "seed \(seed)")
            found += isFound ? 1 : 0
        }
        #expect(found > 0)
    }

    @Test func `with full, nothing acknowledged is lost with the power`() throws {
        var seeds = SeededGenerator(for: "with full, nothing acknowledged is lost with the power")
        #expect(try losses(.full, seed: seeds.next(), rounds: Cases.count(1, of: 2)) == 0)
    }

    @Test func `with normal, the newest transactions may be lost with the power, and the rest is whole`() throws {
        var seeds = SeededGenerator(for: "with normal, the newest transactions may be lost with the power")
        let losses = try losses(.normal, seed: seeds.next(), rounds: Cases.count(1, of: 2))
        #expect(losses > 0, "the disk forgets what is not synced")
    }
}

/// Transactions with distinct traces, and the answers about each.
///
/// Each has two jobs, `<number>a` and `<number>b`, and leaves three parts; the last of them takes those away that the one
/// two transactions before it left.
struct TracedWork {
    static let model = """
        {"entities": {
          "Part": {"identity": "id", "tombstone": "gone == YES", "unique": [["name"]],
            "attributes": {"id": "integer64", "gone": "boolean", "name": "string", "text": "string"},
            "relationships": {"box": {"entity": "Box", "inverse": "parts"}}},
          "Box": {"identity": "id", "attributes": {"id": "integer64", "newest": "integer64"},
            "relationships": {"parts": {"entity": "Part", "toMany": true, "inverse": "box"},
              "labels": {"entity": "Label", "toMany": true}}},
          "Label": {"identity": "text", "attributes": {"text": "string"}}}}
        """

    private static let partsOfEach = 3
    static let log = "a journal"

    let plan: StagingPlan
    let transactions: ClosedRange<Int>
    var options = StoreOptions()
    /// The jobs are those of a journal.
    var isLogged = false
    /// Transactions that end with a job that fails, `<number>c`.
    var failing: Set<Int> = []
    /// The newest position that the store called durable.
    private(set) var durablePosition: Int64 = 0
    /// Transactions whose COMMIT came back.
    private(set) var acknowledged: Set<Int> = []
    /// Transactions that ended with an error.
    private(set) var failed: Set<Int> = []

    init(_ transactions: ClosedRange<Int>, plan: StagingPlan? = nil) throws {
        self.transactions = transactions
        self.plan = try plan ?? stagingPlan(Self.model)
        // The WAL reaches its size, or four times that, in the midst of the work, and is copied then.
        options.walPages = 4
    }

    // MARK: - Work

    /// Opens the store and does all of it, as well as it goes; afterwards the store is closed.
    ///
    /// - Parameter isStillTrue: called after each COMMIT: whether a client may still be sent its answer.
    mutating func run(at path: String, isStillTrue: () -> Bool = { true }) {
        do throws(StoreError) {
            let store = try Store(path: path, plan: plan, options: options)
            if isLogged { try store.beginLog(Self.log, after: 0) }
            for number in transactions { work(number, on: store, isStillTrue) }
            store.idle()
            if !isLogged { try store.checkpoint() }
        } catch {
            // Transactions that were acknowledged before are still there.
        }
    }

    private mutating func work(_ number: Int, on store: Store, _ isStillTrue: () -> Bool) {
        do throws(StoreError) {
            try store.begin()
            for job in jobs(number) { _ = try store.apply(job) }
            try store.commit()
            if isStillTrue() { acknowledged.insert(number) }
            store.copyWALIfDue()
            if let position = store.durablePosition, isStillTrue() { durablePosition = position }
        } catch {
            store.rollback()
            failed.insert(number)
        }
    }

    private func jobs(_ number: Int) -> [StoreJob] {
        let text = String(repeating: "x", count: 2_000)
        func part(_ index: Int) -> String {
            "{\"id\": \(number * 10 + index), \"name\": \"\(number).\(index)\", \"text\": \"\(text)\", \"box\": 1}"
        }
        let gone = (1...Self.partsOfEach).map { "{\"id\": \((number - 2) * 10 + $0), \"gone\": true}" }
        let payloads = [
            "{\"Part\": [\(part(1)), \(part(2))]}",
            "{\"Part\": [\(part(3)), \(gone.joined(separator: ", "))], "
                + "\"Box\": {\"id\": 1, \"newest\": \(number), \"labels\": [\"even\", \"\(number % 3)\"]}}",
        ]
        var works: [(String, StoreJob.Work)] = zip(["a", "b"], payloads).map { name, payload in
            let work: StoreJob.Work
            do {
                work = try stage(JSONText(copying: Array(payload.utf8)), plan)
            } catch {
                preconditionFailure("the payload is made here: \(error)")
            }
            return (name, work)
        }
        if failing.contains(number) { works.append(("c", .refused(.busy("No memory.")))) }
        return works.enumerated().map { index, job in
            var terms = JobTerms()
            terms.bookmark = Bookmark(name: "newest", value: "\(number)")
            return StoreJob(
                JobFacts(id: "\(number)\(job.0)", contentHash: [UInt8(number)], terms),
                sequence: Int64(number * 3 + index), work: job.1, now: 0)
        }
    }

    // MARK: - Looking

    /// The faults of a database after such a failure; empty for none. It is opened as a store first, so
    /// that what is in the log is found.
    ///
    /// - Parameter before: transactions of earlier work that were acknowledged.
    /// - Returns: also the transactions that are there.
    func faults(at path: String, before: Set<Int> = []) throws -> (faults: [String], found: Set<Int>) {
        let store = try Store(path: path, plan: plan)
        defer { withExtendedLifetime(store) {} }
        var faults: [String] = []
        let soundness =
            try SQLRows.of("PRAGMA integrity_check", in: path) + SQLRows.of("PRAGMA foreign_key_check", in: path)
        if soundness != ["ok"] { faults.append("not sound: \(soundness)") }
        let jobs = Set(try SQLRows.of("SELECT id FROM _broker_jobs WHERE failed = 0", in: path))
        let numbers = (before.min() ?? transactions.lowerBound)...transactions.upperBound
        let found = Set(numbers.filter { jobs.contains("\($0)a") })
        for number in numbers where jobs.contains("\(number)b") != found.contains(number) {
            faults.append("half of transaction \(number) is in the ledger")
        }
        for number in acknowledged.union(before) where !found.contains(number) {
            faults.append("transaction \(number) was acknowledged and is lost")
        }
        for number in numbers {
            let isThere = found.contains(number) && !found.contains(number + 2)
            let parts = try SQLRows.of(
                "SELECT count(*) FROM Part WHERE id BETWEEN \(number * 10 + 1) AND \(number * 10 + 3)", in: path)
            if parts != [isThere ? "\(Self.partsOfEach)" : "0"] {
                faults.append("transaction \(number) has \(parts) parts, and should it have them? \(isThere)")
            }
        }
        let newest = try SQLRows.of("SELECT newest FROM Box", in: path)
        if newest != (found.max().map { ["\($0)"] } ?? []) { faults.append("the newest is \(newest) of \(found)") }
        let bookmark = try SQLRows.of("SELECT value FROM _broker_bookmarks", in: path)
        if bookmark != newest { faults.append("the bookmark is \(bookmark), and the newest is \(newest)") }
        return (faults, found)
    }
}

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
                    JobFacts(id: "\(id)", contentHash: [1]), sequence: Int64(id), work: try stage(text, plan), now: 0))
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
