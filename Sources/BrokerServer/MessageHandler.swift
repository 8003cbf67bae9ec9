internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
internal import Logging
internal import Synchronization

/// Opens frames on the workers: a job goes on to the coordinator, any other message is answered here.
///
/// Every message that arrives is finished exactly once on its connection: by the last answer to it, or silently.
final class MessageHandler: Sendable {
    let coordinator: Coordinator
    private let codecs: FrameCodecs
    /// For frames of the journal.
    private let logCodecs = FrameCodecs(limits: .largest)
    let options: ServerOptions
    let log: ServerLog
    /// Open connections.
    private let connectionCount: HandlerCount
    /// Processes for which the ledger is searched for failed jobs.
    let listing = ListingProcesses()
    /// Bytes held for clients that await the ends of jobs.
    private let awaits = SharedBudget(byteLimit: awaitBytes)
    /// Bytes held for fetches that wait for their turn.
    let fetches = SharedBudget(byteLimit: fetchBytes)

    /// Bytes of the tags of all awaits; enough for some ten thousand of them with the defaults.
    private static let awaitBytes = 16 << 20
    /// Bytes of unanswered fetches; enough for some thousand ordinary ones.
    private static let fetchBytes = 16 << 20
    /// Bytes of one await, beside its tag.
    private static let bytesPerAwait = 512

    init(
        _ coordinator: Coordinator, _ codecs: FrameCodecs, _ options: ServerOptions, _ log: ServerLog,
        _ connectionCount: HandlerCount
    ) {
        self.coordinator = coordinator
        self.connectionCount = connectionCount
        self.codecs = codecs
        self.options = options
        self.log = log
    }

