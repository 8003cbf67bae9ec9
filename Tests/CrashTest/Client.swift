import Foundation
import TestSupport

/// A client of a round, in a process of its own, which may be killed at any moment and started again.
///
/// It sends its jobs in their order, a few before the first is answered. When the connection is lost, or it is started again,
/// it sends what was not answered and has an id once more, the same bytes from its log; what has none, never.
struct Client {
    /// For an answer. A busy disk has been seen to keep fdatasync(2) for more than a minute.
    private static let patienceSeconds = 4 * Patience.seconds

    private let jobs: [CrashJob]
    private let window: Int
    /// Tried one after the other, from one connection to the next.
    private let sockets: [String]
    /// Microseconds for each job that is sent.
    private let pace: UInt32
    private var connections = 0
    private let log: ClientLog
    /// By name, of the jobs that were sent.
    private var texts: [String: String] = [:]
    private var answered: Set<String> = []
    /// A job was refused on this connection.
    private var isRefused = false
    /// Microseconds.
    private static let refusalPause: UInt32 = 200_000

    /// - Parameters:
    ///   - jobs: all that the client has to send in the round.
    ///   - sockets: of servers that share a log; else the one of the round.
    ///   - pace: microseconds that it waits for each job that it has sent.
    init(_ number: Int, _ jobs: [CrashJob], window: Int, sockets: [String] = [Round.socket], pace: UInt32 = 0) throws {
        self.jobs = jobs
        self.window = window
        self.sockets = sockets
        self.pace = pace
        let path = ClientLog.name(number)
        log = try ClientLog(path: path)
        for entry in try ClientLog.entries(path) {
            switch entry {
            case .connected: break
            case .sent(let name, let text): texts[name] = text
            case .received(let text): try note(Message(text: text))
            }
        }
    }

    /// Comes back when every job has been sent, and every one with an id has been answered.
    mutating func run() throws {
        while hasMore {
            guard let connection = try connect() else { continue }
            try log.append([.connected])
            do {
                try talk(connection)
            } catch let failure as RawClient.Failure {
                // Otherwise the server is gone.
                guard !failure.isTimeout else {
                    throw Difference("The server is there, and yet has not answered for \(Self.patienceSeconds) s.")
                }
            }
        }
    }

    private var hasMore: Bool { jobs.contains { texts[$0.name] == nil || isOwed($0) } }

    /// It was sent, and will be sent again until it is answered.
    private func isOwed(_ job: CrashJob) -> Bool {
        job.hasID && job.isAwaited && texts[job.name] != nil && !answered.contains(job.name)
    }

    /// Nil after a moment, when there is no server.
    private mutating func connect() throws -> RawClient? {
        connections += 1
        do {
            let connection = try RawClient(sockets[connections % sockets.count])
            connection.setPatience(seconds: Self.patienceSeconds)
            return connection
        } catch {
            usleep(500)
            return nil
        }
    }

    private mutating func talk(_ connection: RawClient) throws {
        isRefused = false
        var waiting = jobs.filter { isOwed($0) || texts[$0.name] == nil }[...]
        var inFlight: Set<String> = []
        while true {
            let next = waiting.prefix(window - inFlight.count)
            waiting = waiting.dropFirst(next.count)
            if !next.isEmpty {
                try send(Array(next), connection)
                inFlight.formUnion(next.filter(\.isAwaited).map(\.name))
                usleep(pace * UInt32(next.count))
            }
            if inFlight.isEmpty {
                if waiting.isEmpty { break }
                continue
            }
            guard try take(from: connection) else { return }
            inFlight.subtract(answered)
            // Refused jobs are sent again later, to another server.
            if isRefused {
                usleep(Self.refusalPause)
                return
            }
        }
        // The failures of jobs for which no client waits.
        connection.endSending()
        while try take(from: connection) {}
    }

    private mutating func send(_ jobs: [CrashJob], _ connection: RawClient) throws {
        for job in jobs where texts[job.name] == nil { texts[job.name] = job.text }
        try log.append(jobs.map { .sent(name: $0.name, text: texts[$0.name]!) })
        for job in jobs { try connection.send(texts[job.name]!) }
    }

    /// Waits for answers, and writes down those that are there.
    ///
    /// - Returns: false when the server has closed.
    private mutating func take(from connection: RawClient) throws -> Bool {
        guard let first = try connection.receive() else { return false }
        var messages = [first]
        while let message = try connection.takeRead() { messages.append(message) }
        try log.append(messages.map { .received($0.text) })
        for message in messages { try note(message) }
        // The parent process counts the answers.
        try FileHandle.standardOutput.write(contentsOf: Data(String(repeating: ".", count: messages.count).utf8))
        return true
    }

    private mutating func note(_ message: Message) throws {
        guard let name = message["tag"] else { throw Difference("received \(message.text)") }
        switch message.type {
        case "accepted": break
        case "failed" where message.isRefusal: isRefused = true
        case "completed", "failed": answered.insert(name)
        default: throw Difference("received \(message.text)")
        }
    }
}

extension Message {
    /// The job has no place in the order: no server has it. Only servers that share a log refuse jobs in a round.
    var isRefusal: Bool {
        type == "failed" && self["sequence"] == nil && ["storeUnavailable", "storeFull", "draining"].contains(code)
    }
}

/// The messages and answers of a round's clients, compared with the promises of the answers themselves.
struct ClientAnswers {
    struct End {
        let sequence: Int?
        let isCompleted: Bool
        let message: Message
    }

    /// How often, by name.
    private(set) var sendings: [String: Int] = [:]
    /// By name, the last answer.
    private(set) var ends: [String: End] = [:]
    /// The job of each sequence that was sent.
    private(set) var owners: [Int: String] = [:]
    /// Sequences of `accepted` messages, by name.
    private(set) var accepted: [String: [Int]] = [:]

