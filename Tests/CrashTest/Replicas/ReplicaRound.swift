import Foundation
import TestSupport

/// Three machines with one log under load, and the faults that strike them. Its files lie in the working directory.
final class ReplicaRound {
    /// Far beyond an election, a start and the copying of a stream.
    private static let patience = Patience.duration * 5

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

    var log: String { "nats://\(machines.map { "\($0.address):\(Machine.port)" }.joined(separator: ","))/\(stream)" }

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

/// Faults, and an operator who ends them.
extension ReplicaRound {
    func begin(_ fault: ReplicaPlan.Fault) throws {
        note("\(fault)")
        figures.faults.append("\(fault)")
        switch fault {
        case .killLeader: try leader()?.nats?.kill()
        case .killNATS(let one): machines[one].nats?.kill()
        case .killBroker(let one): machines[one].broker?.kill()
        case .stopNATS(let one): machines[one].pause(machines[one].nats)
        case .stopBroker(let one): machines[one].pause(machines[one].broker)
        case .cut(let one): try machines[one].cut()
        case .cutOneWay(let one, let other): try machines[one].cut(to: machines[other])
        case .fullDisk(let one): try machines[one].fillDisk()
        case .reload(let one): try reload(machines[one])
        case .backup(let one): _ = try backUp(machines[one], to: Self.backup)
        case .join(let one, let other):
            guard try backUp(machines[one], to: Self.backup) else { return }
            machines[other].broker?.kill()
            try machines[other].replaceStore(by: Self.backup)
        case .joinEarlier(let one):
            machines[one].broker?.kill()
            try machines[one].replaceStore(by: Self.earlier)
        case .clock(let one, let hours): try machines[one].setClock(hours: hours)
        case .upgrade: try upgrade()
        case .powerCut(let ones):
            for one in ones { machines[one].kill() }
            let cuts = ones.map { machines[$0].forget() }
            for (one, number) in zip(ones, cuts) { try machines[one].awaitForgetting(number) }
        }
    }

    static let backup = "backup.sqlite"
    /// Made before the log was trimmed.
    static let earlier = "earlier.sqlite"

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

    func backUp(_ machine: Machine, to file: String) throws -> Bool {
        let (status, _, _) = try Shell.attempt([
            programs.command, "backup", "--replace", "--timeout", "20s", "--socket", machine.socket,
            "\(FileManager.default.currentDirectoryPath)/\(file)",
        ])
        return status == 0
    }

    /// Ends all faults, and starts what has died.
    func heal() throws {
        for machine in machines {
            machine.resume()
            try machine.heal()
            try machine.setClock(hours: 0)
            if machine.isFull {
                try machine.emptyDisk()
                // JetStream gives up a full disk until the next start.
                try machine.startNATS()
            }
            if machine.nats?.hasEnded ?? true { try machine.startNATS() }
        }
        try operate()
        note("healed")
    }

    // MARK: - The operator

    /// Starts servers that have ended: one that could not reach the log when it started, too, as a service manager does. Installs the
    /// versions that the log has gone over to.
    func operate() throws {
        for machine in machines where machine.broker?.hasEnded ?? true { try machine.startBroker(log) }
        guard !versions.isEmpty else { return }
        for machine in machines {
            guard let state = machine.statistics(), state["log.halted"] == "true",
                let wanted = version(wantedBy: state["log.reason"] ?? ""), wanted != machine.isOther
            else { continue }
            note("\(machine.name) gets \(wanted ? "the other" : "its own") version")
            try stopBroker(machine)
            machine.isOther = wanted
            try machine.startBroker(log)
        }
    }

    /// Whether it is the other one; nil when the server has not halted for its version.
    func version(wantedBy reason: String) -> Bool? {
        for mark in ["the log went over to the fingerprint ", "The log's fingerprint is "] {
            guard let range = reason.firstRange(of: mark) else { continue }
            return versions[String(reason[range.upperBound...].prefix(16))]
        }
        return nil
    }

