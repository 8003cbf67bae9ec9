import ArgumentParser
import Foundation
import TestSupport

struct ReplicaOptions: ParsableArguments {
    @Option(help: "The program of NATS.")
    var nats: String

    @Option(help: "The library of AnotherMachine.c.")
    var another: String

    @Option(help: "The file system that forgets what was not synced: machines lose their power.")
    var disk: String?

    @Option(help: "Where the rounds have their folders.")
    var folder: String = FileManager.default.temporaryDirectory.path

    /// For a process that gets the same.
    fileprivate var words: [String] {
        ["--nats", nats, "--another", another, "--folder", folder] + (disk.map { ["--disk", $0] } ?? [])
    }
}

/// The counts of rounds.
struct ReplicaFigures: Codable {
    var rounds = 1
    /// With their machines.
    var faults: [String] = []
    var subject = ""
    var sent = 0
    var sentAgain = 0
    var completed = 0
    var failed = 0
    /// Jobs that were sent and have no known end.
    var unknown = 0
    /// Small jobs.
    var filled = 0
    var filledAgain = 0

    mutating func add(_ other: ReplicaFigures) {
        rounds += other.rounds
        faults += other.faults
        sent += other.sent
        sentAgain += other.sentAgain
        completed += other.completed
        failed += other.failed
        unknown += other.unknown
        filled += other.filled
        filledAgain += other.filledAgain
    }

    /// The faults by their names.
    var counts: String {
        let counts = Dictionary(faults.map { ($0.prefix { $0 != "(" }.description, 1) }, uniquingKeysWith: +)
        return counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}

/// Runs rounds in processes of their own, some at a time.
struct ReplicaRun: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replicas", abstract: "Strikes three machines with one log, and compares all their copies.",
        shouldDisplay: false)

    @Argument(help: "How many rounds.")
    var rounds = 20

    @Option(help: "The first round's seed; those after it have the numbers that follow. Default: a new one.")
    var seed: UInt64?

    @Option(help: "Rounds at the same time.")
    var parallel = 1

    @OptionGroup var options: ReplicaOptions

    func validate() throws {
        guard rounds > 0, parallel > 0 else { throw ValidationError("There must be a round at least.") }
    }

    private struct Running {
        let seed: UInt64
        let start = ContinuousClock.now
        let process: ChildProcess
        let output: String
    }

    func run() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let first = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let start = ContinuousClock.now
        var figures = ReplicaFigures(rounds: 0)
        var next = 0
        var running: [Running] = []
        var hasFailed = false
        while next < rounds && !hasFailed || !running.isEmpty {
            while next < rounds, !hasFailed, running.count < parallel {
                running.append(try begin(own, first &+ UInt64(next)))
                next += 1
            }
            usleep(20_000)
            for round in running where round.process.hasEnded {
                let text = try String(contentsOfFile: round.output, encoding: .utf8)
                try FileManager.default.removeItem(atPath: round.output)
                guard round.process.status == 0,
                    let one = try? JSONDecoder().decode(ReplicaFigures.self, from: Data(text.utf8))
                else {
                    hasFailed = true
                    try say("FAILED: seed \(round.seed)\n\(text)")
                    continue
                }
                figures.add(one)
                try say(
                    "round \(figures.rounds), seed \(round.seed): \(one.faults.count) faults (\(one.faults.joined(separator: " "))), "
                        + "\(one.sent) jobs, \(one.sentAgain) sent again, \(one.filled) small ones, \(one.filledAgain) sent again, \(one.subject), \(seconds(since: round.start)) s"
                )
            }
            running.removeAll { $0.process.hasEnded }
        }
        try say(
            """
            \(figures.rounds) rounds: \(figures.faults.count) faults (\(figures.counts))
            \(figures.sent) jobs sent, \(figures.sentAgain) sent again; \(figures.completed) reported completed, \
            \(figures.failed) reported failed, \(figures.unknown) without an answer; \(figures.filled) small jobs, \
            \(figures.filledAgain) sent again
            """)
        guard !hasFailed else { throw ExitCode.failure }
        try say("nothing lost, nothing doubled, all stores and copies equal, in \(seconds(since: start)) s")
    }

    /// A round in namespaces of its own: its network, its mounts and its processes end with it.
    private func begin(_ own: String, _ seed: UInt64) throws -> Running {
        let output = "\(options.folder)/replicas-\(seed)-\(getpid()).round"
        let descriptor = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Difference("\(output) cannot be written.") }
        defer { close(descriptor) }
        let script = #"mount --make-rprivate / && mount -t tmpfs none /run && mkdir /run/netns && exec "$@""#
        let words =
            [
                "unshare", "--net", "--mount", "--fork", "--kill-child", "sh", "-c", script, "round", own,
                "replica-round",
            ]
            + ["\(seed)"] + options.words
        return Running(
            seed: seed, process: try ChildProcess(words, output: descriptor, complaints: output), output: output)
    }
}

