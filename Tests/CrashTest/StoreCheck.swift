import Foundation
import TestSupport

/// Compares copies of a round's store, made when its server was dead, with the answers of the clients, and with a
/// store to which the same jobs were applied one after the other.
struct StoreCheck {
    private let jobs: [String: CrashJob]
    /// As of the newest copy.
    private(set) var lines: [LedgerLine] = []
    /// By sequence, of those of which that is known.
    private(set) var names: [Int: String] = [:]
    /// Jobs up to this sequence have been replayed.
    private var replayed = 0
    private let replay: Replay

    init(_ jobs: [[CrashJob]], _ replay: Replay) {
        self.replay = replay
        self.jobs = Dictionary(uniqueKeysWithValues: jobs.joined().map { ($0.name, $0) })
    }

    /// - Throws: ``Difference``.
    mutating func check(_ storePath: String, _ answers: ClientAnswers) throws {
        try checkFile(storePath)
        let before = lines
        lines = try LedgerLine.all(storePath).filter { !Filling.isOne($0.id) }
        try checkGrowth(since: before)
        try nameLines(storePath, answers)
        try checkReported(answers)
        try replayLines()
        if let difference = try replay.difference(from: storePath) { throw Difference(difference) }
    }

    private func checkFile(_ storePath: String) throws {
        let integrity = try SQLRows.of("PRAGMA integrity_check", in: storePath)
        guard integrity == ["ok"] else { throw Difference("integrity_check says \(integrity)") }
        let links = try SQLRows.of("PRAGMA foreign_key_check", in: storePath)
        guard links.isEmpty else { throw Difference("foreign_key_check says \(links)") }
    }

    /// Committed jobs stay, and later ones are later in the order. Only a failure is removed, when its job runs again.
    private func checkGrowth(since before: [LedgerLine]) throws {
        let now = Dictionary(uniqueKeysWithValues: lines.map { ($0.sequence, $0) })
        for line in before where now[line.sequence] != line {
            guard line.isFailure, now[line.sequence] == nil else {
                throw Difference(
                    "The ledger's line \(line) has become \(now[line.sequence].map { "\($0)" } ?? "none").")
            }
        }
        let old = Set(before.map(\.sequence))
        let newest = before.last?.sequence ?? 0
        if let late = lines.first(where: { $0.sequence < newest && !old.contains($0.sequence) }) {
            throw Difference("\(late) was committed after the sequence \(newest).")
        }
    }

    // MARK: - Whose lines they are

    /// Finds the job of each line, and that there is one receipt for each that is completed.
    private mutating func nameLines(_ storePath: String, _ answers: ClientAnswers) throws {
        names = names.merging(answers.owners) { name, _ in name }
        for (sequence, owner) in answers.owners where names[sequence] != owner {
            throw Difference("The sequence \(sequence) is that of \(names[sequence]!), but was reported for \(owner).")
        }
        for line in lines where line.hasClientID {
            guard names[line.sequence] ?? line.id == line.id else {
                throw Difference("\(line) was reported for \(names[line.sequence]!).")
            }
            names[line.sequence] = line.id
        }
        let receipts = try SQLRows.of("SELECT job FROM Receipt ORDER BY _pk", in: storePath)
        guard Set(receipts).count == receipts.count else {
            let twice = Dictionary(grouping: receipts) { $0 }.filter { $0.value.count > 1 }.keys.sorted()
            throw Difference("Took effect twice: \(twice)")
        }
        let completed = lines.filter { !$0.isFailure }
        // Rows are numbered in the order in which they come.
        let known = Set(completed.compactMap { names[$0.sequence] })
        let nameless = completed.filter { names[$0.sequence] == nil }
        let unclaimed = receipts.filter { !known.contains($0) }
        guard nameless.count == unclaimed.count else {
            throw Difference("Receipts without a line in the ledger: \(unclaimed); lines without a job: \(nameless)")
        }
        for (line, name) in zip(nameless, unclaimed) { names[line.sequence] = name }
        let named = completed.map { names[$0.sequence]! }
        guard named.count == receipts.count, Set(named) == Set(receipts) else {
            throw Difference(
                "The ledger has \(Set(named).subtracting(receipts)) and the store \(Set(receipts).subtracting(named)) alone."
            )
        }
        for line in lines {
            guard let name = names[line.sequence] else { continue }
            guard let job = jobs[name], answers.sendings[name] != nil, job.hasID == line.hasClientID else {
                throw Difference("\(line) is of no job that was sent.")
            }
        }
    }

