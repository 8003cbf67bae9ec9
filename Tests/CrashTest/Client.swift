import Foundation
import TestSupport

/// A client of a round, in a process of its own, which may be killed at any moment and started again.
///
/// It sends its jobs in their order, a few before the first is answered. When the connection is lost, or it is started again,
/// it sends what was not answered and has an id once more, the same bytes from its log; what has none, never.
struct Client {
    /// For an answer. A busy disk has been seen to keep fdatasync(2) for more than a minute.
    private static let patienceSeconds = 200

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
    init(
        _ number: Int, _ jobs: [CrashJob], window: Int, sockets: [String] = [Round.socket], pace: UInt32 = 0
    ) throws {
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
