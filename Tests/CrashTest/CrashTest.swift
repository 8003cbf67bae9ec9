import ArgumentParser
import Foundation

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
