internal import Broker
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
    func cancelJob(_ id: String, before ticket: Int, about frame: FrameReference, on connection: Connection) {
        coordinator.cancel(id, before: ticket, as: connection.peer.owner) { result in
            switch result {
            case .cancelled: connection.send("cancelled", about: frame) { $0.member("id", id) }
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

    func administer(_ action: AdminAction, about frame: FrameReference, on connection: Connection) {
        guard mayAdminister(about: frame, on: connection) else { return }
        log.logger.notice("\(action.rawValue) was asked for.", metadata: connection.peer.metadata)
        let done: @Sendable ((inout JSONWriter) -> Void) -> Void = { members in
            connection.send("done", about: frame) { writer in
                writer.member("action", action.rawValue)
                members(&writer)
            }
        }
        let failed: @Sendable (Fault) -> Void = { connection.send($0, about: frame) }
        switch action {
        case .pause:
            guard coordinator.pause() else {
                return failed(Fault(.busy, "The model is being changed. Pause again when that is done."))
            }
            done { _ in }
        case .resume:
            coordinator.resume()
            done { _ in }
        case .drain:
            guard let drain = options.drain else { return failed(.notHere(action.rawValue)) }
            done { _ in }
            drain()
        case .checkpoint:
            coordinator.checkpoint { result in
                switch result {
                case .success(let log):
                    done { writer in
                        writer.object("wal") { writer in
                            writer.member("bytes", log.bytes)
                            writer.member("uncheckpointedPages", log.uncheckpointedPages)
                        }
                    }
                case .failure(let error): failed(Fault(error.faultCode, error.message))
                }
            }
        case .reload:
            guard let reload = options.reload else { return failed(.notHere(action.rawValue)) }
            reload { end in
                switch end {
                case .applied(let changes):
                    done { $0.array("changes") { writer in for change in changes { writer.string(change) } } }
                case .refused(let fault): failed(fault)
                }
            }
        default: failed(.notHere(action.rawValue))
        }
    }

    func migrate(_ message: MigrateMessage, about frame: FrameReference, on connection: Connection) {
        guard mayAdminister(about: frame, on: connection) else { return }
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
                connection.send("done", about: frame) { writer in
                    writer.member("action", MigrateMessage.action)
                    writer.member("dryRun", message.isDryRun)
                    writer.array("changes") { writer in for change in changes { change.write(to: &writer) } }
                }
            case .failure(let fault): connection.send(fault, about: frame)
            }
        }
    }

    /// Copies the store beside the writer. It does not wait for jobs, which a pause may hold.
    func backUp(
        to file: String, replaces: Bool, wantsProgress: Bool, about frame: FrameReference, on connection: Connection
    ) {
        guard mayAdminister(about: frame, on: connection) else { return }
        coordinator.backup(to: file, replaces: replaces, isWanted: { !connection.isClosed }) { progress in
            guard wantsProgress, connection.bytes == 0 else { return }
            connection.send("progress", about: frame, finishing: false) { writer in
                writer.member("action", ClientMessage.backupAction)
                writer.member("pages", progress.pages)
                writer.member("ofPages", progress.ofPages)
            }
        } notify: { end in
            switch end {
            case .done(let copy):
                connection.send("done", about: frame) { writer in
                    writer.member("action", ClientMessage.backupAction)
                    writer.member("sequence", copy.sequence)
                    writer.member("bytes", copy.bytes)
                }
            case .failed(let fault): connection.send(fault, about: frame)
            case .stopped: connection.finish()
            }
        }
    }

    /// Whether the client may; if not, it gets an error.
    private func mayAdminister(about frame: FrameReference, on connection: Connection) -> Bool {
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
    func listJobs(_ message: JobsMessage, about frame: FrameReference, on connection: Connection) {
        let asker = connection.peer.owner
        let running = message.lists.contains(.running) ? coordinator.runningJobs(message.limit, as: asker) : nil
        let slow = message.lists.contains(.slow) ? coordinator.slowJobs(message.limit, as: asker) : nil
        let answer: @Sendable ([FailedJob]?) -> Void = { failed in
            connection.send("jobs", about: frame, capacity: 4_096) { writer in
                writer.list("running", running) { $0.members($1) }
                writer.list("failed", failed) { $0.members($1) }
                writer.list("slow", slow) { $0.members($1) }
            }
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
        member("id", id)
        if let sequence { member("sequence", sequence) }
        if let owner { member("user", owner.user) }
    }

    fileprivate mutating func members(_ running: RunningJob) {
        job(running.id, running.sequence, running.owner)
        member("stage", running.stage.rawValue)
        member("ageMilliseconds", running.age / 1_000)
    }

    fileprivate mutating func members(_ failed: FailedJob) {
        job(failed.id, failed.sequence, failed.owner)
        member("acceptedAt", failed.acceptedAt)
        member("error", raw: failed.error)
    }

    fileprivate mutating func members(_ slow: SlowJob) {
        job(slow.id, slow.sequence, slow.owner)
        member("acceptedAt", slow.acceptedAt)
        array("operations") { writer in for name in slow.operations { writer.string(name) } }
        array("entities") { writer in for name in slow.entities { writer.string(name) } }
        member("failed", slow.isFailed)
        object("microseconds") { writer in
            for (stage, microseconds) in slow.times.named { writer.member(stage, microseconds) }
        }
    }
}
