import Foundation
import TestSupport

/// A server under load that is killed again and again, and what must hold then. Its files lie in the working directory, which
/// is the round's own.
struct Round {
    static let socket = "broker.sock"
    private static let store = "store.sqlite"
    /// Far beyond what a round takes on a busy machine.
    private static let patience = Patience.duration * 5

    private let programs: Programs
    private let seed: UInt64
    private let withJournal: Bool
    private let plan: RoundPlan
    private let deadline = ContinuousClock.now + patience
    private let progress: ProgressPipe
    private var server: ChildProcess?
    /// By number; nil for one that is through.
    private var clients: [ChildProcess?]
    private var check: StoreCheck
    private(set) var figures = Figures()

    /// Where the programs are.
    struct Programs {
        let server: String
        /// This one, which is a client, too.
        let own: String
    }

    init(_ programs: Programs, seed: UInt64, withJournal: Bool) throws {
        self.programs = programs
        self.seed = seed
        self.withJournal = withJournal
        try Model.write()
        plan = RoundPlan(seed: seed, withJournal: withJournal)
        progress = try ProgressPipe()
        clients = plan.jobs.map { _ in nil }
        check = try StoreCheck(plan.jobs, Replay(programs.server))
    }

    /// - Throws: ``Difference``. No process is left in any case.
    mutating func run() throws {
        defer { for process in clients + [server] { process?.kill() } }
        try startServer()
        for number in clients.indices { try startClient(number) }
        for kill in plan.kills {
            try wait(forAnswers: kill.answers)
            usleep(kill.microseconds)
            try strike(kill)
        }
        try wait(forAnswers: .max)
        try killServer()
        try checkStore()
        try finish()
        try count()
    }

    // MARK: - Kills

    private mutating func strike(_ kill: RoundPlan.Kill) throws {
        switch kill.target {
        case .client(let number):
            guard let client = clients[number], !client.hasEnded else { return }
            client.kill()
            figures.clientKills += 1
            try startClient(number)
        case .server:
            try killServer()
            try checkStore()
            try restartServer(kill.starts)
        case .everything:
            try killServer()
            let stopped = clients.indices.filter { clients[$0].map { !$0.hasEnded } ?? false }
            for number in stopped { clients[number]?.kill() }
            figures.clientKills += stopped.count
            try checkStore()
            try restartServer(kill.starts)
            try awaitAccepted()
            for number in stopped { try startClient(number) }
        }
    }

    /// - Parameter moments: microseconds after which it is killed again.
    private mutating func restartServer(_ moments: [UInt32]) throws {
        for moment in moments {
            try startServer()
            usleep(moment)
            try killServer()
            try checkStore()
        }
        try startServer()
    }

