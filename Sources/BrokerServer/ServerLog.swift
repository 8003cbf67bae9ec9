internal import BrokerCoordinator
internal import BrokerJSON
internal import Logging
internal import Synchronization

/// The server's log. Lines that clients can cause are rationed at the levels that operators see, so that no client
/// fills a disk with them, or blocks the server when no process reads the log.
///
/// | level | what |
/// |---|---|
/// | error | the socket is no longer listened on |
/// | warning | users who are refused, no place, no descriptors, clients that are cut off |
/// | notice | start, stop, frames that end their connection, jobs that fail or are slow |
/// | info | messages that are not valid |
/// | debug | the names in `hello`, and lines above the ration |
final class ServerLog: Sendable {
    /// The events that a client can cause.
    enum Cause: Hashable {
        case refusedUser, noPlace, badFrame, cutOff, failedJob, slowJob
    }

    private struct Key: Hashable {
        let cause: Cause
        /// Of the events of jobs; nil for those of connections, and for all users beyond ``mostRations``.
        let user: UInt32?
    }

    /// Users beyond them share one of each cause.
    private static let mostRations = 256
    /// Bytes of a fault's message in a line.
    private static let messageBytes = 500

    let logger: Logger
    private let rations = Mutex<[Key: LogRation]>([:])

    init(_ logger: Logger) { self.logger = logger.escaping }

    /// Logs an event that a client has caused.
    func log(_ level: Logger.Level, _ cause: Cause, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        log(level, Key(cause: cause, user: nil), LogRation(burst: 10, pause: .seconds(6), at: .now)) {
            (message, metadata)
        }
    }

    /// Logs that a job of the user has failed, or was slow: some lines at once, and then one a second.
    private func log(_ cause: Cause, of user: UInt32, _ line: () -> (Logger.Message, Logger.Metadata)) {
        log(.notice, Key(cause: cause, user: user), LogRation(at: .now)) {
            var (message, metadata) = line()
            metadata["user"] = "\(user)"
            return (message, metadata)
        }
    }

    /// - Parameter new: the ration of the first such event. The next line after omitted ones has their number.
    private func log(
        _ level: Logger.Level, _ key: Key, _ new: LogRation, _ line: () -> (Logger.Message, Logger.Metadata)
    ) {
        guard logger.logLevel <= level else { return }
        let now = ContinuousClock.now
        let omitted = rations.withLock { rations -> Int? in
            let key = Self.known(key, in: &rations, now)
            return rations[key, default: new].take(at: now) ? rations[key]?.takeOmitted() : nil
        }
        guard omitted != nil || logger.logLevel <= .debug else { return }
        var (message, metadata) = line()
        if let omitted, omitted > 0 { metadata["notLogged"] = "\(omitted)" }
        logger.log(level: omitted == nil ? .debug : level, message, metadata: metadata)
    }

    private static func known(_ key: Key, in rations: inout [Key: LogRation], _ now: ContinuousClock.Instant) -> Key {
        guard rations[key] == nil, rations.count >= mostRations else { return key }
        for key in Array(rations.keys) where rations[key]?.isFull(at: now) == true { rations[key] = nil }
        return rations.count < mostRations ? key : Key(cause: key.cause, user: nil)
    }

    /// A job has ended: logs its failure, or that the database rejected records of it.
    ///
    /// - Parameters:
    ///   - process: that of the client; nil when no client waits for the job.
    ///   - trace: the span of the sender, as the job states it.
    func ended(_ outcome: JobCompletion, of user: UInt32, process: Int32? = nil, trace: String? = nil) {
        var error: [UInt8]?
        if case .failed(let text) = outcome.result { error = text }
        guard error != nil || outcome.cause != nil else { return }
        log(.failedJob, of: user) {
            var all: Logger.Metadata = ["id": "\(outcome.id)"]
            if let process { all["process"] = "\(process)" }
            if let sequence = outcome.sequence { all["sequence"] = "\(sequence)" }
            if let cause = outcome.cause { all["cause"] = "\(cause.prefix(bytes: Self.messageBytes))" }
            guard let error else { return ("The database rejected records of a job.", all) }
            if let trace { all["trace"] = "\(trace)" }
            guard let document = try? JSONDocument(parsing: JSONText(copying: error)) else {
                return ("A job failed.", all)
            }
            for key in ["code", "path"] { if let text = document.root[key]?.string { all[key] = "\(text)" } }
            let message = document.root["message"]?.string ?? ""
            all["message"] = "\(message.prefix(bytes: Self.messageBytes))"
            return ("A job failed.", all)
        }
    }

    func slow(_ job: EndedJob) {
        guard let owner = job.owner, let details = job.details else { return }
        log(.slowJob, of: owner.user) {
            var all: Logger.Metadata = ["id": "\(job.id)"]
            if let sequence = job.sequence { all["sequence"] = "\(sequence)" }
            all["operations"] = "\(details.operations.joined(separator: ","))"
            all["entities"] = "\(details.entities.joined(separator: ","))"
            for (stage, microseconds) in details.times.named { all[stage] = "\(Double(microseconds) / 1_000)ms" }
            return ("A job was slow.", all)
        }
    }
}

extension String {
    /// At most that many bytes, of whole characters.
    fileprivate func prefix(bytes: Int) -> String {
        guard utf8.count > bytes else { return self }
        var text = ""
        var count = 0
        for scalar in unicodeScalars {
            count += UTF8.width(scalar)
            guard count <= bytes else { break }
            text.unicodeScalars.append(scalar)
        }
        return text + "…"
    }
}

/// How many lines of one cause are logged: some at once, and then one after each pause. A pure value.
///
/// So a user whose jobs all fail causes some 30 MB a day, whatever the number of jobs is.
struct LogRation {
    /// Lines about the jobs of one user that are logged at once after a time without any.
    static let burst = 50

    private let pause: Duration
    private let most: Duration
    /// When all lines would have been logged, one after each pause.
    private var due: ContinuousClock.Instant
    /// Lines that were omitted and not counted in a line yet.
    private var omitted = 0

    init(burst: Int = Self.burst, pause: Duration = .seconds(1), at now: ContinuousClock.Instant) {
        self.pause = pause
        most = pause * burst
        due = now - most
    }

    /// Whether the line is logged.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        due = max(due, now - most)
        guard due + pause <= now else {
            omitted += 1
            return false
        }
        due += pause
        return true
    }

    /// The number of omitted lines, which the caller logs now.
    mutating func takeOmitted() -> Int {
        defer { omitted = 0 }
        return omitted
    }

    /// Nothing happened for so long that a new value allows as much.
    func isFull(at now: ContinuousClock.Instant) -> Bool { due <= now - most }
}
