public import ArgumentParser
public import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import BrokerWire
import Glibc
import Synchronization

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Cancels jobs whose merge has not begun.",
        discussion: """
            A cancelled job has no effect: it fails with `cancelled`, and runs when it is sent again. The exit status \
            is 1 when it was too late for one of the jobs, or the server does not know one. The message says whether the \
            job is committed, with its sequence, has failed, or is being merged and cannot be stopped.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the result for each job as JSON.")
    var json = false

    @Argument(help: .value("id", "The jobs' ids."))
    var ids: [String]

    func run() async throws {
        var cancelled: [String] = []
        var failures: [(id: String, error: any Error)] = []
        var status = ExitStatus.success
        try await connection.connected("broker cancel", needsServer: "Only a server cancels jobs") { broker in
            for id in ids where status != .cannotConnect {
                do {
                    try await broker.cancel(JobID(id))
                    cancelled.append(id)
                } catch {
                    failures.append((id, error))
                    status = CommandFailure(error).status
                }
            }
        }
        for id in cancelled where !json { try Program.say("job \(id) cancelled before its merge began") }
        for (id, error) in failures {
            Program.report("broker: job \(id): \(error)\(Self.hint(for: id, error))", .error)
        }
        if json { try write(cancelled, failures) }
        if status != .success { throw CommandFailure(status) }
    }

    private func write(_ cancelled: [String], _ failures: [(id: String, error: any Error)]) throws {
        try Program.writeObject { writer in
            writer.strings("cancelled", cancelled)
            writer.objects("failures", of: failures) { failure, writer in
                let known = failure.error as? BrokerError
                writer.member("id", failure.id)
                writer.member("code", known?.fault?.code.rawValue)
                writer.member("message", known?.fault?.message ?? "\(failure.error)")
                if let sequence = known?.sequence { writer.member("sequence", sequence) }
            }
        }
    }

    /// The end of a message about a job's id: empty, unless the id is not known and may be that of a submission.
    static func hint(for id: String, _ error: any Error) -> String {
        let isNumbered = id.firstMatch(of: /-[+-]?[0-9]+$/) != nil
        guard (error as? BrokerError)?.code == .unknownJob, !isNumbered else { return "" }
        return " The jobs of `submit --id \(id)` are \(id)-1, \(id)-2 and so on."
    }
}

extension Broker.AdminAction: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.pause, .resume, .drain, .checkpoint, .reload]
}

struct AdminCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "admin", abstract: "Operates the server; only its own user and root may.",
        discussion: """
            pause       Jobs are accepted, but not merged until `resume`.
            resume      Continues merging.
            drain       New jobs are refused, accepted jobs are finished, and the server ends, as with SIGTERM.
            checkpoint  Copies the WAL into the database, and prints how much of the WAL remains.
            reload      Reads the model's files again, as with SIGHUP, and prints a line for each change.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the server's answer unchanged.")
    var json = false

    @Argument(help: "The action.")
    var action: Broker.AdminAction

    func run() async throws {
        try await connection.connected("broker admin", needsServer: "Only a server is operated") { broker in
            if json { return try Program.write(await broker.perform(action).description) }
            let done = try await broker.administer(action)
            for line in (done.wal.map { [walLine($0)] } ?? []) + done.changes { try Program.say(line) }
        }
    }

    private func walLine(_ wal: Statistics.WAL) -> String {
        let (bytes, pages) = (wal.bytes, wal.uncheckpointedPages)
        let rest = "\(bytes) bytes of the WAL remain"
        return pages == 0
            ? rest
            : "\(rest), \(pages) of its pages not in the database yet: a reader uses the state before them"
    }
}

struct AwaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "await", abstract: "Waits for the end of a job, and prints its outcome.")

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print the outcome as JSON.")
    var json = false

    @Option(
        help: .value(
            "sequence",
            "Wait until the server has applied that job, to which another server of the same log gave the sequence."))
    var after: Int64?

    @Argument(help: "The job's id.")
    var id: String

    func run() async throws {
        try await connection.connected("broker await") { try await $0.outcome(of: id, after: after) }.say(asJSON: json)
    }
}

