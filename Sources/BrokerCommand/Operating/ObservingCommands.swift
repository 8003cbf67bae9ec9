import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerConsole
import BrokerFastJSON
import BrokerJSON
import Dispatch
import Glibc
import Synchronization

/// The screen of `broker top`: measurements of a server at two moments. Each line fits 80 columns.
struct TopScreen {
    private static let columns = 80

    private let now: Statistics
    private let before: Statistics?
    private let seconds: Double

    init(_ now: Statistics, before: Statistics?, seconds: Double) {
        self.now = now
        self.before = before
        self.seconds = seconds
    }

    var lines: [String] {
        let health = Health(now)
        let cause = TableText(health.cause.map { "  \($0)" } ?? "", columns: Self.columns).shown
        return [title(health), cause] + rateLines + latencyLines + memoryLines
    }

    private func title(_ health: Health) -> String {
        var facts = [now.server ?? "broker"]
        if let uptime = now.uptimeMilliseconds { facts.append("up \(ShortText.time(milliseconds: uptime))") }
        facts.append("\(now.jobs.inFlight) in flight")
        if let oldest = now.queues.oldestMilliseconds, now.jobs.inFlight > 0 {
            facts.append("oldest \(ShortText.time(milliseconds: oldest))")
        }
        return "\(health.state.rawValue): \(facts.joined(separator: ", "))"
    }

    // MARK: - Rates

    private func perSecond(_ total: (Statistics) -> Int) -> String {
        before.map { ShortText.rate(Double(total(now) - total($0)) / max(seconds, 0.001)) } ?? "-"
    }

    private var rateLines: [String] {
        let minute = now.lastMinute
        func row(_ name: String, _ minute: Int?, _ total: (Statistics) -> Int) -> [String] {
            [name, perSecond(total), minute.map(ShortText.count) ?? "-", ShortText.count(total(now))]
        }
        return [
            ["", "a second", "in a minute", "since start"],
            row("jobs", minute?.jobs.completed) { $0.jobs.completed },
            row("failed", minute?.jobs.failed) { $0.jobs.failed },
            row("commits", minute?.commits) { $0.commits },
            row("inserted", minute?.objects.inserted) { $0.objects.inserted },
            row("updated", minute?.objects.updated) { $0.objects.updated },
            row("unchanged", minute?.objects.unchanged) { $0.objects.unchanged },
            row("deleted", minute?.objects.deleted) { $0.objects.deleted },
            row("rejected", minute?.objects.rejected) { $0.objects.rejected },
        ].map { Self.row($0, [10, 14, 16, 18]) }
    }

    // MARK: - Latencies

    private var latencyLines: [String] {
        let header = ["", "minute: p50", "p99", "max", "all: p50", "p99", "max"]
        // No job takes no time: without one there is nothing to show.
        let latencies = now.lastMinute?.latencies
        let lastMinute = latencies?.total.max == .zero ? nil : latencies
        let rows = Statistics.stages.compactMap { name, stage -> [String]? in
            let minute = lastMinute.flatMap(stage)
            guard let all = stage(now.latencies) else { return nil }
            return [name] + [minute?.p50, minute?.p99, minute?.max].map { $0.map(time) ?? "-" }
                + [time(all.p50), time(all.p99), time(all.max)]
        }
        return ([header] + rows).map { Self.row($0, [10, 13, 10, 10, 13, 10, 10]) }
    }

    private func time(_ time: Duration) -> String { ShortText.time(time) }

    // MARK: - Memory and disk

