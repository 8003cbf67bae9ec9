import Foundation
import TestSupport

/// Three machines with one log under load, and the faults that strike them. Its files lie in the working directory.
final class ReplicaRound {
    /// Far beyond an election, a start and the copying of a stream.
    private static let patience: Duration = .seconds(300)

    private let programs: ReplicaPrograms
    private let machines: [Machine]
    private let seed: UInt64
    private let stream: String
    private let plan: RoundPlan
    private let replicaPlan: ReplicaPlan
    private let progress: ProgressPipe
    private var clients: [ChildProcess?]
    private var check: StoreCheck
    private let deadline = ContinuousClock.now + patience
    private(set) var figures = Figures()
    private(set) var faults = 0

    init(_ programs: ReplicaPrograms, _ machines: [Machine], seed: UInt64) throws {
        self.programs = programs
        self.machines = machines
        self.seed = seed
        stream = "round-\(seed)"
        try Model.write()
        plan = RoundPlan(seed: seed, withJournal: true)
        replicaPlan = ReplicaPlan(seed: seed, answers: 2 * plan.jobs.joined().count)
        progress = try ProgressPipe()
        clients = plan.jobs.map { _ in nil }
        check = try StoreCheck(plan.jobs, Replay(programs.server))
        try "system:system\n".write(toFile: "system", atomically: true, encoding: .utf8)
    }

    private var log: String {
        "nats://\(machines.map { "\($0.address):\(Machine.port)" }.joined(separator: ","))/\(stream)"
    }

    /// - Throws: ``Difference``. No process of the round is left in any case.
    func run() throws {
        defer {
            for client in clients { client?.kill() }
            for machine in machines { try? machine.abandon() }
        }
        for machine in machines {
            try machine.prepare()
            try FileManager.default.copyItem(atPath: Model.more, toPath: "\(machine.name)/\(Model.more)")
            try machine.startNATS()
        }
        try createLog()
        for machine in machines { try machine.startBroker(log) }
        for number in clients.indices { try startClient(number) }
        for strike in replicaPlan.strikes {
            try wait(forAnswers: strike.answers)
            for fault in strike.faults { try begin(fault) }
            usleep(strike.duration)
            try heal()
        }
        try wait(forAnswers: .max)
        try heal()
        try awaitEqualPositions()
        try compare()
        count()
    }

    private func createLog() throws {
        var last = ""
        while true {
            let (status, _, complaints) = try Shell.attempt([programs.command, "log", "create", log])
            if status == 0 { return }
            last = complaints
            guard ContinuousClock.now < deadline else { throw Difference("The log cannot be made: \(last)") }
            usleep(200_000)
        }
    }

    private func startClient(_ number: Int) throws {
        let sockets = (0..<3).flatMap { ["--socket", machines[(number + $0) % 3].socket] }
        clients[number] = try ChildProcess(
            [programs.own, "client", "\(number)", "--journal", "--seed", "\(seed)"] + sockets, output: progress.end,
            complaints: "client-\(number).complaints")
    }

    // MARK: - Faults

    private func begin(_ fault: ReplicaPlan.Fault) throws {
        faults += 1
        switch fault {
        case .killLeader: try leader()?.nats?.kill()
        case .killNATS(let one): machines[one].nats?.kill()
        case .killBroker(let one): machines[one].broker?.kill()
        case .stopNATS(let one): machines[one].pause(machines[one].nats)
        case .stopBroker(let one): machines[one].pause(machines[one].broker)
        case .cut(let one): try machines[one].cut()
        case .cutOneWay(let one, let other): try machines[one].cut(to: machines[other])
        case .fullDisk(let one):
            try machines[one].fillDisk()
        // JetStream gives up a full disk until the next start.
        case .reload(let one): try reload(machines[one])
        case .backup(let one): _ = try backUp(machines[one])
        case .join(let one, let other):
            guard try backUp(machines[one]) else { return }
            machines[other].broker?.kill()
            for suffix in ["-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: machines[other].store + suffix)
            }
            try FileManager.default.removeItem(atPath: machines[other].store)
            try FileManager.default.moveItem(atPath: "backup.sqlite", toPath: machines[other].store)
        }
    }

    private func leader() throws -> Machine? {
        let (status, text, _) = try Shell.attempt([programs.command, "log", "status", "--json", log])
        guard status == 0, let name = try Message(text: text)["leader"] else { return nil }
        return machines.first { $0.name == name }
    }