/// One round, in a network namespace and a mount namespace of its own.
struct ReplicaRoundProcess: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replica-round", abstract: "A round of three machines.", shouldDisplay: false)

    @Argument var seed: UInt64
    @OptionGroup var options: ReplicaOptions

    func run() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let beside = URL(fileURLWithPath: own).deletingLastPathComponent()
        let programs = ReplicaPrograms(
            server: beside.appendingPathComponent("brokerd").path,
            command: beside.appendingPathComponent("broker").path,
            nats: URL(fileURLWithPath: options.nats).path, another: URL(fileURLWithPath: options.another).path,
            disk: options.disk.map { URL(fileURLWithPath: $0).path }, own: own)
        try Shell.run(["ip", "link", "add", "switch", "type", "bridge"])
        try Shell.run(["ip", "addr", "add", "\(Machine.network).254/24", "dev", "switch"])
        try Shell.run(["ip", "link", "set", "switch", "up"])
        let machines = try (1...3).map { try Machine($0, programs) }
        let files = FileManager.default
        let place = URL(fileURLWithPath: options.folder).appendingPathComponent("replicas-\(seed)-\(getpid())").path
        try files.createDirectory(atPath: place, withIntermediateDirectories: false)
        guard files.changeCurrentDirectoryPath(place) else { throw Difference("\(place) cannot be entered.") }
        let round = try ReplicaRound(programs, machines, seed: seed)
        do {
            try round.run()
        } catch let difference as Difference {
            try say(
                """
                \(difference)
                The stores, the logs, and the messages and answers of each client are in \(place)
                """)
            throw ExitCode.failure
        }
        _ = files.changeCurrentDirectoryPath("/")
        try files.removeItem(atPath: place)
        try FileHandle.standardOutput.write(contentsOf: JSONEncoder().encode(round.figures))
    }
}

/// The decisions before a round of three machines.
struct ReplicaPlan {
    enum Fault: Equatable {
        case killLeader
        case killNATS(Int)
        case killBroker(Int)
        case stopNATS(Int)
        case stopBroker(Int)
        case cut(Int)
        case cutOneWay(Int, Int)
        case fullDisk(Int)
        case reload(Int)
        /// The store of the second is replaced by a backup of the first.
        case join(Int, Int)
        /// The store is replaced by the backup that was made before the log was trimmed.
        case joinEarlier(Int)
        case backup(Int)
        /// The clock of a server is so many hours ahead until the end of the strike.
        case clock(Int, hours: Int)
        /// All servers go over to another fingerprint.
        case upgrade
        /// These machines die at once, and their disks forget what was not synced.
        case powerCut([Int])

        /// Without the machines.
        var name: String { "\(self)".prefix { $0 != "(" }.description }
    }

    struct Strike {
        /// One, or two at once.
        var faults: [Fault]
        /// After so many answers.
        let answers: Int
        /// How long they last, in microseconds.
        let duration: UInt32
    }

    /// Besides the faults. Of 48 rounds with seeds that follow each other, one trims, two have a store that differs, and three have
    /// thousands of jobs.
    enum Subject: Equatable {
        case none
        /// The log passes checkpoints under the jobs of all clients.
        case manyJobs(Int)
        /// The log is trimmed first, after that backup.
        case trim(backup: Int)
        /// A row of the first store is changed while its server is stopped; the second makes the backup that replaces it.
        case difference(Int, Int)
    }

    let subject: Subject
    /// Jobs of all clients.
    let jobs: Int
    /// In the order of their answers.
    let strikes: [Strike]
    /// Microseconds that a client waits for each job that it has sent: there are jobs until the last strike ends.
    let pace: UInt32
    /// Microseconds besides the strikes.
    private static let leastTime: UInt32 = 2_000_000

    /// - Parameter isPower: machines lose their power, and no disk is full.
    init(seed: UInt64, isPower: Bool) {
        var generator = SeededGenerator(seed: ~seed)
        let (one, next) = (Int.random(in: 0..<3, using: &generator), Int.random(in: 1...2, using: &generator))
        let other = (one + next) % 3
        subject =
            switch seed % 48 {
            case 7, 23, 39: .manyJobs(Int.random(in: 1_200...2_400, using: &generator))
            case 15: .trim(backup: one)
            case 3, 31: .difference(one, other)
            default: .none
            }
        let drawn = Int.random(in: 150...400, using: &generator)
        jobs = if case .manyJobs(let count) = subject { count } else { drawn }
        var strikes = (0..<Int.random(in: 1...3, using: &generator)).map { [jobs] _ in
            Strike(
                faults: (0..<Int.random(in: 1...2, using: &generator)).map { _ in
                    Self.fault(isPower: isPower, using: &generator)
                },
                // Each job has two answers.
                answers: Int.random(in: 0...2 * jobs, using: &generator),
                duration: UInt32.random(in: 1_000...3_000_000, using: &generator))
        }.sorted { $0.answers < $1.answers }
        if case .trim = subject { strikes[0].faults.append(.joinEarlier(other)) }
        self.strikes = strikes
        let time = strikes.reduce(Self.leastTime) { $0 + $1.duration }
        pace = time * UInt32(RoundPlan.mostClients) / UInt32(jobs)
    }

    private static func fault(isPower: Bool, using generator: inout SeededGenerator) -> Fault {
        let (one, next) = (Int.random(in: 0..<3, using: &generator), Int.random(in: 1...2, using: &generator))
        let other = (one + next) % 3
        if isPower, Bool.random(using: &generator) {
            return switch Int.random(in: 0..<4, using: &generator) {
            case 0: .powerCut([one])
            case 1: .powerCut([one, other])
            default: .powerCut([0, 1, 2])
            }
        }
        return switch Int.random(in: 0..<20, using: &generator) {
        case 0...2: .killLeader
        case 3: .killNATS(one)
        case 4...6: .killBroker(one)
        case 7: .stopNATS(one)
        case 8: .stopBroker(one)
        case 9...10: .cut(one)
        case 11: .cutOneWay(one, other)
        case 12: isPower ? .killNATS(one) : .fullDisk(one)
        case 13: .reload(one)
        case 14: .join(one, other)
        case 15: .backup(one)
        case 16...17: .clock(one, hours: next == 1 ? 1 : -1)
        default: .upgrade
        }
    }
}

extension ReplicaPlan.Subject {
    /// Without its details.
    var name: String { "\(self)".prefix { $0 != "(" }.description }
}