    private var memoryLines: [String] {
        var lines: [String] = []
        if let memory = now.memory {
            lines.append(
                "memory    \(ShortText.bytes(memory.residentBytes)), \(ShortText.bytes(now.queues.bytes)) of it in jobs; "
                    + "queues: \(now.queues.opening) opening, \(now.queues.staging) staging")
        }
        if let bytes = now.store.bytes, let free = now.store.freeDiskBytes, let outcomes = now.store.outcomes {
            lines.append(
                "store     \(ShortText.bytes(bytes)), \(ShortText.bytes(free)) free on the disk; \(ShortText.count(outcomes)) outcomes"
            )
        }
        lines.append(
            "WAL       \(ShortText.bytes(now.wal.bytes)), \(ShortText.count(now.wal.uncheckpointedPages)) pages to copy"
                + walReaders)
        if let log = now.log {
            let state =
                log.isHalted
                ? "halted" : log.cause == nil ? "\(ShortText.count(Int(log.lag))) entries not applied" : "unreachable"
            lines.append("log       position \(ShortText.count(Int(log.position))), \(state)")
        } else if let journal = now.journal {
            lines.append("journal   \(ShortText.bytes(journal.bytes)), \(journal.waiting) entries waiting")
        }
        if let connections = now.connections {
            lines.append(
                "clients   \(connections.open) of \(ShortText.count(connections.maximum)); \(now.subscriptions) subscriptions"
            )
        }
        return lines
    }

    private var walReaders: String {
        let names = (now.wal.readers ?? []).map(\.shown)
        return names.isEmpty ? "" : "; read by \(names.joined(separator: ", "))"
    }

    /// The first cell is on the left of its column, the others on the right.
    private static func row(_ cells: [String], _ widths: [Int]) -> String {
        zip(cells, widths).enumerated().map { index, cell in
            let gap = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + gap : gap + cell.0
        }.joined()
    }

    // MARK: - Plain lines

    static let plainHeader = "  jobs/s failed/s commits/s in flight  p99 total      WAL   memory state"

    /// One line for each moment, as vmstat(8) prints them.
    var plainLine: String {
        let p99 = now.lastMinute.map { time($0.latencies.total.p99) } ?? "-"
        let cells = [
            perSecond { $0.jobs.completed }, perSecond { $0.jobs.failed }, perSecond { $0.commits },
            ShortText.count(now.jobs.inFlight), p99, ShortText.bytes(now.wal.bytes),
            now.memory.map { ShortText.bytes($0.residentBytes) } ?? "-",
        ]
        return Self.row([""] + cells, [0, 8, 9, 10, 10, 11, 9, 9]) + " " + Health(now).state.rawValue
    }
}

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

    func run() async throws {
        let screen = !once && isatty(STDOUT_FILENO) == 1 ? FullScreen() : nil
        defer { screen?.restore() }
        if screen == nil { StandardOutput.endWithoutReader() }
        let restore = screen.map { screen in { @Sendable in screen.restore() } }
        try await connection.connected(
            "broker top", defaultTimeout: .seconds(10), needsServer: "Only a server works beside others",
            onInterruption: restore
        ) { try await show($0, on: screen) }
    }

    /// How long a server may take to answer before it counts as lost.
    private static let patience = Duration.seconds(1)

    private func show(_ broker: RemoteBroker, on screen: FullScreen?) async throws {
        var before: (statistics: Statistics, at: ContinuousClock.Instant, time: Timestamp)?
        while true {
            let statistics = try await Self.statistics(of: broker, mayBeLost: before != nil)
            let now = ContinuousClock.now
            let lost = before.map { "lost since \($0.time.formatted("%H:%M:%S", isLocal: true))" } ?? ""
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
            if let statistics { before = (statistics, now, .now) }
        }
    }

    /// Nil when a server that has answered before does not answer now.
    private static func statistics(of broker: RemoteBroker, mayBeLost: Bool) async throws -> Statistics? {
        do {
            return try await broker.statistics(timeout: mayBeLost ? patience : nil)
        } catch let error as BrokerError
            where mayBeLost && (error.code == .timedOut || CommandFailure(error).status == .cannotConnect)
        {
            return nil
        }
    }
}

/// The whole terminal, for a program that draws it again and again. Its former contents come back with ``restore()``.
final class FullScreen: Sendable {
    private let settings: termios?
    /// The terminal is as this program has set it. The thread of a signal restores it, too.
    private let isOpen = Atomic(true)

