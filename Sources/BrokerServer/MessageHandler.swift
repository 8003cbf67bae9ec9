internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerStaging
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
    func open(_ arrived: ContentFrame<ArrivedFrame>, _ memory: JobMemory) -> Opened {
        do throws(FrameRefusal) {
            let content = try content(of: arrived.content.bytes, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            return try answer(envelope, arrived, content, memory)
        } catch {
            guard case .fault(let error) = error else { return .noRoom }
            refuse(error, FrameReference(ordinal: arrived.content.ordinal), on: arrived.content.connection)
            return .nothing
        }
    }

    private func content(of bytes: FrameBytes, _ memory: JobMemory) throws(FrameRefusal) -> JSONText {
        switch bytes {
        case .content(let content):
            guard memory.take(content.count) else { throw .noRoom }
            return content
        case .payload(let payload):
            return try payload.withUnsafeBytes { bytes in
                Result { () throws(FrameRefusal) in try codecs.decode(bytes, memory) }
            }.get()
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
                return refuse(WireError(.unsupportedMessage, message), frame, on: connection)
            }
            let outcome = JobCompletion.failed(
                .busy(message), id: scan.id ?? "", owner: connection.peer.owner, sequence: nil)
            log.jobs.ended(outcome, of: connection.peer, trace: nil)
            connection.answer(outcome, about: frame, isBrief: false)
        } catch {
            refuse(error, FrameReference(ordinal: ordinal), on: connection)
        }
    }

    /// Opens the frame of a job that an earlier run of the server accepted. No client waits for an answer. The limits
    /// that this server sets for frames and contents do not apply.
    func reopen(_ payload: UnsafeRawBufferPointer, _ logged: JournaledJob, _ memory: JobMemory) -> ReopenedJob {
        do throws(FrameRefusal) {
            let content = try logCodecs.decode(payload, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            guard case .job(let message) = envelope.message else { return .unreadable("The message is not a job.") }
            return .job(
                Job(message, of: envelope, from: logged.owner, content: content) { [log] event in
                    if case .ended(let outcome) = event { log.jobs.ended(outcome, of: logged.owner.user) }
                })
        } catch {
            guard case .fault(let error) = error else { return .noRoom }
            return .unreadable(error.message)
        }
    }

    /// Answers a frame that cannot be opened, or whose message is not valid.
    private func refuse(_ error: WireError, _ frame: FrameReference, on connection: Connection) {
        if !error.endsConnection {
            var metadata = connection.peer.metadata
            metadata["code"] = "\(error.code.rawValue)"
            log.logger.info("A message was not understood: \(error.message)", metadata: metadata)
        }
        connection.send(error, about: frame)
        if error.endsConnection { connection.onHandler { $0.breakOff(error) } }
    }

    private func answer(
        _ envelope: ClientEnvelope, _ arrived: ContentFrame<ArrivedFrame>, _ content: JSONText, _ memory: JobMemory
    ) throws(FrameRefusal) -> Opened {
        let connection = arrived.content.connection
        let frame = FrameReference(ordinal: arrived.content.ordinal, id: envelope.id, tag: envelope.tag)
        switch envelope.message {
        case .job where connection.role == .read: refuseChange("a job", frame, connection)
        case .job(let job): return .job(self.job(job, envelope, frame, content, arrived))
        case .hello(_, let client):
            log.logger.debug("A client said hello.", metadata: ["client": "\((client ?? "").briefly)"])
            connection.send(
                ServerMessageWriter.welcome(
                    server: options.serverName, keepsJournal: coordinator.keepsJournal,
                    durability: coordinator.durability.rawValue, replica: coordinator.replica, limits: limits,
                    role: connection.role.rawValue, entities: coordinator.model.entities.map(\.name),
                    tag: frame.tag), about: frame)
        case .ping:
            guard content.count <= ServerMessageWriter.maximumPingCount else { throw .fault(.longPing.about(frame)) }
            connection.send(ServerMessageWriter.pong(to: envelope.document), about: frame)
        case .stats:
            connection.send(statistics(tag: frame.tag), about: frame)
        case .model:
            var writer = JSONWriter()
            coordinator.model.write(to: &writer)
            connection.send(ServerMessageWriter.model(writer.bytes, tag: frame.tag), about: frame)
        case .jobs(let message): listJobs(message, frame, connection)
        case .fetch(let message): return try fetch(message, content, memory, frame, connection)
        case .bookmark(let name): return bookmark(named: name, frame, connection)
        case .subscribe(let message): return subscribe(message, frame, connection)
        case .cancel where connection.role == .read: refuseChange("`cancel`", frame, connection)
        case .cancel(let id): return .question { [self] ticket in cancelJob(id, before: ticket, frame, connection) }
        // At once, whatever is before it: it ends what a pause delays.
        case .admin(let action): administer(action, frame, connection)
        case .backup(let backup): backUp(backup, frame, connection)
        case .migrate(let message): migrate(message, frame, connection)
        case .await(let id, let sequence):
            return .question { [self] ticket in awaitJob(id, before: ticket, after: sequence, frame, connection) }
        }
        return .nothing
    }

    /// The `stats` message.
    func statistics(tag: [UInt8]? = nil) -> [UInt8] {
        var writer = JSONWriter(capacity: 6_144)
        writer.key("server")
        writer.string(options.serverName)
        coordinator.writeStatistics(to: &writer)
        writer.key("connections")
        writer.object { writer in
            writer.key("open")
            writer.integer(connectionCount.value)
            writer.key("maximum")
            writer.integer(options.connections)
        }
        return ServerMessageWriter.stats(members: writer.bytes, tag: tag)
    }

    private func awaitJob(
        _ id: String, before ticket: Int, after sequence: Int64?, _ frame: FrameReference, _ connection: Connection
    ) {
        let bytes = Self.bytesPerAwait + (frame.tag?.count ?? 0)
        let process = connection.peer.process
        guard awaits.hasRoom(process) else {
            return connection.breakOff(
                .busy("This process awaits too many jobs that have not ended. Ask again when some have."), about: frame)
        }
        awaits.add(bytes, process)
        let end: @Sendable () -> Void = { [awaits] in awaits.remove(bytes, process) }
        whenApplied(sequence, frame, connection, orElse: end) {
            connection.answer(awaitOf: id, before: ticket, about: frame, whenAnswered: end)
        }
    }

    /// Calls `body` when the server has applied everything up to that sequence, or refuses the message after some time.
    ///
    /// - Parameters:
    ///   - sequence: nil for a message that names none.
    ///   - end: called instead of `body`.
    func whenApplied(
        _ sequence: Int64?, _ frame: FrameReference, _ connection: Connection,
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
        _ message: JobMessage, _ envelope: ClientEnvelope, _ frame: FrameReference, _ content: JSONText,
        _ arrived: ContentFrame<ArrivedFrame>
    ) -> Job {
        let connection = arrived.content.connection
        let reply = JobReply(
            frame: frame, isBrief: message.reply == .none, wantsCompletion: message.notify.contains(.completed),
            trace: message.trace)
        let observer: @Sendable (JobEvent) -> Void
        if arrived.content.isSmall {
            // A closure that captures one object is no allocation.
            arrived.setReply(reply)
            observer = { event in
                arrived.content.messages.report(event, to: arrived.content.connection, arrived.reply!)
            }
        } else {
            observer = { [self] event in report(event, to: connection, reply) }
        }
        let job = Job(message, of: envelope, from: connection.peer.owner, content: content, observer: observer)
        job.mayDelete = connection.role == .write
        return job
    }

    private func report(_ event: JobEvent, to connection: Connection, _ reply: JobReply) {
        let frame = reply.frame
        switch event {
        case .accepted(let id, let sequence):
            connection.send(
                ServerMessageWriter.accepted(id: id, sequence: sequence, tag: frame.tag), about: frame, finishing: false
            )
        case .progress(let id, let staged, let merged):
            // A client that has other answers to read learns enough from those.
            guard connection.bytes == 0 else { break }
            connection.send(
                ServerMessageWriter.progress(id: id, staged: staged, merged: merged, tag: frame.tag), about: frame,
                finishing: false)
        case .ended(let outcome):
            log.jobs.ended(outcome, of: connection.peer, trace: reply.trace)
            if case .completed = outcome.result, !reply.wantsCompletion { return connection.finish() }
            connection.answer(outcome, about: frame, isBrief: reply.isBrief)
        }
    }

    /// The connection goes on.
    private func refuseChange(_ message: String, _ frame: FrameReference, _ connection: Connection) {
        let error = WireError(
            .unauthorized,
            "The user with the id \(connection.peer.user) may only read here (its role is read), and \(message) changes the "
                + "store. Nothing was done. Have the operator allow the role insert or write.")
        connection.send(error, about: frame)
    }

    /// The members of `limits` in `welcome`.
    private var limits: [UInt8] {
        var writer = JSONWriter()
        let members = [
            ("maximumFrameBytes", options.frameLimits.maximumPayloadCount),
            ("maximumContentBytes", options.frameLimits.maximumContentCount),
            ("maximumDepth", JSONDocument.defaultMaximumDepth),
            ("maximumIdBytes", JobMessage.idCounts.upperBound),
            ("maximumTagBytes", ClientEnvelope.maximumTagCount),
            ("jobMemory", coordinator.jobMemory),
            ("jobsInFlight", options.jobsPerConnection),
            ("outcomesKept", coordinator.retention.count),
            ("outcomesKeptSeconds", coordinator.retention.seconds),
            ("outcomesForgottenThrough", Int(coordinator.forgottenThrough)),
        ]
        for (key, value) in members {
            writer.key(key)
            writer.integer(value)
        }
        return writer.bytes
    }
}