    private mutating func startServer() throws {
        let ready = open("ready", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard ready >= 0 else { throw Difference("ready cannot be written.") }
        defer { close(ready) }
        let files = ["--model", Model.graph, "--model", Model.more, "--store", Self.store, "--socket", Self.socket]
        server = try ChildProcess(
            [programs.server] + files + ["--workers", "2", "--synchronous", plan.synchronous]
                + (withJournal ? ["--journal"] : []), output: ready,
            complaints: "server.log")
    }

    private mutating func killServer() throws {
        guard let server, !server.hasEnded else {
            throw Difference("The server ended by itself; see server.log.")
        }
        server.kill()
        figures.serverKills += 1
    }

    private mutating func startClient(_ number: Int) throws {
        let words = [programs.own, "client", "\(number)", "--seed", "\(seed)"]
        clients[number] = try ChildProcess(
            words + (withJournal ? ["--journal"] : []), output: progress.end,
            complaints: "client-\(number).complaints")
    }

    // MARK: - Waiting

    /// Waits for so many answers to all clients together, or until all clients are through.
    private mutating func wait(forAnswers count: Int) throws {
        while progress.answers < count {
            if try clients.areThrough() { return }
            try checkTime("\(count == .max ? "the clients" : "\(count) answers")")
            progress.wait()
        }
    }

    private func checkTime(_ what: String) throws {
        if server?.hasEnded ?? true { throw Difference("The server ended by itself; see server.log.") }
        guard ContinuousClock.now < deadline else { throw Difference("Waited in vain for \(what).") }
    }

    private func waitUntilReady() throws {
        while try Data(contentsOf: URL(fileURLWithPath: "ready")).isEmpty {
            try checkTime("the server's ready line")
            usleep(200)
        }
    }

    /// With a journal, waits until the server has applied all `accepted` jobs without any client.
    private func awaitAccepted() throws {
        try waitUntilReady()
        guard withJournal else { return }
        let answers = try answers()
        while true {
            let lines = try LedgerLine.all(Self.store)
            let missing = check.accepted(answers, withoutEndIn: lines)
            if missing.isEmpty { return }
            try checkTime("the ends of accepted jobs, without a client: \(missing)")
            usleep(1_000)
        }
    }

    // MARK: - Checks

    private func answers() throws -> ClientAnswers {
        try ClientAnswers(clients.indices.map { try ClientLog.entries(ClientLog.name($0)) })
    }

    /// The files of a dead server; the store itself stays in the state of the kill.
    private mutating func checkStore() throws {
        let copy = "copy.sqlite"
        for suffix in ["", "-wal", "-shm"] {
            let (from, to) = (Self.store + suffix, copy + suffix)
            if FileManager.default.fileExists(atPath: to) { try FileManager.default.removeItem(atPath: to) }
            // SQLite creates the third one again.
            guard suffix != "-shm", FileManager.default.fileExists(atPath: from) else { continue }
            try FileManager.default.copyItem(atPath: from, toPath: to)
        }
        // Killed while it made its tables, for which SQLite keeps another journal.
        let files = FileManager.default
        let isNew =
            try !files.fileExists(atPath: copy) || files.fileExists(atPath: Self.store + "-journal")
            || SQLRows.of("SELECT name FROM sqlite_schema WHERE name = 'Receipt'", in: copy).isEmpty
        if isNew, check.lines.isEmpty { return }
        try check.check(copy, answers())
    }

    /// The server starts once more, is asked about all jobs, and stops.
    private mutating func finish() throws {
        try startServer()
        try awaitAccepted()
        try askForEnds()
        server?.terminate()
        while !(server?.hasEnded ?? true) {
            guard ContinuousClock.now < deadline else { throw Difference("Waited in vain for the server's end.") }
            usleep(500)
        }
        guard server?.status == 0 else { throw Difference("SIGTERM ended the server with \(server?.status ?? -1).") }
        try checkStore()
    }

    /// `await` returns the outcome in the ledger, and a job that is sent again is a duplicate.
    private func askForEnds() throws {
        let client = try RawClient(Self.socket)
        let lines = Dictionary(try LedgerLine.all(Self.store).map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for job in plan.jobs.joined() where job.hasID {
            let answer = try client.ask(#"{"type": "await", "id": "\#(job.name)"}"#)
            let isRight =
                switch lines[job.name] {
                case nil: answer.code == "unknownJob"
                case let line?:
                    answer.type == (line.isFailure ? "failed" : "completed") && answer.sequence == line.sequence
                }
            guard isRight else { throw Difference("await of \(job.name) answered \(answer.text)") }
            // Any fifth job.
            guard let line = lines[job.name], !line.isFailure, job.isAwaited, line.sequence % 5 == 0 else { continue }
            try client.send(job.text)
            var again = try client.next()
            if again.type == "accepted" { again = try client.next() }
            guard again.type == "completed", again.sequence == line.sequence else {
                throw Difference("\(job.name), sent again after its end: \(again.text)")
            }
        }
    }

    private mutating func count() throws {
        let answers = try answers()
        figures.rounds = 1
        figures.sent = answers.sendings.count
        figures.sentAgain = answers.sendings.values.reduce(0) { $0 + $1 - 1 }
        figures.completed = answers.ends.values.filter(\.isCompleted).count
        figures.failed = answers.ends.count - figures.completed
        figures.unknown = figures.sent - answers.ends.count
        let committed = Set(check.lines.filter { !$0.isFailure }.compactMap { check.names[$0.sequence] })
        figures.unknownCommitted = committed.subtracting(answers.ends.keys).count
    }
}

/// The decisions before a round. The time of a kill depends on the machine, too.
struct RoundPlan {
    enum Target {
        case server
        case client(Int)
        /// The server and all clients: after its next start it works without them.
        case everything
    }

    struct Kill {
        let target: Target
        /// It strikes so many microseconds after so many answers.
        let answers: Int
        let microseconds: UInt32
        /// Microseconds after the server's next starts at which it is killed again.
        let starts: [UInt32]
    }

    static let mostClients = 4

    let jobs: [[CrashJob]]
    /// The value of the server's `--synchronous`: no kill shows the difference, but one is slow and the other fast.
    let synchronous: String
    /// Jobs that a client has in flight, by client.
    let windows: [Int]
    /// In the order of their answers.
    let kills: [Kill]

    /// - Parameter jobs: of all clients, instead of some hundred.
    init(seed: UInt64, withJournal: Bool, count jobs: Int? = nil) {
        var generator = SeededGenerator(seed: seed)
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        /// As many below a tenth of the limit as above: most of what can go wrong is soon over.
        func moment(_ limit: Double) -> UInt32 { UInt32(limit * pow(10, -Double.random(in: 0...3, using: &generator))) }
        let clients = number(2...Self.mostClients)
        let drawn = number(60...160)
        let count = (jobs ?? drawn) / clients
        self.jobs = (0..<clients).map { CrashJob.jobs(seed: seed, client: $0, count: count, withJournal: withJournal) }
        windows = (0..<clients).map { _ in number(1...12) }
        synchronous = number(0...2) == 0 ? "full" : "normal"
        let targets: [Target] =
            (0..<number(1...3)).map { _ in .server } + (0..<number(0...2)).map { _ in .client(number(0...clients - 1)) }
            + (0..<number(withJournal ? 1...2 : 0...1)).map { _ in .everything }
        kills = targets.map { target in
            let starts = number(0...1) == 0 ? 0 : number(1...2)
            return Kill(
                target: target, answers: number(0...clients * count), microseconds: moment(5_000),
                starts: (0..<starts).map { _ in moment(40_000) })
        }.sorted { $0.answers < $1.answers }
    }
}