    /// The alternate screen, without a cursor (ctlseqs of xterm: 1049, 25).
    init() {
        var settings = termios()
        if tcgetattr(STDIN_FILENO, &settings) == 0 {
            self.settings = settings
            settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        } else {
            self.settings = nil
        }
        Self.write("\u{1B}[?1049h\u{1B}[?25l")
    }

    /// Any number of calls, on any thread.
    func restore() {
        guard isOpen.exchange(false, ordering: .relaxed) else { return }
        Self.write("\u{1B}[?25h\u{1B}[?1049l")
        guard var settings else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// Draws the lines, as many as there is room for.
    func show(_ lines: [String]) throws(CommandFailure) {
        let (rows, columns) = Terminal.size(of: STDOUT_FILENO) ?? (24, 80)
        // Home; each line erases the rest of its row, and the last one what is below (ECMA-48: CUP, EL, ED).
        let shown = lines.prefix(rows).map { TableText($0, columns: columns).shown + "\u{1B}[K" }
        try StandardOutput.write(Array(("\u{1B}[H" + shown.joined(separator: "\r\n") + "\u{1B}[J").utf8))
    }

    /// Waits for a key. Whether it is one that ends the program, or there will be no more keys.
    func isQuitting(within milliseconds: Int32) async -> Bool {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: Self.readsQuit(milliseconds)) }
        }
    }

    private static func readsQuit(_ milliseconds: Int32) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else {
            usleep(UInt32(milliseconds) * 1_000)
            return false
        }
        var polled = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, milliseconds) > 0 else { return false }
        var key: UInt8 = 0
        guard read(STDIN_FILENO, &key, 1) == 1 else { return true }
        return key == UInt8(ascii: "q") || key == UInt8(ascii: "Q")
    }

    private static func write(_ text: String) { _ = Glibc.write(STDOUT_FILENO, text, text.utf8.count) }
}

struct StatsCommand: AsyncParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case text, prometheus
    }

    static let configuration = CommandConfiguration(
        commandName: "stats", abstract: "Prints the server's counters, queue depths, latencies and memory.")

    @OptionGroup var connection: ConnectionOptions

    @Option(
        help: """
            text (a line for each number) or prometheus (its text format; brokerd --metrics-file writes the same to a file).
            """)
    var format = Format.text

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    @OptionGroup var instance: InstanceOption

    func run() async throws {
        let answer = try await connection.connected("broker stats") { try await $0.statistics().json }
        if json { return try Program.write(answer.description) }
        try JSONDocument(fast: JSONText(copying: answer.bytes)).withRoot { root in
            if format == .prometheus {
                let instance = instance.name(for: connection)
                return try StandardOutput.write(Array(PrometheusText.text(root, instance: instance).utf8))
            }
            for line in lines(of: root, "") { try Program.say(line) }
        }
    }

    /// A line for each number, named by its path; buckets are for programs.
    private func lines(of value: JSONValue, _ path: String) -> [String] {
        guard value.kind == .object else { return ["\(path) \(String(decoding: value.bytes, as: UTF8.self))"] }
        return value.members.flatMap { key, value -> [String] in
            let key = key.string ?? ""
            if path.isEmpty, ["type", "tag", "histograms"].contains(key) { return [] }
            return lines(of: value, path.isEmpty ? key : "\(path).\(key)")
        }
    }
}

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
        let health = await Health {
            try await connection.connected(
                "broker health", defaultTimeout: .seconds(5), needsServer: "Only a server has a state"
            ) { try await $0.statistics() }
        }
        if json { try Program.writeObject(health.write) } else { try Program.say(health.line) }
        if health.status != .success { throw CommandFailure(health.status) }
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

    mutating func validate() throws { try checkRange("--count", count, in: 1...1_000_000) }

    func run() async throws {
        try await connection.connected(
            "broker ping", defaultTimeout: .seconds(5), needsServer: "Only a server answers"
        ) { broker in
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
