package import Broker
package import BrokerCommandLine
package import BrokerJSON

/// The state of a server, for people and for programs that watch it.
package struct Health: Sendable {
    package enum State: String, Sendable {
        case serving, degraded, waiting, paused, stopping, halted, failed, unreachable
    }

    package let state: State
    package let cause: String?
    private var statistics: Statistics?

    package init(_ state: State, _ cause: String?) {
        self.state = state
        self.cause = cause
    }

    package init(_ statistics: Statistics) {
        self.statistics = statistics
        // A store that takes nothing is the worse of two states.
        switch statistics.store.state {
        case .failed: (state, cause) = (.failed, statistics.store.cause)
        case .halted: (state, cause) = (.halted, statistics.store.cause)
        case .waiting: (state, cause) = (.waiting, statistics.store.cause)
        default:
            if statistics.isDraining == true {
                (state, cause) = (.stopping, "New jobs are refused, and those before are finished.")
            } else if statistics.isPaused {
                (state, cause) = (.paused, "Jobs are accepted and not merged until `broker admin resume`.")
            } else if let reload = statistics.lastReload, !reload.isSuccessful {
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

    package var status: ExitStatus {
        switch state {
        case .serving: .success
        case .degraded: .degraded
        case .waiting: .waiting
        case .paused, .stopping: .paused
        case .failed, .halted: .failed
        case .unreachable: .cannotConnect
        }
    }

    package var line: String {
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

    package func write(to writer: inout JSONWriter) {
        writer.member("state", state.rawValue)
        writer.member("status", status.rawValue)
        writer.member("cause", cause)
        guard let statistics else { return }
        writer.member("server", statistics.server)
        writer.member("inFlight", statistics.jobs.inFlight)
        if let uptime = statistics.uptimeMilliseconds { writer.member("uptimeMilliseconds", uptime) }
        if let oldest = statistics.queues.oldestMilliseconds { writer.member("oldestMilliseconds", oldest) }
    }
}

extension Health {
    /// The state of the server now, also when it does not answer.
    ///
    /// - Parameter statistics: asks for them.
    package init(_ statistics: () async throws -> Statistics) async {
        do {
            self.init(try await statistics())
        } catch {
            self.init(withoutAnswer: error)
        }
    }

    /// - Parameter error: of a request for statistics.
    init(withoutAnswer error: any Error) {
        let isLost =
            (error as? CommandFailure)?.status == .cannotConnect
            || (error as? BrokerError).map { [.cannotConnect, .connectionLost, .closed].contains($0.code) } == true
        self.init(isLost ? .unreachable : .failed, "\(error)")
    }
}
