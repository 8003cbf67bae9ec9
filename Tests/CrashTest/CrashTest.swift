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
