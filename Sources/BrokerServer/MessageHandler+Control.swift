internal import BrokerCoordinator
internal import BrokerJSON
package import BrokerModel
internal import BrokerSchema
internal import BrokerStore
internal import BrokerWire
internal import Logging

/// The result of ``ServerOptions/reload``.
package enum ReloadEnd: Sendable {
    /// The new model is in force; the changes of the store, a line each.
    case applied([String])
    /// The old model stays in force.
    case refused(Fault)
}

extension PeerCredentials {
    /// The owner under which the jobs of its user are recorded.
    var owner: JobOwner { JobOwner(user: user) }
}

/// Cancellation, and the operator's commands.
extension MessageHandler {
    func cancelJob(_ id: String, before ticket: Int, _ frame: FrameReference, _ connection: Connection) {
        coordinator.cancel(id, before: ticket, as: connection.peer.owner) { result in
            switch result {
            case .cancelled: connection.send(ServerMessageWriter.cancelled(id: id, tag: frame.tag), about: frame)
            case .tooLate:
                connection.send(
                    WireError(
                        .tooLate,
                        "The merge of the job \"\(id)\" has begun, or it has ended. `await` returns its outcome; its "
                            + "effect can be undone by another job."), about: frame)
            case .unknown: connection.send(.unknownJob(id), about: frame)
            case .failed(let cause): connection.send(WireError(.internal, cause.message), about: frame)
            }
        }
    }

    func administer(_ action: AdminAction, _ frame: FrameReference, _ connection: Connection) {
        guard mayAdminister(frame, connection) else { return }
        log.logger.notice("\(action.rawValue) was asked for.", metadata: connection.peer.metadata)
        let done: @Sendable ([UInt8]) -> Void = { members in
            connection.send(ServerMessageWriter.done(action, members: members, tag: frame.tag), about: frame)
        }
        let failed: @Sendable (Fault) -> Void = { connection.send($0, about: frame) }
        switch action {
        case .pause:
            guard coordinator.pause() else {
                return failed(Fault(.busy, "The model is being changed. Pause again when that is done."))
            }
            done([])
        case .resume:
            coordinator.resume()
            done([])
        case .drain:
            guard let drain = options.drain else { return failed(.notHere(action.rawValue)) }
            done([])
            drain()
        case .checkpoint:
            coordinator.checkpoint { result in
                switch result {
                case .success(let log): done(log.members)
                case .failure(let error): failed(Fault(error.faultCode, error.message))
                }
            }
        case .reload:
            guard let reload = options.reload else { return failed(.notHere(action.rawValue)) }
            reload { end in
                switch end {
                case .applied(let changes): done(Self.members(changes))
                case .refused(let fault): failed(fault)
                }
            }
        }
    }

    func migrate(_ message: MigrateMessage, _ frame: FrameReference, _ connection: Connection) {
        guard mayAdminister(frame, connection) else { return }
        log.logger.notice(
            "\(MigrateMessage.action) was asked for.",
            metadata: connection.peer.metadata.merging([
                "dryRun": "\(message.isDryRun)", "removedParts": "\(message.removedParts.rawValue)",
            ]) { $1 })
        guard let migrate = options.migrate else {
            return connection.send(Fault.notHere(MigrateMessage.action), about: frame)
        }
        migrate(message) { result in
            switch result {
            case .success(let changes):
                var writer = JSONWriter()
                writer.array { writer in
                    for change in changes { change.write(to: &writer) }
                }
                connection.send(
                    ServerMessageWriter.migrated(isDryRun: message.isDryRun, changes: writer.bytes, tag: frame.tag),
                    about: frame)
            case .failure(let fault): connection.send(fault, about: frame)
            }
        }
    }

    /// Copies the store beside the writer. It does not wait for jobs, which a pause may hold.
    func backUp(_ message: BackupMessage, _ frame: FrameReference, _ connection: Connection) {
        guard mayAdminister(frame, connection) else { return }
        coordinator.backup(to: message.file, replaces: message.replaces, isWanted: { !connection.isClosed }) {
            progress in
            guard message.wantsProgress, connection.bytes == 0 else { return }
            connection.send(
                ServerMessageWriter.backupProgress(pages: progress.pages, ofPages: progress.ofPages, tag: frame.tag),
                about: frame, finishing: false)
        } notify: { end in
            switch end {
            case .done(let copy):
                connection.send(
                    ServerMessageWriter.backedUp(sequence: copy.sequence, bytes: Int64(copy.bytes), tag: frame.tag),
                    about: frame)
            case .failed(let fault): connection.send(fault, about: frame)
            case .stopped: connection.finish()
            }
        }
    }

    /// Whether the client may; if not, it gets an error.
    private func mayAdminister(_ frame: FrameReference, _ connection: Connection) -> Bool {
        guard connection.peer.owner.isPrivileged else {
            let error = WireError(
                .unauthorized,
                "The user with the id \(connection.peer.user) may not administer this server: only its own user and "
                    + "root may. Nothing was done.")
            connection.send(error, about: frame)
            return false
        }
        return true
    }

