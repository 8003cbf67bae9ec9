internal import BrokerCoordinator
internal import BrokerJSON
internal import Dispatch
internal import Logging
internal import Synchronization

/// The server's log. Lines that clients can cause are rationed at the levels that operators see, so that no client
/// fills a disk with them, or blocks the server when no process reads the log.
///
/// | level | what |
/// |---|---|
/// | error | the socket is no longer listened on |
/// | warning | users who are refused, no place, no descriptors, clients that are cut off |
/// | notice | start, stop, frames that end their connection, jobs that fail or are slow (``JobLines``) |
/// | info | messages that are not valid |
/// | debug | the names in `hello`, and lines above the ration |
final class ServerLog: Sendable {
    /// The events that a client can cause.
    enum Cause: Hashable {
        case refusedUser, noPlace, badFrame, cutOff
    }

    let logger: Logger
    let jobs: JobLines
    private let rations = Mutex<[Cause: LogRation]>([:])

    init(_ logger: Logger) {
        self.logger = logger.escaping
        jobs = JobLines(self.logger)
    }

    /// Logs an event that a client has caused.
    func log(_ level: Logger.Level, _ cause: Cause, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        let now = ContinuousClock.now
        let notLogged = rations.withLock { rations -> Int? in
            var ration = rations[cause] ?? LogRation(burst: 10, pause: .seconds(6), at: now)
            defer { rations[cause] = ration }
            return ration.take(at: now) ? ration.takeOmitted() : nil
        }
        guard let notLogged else { return logger.debug(message, metadata: metadata) }
        var metadata = metadata
        if notLogged > 0 { metadata["notLoggedBefore"] = "\(notLogged)" }
        logger.log(level: level, message, metadata: metadata)
    }
}

/// The lines about jobs: one for each that fails, or takes long, as ``LogRation`` allows.
///
/// Lines above the ration are logged at `debug`, and counted in a line that follows.
final class JobLines: Sendable {
    enum Cause: String {
        case failed, slow
    }

    private struct Key: Hashable {
        let cause: Cause
        /// Nil for all users beyond ``mostUsers``.
        let user: UInt32?
    }

    /// Users with rations of their own; the others share one.
    private static let mostUsers = 256
    /// Bytes of a fault's message in a line.
    private static let messageBytes = 500

    private let logger: Logger
    private let rations = Mutex<[Key: LogRation]>([:])

    init(_ logger: Logger) { self.logger = logger }

    /// A job has ended: logs its failure, or that the database rejected records of it.
    ///
    /// - Parameters:
    ///   - process: that of the client; nil when no client waits for the job.
    ///   - trace: the span of the sender, as the job states it.
    func ended(_ outcome: JobCompletion, of user: UInt32, process: Int32? = nil, trace: String? = nil) {
        var error: [UInt8]?
        if case .failed(let text) = outcome.result { error = text }
        guard error != nil || outcome.cause != nil else { return }
        log(.failed, user) {
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

    func slow(_ job: SlowJob) {
        log(.slow, job.owner.user) {
            var all: Logger.Metadata = ["id": "\(job.id)"]
            if let sequence = job.sequence { all["sequence"] = "\(sequence)" }
            all["operations"] = "\(job.operations.joined(separator: ","))"
            all["entities"] = "\(job.entities.joined(separator: ","))"
            for (stage, microseconds) in job.times.named { all[stage] = "\(Double(microseconds) / 1_000)ms" }
            return ("A job was slow.", all)
        }
    }

    /// Logs the numbers of lines that were omitted and are in no line yet.
    func flush() { for key in rations.withLock({ Array($0.keys) }) { summarize(key) } }

    private func log(_ cause: Cause, _ user: UInt32, _ line: () -> (Logger.Message, Logger.Metadata)) {
        guard logger.logLevel <= .notice else { return }
        let now = ContinuousClock.now
        let (key, isLogged, isFirstOmitted) = rations.withLock { rations in
            let key = Self.key(cause, user, &rations, now)
            let isLogged = rations[key, default: LogRation(at: now)].take(at: now)
            return (key, isLogged, rations[key]?.omitted == 1 && !isLogged)
        }
        if isFirstOmitted {
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + LogRation.summary.seconds) {
                [weak self] in self?.summarize(key)
            }
        }
        guard isLogged || logger.logLevel <= .debug else { return }
        var (message, metadata) = line()
        metadata["user"] = "\(user)"
        logger.log(level: isLogged ? .notice : .debug, message, metadata: metadata)
    }

    private static func key(
        _ cause: Cause, _ user: UInt32, _ rations: inout [Key: LogRation], _ now: ContinuousClock.Instant
    ) -> Key {
        let key = Key(cause: cause, user: user)
        guard rations[key] == nil, rations.count >= mostUsers else { return key }
        for key in Array(rations.keys) where rations[key]?.isFull(at: now) == true { rations[key] = nil }
        return rations.count < mostUsers ? key : Key(cause: cause, user: nil)
    }

    private func summarize(_ key: Key) {
        let omitted = rations.withLock { $0[key]?.takeOmitted() ?? 0 }
        guard omitted > 0 else { return }
        logger.notice(
            key.cause == .failed ? "More jobs failed than are logged." : "More jobs were slow than are logged.",
            metadata: ["user": "\(key.user.map { "\($0)" } ?? "several")", "notLogged": "\(omitted)"])
    }
}

extension Duration {
    fileprivate var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
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
    /// Between the first line that is omitted and the line with the number of those.
    static let summary = Duration.seconds(10)

    private let pause: Duration
    private let most: Duration
    private var credit: Duration
    private var at: ContinuousClock.Instant
    /// Lines that were omitted and not counted in a line yet.
    private(set) var omitted = 0

    init(burst: Int = Self.burst, pause: Duration = .seconds(1), at now: ContinuousClock.Instant) {
        self.pause = pause
        most = pause * burst
        credit = most
        at = now
    }

    /// Whether the line is logged.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        (credit, at) = (filled(at: now), now)
        guard credit >= pause else {
            omitted += 1
            return false
        }
        credit -= pause
        return true
    }

    /// The number of omitted lines, which the caller logs now.
    mutating func takeOmitted() -> Int {
        defer { omitted = 0 }
        return omitted
    }

    /// Nothing was logged for so long that a new value is the same.
    func isFull(at now: ContinuousClock.Instant) -> Bool { omitted == 0 && filled(at: now) == most }

    private func filled(at now: ContinuousClock.Instant) -> Duration { min(most, credit + at.duration(to: now)) }
}
