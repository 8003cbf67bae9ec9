import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

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