    private static func members(_ changes: [String]) -> [UInt8] {
        var writer = JSONWriter()
        writer.key("changes")
        writer.array { writer in
            for change in changes { writer.string(change) }
        }
        return writer.bytes
    }
}

extension WALStatus {
    fileprivate var members: [UInt8] {
        var writer = JSONWriter()
        writer.key("wal")
        writer.object { writer in
            writer.key("bytes")
            writer.integer(bytes)
            writer.key("uncheckpointedPages")
            writer.integer(uncheckpointedPages)
        }
        return writer.bytes
    }
}

extension Fault {
    fileprivate static func notHere(_ action: String) -> Fault {
        Fault(
            .unsupportedMessage,
            "This server is part of another program, which alone can do `\(action)`. Ask that program.")
    }
}

extension WireError {
    static func unknownJob(_ id: String) -> WireError {
        WireError(
            .unknownJob,
            "No job with the id \"\(id)\" is known: it was never sent, or it ended so long ago that its outcome "
                + "was forgotten.")
    }
}

/// Lists of jobs, for people who look at the server.
extension MessageHandler {
    /// Answers at once, or when the ledger has been searched: one search of each process at a time.
    func listJobs(_ message: JobsMessage, _ frame: FrameReference, _ connection: Connection) {
        let asker = connection.peer.owner
        let running = message.lists.contains(.running) ? coordinator.runningJobs(message.limit, as: asker) : nil
        let slow = message.lists.contains(.slow) ? coordinator.slowJobs(message.limit, as: asker) : nil
        let answer: @Sendable ([FailedJob]?) -> Void = { failed in
            var writer = JSONWriter(capacity: 4_096)
            writer.list("running", running) { $0.members($1) }
            writer.list("failed", failed) { $0.members($1) }
            writer.list("slow", slow) { $0.members($1) }
            connection.send(ServerMessageWriter.jobs(members: writer.bytes, tag: frame.tag), about: frame)
        }
        if let code = message.code, FaultCode(rawValue: code) == nil {
            let codes = FaultCode.allCases.map(\.rawValue).listed
            let reason = "There is no code \(code.quotedBriefly); the codes of failed jobs are \(codes)."
            return connection.send(WireError(.unsupportedMessage, reason, path: "/code"), about: frame)
        }
        guard message.lists.contains(.failed) else { return answer(nil) }
        let process = connection.peer.process
        guard listing.begin(process) else {
            return connection.send(
                .busy("Another list of failed jobs is being made for this process. Ask again when it is there."),
                about: frame)
        }
        let filter = FailureFilter(since: message.since, user: message.user, code: message.code)
        coordinator.failedJobs(message.limit, filter, as: asker) { [listing] result in
            listing.end(process)
            switch result {
            case .success(let jobs): answer(jobs)
            case .failure(let cause): connection.send(WireError(.internal, cause.message), about: frame)
            }
        }
    }
}

extension JSONWriter {
    /// Bytes of an answer after which it has no more jobs.
    private static let longestLists = 1 << 20

    fileprivate mutating func list<Job>(_ key: String, _ jobs: [Job]?, _ members: (inout JSONWriter, Job) -> Void) {
        guard let jobs else { return }
        self.key(key)
        array { writer in
            for job in jobs where writer.bytes.count < Self.longestLists {
                writer.object { members(&$0, job) }
            }
        }
    }

    fileprivate mutating func job(_ id: String, _ sequence: Int64?, _ owner: JobOwner?) {
        key("id")
        string(id)
        if let sequence {
            key("sequence")
            integer(sequence)
        }
        if let owner {
            key("user")
            integer(owner.user)
        }
    }

    fileprivate mutating func members(_ running: RunningJob) {
        job(running.id, running.sequence, running.owner)
        key("stage")
        string(running.stage.rawValue)
        key("ageMilliseconds")
        integer(running.age / 1_000)
    }

    fileprivate mutating func members(_ failed: FailedJob) {
        job(failed.id, failed.sequence, failed.owner)
        key("acceptedAt")
        integer(failed.acceptedAt)
        key("error")
        raw(failed.error)
    }

    fileprivate mutating func members(_ slow: SlowJob) {
        job(slow.id, slow.sequence, slow.owner)
        key("acceptedAt")
        integer(slow.acceptedAt)
        key("operations")
        array { writer in for name in slow.operations { writer.string(name) } }
        key("entities")
        array { writer in for name in slow.entities { writer.string(name) } }
        key("failed")
        bool(slow.isFailed)
        key("microseconds")
        object { writer in
            for (stage, microseconds) in slow.times.named {
                writer.key(stage)
                writer.integer(microseconds)
            }
        }
    }
}
