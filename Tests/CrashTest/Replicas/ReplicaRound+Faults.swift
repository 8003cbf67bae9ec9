import Foundation
import TestSupport

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
