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

    /// How long a server may take to answer before it counts as lost.
    private static let patience = Duration.seconds(1)

    private func show(_ broker: BrokerClient, on screen: FullScreen?) async throws {
        var before: (statistics: Statistics, at: ContinuousClock.Instant, time: Int)?
        while true {
            let statistics = try await Self.statistics(of: broker, mayBeLost: before != nil)
            let now = ContinuousClock.now
            let lost = before.map { "lost since \(Self.clock($0.time))" } ?? ""
            let top = statistics.map { statistics in
                let seconds = before.map { Double(($0.at.duration(to: now)) / .microseconds(1)) / 1e6 } ?? 0
                return TopScreen(statistics, before: before?.statistics, seconds: seconds)
            }
            if let screen {
                if let top {
                    try screen.show(top.lines)
                } else if let before {
                    let last = TopScreen(before.statistics, before: nil, seconds: 0).lines.dropFirst(2)
                    try screen.show([lost, "The server does not answer. These are its last numbers:"] + last)
                }
                if await screen.isQuitting(within: 1_000) { return }
            } else if once {
                for line in top?.lines ?? [] { try Program.say(line) }
                return
            } else {
                if before == nil { try Program.say(TopScreen.plainHeader) }
                try Program.say(top?.plainLine ?? lost)
                try await Task.sleep(for: .seconds(1))
            }
            if let statistics { before = (statistics, now, time(nil)) }
        }
    }

    /// Nil when a server that has answered before does not answer now.
    private static func statistics(of broker: BrokerClient, mayBeLost: Bool) async throws -> Statistics? {
        guard mayBeLost else { return try await broker.statistics() }
        do {
            return try await withThrowingTaskGroup(of: Statistics?.self) { group in
                group.addTask { try await broker.statistics() }
                group.addTask {
                    try await Task.sleep(for: patience)
                    return nil
                }
                defer { group.cancelAll() }
                return try await group.next() ?? nil
            }
        } catch let error as BrokerError where CommandFailure(error).status == .cannotConnect {
            return nil
        }
    }

    /// In this machine's time zone.
    private static func clock(_ time: Int) -> String {
        var seconds = time
        var parts = tm()
        localtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 16)
        let count = strftime(&text, text.count, "%H:%M:%S", &parts)
        return String(decoding: text[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