    /// Answers messages that are not jobs, also when the answer ends the connection.
    ///
    /// - Parameter memory: asked for the memory of the content and its tape.
    func open(_ arrived: ArrivedFrame, _ memory: JobMemory) -> Opened {
        do {
            let content = try content(of: arrived.bytes, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            do throws(WireError) {
                return try answer(envelope, arrived, content, memory)
            } catch {
                throw error.about(FrameReference(id: envelope.id, tag: envelope.tag))
            }
        } catch {
            guard let error = error as? WireError else { return .noRoom }
            refuse(error, about: FrameReference(ordinal: arrived.ordinal), on: arrived.connection)
            return .nothing
        }
    }

    private func content(of bytes: FrameBytes, _ memory: JobMemory) throws -> JSONText {
        switch bytes {
        case .content(let content):
            guard memory.take(content.count) else { throw JSONRefusal.noRoom }
            return content
        case .payload(let payload):
            return try payload.withUnsafeBytes { try codecs.decode($0, memory) }
        }
    }

    /// Answers a frame whose message needs more memory than one job may take. The frame is searched for the `id` and the
    /// `tag` in little memory. The connection goes on, unless the frame itself is at fault.
    ///
    /// - Parameter message: which limit is exceeded, and the remedy.
    func refuseTooLarge(
        _ payload: UnsafeRawBufferPointer, _ ordinal: Int, _ message: String, on connection: Connection
    ) {
        do throws(WireError) {
            let scan = try codecs.scan(payload)
            let frame = scan.reference(ordinal: ordinal)
            guard scan.isJob else {
                return refuse(WireError(.unsupportedMessage, message), about: frame, on: connection)
            }
            let outcome = JobCompletion.failed(
                .busy(message), id: scan.id ?? "", owner: connection.peer.owner, sequence: nil)
            log.jobs.ended(outcome, of: connection.peer, trace: nil)
            connection.answer(outcome, about: frame, isBrief: false)
        } catch {
            refuse(error, about: FrameReference(ordinal: ordinal), on: connection)
        }
    }

    /// Opens the frame of a job that an earlier run of the server accepted. No client waits for an answer. The limits
    /// that this server sets for frames and contents do not apply.
    func reopen(_ payload: UnsafeRawBufferPointer, from owner: JobOwner, _ memory: JobMemory) -> ReopenedJob {
        do {
            let content = try logCodecs.decode(payload, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            guard case .job = envelope.message else { return .unreadable("The message is not a job.") }
            return .job(
                try .read(envelope, from: owner, content: content) { [log] _ in
                    { event in if case .ended(let outcome) = event { log.jobs.ended(outcome, of: owner.user) } }
                })
        } catch {
            guard let error = error as? WireError else { return .noRoom }
            return .unreadable(error.message)
        }
    }

    /// Answers a frame that cannot be opened, or whose message is not valid.
    private func refuse(_ error: WireError, about frame: FrameReference, on connection: Connection) {
        if !error.endsConnection {
            var metadata = connection.peer.metadata
            metadata["code"] = "\(error.code.rawValue)"
            log.logger.info("A message was not understood: \(error.message)", metadata: metadata)
        }
        connection.send(error, about: frame)
        if error.endsConnection { connection.onHandler { $0.breakOff(error) } }
    }

    private func answer(
        _ envelope: ClientEnvelope, _ arrived: ArrivedFrame, _ content: JSONText, _ memory: JobMemory
    ) throws(WireError) -> Opened {
        let connection = arrived.connection
        if case .job = envelope.message, connection.role != .read { return .job(try job(envelope, content, arrived)) }
        let frame = FrameReference(ordinal: arrived.ordinal, id: envelope.id, tag: envelope.tag)
        switch envelope.message {
        case .job: refuseChange("a job", about: frame, on: connection)
        case .hello(_, let client):
            log.logger.debug("A client said hello.", metadata: ["client": "\((client ?? "").briefly)"])
            connection.send("welcome", about: frame) { welcome(connection.role, to: &$0) }
        case .ping:
            guard content.count <= MessageWriter.maximumPingCount else { throw .longPing }
            connection.send(MessageWriter.pong(to: envelope.document), about: frame)
        case .stats:
            connection.send("stats", about: frame, capacity: 6_144) { writeStatistics(to: &$0) }
        case .model:
            connection.send("model", about: frame) { writer in
                writer.key("model")
                coordinator.model.write(to: &writer)
            }
        case .jobs(let message): listJobs(message, about: frame, on: connection)
        case .fetch(let sequence):
            return try fetch(envelope, after: sequence, content, memory, about: frame, on: connection)
        case .bookmark(let name): return bookmark(named: name, about: frame, on: connection)
        case .subscribe(let query): return subscribe(query, about: frame, on: connection)
        case .cancel where connection.role == .read: refuseChange("`cancel`", about: frame, on: connection)
        case .cancel(let id):
            return .question { [self] ticket in cancelJob(id, before: ticket, about: frame, on: connection) }
        // At once, whatever is before it: it ends what a pause delays.
        case .admin(let action): administer(action, about: frame, on: connection)
        case .backup(let file, let replaces, let wantsProgress):
            backUp(to: file, replaces: replaces, wantsProgress: wantsProgress, about: frame, on: connection)
        case .migrate(let message): migrate(message, about: frame, on: connection)
        case .await(let id, let sequence):
            return .question { [self] ticket in
                awaitJob(id, before: ticket, after: sequence, about: frame, on: connection)
            }
        }
        return .nothing
    }

    /// Writes the members of the `stats` message.
    func writeStatistics(to writer: inout JSONWriter) {
        writer.member("server", options.serverName)
        coordinator.writeStatistics(to: &writer)
        writer.object("connections") { writer in
            writer.member("open", connectionCount.value)
            writer.member("maximum", options.connections)
        }
    }

    private func awaitJob(
        _ id: String, before ticket: Int, after sequence: Int64?, about frame: FrameReference, on connection: Connection
    ) {
        let bytes = Self.bytesPerAwait + (frame.tag?.count ?? 0)
        let process = connection.peer.process
        guard awaits.hasRoom(process) else {
            return connection.breakOff(
                .busy("This process awaits too many jobs that have not ended. Ask again when some have."), about: frame)
        }
        awaits.add(bytes, process)
        let end: @Sendable () -> Void = { [awaits] in awaits.remove(bytes, process) }
        whenApplied(sequence, about: frame, on: connection, orElse: end) {
            connection.answer(awaitOf: id, before: ticket, about: frame, whenAnswered: end)
        }
    }

    /// Calls `body` when the server has applied everything up to that sequence, or refuses the message after some time.
    ///
    /// - Parameters:
    ///   - sequence: nil for a message that names none.
    ///   - end: called instead of `body`.
    func whenApplied(
        _ sequence: Int64?, about frame: FrameReference, on connection: Connection,
        orElse end: @escaping @Sendable () -> Void = {}, _ body: @escaping @Sendable () -> Void
    ) {
        guard let sequence else { return body() }
        guard let wait = coordinator.whenApplied(through: sequence, body) else { return body() }
        connection.later(options.applicationSeconds) { [coordinator] in
            guard let applied = coordinator.forget(wait) else { return }
            end()
            connection.send(.notYet(sequence, applied: applied), about: frame)
        }
    }

    private func job(
        _ envelope: ClientEnvelope, _ content: JSONText, _ arrived: ArrivedFrame
    ) throws(WireError) -> BrokerCoordinator.Job {
        let connection = arrived.connection
        let job = try BrokerCoordinator.Job.read(
            envelope, ordinal: arrived.ordinal, from: connection.peer.owner, content: content
        ) { reply in
            guard arrived.isSmall else { return { [self] event in report(event, to: connection, reply) } }
            // A closure that captures one object is no allocation.
            if arrived.reply == nil { arrived.reply = reply }
            return { event in
                arrived.messages.report(event, to: arrived.connection, arrived.reply!)
            }
        }
        job.mayDelete = connection.role == .write
        return job
    }

    private func report(_ event: JobEvent, to connection: Connection, _ reply: JobReply) {
        let frame = reply.frame
        switch event {
        case .accepted(let id, let sequence):
            connection.send("accepted", about: frame, finishing: false) { writer in
                writer.member("id", id)
                writer.member("sequence", sequence)
            }
        case .progress(let id, let staged, let merged):
            // A client that has other answers to read learns enough from those.
            guard connection.bytes == 0 else { break }
            connection.send("progress", about: frame, finishing: false) { writer in
                writer.member("id", id)
                writer.member("staged", staged)
                writer.member("merged", merged)
            }
        case .ended(let outcome):
            log.jobs.ended(outcome, of: connection.peer, trace: reply.trace)
            if case .completed = outcome.result, !reply.wantsCompletion { return connection.finish() }
            connection.answer(outcome, about: frame, isBrief: reply.isBrief)
        }
    }

    /// The connection goes on.
    private func refuseChange(_ message: String, about frame: FrameReference, on connection: Connection) {
        let error = WireError(
            .unauthorized,
            "The user with the id \(connection.peer.user) may only read here (its role is read), and \(message) changes the "
                + "store. Nothing was done. Have the operator allow the role insert or write.")
        connection.send(error, about: frame)
    }

    /// Writes the members of `welcome`.
    private func welcome(_ role: ClientRole, to writer: inout JSONWriter) {
        writer.member("version", ClientEnvelope.protocolVersion)
        writer.member("server", options.serverName)
        writer.member("journal", coordinator.keepsJournal)
        writer.member("durability", coordinator.durability.rawValue)
        writer.member("replica", coordinator.replica)
        writer.array("features") { writer in for feature in Broker.Job.features { writer.string(feature) } }
        writer.member("role", role.rawValue)
        writer.object("limits") { writer in
            for (key, value) in [
                ("maximumFrameBytes", options.frameLimits.maximumPayloadCount),
                ("maximumContentBytes", options.frameLimits.maximumContentCount),
                ("maximumDepth", JSONDocument.defaultMaximumDepth), ("maximumIdBytes", JobID.byteCounts.upperBound),
                ("maximumTagBytes", ClientEnvelope.maximumTagCount), ("jobMemory", coordinator.jobMemory),
                ("jobsInFlight", options.jobsPerConnection), ("outcomesKept", coordinator.retention.count),
                ("outcomesKeptSeconds", coordinator.retention.seconds),
                ("outcomesForgottenThrough", Int(coordinator.forgottenThrough)),
            ] { writer.member(key, value) }
        }
        writer.array("entities") { writer in for entity in coordinator.model.entities { writer.string(entity.name) } }
    }
}

extension WireError {
    fileprivate static let longPing = WireError(
        .unsupportedMessage,
        "A `ping` has at most \(MessageWriter.maximumPingCount) bytes. Send a shorter one: its answer has all its fields."
    )
}

extension MessageHandler {
    private func subscribe(_ query: CommitQuery, about frame: FrameReference, on connection: Connection) -> Opened {
        let bytes = Self.bytesPerSubscription + (query.entities?.count ?? 0) * Self.bytesPerFollowedEntity
        return .question { [self] ticket in
            guard connection.subscriptions.withLock({ $0.reserve() }) else {
                return connection.send(Self.tooManySubscriptions, about: frame)
            }
            guard fetches.hasRoom(connection.peer.process) else {
                return connection.breakOff(
                    .busy("Too many fetches and subscriptions of this process are open."), about: frame)
            }
            connection.subscribe(
                PendingSubscription(
                    query: query, ticket: ticket, frame: frame,
                    share: BudgetShare(of: fetches, bytes, connection.peer.process)))
        }
    }

    private static var tooManySubscriptions: WireError {
        WireError(
            .unsupportedMessage,
            "A connection has at most \(ConnectionSubscriptions.maximum) subscriptions. Name several entities in one, or "
                + "connect again.")
    }

    /// Bytes that a subscription takes beside the names of its entities.
    private static let bytesPerSubscription = 1 << 10
    private static let bytesPerFollowedEntity = 160
}

extension MessageHandler {
    /// Checks a fetch; a fault is sent at once.
    private func fetch(
        _ envelope: ClientEnvelope, after afterSequence: Int64?, _ content: JSONText, _ memory: JobMemory,
        about frame: FrameReference, on connection: Connection
    ) throws(WireError) -> Opened {
        let fetch = try FetchDescription(envelope.document.root)
        // The names and what they are resolved to.
        guard memory.take(content.count * Self.memoryPerFetchByte) else { return .noRoom }
        do throws(Fault) {
            let request = try withExtendedLifetime(envelope) { () throws(Fault) in
                try coordinator.plan.fetchRequest(fetch)
            }
            let bytes = Self.bytesPerFetch + content.count * Self.memoryPerFetchByte
            return .question { [self] ticket in
                ask(request, bytes, before: ticket, after: afterSequence, about: frame, on: connection)
            }
        } catch {
            connection.send(error, about: frame)
            return .nothing
        }
    }

    private func ask(
        _ request: FetchRequest, _ bytes: Int, before ticket: Int, after sequence: Int64?, about frame: FrameReference,
        on connection: Connection
    ) {
        guard fetches.hasRoom(connection.peer.process) else {
            return connection.breakOff(
                .busy("Too many fetches of this process wait. Ask again when some have ended."), about: frame)
        }
        let fetch = PendingFetch(
            request: request, ticket: ticket, frame: frame,
            share: BudgetShare(of: fetches, bytes, connection.peer.process))
        whenApplied(sequence, about: frame, on: connection) { connection.answer(fetch) }
    }

    /// Reads a bookmark, when the jobs before the question have ended.
    func bookmark(named name: String, about frame: FrameReference, on connection: Connection) -> Opened {
        .question { [self] ticket in
            let process = connection.peer.process
            guard fetches.hasRoom(process) else {
                return connection.breakOff(
                    .busy("Too many fetches of this process wait. Ask again when some have ended."), about: frame)
            }
            let share = BudgetShare(of: fetches, Self.bytesPerFetch, process)
            coordinator.bookmark(named: name, before: ticket, from: connection.source) { result in
                withExtendedLifetime(share) {
                    switch result {
                    case .success(let found):
                        connection.send("bookmark", about: frame) { writer in
                            writer.member("name", name)
                            if found == nil { writer.member("value", raw: Array("null".utf8)) }
                            writer.member("value", found?.value)
                            if let sequence = found?.sequence { writer.member("sequence", sequence) }
                        }
                    case .failure(let error): connection.send(Fault(error.faultCode, error.message), about: frame)
                    }
                }
            }
        }
    }

    /// Bytes that a fetch takes beside its text.
    private static let bytesPerFetch = 4 << 10
    /// The memory that each byte of a fetch becomes.
    private static let memoryPerFetchByte = 8
}

/// Processes for which the ledger is searched.
final class ListingProcesses: Sendable {
    private let processes = Mutex<Set<Int32>>([])

    /// - Returns: false when it is searched for that process already.
    func begin(_ process: Int32) -> Bool { processes.withLock { $0.insert(process).inserted } }

    func end(_ process: Int32) { processes.withLock { _ = $0.remove(process) } }
}