    /// The log goes over to the other version. Each server halts there.
    private func upgrade() throws {
        if versions.isEmpty {
            for isOther in [false, true] { versions[try fingerprint(isOther)] = isOther }
            guard versions.count == 2 else { throw Difference("Both versions have the fingerprint \(versions).") }
        }
        isOther.toggle()
        let wanted = versions.first { $0.value == isOther }!.key
        // Without a quorum it may be in the log or not.
        _ = try Shell.attempt([programs.command, "log", "upgrade", log, wanted])
    }

    /// As `brokerd --check` prints it.
    private func fingerprint(_ isOther: Bool) throws -> String {
        let environment = isOther ? ["env", "LD_PRELOAD=\(programs.another)", "ANOTHER_SQLITE=another"] : []
        let text = try Shell.run(
            environment + [
                programs.server, "--check", "--model", Model.graph, "--model", Model.more, "--store", "none.sqlite",
                "--socket", "none.sock", "--log", log,
            ])
        let mark = "The fingerprint is "
        guard let range = text.firstRange(of: mark) else { throw Difference("No fingerprint: \(text)") }
        return String(text[range.upperBound...].prefix(16))
    }

    /// By SIGTERM.
    func stopBroker(_ machine: Machine) throws {
        machine.broker?.terminate()
        while !(machine.broker?.hasEnded ?? true) {
            try checkTime("the end of \(machine.name)'s server")
            usleep(1_000)
        }
        guard machine.broker?.status == 0 else {
            throw Difference("SIGTERM ended \(machine.name)'s server otherwise.")
        }
    }
}

/// Clients with many small jobs.
extension ReplicaRound {
    /// Its existence ends the load.
    private static let endOfLoad = "load.end"

    /// Each machine has a client that sends small jobs, and many of them while faults strike: then each server always has some on
    /// their way to the log.
    func startLoad() throws {
        for number in machines.indices {
            let name = "load\(number)"
            let words = ["--until", Self.endOfLoad, "--window", "8", "--pace", "30000"]
            fillings[name] = try startFilling(name, words, (0..<3).map { machines[(number + $0) % 3] })
        }
    }

    /// Comes back when there are many on their way.
    func rush() throws {
        try Data().write(to: URL(fileURLWithPath: Filling.rush))
        usleep(Self.rushTime)
    }

    func endRush() throws { try FileManager.default.removeItem(atPath: Filling.rush) }

    /// Microseconds. A client may have waited for as long as its pace.
    private static let rushTime: UInt32 = 100_000

    func endLoad() throws {
        try Data().write(to: URL(fileURLWithPath: Self.endOfLoad))
        for (name, client) in fillings { try finish(name, client) }
        fillings = [:]
    }

    /// Waits for the end of that many small jobs.
    func fill(_ name: String, _ count: Int, by machines: [Machine]) throws {
        let client = try startFilling(name, ["--count", "\(count)", "--window", "1000", "--pace", "0"], machines)
        try finish(name, client)
    }

    private func startFilling(_ name: String, _ words: [String], _ machines: [Machine]) throws -> ChildProcess {
        try ChildProcess(
            [programs.own, "fill", name] + words + machines.flatMap { ["--socket", $0.socket] }, output: progress.end,
            complaints: "fill-\(name).complaints")
    }

    private func finish(_ name: String, _ client: ChildProcess) throws {
        while !client.hasEnded {
            try operate()
            try checkTime("the jobs \(name)")
            usleep(5_000)
        }
        guard client.status == 0 else { throw Difference("The client \(name) gave up; see fill-\(name).complaints.") }
        let data = try Data(contentsOf: URL(fileURLWithPath: FillingProcess.report(name)))
        let report = try JSONDecoder().decode(Filling.Report.self, from: data)
        figures.filled += report.count
        figures.filledAgain += report.sendings.values.reduce(0) { $0 + $1 - 1 }
        filled.merge(report.sendings) { first, _ in first }
    }
}

/// The subjects of some rounds, besides the faults.
extension ReplicaRound {
    // MARK: - A log that is trimmed

    /// Entries before a backup: more than stay in the log, twice.
    private static let entriesBefore = 20_500
    /// Entries after it: each server passes a checkpoint.
    private static let entriesAfter = 1_200

