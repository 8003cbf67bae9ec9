import ArgumentParser
import Foundation

/// Runs in a network namespace and a mount namespace of its own: scripts/replicas.
struct ReplicaRun: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replicas", abstract: "Strikes three machines with one log, and compares all their copies.",
        shouldDisplay: false)

    @Argument(help: "How many rounds.")
    var rounds = 20

    @Option(help: "The first round's seed; those after it have the numbers that follow. Default: a new one.")
    var seed: UInt64?

    @Option(help: "The program of NATS.")
    var nats: String

    @Option(help: "Where the rounds have their folders.")
    var folder: String = FileManager.default.temporaryDirectory.path

    func run() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let place = URL(fileURLWithPath: own).deletingLastPathComponent()
        let programs = ReplicaPrograms(
            server: place.appendingPathComponent("brokerd").path, command: place.appendingPathComponent("broker").path,
            nats: URL(fileURLWithPath: nats).path, own: own)
        try Shell.run(["ip", "link", "add", "switch", "type", "bridge"])
        try Shell.run(["ip", "addr", "add", "\(Machine.network).254/24", "dev", "switch"])
        try Shell.run(["ip", "link", "set", "switch", "up"])
        let machines = try (1...3).map { try Machine($0, programs) }
        let first = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        var figures = Figures()
        var faults = 0
        let start = ContinuousClock.now
        for number in 0..<rounds {
            let begin = ContinuousClock.now
            let round = try run(programs, machines, first &+ UInt64(number))
            figures.add(round.figures)
            faults += round.faults
            try say(
                "round \(number + 1), seed \(first &+ UInt64(number)): \(round.faults) faults, \(round.figures.sent) jobs, "
                    + "\(seconds(since: begin)) s")
        }
        try say(
            """
            \(rounds) rounds: \(faults) faults
            \(figures.sent) jobs sent, \(figures.sentAgain) sent again; \(figures.completed) reported completed, \
            \(figures.failed) reported failed, \(figures.unknown) without an answer
            nothing lost, nothing doubled, all stores and copies equal, in \(seconds(since: start)) s
            """)
    }

    private func run(_ programs: ReplicaPrograms, _ machines: [Machine], _ seed: UInt64) throws -> ReplicaRound {
        let files = FileManager.default
        let place = URL(fileURLWithPath: folder).appendingPathComponent("replicas-\(seed)-\(getpid())").path
        try files.createDirectory(atPath: place, withIntermediateDirectories: false)
        let before = files.currentDirectoryPath
        guard files.changeCurrentDirectoryPath(place) else { throw Difference("\(place) cannot be entered.") }
        defer { _ = files.changeCurrentDirectoryPath(before) }
        let round = try ReplicaRound(programs, machines, seed: seed)
        do {
            try round.run()
        } catch let difference as Difference {
            try say(
                """
                FAILED: scripts/replicas 1 --seed \(seed)
                \(difference)
                The stores, the logs, and the messages and answers of each client are in \(place)
                """)
            throw ExitCode.failure
        }
        try files.removeItem(atPath: place)
        return round
    }
}
