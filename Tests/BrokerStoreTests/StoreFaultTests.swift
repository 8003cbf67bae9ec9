import Foundation
import Testing
import TestSupport

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
        try work(
            from: Beginning(folder: killed, done: before.acknowledged, work: TracedWork(5...6)), breakage)
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
