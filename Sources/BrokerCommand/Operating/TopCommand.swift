import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import Glibc

struct TopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top", abstract: "Shows what the server does: rates, latencies, queues, WAL, memory, each second.",
        discussion: """
            q ends it. Where standard output is no terminal, it prints a line each second. The minute is the last 50 to 60 \
            seconds. Latencies are those of jobs, by stage; total is from the whole frame to the COMMIT.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the screen once, and end.")
    var once = false

    mutating func validate() throws { try connection.requireServer("Only a server works beside others") }

    func run() async throws {
        let screen = !once && isatty(STDOUT_FILENO) == 1 ? FullScreen() : nil
        defer { screen?.restore() }
        if screen == nil { StandardOutput.endWithoutReader() }
        var restore: (@Sendable () -> Void)?
        if let screen { restore = { screen.restore() } }
        try await connection.connected(
            "broker top", defaultTimeout: .seconds(10), needsServer: true, onInterruption: restore
        ) { broker in
            do {
                try await show(broker, on: screen)
            } catch let failure as CommandFailure {
                throw failure
            } catch {
                throw CommandFailure(error)
            }
        }
    }

    private func show(_ broker: BrokerClient, on screen: FullScreen?) async throws {
        var before: (statistics: Statistics, at: ContinuousClock.Instant)?
        while true {
            let statistics = try await broker.statistics()
            let now = ContinuousClock.now
            let seconds = before.map { Double(($0.at.duration(to: now)) / .microseconds(1)) / 1e6 } ?? 0
            let top = TopScreen(statistics, before: before?.statistics, seconds: seconds)
            if let screen {
                try screen.show(top.lines)
                if await screen.isQuitting(within: 1_000) { return }
            } else if once {
                for line in top.lines { try Program.say(line) }
                return
            } else {
                if before == nil { try Program.say(TopScreen.plainHeader) }
                try Program.say(top.plainLine)
                try await Task.sleep(for: .seconds(1))
            }
            before = (statistics, now)
        }
    }
}
