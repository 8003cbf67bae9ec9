import Foundation
import TestSupport

/// The comparison of all stores, all copies of the log, and all answers.
extension ReplicaRound {
    func compare() throws {
        for machine in machines { try stopBroker(machine) }
        try checkHalts()
        try awaitEqualCopies()
        note("equal copies")
        let answers = try ClientAnswers(clients.indices.map { try ClientLog.entries(ClientLog.name($0)) })
        try check.check(machines[0].store, answers)
        note("compared with the replay")
        let missing = check.accepted(answers, withoutEndIn: check.lines)
        guard missing.isEmpty else { throw Difference("Accepted, and not in the store: \(missing)") }
        let first = try tables(machines[0])
        for machine in machines.dropFirst() {
            let others = try tables(machine)
            guard others == first else {
                let names = first.keys.filter { first[$0] != others[$0] }
                throw Difference("\(machines[0].name) and \(machine.name) differ in \(names.sorted()).")
            }
        }
        try checkFilling()
        note("compared the stores")
        let copies = try LogCopies(log, of: machines.map(\.name), deadline)
        try copies.check(
            answers, jobs: plan.jobs.joined(), filled: filled, ledger: try LedgerLine.all(machines[0].store))
        var differing: String?
        if case .difference(let one, _) = replicaPlan.subject { differing = machines[one].name }
        try copies.checkDigests(differing: differing)
    }

    private func awaitEqualCopies() throws {
        while true {
            let copies = try machines.map { try $0.copy(of: stream) }
            if !copies.contains(nil), Set(copies).count == 1 { return }
            guard ContinuousClock.now < deadline else { throw Difference("The copies of the log differ: \(copies)") }
            usleep(50_000)
        }
    }

    private func tables(_ machine: Machine) throws -> [String: [String]] {
        let names = try SQLRows.of("SELECT name FROM sqlite_schema WHERE type = 'table'", in: machine.store)
        var rows: [String: [String]] = [:]
        // The facts of a store are its own, and the feed has a line for each of its transactions.
        for name in names where name != "_broker_meta" && name != "_broker_feed" && !name.hasPrefix("sqlite_") {
            rows[name] = try SQLRows.of("SELECT * FROM \"\(name)\"", in: machine.store).sorted()
        }
        return rows
    }

    /// Each small job took effect once.
    private func checkFilling() throws {
        let lines = try LedgerLine.all(machines[0].store).filter { Filling.isOne($0.id) }
        guard lines.count == figures.filled, Set(lines.map(\.id)).count == lines.count else {
            throw Difference("Of \(figures.filled) small jobs \(lines.count) are in the ledger.")
        }
        let wrong = try SQLRows.of(
            "SELECT count(*) FROM \(Filling.entity) WHERE value IS NOT id", in: machines[0].store)
        guard wrong == ["0"] else { throw Difference("\(wrong) rows of small jobs are wrong.") }
    }
}
