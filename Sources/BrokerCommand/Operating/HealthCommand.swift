import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON

struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Prints whether the server works, in one line; the exit status says the same.",
        discussion: """
            Exit status: 0 serving, 1 failed or halted, 4 unreachable (no server, or no answer in time), 5 waiting (its store is \
            locked or full), 6 paused (by `broker admin pause`, or it is stopping), 7 degraded (it serves, and the next start would \
            fail, because a reload was refused). Without --timeout, 5 seconds.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the state as JSON.")
    var json = false

    mutating func validate() throws { try connection.requireServer("Only a server has a state") }

    func run() async throws {
        let health = await health()
        if json { try Program.writeObject(health.write) } else { try Program.say(health.line) }
        if health.status != .success { throw CommandFailure(health.status) }
    }

    private func health() async -> Health {
        do {
            let statistics = try await connection.connected(
                "broker health", defaultTimeout: .seconds(5), needsServer: true
            ) { try await $0.statistics() }
            return Health(statistics)
        } catch let failure as CommandFailure {
            return Health(failure.status == .cannotConnect ? .unreachable : .failed, failure.message)
        } catch {
            return Health(.failed, "\(error)")
        }
    }
}

/// The state of a server, for people and for programs that watch it.
struct Health {
    enum State: String {
        case serving, degraded, waiting, paused, stopping, halted, failed, unreachable
    }

    let state: State
    let cause: String?
    private var statistics: Statistics?

    init(_ state: State, _ cause: String?) {
        self.state = state
        self.cause = cause
    }

    init(_ statistics: Statistics) {
        self.statistics = statistics
        // A store that takes nothing is the worse of two states.
        switch statistics.store.state {
        case .failed: (state, cause) = (.failed, statistics.store.cause)
        case .halted: (state, cause) = (.halted, statistics.store.cause)
        case .waiting: (state, cause) = (.waiting, statistics.store.cause)
        default:
            if statistics.draining == true {
                (state, cause) = (.stopping, "New jobs are refused, and those before are finished.")
            } else if statistics.paused {
                (state, cause) = (.paused, "Jobs are accepted and not merged until `broker admin resume`.")
            } else if let reload = statistics.lastReload, !reload.successful {
                (state, cause) = (
                    .degraded,
                    "The last reload was refused, and the next start would fail, too; the earlier model is in effect: "
                        + (reload.reason ?? "")
                )
            } else {
                (state, cause) = (.serving, nil)
            }
        }
    }

    var status: ExitStatus {
        switch state {
        case .serving: .success
        case .degraded: .degraded
        case .waiting: .waiting
        case .paused, .stopping: .paused
        case .failed, .halted: .failed
        case .unreachable: .cannotConnect
        }
    }

    var line: String {
        var facts: [String] = []
        if let statistics {
            if let uptime = statistics.uptimeMilliseconds { facts.append("up \(ShortText.time(milliseconds: uptime))") }
            facts.append("\(statistics.jobs.inFlight) in flight")
            if let oldest = statistics.queues.oldestMilliseconds, statistics.jobs.inFlight > 0 {
                facts.append("the oldest for \(ShortText.time(milliseconds: oldest))")
            }
        }
        let shown = facts.joined(separator: ", ")
        guard let cause else { return "\(state.rawValue): \(shown)" }
        return "\(state.rawValue): \(cause)" + (facts.isEmpty ? "" : " (\(shown))")
    }

    func write(to writer: inout JSONWriter) {
        writer.member("state", state.rawValue)
        writer.member("status", status.rawValue)
        writer.member("cause", cause)
        guard let statistics else { return }
        writer.member("server", statistics.server)
        writer.member("inFlight", statistics.jobs.inFlight)
        for case (let key, let value?) in [
            ("uptimeMilliseconds", statistics.uptimeMilliseconds),
            ("oldestMilliseconds", statistics.queues.oldestMilliseconds),
        ] {
            writer.member(key, value)
        }
    }
}

struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping", abstract: "Prints how long the server takes to answer.",
        discussion: """
            The time is that of a message and its answer over an open connection. Exit status 4 when there is no server, \
            or no answer in time. Without --timeout, 5 seconds.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: .value("count", "Ask that many times, one after the other."))
    var count = 1

    mutating func validate() throws {
        try connection.requireServer("Only a server answers")
        try checkRange("--count", count, in: 1...1_000_000)
    }

    func run() async throws {
        try await connection.connected("broker ping", defaultTimeout: .seconds(5), needsServer: true) { broker in
            let server = try await broker.serverInformation()
            for _ in 0..<count {
                let start = ContinuousClock.now
                try await broker.ping()
                let time = Int64((ContinuousClock.now - start) / .microseconds(1))
                try Program.say("\(server.name) answered in \(ShortText.time(microseconds: time))")
            }
        }
    }
}
