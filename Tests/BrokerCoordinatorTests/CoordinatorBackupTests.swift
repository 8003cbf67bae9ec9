import BrokerStore
import Foundation
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Backups beside jobs that are merged.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorBackupTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
    private let folder = TemporaryFolder()

    /// A job for each of them: a row of 3,000 bytes under the job's own number.
    private func submit(_ numbers: Range<Int>, to test: TestCoordinator) {
        let text = String(repeating: "x", count: 3_000)
        for number in numbers {
            test.submit("{\"Row\": {\"id\": \(number), \"text\": \"\(text)\"}}", id: "job \(number)")
        }
    }

    /// How a backup ends, and what holds it after its first step until it is opened.
    private func backup(
        _ test: TestCoordinator, to name: String = "copy", behind gate: Gate? = nil, isWanted: Monitor<Bool>? = nil
    ) -> (end: Monitor<BackupEnd?>, begun: Monitor<Bool>) {
        let end = Monitor<BackupEnd?>(nil)
        let begun = Monitor(false)
        test.coordinator.backup(
            to: folder.path(name), isWanted: { isWanted?.withLock { $0 } ?? true },
            progress: { _ in
                begun.broadcast {
                    $0 = true
                    return true
                }
                gate?.pass()
            },
            notify: { result in
                end.broadcast {
                    $0 = result
                    return true
                }
            })
        return (end, begun)
    }

    private func result(_ end: Monitor<BackupEnd?>) -> BackupEnd { end.patiently("a backup to end") { $0 } }

    private func copy(_ end: Monitor<BackupEnd?>) throws -> StoreBackup.Copy {
        guard case .done(let copy) = result(end) else { throw TestSupport.SQLRows.Failure(message: "\(result(end))") }
        return copy
    }

    private func code(_ end: Monitor<BackupEnd?>) -> String {
        if case .failed(let fault) = result(end) { fault.code.rawValue } else { "\(result(end))" }
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder.path("")).sorted() }
    }

    @Test func `a backup among jobs is the state at the sequence that it returns`() throws {
        let test = try TestCoordinator(model, in: folder)
        submit(1..<1_001, to: test)
        _ = test.events.ends(1_000)
        for round in 0..<5 {
            // They are merged before, while and after the copy is made.
            let first = 1_001 + round * 200
            submit(first..<first + 200, to: test)
            let copy = try copy(backup(test, to: "copy \(round)").end)
            let file = folder.path("copy \(round)")
            // Each job has made the one row of its sequence's number.
            #expect(copy.sequence >= 1_000 && copy.sequence < first + 200)
            #expect(
                try TestSupport.SQLRows.of(
                    "SELECT count(*), max(id), (SELECT max(sequence) FROM _broker_jobs) FROM Row", in: file)
                    == ["\(copy.sequence)|\(copy.sequence)|\(copy.sequence)"])
        }
        _ = test.events.ends(2_000)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["2000"])
    }

    @Test func `a restored copy continues with its jobs known and its sequences after all that may have been sent`()
        throws
    {
        let sequences: [Int64]
        do {
            let test = try TestCoordinator(model, in: folder)
            submit(1..<6, to: test)
            _ = test.events.ends(5)
            #expect(try copy(backup(test, to: "copy").end).sequence == 5)
            // Sent after the copy was made, from sequences that were reserved before.
            submit(6..<9, to: test)
            sequences = test.events.ends(8).compactMap(\.sequence)
        }
        let restored = try TestCoordinator(model, in: folder) { $0.storePath = folder.path("copy") }
        submit(5..<7, to: restored)
        let ends = restored.events.ends(2)
        #expect(ends[0].isDuplicate && ends[0].sequence == 5)
        #expect(!ends[1].isDuplicate && ends[1].sequence! > sequences.max()!)
        #expect(try TestSupport.SQLRows.of("SELECT count(*) FROM Row", in: folder.path("copy")) == ["6"])
    }

    @Test func `jobs are merged while a backup waits, and there is one at a time`() throws {
        let test = try TestCoordinator(model, in: folder)
        submit(1..<11, to: test)
        _ = test.events.ends(10)
        let gate = Gate()
        let (end, begun) = backup(test, behind: gate)
        begun.patiently("a backup to begin") { $0 ? () : nil }
        submit(11..<21, to: test)
        _ = test.events.ends(20)
        #expect(code(backup(test, to: "other").end) == "busy")
        gate.open()
        #expect(try copy(end).sequence == 10)
        #expect(try copy(backup(test, to: "other").end).sequence == 20)
    }

    @Test func `the time of the newest backup is reported after a restart, too`() throws {
        let time = try {
            let test = try TestCoordinator(model, in: folder)
            #expect(!test.statistics.contains("backedUpAt"))
            _ = try copy(backup(test).end)
            return try #require(test.statistics.firstMatch(of: /"backedUpAt":[0-9]+/)).output
        }()
        #expect(try TestCoordinator(model, in: folder).statistics.contains(time))
    }

    @Test func `a cancelled backup leaves no file`() throws {
        let test = try TestCoordinator(model, in: folder)
        submit(1..<1_001, to: test)
        _ = test.events.ends(1_000)
        let gate = Gate()
        let isWanted = Monitor(true)
        let (end, begun) = backup(test, behind: gate, isWanted: isWanted)
        begun.patiently("a backup to begin") { $0 ? () : nil }
        #expect(try names.contains { $0.hasPrefix("copy.partial-") })
        isWanted.withLock { $0 = false }
        gate.open()
        #expect(code(end) == "stopped")
        #expect(try !names.contains { $0.hasPrefix("copy") })
    }

    @Test func `a stop gives a backup up, and takes no other`() throws {
        let test = try TestCoordinator(model, in: folder)
        submit(1..<1_001, to: test)
        _ = test.events.ends(1_000)
        let gate = Gate()
        let (end, begun) = backup(test, behind: gate)
        begun.patiently("a backup to begin") { $0 ? () : nil }
        test.coordinator.refuseNewJobs()
        #expect(code(backup(test, to: "other").end) == "draining")
        gate.open()
        #expect(code(end) == "stopped")
        #expect(try !names.contains { $0.hasPrefix("copy") })
    }

    @Test func `a fault of its path is reported with the code of the store`() throws {
        let test = try TestCoordinator(model, in: folder)
        #expect(code(backup(test, to: "missing/copy").end) == "storeUnavailable")
        _ = FileManager.default.createFile(atPath: folder.path("copy"), contents: nil)
        #expect(code(backup(test).end) == "storeUnavailable")
    }

    @Test func `a backup sees the jobs before its question`() throws {
        let test = try TestCoordinator(model, in: folder)
        let gate = Gate()
        let end = Monitor<BackupEnd?>(nil)
        test.submit(#"{"Row": {"id": 1}}"#, behind: gate)
        test.coordinator.admit(
            payloadBytes: 1,
            open: { [coordinator = test.coordinator, file = folder.path("copy")] _ in
                .question { ticket in
                    coordinator.backup(to: file, before: ticket) { result in
                        end.broadcast {
                            $0 = result
                            return true
                        }
                    }
                }
            }, refuse: { _ in })
        gate.open()
        #expect(try copy(end).sequence == 1)
    }
}