    private func checkReported(_ answers: ClientAnswers) throws {
        let bySequence = Dictionary(uniqueKeysWithValues: lines.map { ($0.sequence, $0) })
        let completed = Dictionary(
            lines.filter { !$0.isFailure }.map { (names[$0.sequence]!, $0) }, uniquingKeysWith: { first, _ in first })
        let newest = Dictionary(lines.filter(\.hasClientID).map { ($0.id, $0.sequence) }, uniquingKeysWith: max)
        for (name, end) in answers.ends {
            // A failure does not occupy its id: a job that was sent earlier, over a lost connection, may run after it.
            let isSentAgain = answers.sendings[name] ?? 0 > 1
            if !end.isCompleted, isSentAgain, newest[name] ?? 0 > end.sequence ?? 0 { continue }
            let line = end.sequence.flatMap { bySequence[$0] }
            guard let line, names[line.sequence] == name, line.isFailure != end.isCompleted else {
                throw Difference("Reported, but not in the ledger: \(end.message.text)")
            }
            if !end.isCompleted, let completed = completed[name] {
                throw Difference("\(completed) was reported as failed.")
            }
            let (reported, stored) = (end.message, try line.message())
            for path in ["changes", "rejected", "keys", "error.code", "error.path"] where reported[path] != nil {
                guard reported[path] == stored[path] else {
                    throw Difference("Reported \(reported.text), but stored \(stored.text)")
                }
            }
        }
    }

    /// Accepted jobs that have no end in the ledger.
    func accepted(_ answers: ClientAnswers, withoutEndIn lines: [LedgerLine]) -> [String] {
        let ended = Set(lines.compactMap { $0.hasClientID ? $0.id : names[$0.sequence] ?? answers.owners[$0.sequence] })
        return answers.accepted.keys.filter { !ended.contains($0) }.sorted()
    }

    // MARK: - What they did

    private mutating func replayLines() throws {
        for line in lines where line.sequence > replayed {
            replayed = line.sequence
            guard let name = names[line.sequence], let job = jobs[name] else { continue }
            let expected = try replay.apply(job)
            guard line.isFailure == expected.isFailure, line.outcome == expected.outcome else {
                throw Difference(
                    "\(name), \(line.sequence) in the order, ended with \(line.outcome), should with "
                        + "\(expected.outcome)\n\(job.text)")
            }
        }
    }
}

/// A line of the server's ledger.
struct LedgerLine: Equatable {
    let sequence: Int
    let isFailure: Bool
    /// The client made the id; otherwise the server.
    let hasClientID: Bool
    let id: String
    /// The content of the job's `completed` or of the `error` of its `failed`.
    let outcome: String

    static func all(_ storePath: String) throws -> [LedgerLine] { try read("ORDER BY sequence", storePath) }

    static func newest(_ storePath: String) throws -> LedgerLine? {
        try read("ORDER BY sequence DESC LIMIT 1", storePath).first
    }

    private static func read(_ order: String, _ storePath: String) throws -> [LedgerLine] {
        try SQLRows.of(
            "SELECT sequence, failed, hash IS NOT NULL, id, outcome FROM _broker_jobs \(order)", in: storePath
        ).map { row in
            let cells = row.split(separator: "|", maxSplits: 4).map(String.init)
            guard cells.count == 5, let sequence = Int(cells[0]) else {
                throw Difference("A line of the ledger is \(row)")
            }
            return LedgerLine(
                sequence: sequence, isFailure: cells[1] == "1", hasClientID: cells[2] == "1", id: cells[3],
                outcome: cells[4])
        }
    }

    /// The answer that reports it.
    func message() throws -> Message { try Message(text: isFailure ? "{\"error\": \(outcome)}" : outcome) }
}

/// A violated promise.
struct Difference: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The counts of rounds.
struct Figures {
    var rounds = 0
    var serverKills = 0
    var clientKills = 0
    var sent = 0
    var sentAgain = 0
    var completed = 0
    var failed = 0
    /// Jobs that were sent and have no known end.
    var unknown = 0
    /// Those of them that took effect.
    var unknownCommitted = 0

    mutating func add(_ other: Figures) {
        rounds += other.rounds
        serverKills += other.serverKills
        clientKills += other.clientKills
        sent += other.sent
        sentAgain += other.sentAgain
        completed += other.completed
        failed += other.failed
        unknown += other.unknown
        unknownCommitted += other.unknownCommitted
    }
}

/// A line that is seen at once, also in a file.
func say(_ text: String) throws { try FileHandle.standardOutput.write(contentsOf: Data("\(text)\n".utf8)) }

func seconds(since start: ContinuousClock.Instant) -> String {
    String(format: "%.1f", (ContinuousClock.now - start) / .seconds(1))
}
