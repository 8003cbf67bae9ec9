import ArgumentParser
import Foundation
import TestSupport

/// Proves that Broker loses nothing and doubles nothing, whenever it or a client of it is killed.
@main
struct CrashTest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crashtest",
        abstract: "Kills brokerd and its clients under load, and looks whether anything was lost or done twice.",
        discussion: """
            The folder of a failing round stays, with the store, the journal, and the messages and answers of each client. The \
            seed repeats the round's jobs, clients and kills, but not the microsecond of a kill.
            """,
        subcommands: [Run.self, ReplicaRun.self, ReplicaRoundProcess.self, ClientProcess.self, FillingProcess.self],
        defaultSubcommand: Run.self)
}

struct Run: ParsableCommand {
    @Argument(help: "How many rounds.")
    var rounds = 20

    @Flag(help: "The server keeps a journal: what it accepted takes effect, too.")
    var journal = false

    @Option(help: "The first round's seed; those after it have the numbers that follow. Default: a new one.")
    var seed: UInt64?

    @Option(help: "The server. Default: brokerd beside this program.")
    var server: String?

    @Option(help: "Where the rounds have their folders.")
    var folder: String = FileManager.default.temporaryDirectory.path

    func validate() throws {
        guard rounds > 0 else { throw ValidationError("There must be a round at least.") }
    }

    func run() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let beside = URL(fileURLWithPath: own).deletingLastPathComponent().appendingPathComponent("brokerd").path
        let programs = Round.Programs(server: URL(fileURLWithPath: server ?? beside).path, own: own)
        let first = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        var figures = Figures()
        let start = ContinuousClock.now
        for number in 0..<rounds {
            let seed = first &+ UInt64(number)
            let begin = ContinuousClock.now
            let one = try run(programs, seed)
            figures.add(one)
            try say(
                "round \(number + 1), seed \(seed): \(one.serverKills) kills of the server, \(one.clientKills) of clients, "
                    + "\(one.sent) jobs, \(seconds(since: begin)) s")
        }
        try say(
            """
            \(figures.rounds) rounds: \(figures.serverKills) kills of the server, \(figures.clientKills) of clients
            \(figures.sent) jobs sent, \(figures.sentAgain) sent again; \(figures.completed) reported completed, \
            \(figures.failed) reported failed, \(figures.unknown) without an answer, of which \(figures.unknownCommitted) took effect
            nothing lost, nothing doubled, in \(seconds(since: start)) s
            """)
    }

    private func run(_ programs: Round.Programs, _ seed: UInt64) throws -> Figures {
        let files = FileManager.default
        let place = URL(fileURLWithPath: folder).appendingPathComponent("crashtest-\(seed)-\(getpid())").path
        try files.createDirectory(atPath: place, withIntermediateDirectories: false)
        let before = files.currentDirectoryPath
        guard files.changeCurrentDirectoryPath(place) else { throw Difference("\(place) cannot be entered.") }
        defer { _ = files.changeCurrentDirectoryPath(before) }
        var round = try Round(programs, seed: seed, withJournal: journal)
        do {
            try round.run()
        } catch let difference as Difference {
            try say(
                """
                FAILED: scripts/crashtest 1 --seed \(seed)\(journal ? " --journal" : "")
                \(difference)
                The store\(journal ? ", the journal" : "") and the messages and answers of each client are in \(place)
                """)
            throw ExitCode.failure
        }
        try files.removeItem(atPath: place)
        return round.figures
    }
}

struct ClientProcess: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client", abstract: "A client of a round.", shouldDisplay: false)

    @Argument var number: Int
    @Flag var journal = false
    /// The sockets of servers that share a log.
    @Option var socket: [String] = []
    @Option var seed: UInt64
    /// The number for all clients.
    @Option var jobs: Int?
    @Option var pace: UInt32 = 0

    func run() throws {
        let plan = RoundPlan(seed: seed, withJournal: journal, count: jobs)
        var client = try Client(
            number, plan.jobs[number], window: plan.windows[number], sockets: socket.isEmpty ? [Round.socket] : socket,
            pace: pace)
        try client.run()
    }
}

/// A process of the round's, killed by its own number, and by the system when this process ends before it.
///
/// To be started on the main thread: what the system watches is the thread.
final class ChildProcess {
    let number: pid_t
    /// The status of wait(2); nil while it runs.
    private(set) var status: Int32?

