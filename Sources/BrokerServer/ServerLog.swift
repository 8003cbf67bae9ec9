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

    private struct Ration {
        var since: ContinuousClock.Instant
        var left: Int
        var notLogged = 0
    }

    /// Lines for each event in a minute.
    private static let linesPerMinute = 10

    let logger: Logger
    let jobs: JobLines
    private let rations = Mutex<[Cause: Ration]>([:])

    init(_ logger: Logger) {
        self.logger = logger.escaping
        jobs = JobLines(self.logger)
    }

    /// Logs an event that a client has caused.
    func log(_ level: Logger.Level, _ cause: Cause, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        let now = ContinuousClock.now
        let notLogged = rations.withLock { rations -> Int? in
            var ration = rations[cause] ?? Ration(since: now, left: Self.linesPerMinute)
            if ration.since.duration(to: now) > .seconds(60) {
                ration.since = now
                ration.left = Self.linesPerMinute
            }
            defer { rations[cause] = ration }
            guard ration.left > 0 else {
                ration.notLogged += 1
                return nil
            }
            ration.left -= 1
            defer { ration.notLogged = 0 }
            return ration.notLogged
        }
        guard let notLogged else { return logger.debug(message, metadata: metadata) }
        var metadata = metadata
        if notLogged > 0 { metadata["notLoggedBefore"] = "\(notLogged)" }
        logger.log(level: level, message, metadata: metadata)
    }
}

extension PeerCredentials {
    /// The peer, for the log.
    var metadata: Logger.Metadata { ["user": "\(user)", "process": "\(process)"] }
}
