import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import Glibc
import Synchronization

struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Prints the committed jobs that change objects, a line of JSON for each.",
        discussion: """
            broker watch Employee --keys | while read -r commit; do …; done
            The first line without --after has empty changes, and says where the feed begins. A signal ends it, and with \
            --timeout so does a time without a line; the command that goes on from there is printed on standard error.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: .value("sequence", "Begin after the job of this sequence. Default: with the jobs from now on."))
    var after: Int64?

    @Flag(help: "Print the keys of the objects.")
    var keys = false

    @Option(help: .value("count", "End after this number of lines. Default: never."))
    var limit: Int?

    @Argument(
        help: .value("entity", "The entities, each with its subentities. Default: all of the model."),
        completion: .entity)
    var entities: [String] = []

    mutating func validate() throws {
        try connection.requireServer("A feed is about what other processes do")
        if let after, after < 0 { throw ValidationError("--after is a sequence from 0, not \(after).") }
        try checkRange("--limit", limit, in: 1...Int.max)
    }

    func run() async throws {
        var query = CommitQuery(of: entities.isEmpty ? nil : entities, after: after)
        query.reply = keys ? .keys : .summary
        let place = WatchPlace()
        StandardOutput.endWithoutReader()
        try await connection.connected(
            "broker watch", needsServer: true,
            onInterruption: { [self] in
                guard let command = command(from: place) else { return }
                Program.report("broker watch: go on with: \(command)")
            },
            { broker in
                let silence = connection.timeout.map { time in Task { try await end(after: time, without: place) } }
                defer { silence?.cancel() }
                do {
                    for try await commit in broker.commits(for: query) {
                        try Program.writeObject(commit.write)
                        guard StandardOutput.hasReader else { break }
                        if place.move(to: commit.sequence) == limit { break }
                    }
                } catch let error as BrokerError {
                    let remedy = command(from: place).map { " Go on with: \($0)" } ?? ""
                    let failure = CommandFailure(error)
                    throw CommandFailure(failure.status, "\(error)\(error.code == .gone ? "" : remedy)")
                }
            })
    }

    /// Ends the process when no line was printed for the time.
    private func end(after time: TimeSpan, without place: WatchPlace) async throws {
        var end = ContinuousClock.now + time.duration
        while ContinuousClock.now < end {
            try await Task.sleep(until: end)
            end = max(end, place.time + time.duration)
        }
        let remedy = command(from: place).map { "; go on with: \($0)" } ?? ""
        Program.report("broker: no commit for \(time)\(remedy)", .error)
        _exit(ExitStatus.cannotConnect.rawValue)
    }

    /// Nil when nothing was printed, or everything was.
    private func command(from place: WatchPlace) -> String? {
        let (sequence, count, _) = place.now
        guard let sequence, count < limit ?? .max else { return nil }
        var words = ["broker", "watch"] + connection.words
        if keys { words.append("--keys") }
        if let limit { words += ["--limit", String(limit - count)] }
        words += ["--after", String(sequence)] + entities
        return words.shellText
    }
}

/// The newest commit that was printed, and how many were. Read by the thread of a signal.
private final class WatchPlace: Sendable {
    private let place = Mutex<(sequence: Int64?, count: Int, time: ContinuousClock.Instant)>((nil, 0, .now))

    var now: (sequence: Int64?, count: Int, time: ContinuousClock.Instant) { place.withLock { $0 } }

    /// When it was printed; before the first one, when the command began.
    var time: ContinuousClock.Instant { now.time }

    /// - Returns: how many commits were printed.
    func move(to sequence: Int64) -> Int {
        place.withLock { place in
            place = (sequence, place.count + 1, .now)
            return place.count
        }
    }
}

extension Commit {
    /// As the protocol's `committed`, without its type.
    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("sequence", sequence)
        writer.member("id", id?.text)
        writer.object("changes") { writer in
            for (entity, counts) in changes.sorted(by: { $0.key < $1.key }) {
                writer.object(entity) { writer in
                    for (name, count) in counts.numbers where count > 0 { writer.member(name, count) }
                }
            }
        }
        guard let keys else { return }
        writer.key("keys")
        writer.raw(keys.bytes)
    }
}