    /// - Parameters:
    ///   - output: gets its standard output.
    ///   - complaints: the file that its standard error is appended to.
    init(_ words: [String], output: Int32, complaints: String) throws {
        // Fails like the program itself: with a status.
        let all = ["setpriv", "--pdeathsig", "KILL", "--"] + words
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_addopen(&actions, 2, complaints, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        var arguments: [UnsafeMutablePointer<CChar>?] = all.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var number: pid_t = 0
        let code = posix_spawnp(&number, all[0], &actions, nil, &arguments, environ)
        guard code == 0 else {
            throw Difference("\(all.joined(separator: " ")) cannot be started: \(String(cString: strerror(code))).")
        }
        self.number = number
    }

    deinit { kill() }

    /// By SIGKILL; comes back when it is gone.
    func kill() {
        guard status == nil else { return }
        Foundation.kill(number, SIGKILL)
        wait(0)
    }

    func terminate() { if status == nil { Foundation.kill(number, SIGTERM) } }

    /// It runs no longer.
    var hasEnded: Bool {
        if status == nil { wait(WNOHANG) }
        return status != nil
    }

    private func wait(_ options: Int32) {
        var status: Int32 = 0
        var ended = waitpid(number, &status, options)
        while ended == -1, errno == EINTR { ended = waitpid(number, &status, options) }
        if ended == number { self.status = status }
    }
}

extension [ChildProcess?] {
    /// Whether all clients of a round are through; those that are become nil.
    ///
    /// - Throws: ``Difference`` when one gave up.
    mutating func areThrough() throws -> Bool {
        for (number, client) in enumerated() {
            guard let client, client.hasEnded else { continue }
            guard client.status == 0 else {
                throw Difference("Client \(number) gave up; client-\(number).complaints has the reason.")
            }
            self[number] = nil
        }
        return allSatisfy { $0 == nil }
    }
}

/// A server that is not killed. It gets the jobs of a round in the order of the ledger, one after the other.
final class Replay {
    private static let store = "replay.sqlite"
    private static let socket = "replay.sock"
    private static let patience: Duration = .seconds(60)

    private let server: ChildProcess
    /// Made for the first job: a server ends a connection that is silent at first.
    private lazy var client = Result { try RawClient(Self.socket) }

    /// - Parameter program: the server's.
    init(_ program: String) throws {
        let ready = open("replay.ready", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard ready >= 0 else { throw Difference("replay.ready cannot be written.") }
        defer { close(ready) }
        let files = ["--model", Model.graph, "--model", Model.more, "--store", Self.store, "--socket", Self.socket]
        server = try ChildProcess(
            [program] + files + ["--workers", "2", "--synchronous", "off"], output: ready, complaints: "replay.log")
        let deadline = ContinuousClock.now + Self.patience
        while lseek(ready, 0, SEEK_END) == 0 {
            guard !server.hasEnded, ContinuousClock.now < deadline else {
                throw Difference("The server of the replay has not started; see replay.log.")
            }
            usleep(1_000)
        }
    }

    /// - Returns: the job's line in the replay's ledger.
    func apply(_ job: CrashJob) throws -> LedgerLine {
        _ = try client.get().ask(job.replayed)
        guard let line = try LedgerLine.newest(Self.store) else {
            throw Difference("The replay has no line of \(job.text)")
        }
        return line
    }

    /// Where the tables of the store differ from those of the replay; nil for nowhere.
    func difference(from store: String) throws -> String? {
        let tables = try SQLRows.of(
            #"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\_broker%' ESCAPE '\'"#,
            in: Self.store)
        for table in tables where table != Filling.entity {
            let (rows, expected) = try (rows(of: table, in: store), rows(of: table, in: Self.store))
            guard rows != expected else { continue }
            let (found, missing) = (Set(rows).subtracting(expected), Set(expected).subtracting(rows))
            return "\(table) has \(found.sorted()), and not \(missing.sorted())."
        }
        return nil
    }

    private func rows(of table: String, in store: String) throws -> [String] {
        try SQLRows.of("SELECT * FROM \"\(table)\"", in: store).sorted()
    }
}

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