    /// Waits until the server that made a backup has trimmed the log.
    func trim(_ machine: Machine) throws {
        try fill("before", Self.entriesBefore, by: machines)
        try awaitEqualPositions()
        note("the log is long")
        guard try backUp(machine, to: Self.earlier) else { throw Difference("\(machine.name) makes no backup.") }
        var turn = 0
        while try firstPositions().contains(1) {
            // A server's disk may have had less at its newest checkpoint.
            turn += 1
            guard turn < 8 else { throw Difference("After \(turn) checkpoints the log is not trimmed.") }
            try fill("after-\(turn)", Self.entriesAfter, by: machines)
            let end = ContinuousClock.now + .seconds(2)
            while try firstPositions().contains(1), ContinuousClock.now < end { usleep(50_000) }
        }
        note("the log is trimmed: \(try firstPositions())")
        figures.faults.append("trim")
    }

    private func firstPositions() throws -> [Int] {
        try machines.map { try $0.copy(of: stream)?["first_seq"].flatMap { Int($0) } ?? 1 }
    }

    // MARK: - A store that differs

    /// Jobs that write the changed row, and others until the digests were compared.
    private static let entriesToHalt = 2_200

    /// A row of a store is changed while its server is stopped. The digest covers what jobs write, so the server halts after a job has
    /// met the row: it has another end there.
    func differ(_ machine: Machine, _ other: Machine) throws {
        note("\(machine.name) is made to differ")
        figures.faults.append("difference(\(machine.number - 1))")
        let others = machines.filter { $0 !== machine }
        try fill("before", 50, by: others)
        try awaitEqualPositions()
        try stopBroker(machine)
        try Shell.run(["sqlite3", machine.store, "UPDATE \(Filling.entity) SET value = -1 WHERE id = 7"])
        try machine.startBroker(log)
        try fill("after", Self.entriesToHalt, by: others)
        try awaitHalt(machine)
        note("\(machine.name) has halted")
        for one in others {
            guard let state = one.statistics(), state["log.halted"] == "false" else {
                throw Difference("\(one.name) has halted, and \(machine.name) was to.")
            }
        }
        try checkHalted(machine)
        try stopBroker(machine)
        try machine.startBroker(log)
        try awaitHalt(machine)
        try checkHalted(machine)
        guard try backUp(other, to: Self.backup) else { throw Difference("\(other.name) makes no backup.") }
        try stopBroker(machine)
        try machine.replaceStore(by: Self.backup)
        try machine.startBroker(log)
    }

    private func awaitHalt(_ machine: Machine) throws {
        while true {
            let state = machine.statistics()
            if state?["log.halted"] == "true" {
                let reason = state?["log.reason"] ?? ""
                guard Self.isDigest(reason, of: machine) else { throw Difference("\(machine.name): \(reason)") }
                return
            }
            try checkTime("the halt of \(machine.name), which differs")
            usleep(20_000)
        }
    }

    private static func isDigest(_ reason: String, of machine: Machine) -> Bool {
        reason.contains("the digest of this server, \(machine.name), is ")
    }

    /// It serves reads, and refuses jobs.
    private func checkHalted(_ machine: Machine) throws {
        try Shell.run([programs.command, "fetch", "--socket", machine.socket, Filling.entity, "--count"])
        let answer = try RawClient(machine.socket).ask(
            #"{"id": "refused", "tag": "refused", "operations": [{"op": "process", "entity": "\#(Filling.entity)", "json": {"id": 1}}]}"#
        )
        guard answer.isRefusal, answer.code == "storeUnavailable" else {
            throw Difference("\(machine.name) has halted, and answers \(answer.text)")
        }
    }

    // MARK: - Halts

    /// Each halt of this round had a cause that the round made.
    func checkHalts() throws {
        for machine in machines {
            for line in try machine.halts() {
                if version(wantedBy: line) != nil { continue }
                if case .difference(machine.number - 1, _) = replicaPlan.subject, Self.isDigest(line, of: machine) {
                    continue
                }
                throw Difference("\(machine.name) halted without a cause: \(line)")
            }
        }
    }
}