    init(_ logs: [[ClientLog.Entry]]) throws {
        for log in logs {
            var connection = Connection()
            for entry in log {
                switch entry {
                case .connected: connection = Connection()
                case .sent(let name, _):
                    sendings[name, default: 0] += 1
                    connection.send(name)
                case .received(let text):
                    let message = try Message(text: text)
                    if message.isRefusal { continue }
                    try note(message)
                    try connection.note(message, sendings: sendings)
                }
            }
        }
    }

    private mutating func note(_ message: Message) throws {
        guard let name = message["tag"], sendings[name] != nil else { throw Difference("Unexpected: \(message.text)") }
        let sequence = message["sequence"].flatMap { Int($0) }
        if let sequence {
            let owner = owners.updateValue(name, forKey: sequence)
            guard owner ?? name == name else {
                throw Difference("The sequence \(sequence) was reported for \(owner!) and for \(name).")
            }
        }
        switch message.type {
        case "accepted":
            guard let sequence else { throw Difference("No sequence: \(message.text)") }
            accepted[name, default: []].append(sequence)
        case "completed", "failed":
            let end = End(sequence: sequence, isCompleted: message.type == "completed", message: message)
            guard end.sequence != nil else { throw Difference("No sequence: \(message.text)") }
            if let before = ends[name], before.sequence != end.sequence {
                throw Difference("Two answers for one job:\n\(before.message.text)\n\(message.text)")
            }
            ends[name] = end
        default: throw Difference("Unexpected: \(message.text)")
        }
    }

    /// The order of one connection.
    private struct Connection {
        private var sent: [String] = []
        /// By name, where it is in `sent`.
        private var places: [String: Int] = [:]
        /// By place; 0 for none yet.
        private var sequences: [Int] = []
        private var newestCompleted = 0

        mutating func send(_ name: String) {
            places[name] = sent.count
            sent.append(name)
            sequences.append(0)
        }

        mutating func note(_ message: Message, sendings: [String: Int]) throws {
            let name = message["tag"] ?? ""
            let sequence = message.sequence
            // A duplicate's end has the sequence of the original, and a short one does not say whose it is.
            let isDuplicate = message["duplicate"].map { $0 == "true" } ?? (sendings[name] ?? 0 > 1)
            if message.type == "completed", isDuplicate { return }
            if message.type == "completed" {
                guard sequence > newestCompleted else {
                    throw Difference(
                        "\(sequence) was reported as completed after \(newestCompleted), on one connection.")
                }
                newestCompleted = sequence
            }
            guard let place = places[name] else { return }
            sequences[place] = sequence
            let before = sequences[..<place].last { $0 > 0 }
            let after = sequences[(place + 1)...].first { $0 > 0 }
            guard before ?? 0 < sequence, sequence < after ?? .max else {
                throw Difference(
                    "Sent in the order \(sent), but the sequences are \(sequences): that of \(name) is \(sequence).")
            }
        }
    }
}

/// The steps of a client, in a file of its own: written and synced before it sends, and as soon as an answer arrives.
///
/// A line each: `C` connected, `S name message` about to be sent, `T message` answered.
struct ClientLog {
    enum Entry {
        case connected
        case sent(name: String, text: String)
        case received(String)

        fileprivate var line: String {
            switch self {
            case .connected: "C\n"
            case .sent(let name, let text): "S \(name) \(text)\n"
            case .received(let text): "T \(text)\n"
            }
        }

        fileprivate init?(line: Substring) {
            let words = line.split(separator: " ", maxSplits: 1)
            switch words.first {
            case "C": self = .connected
            case "T" where words.count == 2: self = .received(String(words[1]))
            case "S" where words.count == 2:
                let parts = words[1].split(separator: " ", maxSplits: 1)
                guard parts.count == 2 else { return nil }
                self = .sent(name: String(parts[0]), text: String(parts[1]))
            default: return nil
            }
        }
    }

    static func name(_ client: Int) -> String { "client-\(client).log" }

    private let file: FileHandle

    /// Opens the log, for more at its end. A line that a kill left unfinished is cut off.
    init(path: String) throws {
        if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(fileURLWithPath: path)) }
        let whole = try Self.wholeLines(path).utf8.count
        guard let file = FileHandle(forUpdatingAtPath: path) else { throw Difference("\(path) cannot be written.") }
        try file.truncate(atOffset: UInt64(whole))
        try file.seekToEnd()
        self.file = file
    }

    /// Comes back when it is on disk.
    func append(_ entries: [Entry]) throws {
        try file.write(contentsOf: Data(entries.map(\.line).joined().utf8))
        try file.synchronize()
    }

    /// The lines of a log that its client may be writing.
    static func entries(_ path: String) throws -> [Entry] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        return try wholeLines(path).split(separator: "\n").map { line in
            guard let entry = Entry(line: line) else { throw Difference("\(path) has the line \(line)") }
            return entry
        }
    }

    private static func wholeLines(_ path: String) throws -> Substring {
        let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
        return text.utf8.lastIndex(of: UInt8(ascii: "\n")).map { text[...$0] } ?? ""
    }
}

/// Counts the answers that clients report, a byte for each.
final class ProgressPipe {
    private(set) var answers = 0
    /// Where clients write.
    let end: Int32
    private let reading: Int32

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw Difference("No pipe can be had: \(String(cString: strerror(errno))).") }
        (reading, end) = (ends[0], ends[1])
        for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    }

    deinit {
        close(reading)
        close(end)
    }

    /// Until there are more answers, or for a moment.
    func wait() {
        var polled = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, 5) > 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = read(reading, &buffer, buffer.count)
        if count > 0 { answers += count }
    }
}
