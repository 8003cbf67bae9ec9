import Foundation
import TestSupport

/// The subjects of some rounds, besides the faults.
extension ReplicaRound {
    // MARK: - A log that is trimmed

    /// Entries before a backup: more than stay in the log, twice.
    private static let entriesBefore = 20_500
    /// Entries after it: each server passes a checkpoint.
    private static let entriesAfter = 1_200

    /// Waits until the server that made a backup has trimmed the log.
    func trim(_ machine: Machine) throws {
        try fill("before", Self.entriesBefore, by: machines)
        try awaitEqualPositions()
        note("the log is long")
        guard try backUp(machine, to: Self.earlier) else { throw Difference("\(machine.name) makes no backup.") }
        var turn = 0
        while try firstPositions().contains(1) {
            // A server's disk may have had less at its newest checkpoint.
            turn += 1
            guard turn < 8 else { throw Difference("After \(turn) checkpoints the log is not trimmed.") }
            try fill("after-\(turn)", Self.entriesAfter, by: machines)
            let end = ContinuousClock.now + .seconds(2)
            while try firstPositions().contains(1), ContinuousClock.now < end { usleep(50_000) }
        }
        note("the log is trimmed: \(try firstPositions())")
        figures.faults.append("trim")
    }

    private func firstPositions() throws -> [Int] {
        try machines.map { try $0.copy(of: stream)?["first_seq"].flatMap { Int($0) } ?? 1 }
    }

    // MARK: - A store that differs

    /// Jobs that write the changed row, and others until the digests were compared.
    private static let entriesToHalt = 2_200

    /// A row of a store is changed while its server is stopped. The digest covers what jobs write, so the server halts after a job has
    /// met the row: it has another end there.
    func differ(_ machine: Machine, _ other: Machine) throws {
        note("\(machine.name) is made to differ")
        figures.faults.append("difference(\(machine.number - 1))")
        let others = machines.filter { $0 !== machine }
        try fill("before", 50, by: others)
        try awaitEqualPositions()
        try stopBroker(machine)
        try Shell.run(["sqlite3", machine.store, "UPDATE \(Filling.entity) SET value = -1 WHERE id = 7"])
        try machine.startBroker(log)
        try fill("after", Self.entriesToHalt, by: others)
        try awaitHalt(machine)
        note("\(machine.name) has halted")
        for one in others {
            guard let state = one.statistics(), state["log.halted"] == "false" else {
                throw Difference("\(one.name) has halted, and \(machine.name) was to.")
            }
        }
        try checkHalted(machine)
        try stopBroker(machine)
        try machine.startBroker(log)
        try awaitHalt(machine)
        try checkHalted(machine)
        guard try backUp(other, to: Self.backup) else { throw Difference("\(other.name) makes no backup.") }
        try stopBroker(machine)
        try machine.replaceStore(by: Self.backup)
        try machine.startBroker(log)
    }

    private func awaitHalt(_ machine: Machine) throws {
        while true {
            let state = machine.statistics()
            if state?["log.halted"] == "true" {
                let reason = state?["log.reason"] ?? ""
                guard Self.isDigest(reason, of: machine) else { throw Difference("\(machine.name): \(reason)") }
                return
            }
            try checkTime("the halt of \(machine.name), which differs")
            usleep(20_000)
        }
    }

    private static func isDigest(_ reason: String, of machine: Machine) -> Bool {
        reason.contains("the digest of this server, \(machine.name), is ")
    }

    /// It serves reads, and refuses jobs.
    private func checkHalted(_ machine: Machine) throws {
        try Shell.run([programs.command, "fetch", "--socket", machine.socket, Filling.entity, "--count"])
        let answer = try RawClient(machine.socket).ask(
            #"{"id": "refused", "tag": "refused", "operations": [{"op": "process", "entity": "\#(Filling.entity)", "json": {"id": 1}}]}"#
        )
        guard answer.isRefusal, answer.code == "storeUnavailable" else {
            throw Difference("\(machine.name) has halted, and answers \(answer.text)")
        }
    }

    // MARK: - Halts

    /// Each halt of this round had a cause that the round made.
    func checkHalts() throws {
        for machine in machines {
            for line in try machine.halts() {
                if version(wantedBy: line) != nil { continue }
                if case .difference(machine.number - 1, _) = replicaPlan.subject, Self.isDigest(line, of: machine) {
                    continue
                }
                throw Difference("\(machine.name) halted without a cause: \(line)")
            }
        }
    }
}
