internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStore
internal import BrokerWire

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
