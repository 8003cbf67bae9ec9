import Foundation
import TestSupport

/// Three machines with one log under load, and the faults that strike them. Its files lie in the working directory.
final class ReplicaRound {
    /// Far beyond an election, a start and the copying of a stream.
    private static let patience: Duration = .seconds(300)

    let programs: ReplicaPrograms
    let machines: [Machine]
    let seed: UInt64
    let stream: String
    let plan: RoundPlan
    let replicaPlan: ReplicaPlan
    let progress: ProgressPipe
    var clients: [ChildProcess?]
    var check: StoreCheck
    let deadline = ContinuousClock.now + patience
    var figures = ReplicaFigures()
    /// Clients of the load, by name.
    var fillings: [String: ChildProcess] = [:]
    /// By id, small jobs that were sent more than once.
    var filled: [String: Int] = [:]
    /// The newest version that the log was upgraded to.
    var isOther = false
    /// By fingerprint, whether a server of the other version has it. Empty before an upgrade.
    var versions: [String: Bool] = [:]
    private let start = ContinuousClock.now

    init(_ programs: ReplicaPrograms, _ machines: [Machine], seed: UInt64) throws {
        self.programs = programs
        self.machines = machines
        self.seed = seed
        stream = "round-\(seed)"
        try Model.write()
        replicaPlan = ReplicaPlan(seed: seed, isPower: programs.disk != nil)
        plan = RoundPlan(seed: seed, withJournal: true, count: replicaPlan.jobs)
        progress = try ProgressPipe()
        clients = plan.jobs.map { _ in nil }
        check = try StoreCheck(plan.jobs, Replay(programs.server))
        figures.subject = replicaPlan.subject.name
        try "system:system\n".write(toFile: "system", atomically: true, encoding: .utf8)
    }

    var log: String {
        "nats://\(machines.map { "\($0.address):\(Machine.port)" }.joined(separator: ","))/\(stream)"
    }

    /// Writes down when what happened.
    func note(_ text: String) {
        let line = "\(seconds(since: start)) \(text)\n"
        guard let file = fopen("events.log", "a") else { return }
        fputs(line, file)
        fclose(file)
    }

    /// - Throws: ``Difference``. No process of the round is left in any case.
    func run() throws {
        defer {
            for client in clients { client?.kill() }
            for client in fillings.values { client.kill() }
            for machine in machines { try? machine.abandon() }
        }
        try begin()
        if case .trim(let one) = replicaPlan.subject { try trim(machines[one]) }
        try startLoad()
        for number in clients.indices { try startClient(number) }
        for strike in replicaPlan.strikes {
            try wait(forAnswers: strike.answers)
            try rush()
            for fault in strike.faults { try begin(fault) }
            usleep(strike.duration)
            try heal()
            try endRush()
        }
        try wait(forAnswers: .max)
        note("the clients are through")
        try heal()
        try endLoad()
        if case .difference(let one, let other) = replicaPlan.subject {
            try differ(machines[one], machines[other])
        }
        try awaitEqualPositions()
        note("equal positions")
        try compare()
        note("compared")
        try count()
    }

    /// Starts the servers of all machines, with an empty log.
    private func begin() throws {
        for machine in machines {
            try machine.prepare(forgetful: programs.disk == nil ? nil : seed)
            for strike in replicaPlan.strikes {
                for case .clock(machine.number - 1, _) in strike.faults { machine.hasClock = true }
            }
            try FileManager.default.copyItem(atPath: Model.more, toPath: "\(machine.name)/\(Model.more)")
            try machine.startNATS()
        }
        note("prepared")
        var last = ""
        while true {
            let (status, _, complaints) = try Shell.attempt([programs.command, "log", "create", log])
            if status == 0 { break }
            last = complaints
            guard ContinuousClock.now < deadline else { throw Difference("The log cannot be made: \(last)") }
            usleep(50_000)
        }
        note("the log is made")
        for machine in machines { try machine.startBroker(log) }
        while machines.contains(where: { $0.statistics() == nil }) {
            try operate()
            try checkTime("the servers")
            usleep(20_000)
        }
        note("the servers have started")
    }

    private func startClient(_ number: Int) throws {
        let sockets = (0..<3).flatMap { ["--socket", machines[(number + $0) % 3].socket] }
        clients[number] = try ChildProcess(
            [
                programs.own, "client", "\(number)", "--journal", "--seed", "\(seed)", "--jobs", "\(replicaPlan.jobs)",
                "--pace", "\(replicaPlan.pace)",
            ] + sockets, output: progress.end, complaints: "client-\(number).complaints")
    }

    // MARK: - Waiting

    func wait(forAnswers count: Int) throws {
        while progress.answers < count {
            if try clients.areThrough() { return }
            try operate()
            try checkTime(count == .max ? "the clients" : "\(count) answers")
            progress.wait()
        }
    }

    func checkTime(_ what: String) throws {
        guard ContinuousClock.now < deadline else {
            throw Difference(
                "Waited in vain for \(what): \(machines.map { $0.statistics()?["log"] ?? "no answer of \($0.name)" })")
        }
    }

    func awaitEqualPositions() throws {
        while true {
            try operate()
            let states = machines.map { $0.statistics() }
            for (machine, state) in zip(machines, states) where state?["log.halted"] == "true" {
                let reason = state?["log.reason"] ?? ""
                guard version(wantedBy: reason) != nil else {
                    throw Difference("\(machine.name) has halted: \(reason)")
                }
            }
            let positions = states.map { $0?["log.position"] }
            let ends = states.map { $0?["log.last"] }
            if !positions.contains(nil), Set(positions + ends).count == 1,
                !states.contains(where: { $0?["log.lag"] != "0" || $0?["log.halted"] == "true" })
            {
                let digests = Set(states.map { $0?["log.digest"] })
                guard digests.count == 1 else { throw Difference("At \(positions) the digests are \(digests).") }
                return
            }
            try checkTime("equal positions")
            usleep(20_000)
        }
    }

    private func count() throws {
        let answers = try ClientAnswers(clients.indices.map { try ClientLog.entries(ClientLog.name($0)) })
        figures.sent = answers.sendings.count
        figures.sentAgain = answers.sendings.values.reduce(0) { $0 + $1 - 1 }
        figures.completed = answers.ends.values.count(where: \.isCompleted)
        figures.failed = answers.ends.count - figures.completed
        figures.unknown = figures.sent - answers.ends.count
    }
}