extension WireError {
    fileprivate static let longPing = WireError(
        .unsupportedMessage,
        "A `ping` has at most \(ServerMessageWriter.maximumPingCount) bytes. Send a shorter one: its answer has all its fields."
    )
}

extension MessageHandler {
    func subscribe(_ message: SubscribeMessage, _ frame: FrameReference, _ connection: Connection) -> Opened {
        let bytes = Self.bytesPerSubscription + (message.entities?.count ?? 0) * Self.bytesPerFollowedEntity
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
                    message: message, ticket: ticket, frame: frame,
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
    func fetch(
        _ message: FetchMessage, _ content: JSONText, _ memory: JobMemory, _ frame: FrameReference,
        _ connection: Connection
    ) throws(FrameRefusal) -> Opened {
        // The names and what they are resolved to.
        guard memory.take(content.count * Self.memoryPerFetchByte) else { throw .noRoom }
        do throws(Fault) {
            let request = try coordinator.plan.fetchRequest(FetchDescription(message))
            let afterSequence = message.afterSequence
            let bytes = Self.bytesPerFetch + content.count * Self.memoryPerFetchByte
            return .question { [self] ticket in
                ask(request, bytes, before: ticket, after: afterSequence, frame, connection)
            }
        } catch {
            connection.send(error, about: frame)
            return .nothing
        }
    }

    private func ask(
        _ request: FetchRequest, _ bytes: Int, before ticket: Int, after sequence: Int64?, _ frame: FrameReference,
        _ connection: Connection
    ) {
        guard fetches.hasRoom(connection.peer.process) else {
            return connection.breakOff(
                .busy("Too many fetches of this process wait. Ask again when some have ended."), about: frame)
        }
        let fetch = PendingFetch(
            request: request, ticket: ticket, frame: frame,
            share: BudgetShare(of: fetches, bytes, connection.peer.process))
        whenApplied(sequence, frame, connection) { connection.answer(fetch) }
    }

    /// Reads a bookmark, when the jobs before the question have ended.
    func bookmark(named name: String, _ frame: FrameReference, _ connection: Connection) -> Opened {
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
                        let answer = ServerMessageWriter.bookmark(
                            name: name, value: found?.value, sequence: found?.sequence, tag: frame.tag)
                        connection.send(answer, about: frame)
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

extension Fault {
    /// The `error` object as JSON text.
    var encoded: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

/// Processes for which the ledger is searched.
final class ListingProcesses: Sendable {
    private let processes = Mutex<Set<Int32>>([])

    /// - Returns: false when it is searched for that process already.
    func begin(_ process: Int32) -> Bool { processes.withLock { $0.insert(process).inserted } }

    func end(_ process: Int32) { processes.withLock { _ = $0.remove(process) } }
}