    /// Gives the model another route, by one server.
    private func reload(_ machine: Machine) throws {
        let path = "\(machine.name)/\(Model.more)"
        let text = try String(contentsOfFile: path, encoding: .utf8)
        // Another route: a migration of tables would give row keys that the replay does not.
        let route = #"{"keyPath": "extra\#(machine.number)", "mapping": "item"}"#
        let wider = text.replacing("\"routes\": [", with: "\"routes\": [\(route), ")
        guard !text.contains(route) else { return }
        try wider.write(toFile: path, atomically: true, encoding: .utf8)
        _ = try Shell.attempt([programs.command, "admin", "reload", "--socket", machine.socket, "--timeout", "20s"])
    }

    private func backUp(_ machine: Machine) throws -> Bool {
        let (status, _, _) = try Shell.attempt([
            programs.command, "backup", "--replace", "--timeout", "20s", "--socket", machine.socket,
            "\(FileManager.default.currentDirectoryPath)/backup.sqlite",
        ])
        return status == 0
    }

    /// Ends all faults, and starts what has died.
    private func heal() throws {
        for machine in machines {
            machine.resume()
            try machine.heal()
            if try Shell.attempt(["test", "-e", "\(machine.name)/data/ballast"]).status == 0 {
                try machine.emptyDisk()
                try machine.startNATS()
            }
            if machine.nats?.hasEnded ?? true { try machine.startNATS() }
            if machine.broker?.hasEnded ?? true { try machine.startBroker(log) }
        }
    }

    // MARK: - Waiting

    private func wait(forAnswers count: Int) throws {
        while progress.answers < count {
            if try clients.areThrough() { return }
            // A server that could not reach the log when it started is started again, as by a service manager.
            for machine in machines where machine.broker?.hasEnded ?? true { try machine.startBroker(log) }
            try checkTime(count == .max ? "the clients" : "\(count) answers")
            progress.wait()
        }
    }

    private func checkTime(_ what: String) throws {
        guard ContinuousClock.now < deadline else {
            throw Difference(
                "Waited in vain for \(what): \(machines.map { $0.statistics()?["log"] ?? "no answer of \($0.name)" })")
        }
    }

    private func awaitEqualPositions() throws {
        while true {
            let states = machines.map { $0.statistics() }
            for (machine, state) in zip(machines, states) where state?["log.halted"] == "true" {
                throw Difference("\(machine.name) has halted: \(state?["log.reason"] ?? "")")
            }
            let positions = states.map { $0?["log.position"] }
            let ends = states.map { $0?["log.last"] }
            if !positions.contains(nil), Set(positions + ends).count == 1,
                !states.contains(where: { $0?["log.lag"] != "0" })
            {
                let digests = Set(states.map { $0?["log.digest"] })
                guard digests.count == 1 else { throw Difference("At \(positions) the digests are \(digests).") }
                return
            }
            for machine in machines where machine.broker?.hasEnded ?? true { try machine.startBroker(log) }
            try checkTime("equal positions")
            usleep(50_000)
        }
    }

    // MARK: - Checks

    private func compare() throws {
        for machine in machines {
            machine.broker?.terminate()
            while !(machine.broker?.hasEnded ?? true) {
                try checkTime("the end of \(machine.name)'s server")
                usleep(1_000)
            }
            guard machine.broker?.status == 0 else {
                throw Difference("SIGTERM ended \(machine.name)'s server otherwise.")
            }
        }
        try awaitEqualCopies()
        let answers = try ClientAnswers(clients.indices.map { try ClientLog.entries(ClientLog.name($0)) })
        try check.check(machines[0].store, answers)
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
    }

    private func awaitEqualCopies() throws {
        while true {
            let copies = machines.map { (try? $0.copy(of: stream)) ?? "no answer" }
            if Set(copies).count == 1, copies[0] != "none", copies[0] != "no answer" { return }
            guard ContinuousClock.now < deadline else { throw Difference("The copies of the log differ: \(copies)") }
            usleep(200_000)
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

    private func count() {
        guard let answers = try? ClientAnswers(clients.indices.map { try ClientLog.entries(ClientLog.name($0)) }) else {
            return
        }
        figures.rounds = 1
        figures.sent = answers.sendings.count
        figures.sentAgain = answers.sendings.values.reduce(0) { $0 + $1 - 1 }
        figures.completed = answers.ends.values.filter(\.isCompleted).count
        figures.failed = answers.ends.count - figures.completed
        figures.unknown = figures.sent - answers.ends.count
    }
}