extension RemoteBroker {
    /// The outcome of a job that a person names.
    func outcome(of id: String, after: Int64? = nil) async throws -> SubmissionSummary {
        do {
            var summary = SubmissionSummary()
            summary.add(try await completion(of: JobID(id), after: after), records: 0) { .message(ofJob: id, path: $0) }
            return summary
        } catch {
            let failure = CommandFailure(error)
            throw CommandFailure(failure.status, "\(failure)\(CancelCommand.hint(for: id, error))")
        }
    }
}

extension SubmissionSummary {
    /// Says what became of one job.
    func say(asJSON json: Bool) throws {
        if json { try write() } else { try say(countsRecords: false) }
        if rejectedCount > 0 { throw CommandFailure(.rejected) }
    }
}

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
        if let after, after < 0 { throw ValidationError("--after is a sequence from 0, not \(after).") }
        try checkRange("--limit", limit, in: 1...Int.max)
    }

    func run() async throws {
        var query = CommitQuery(of: entities.isEmpty ? nil : entities, after: after)
        query.reply = keys ? .keys : .summary
        let place = WatchPlace()
        StandardOutput.endWithoutReader()
        try await connection.connected(
            "broker watch", needsServer: "A feed is about what other processes do",
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
            end = max(end, place.now.time + time.duration)
        }
        let remedy = command(from: place).map { "; go on with: \($0)" } ?? ""
        Program.report("broker: no commit for \(time)\(remedy)", .error)
        _exit(ExitStatus.cannotConnect.rawValue)
    }

    /// Nil when nothing was printed, or everything was.
    private func command(from place: WatchPlace) -> String? {
        let (sequence, count, _) = place.now
        guard let sequence, count < limit ?? .max else { return nil }
        var words = ["broker"] + CommandLine.arguments.dropFirst().without(["--after", "--limit"])
        if let limit { words += ["--limit", String(limit - count)] }
        return (words + ["--after", String(sequence)]).shellText
    }
}

/// The newest commit that was printed, how many were, and when that was; before the first one, when the command began. Read by the
/// thread of a signal.
private final class WatchPlace: Sendable {
    private let place = Mutex<(sequence: Int64?, count: Int, time: ContinuousClock.Instant)>((nil, 0, .now))

    var now: (sequence: Int64?, count: Int, time: ContinuousClock.Instant) { place.withLock { $0 } }

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
        writer.changes(changes, omitsZero: true)
        writer.member("keys", raw: keys?.bytes)
    }
}

struct FrameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "frame",
        abstract: "Turns the message on standard input into a frame on standard output.",
        discussion: "For scripts: broker frame <job.json | socat -t 30 - UNIX-CONNECT:broker.sock | broker unframe")

    func run() async throws {
        let content = try JSONText.file("-")
        var encoder = FrameEncoder()
        try StandardOutput.write(try encoder.encode(content.bytes))
    }
}

struct UnframeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unframe",
        abstract: "Prints the messages in the frames on standard input, a line each, as they arrive.")

    func run() async throws {
        var input = FrameInput(STDIN_FILENO)
        while let content = try input.next() {
            try StandardOutput.write(Array(content.bytes) + [UInt8(ascii: "\n")])
            guard StandardOutput.hasReader else { return }
        }
    }
}

/// Frames read from a descriptor, one after the other.
struct FrameInput: ~Copyable {
    private let descriptor: Int32
    private var decoder = FrameDecoder()
    private var unread: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// The content of the next frame; nil after the last.
    mutating func next() throws -> JSONText? {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            switch try unread.withUnsafeBytes({ try FrameScanner.scan($0) }) {
            case .frame(let payload):
                let content = try unread.withUnsafeBytes {
                    try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[payload]))
                }
                unread.removeFirst(payload.upperBound)
                return content
            case .incomplete(let total):
                let count = read(descriptor, &buffer, buffer.count)
                guard count >= 0 else {
                    throw CommandFailure("Standard input cannot be read: \(String(cString: strerror(errno))).")
                }
                if count == 0 {
                    if let error = FrameScanner.endOfStream(unread.count, totalCount: total) { throw error }
                    return nil
                }
                unread += buffer.prefix(count)
            }
        }
    }
}
