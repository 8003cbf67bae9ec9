internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerStore
internal import BrokerWire

/// Lists of jobs, for people who look at the server.
extension MessageHandler {
    /// Answers at once, or when the ledger has been searched: one search of each process at a time, because a search may
    /// delay those who await jobs by some milliseconds.
    func listJobs(_ message: JobsMessage, _ frame: FrameReference, _ connection: Connection) {
        let asker = connection.peer.owner
        let running = message.lists.contains(.running) ? coordinator.runningJobs(message.limit, as: asker) : nil
        let slow = message.lists.contains(.slow) ? coordinator.slowJobs(message.limit, as: asker) : nil
        let answer: @Sendable ([FailedJob]?) -> Void = { failed in
            var writer = JSONWriter(capacity: 4_096)
            writer.list("running", running) { $0.members($1) }
            writer.list("failed", failed) { $0.members($1) }
            if failed != nil {
                writer.key("searched")
                writer.integer(Coordinator.searchedOutcomes)
            }
            writer.list("slow", slow) { $0.members($1) }
            connection.send(ServerMessageWriter.jobs(members: writer.bytes, tag: frame.tag), about: frame)
        }
        guard message.lists.contains(.failed) else { return answer(nil) }
        let process = connection.peer.process
        guard listing.begin(process) else {
            return connection.send(
                .busy("Another list of failed jobs is being made for this process. Ask again when it is there."),
                about: frame)
        }
        coordinator.failedJobs(message.limit, as: asker) { [listing] result in
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
