internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
internal import Logging
internal import NIOCore
internal import Synchronization

/// Opens frames on the workers: a job goes on to the coordinator, any other message is answered here.
///
/// Every message that arrives is finished exactly once on its connection: by the last answer to it, or silently.
final class MessageHandler: Sendable {
    let coordinator: Coordinator
    let codecs: FrameCodecs
    /// For frames of the journal.
    private let logCodecs = FrameCodecs(limits: .largest)
    let options: ServerOptions
    let log: ServerLog
    /// The number of handlers: more than connections would be a leak.
    let connectionCount = Atomic(0)
    let rates = JobRates()
    /// Processes for which the ledger is searched for failed jobs.
    private let listing = Mutex<Set<Int32>>([])
    /// Bytes held for clients that await the ends of jobs: enough for some ten thousand of them with the defaults.
    private let awaits = SharedBudget(byteLimit: 16 << 20)
    /// Bytes held for fetches that wait for their turn: enough for some thousand ordinary ones.
    private let fetches = SharedBudget(byteLimit: 16 << 20)

    /// Bytes of one await, beside its tag.
    private static let bytesPerAwait = 512

    init(_ coordinator: Coordinator, _ codecs: FrameCodecs, _ options: ServerOptions, _ log: ServerLog) {
        self.coordinator = coordinator
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
            refuse(Request(arrived), error)
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
    func refuseTooLarge(_ arrived: ArrivedFrame, _ message: String) {
        let peer = arrived.connection.peer
        do throws(WireError) {
            let scan = try codecs.scan(arrived.payload)
            let request = Request(arrived, id: scan.id, tag: scan.tag)
            guard scan.isJob else { return refuse(request, .unsupported(message)) }
            let outcome = JobCompletion.failed(.busy(message), id: scan.id ?? "", owner: peer.owner, sequence: nil)
            log.ended(outcome, of: peer.user, process: peer.process)
            arrived.connection.answer(outcome, about: request.frame, isBrief: false)
        } catch {
            refuse(Request(arrived), error)
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
                    { event in if case .ended(let outcome) = event { log.ended(outcome, of: owner.user) } }
                })
        } catch {
            guard let error = error as? WireError else { return .noRoom }
            return .unreadable(error.message)
        }
    }

    /// Answers a frame that cannot be opened, or whose message is not valid.
    private func refuse(_ request: Request, _ error: WireError) {
        request.connection.activity.refused(error)
        guard !error.endsConnection else { return request.breakOff(error) }
        var metadata = request.connection.peer.metadata
        metadata["code"] = "\(error.code)"
        log.logger.info("A message was not understood: \(error.message)", metadata: metadata)
        request.send(error)
    }

    private func answer(
        _ envelope: ClientEnvelope, _ arrived: ArrivedFrame, _ content: JSONText, _ memory: JobMemory
    ) throws(WireError) -> Opened {
        let connection = arrived.connection
        if case .job = envelope.message, connection.role != .read { return .job(try job(envelope, content, arrived)) }
        let request = Request(arrived, id: envelope.id, tag: envelope.tag)
        switch envelope.message {
        case .job: refuseChange("a job", for: request)
        case .hello(let client):
            connection.activity.saidHello(client)
            log.logger.debug("A client said hello.", metadata: ["client": "\((client ?? "").briefly)"])
            request.send("welcome") { welcome(connection.role, to: &$0) }
        case .ping:
            guard content.count <= MessageWriter.maximumPingCount else { throw .longPing }
            connection.send(MessageWriter.pong(to: envelope.document), about: request.frame)
        case .stats: request.send("stats", capacity: 6_144) { writeStatistics(to: &$0) }
        case .model:
            request.send("model") { writer in
                writer.key("model")
                coordinator.model.write(to: &writer)
            }
        case .jobs(let message): listJobs(message, for: request)
        case .rejects(let message) where message.drops && connection.role == .read:
            refuseChange("the `drop` of rejected records", for: request)
        case .rejects(let message): answer(message, for: request)
        case .fetch(let sequence): return try fetch(envelope, after: sequence, content, memory, for: request)
        case .bookmark(let name): return bookmark(named: name, for: request)
        case .subscribe(let query): return subscribe(query, for: request)
        case .cancel where connection.role == .read: refuseChange("`cancel`", for: request)
        case .cancel(let id): return .question { [self] ticket in cancelJob(id, before: ticket, for: request) }
        // At once, whatever is before it: it ends what a pause delays.
        case .admin(let action): administer(action, for: request)
        case .kick(let message): kick(message, for: request)
        case .backup(let file, let replaces, let wantsProgress):
            backUp(to: file, replaces: replaces, wantsProgress: wantsProgress, for: request)
        case .migrate(let message): migrate(message, for: request)
        case .await(let id, let sequence):
            return .question { [self] ticket in awaitJob(id, before: ticket, after: sequence, for: request) }
        }
        return .nothing
    }

    /// Writes the members of the `stats` message.
    func writeStatistics(to writer: inout JSONWriter) {
        writer.member("server", options.serverName)
        writer.member("storeFile", options.storeFile)
        coordinator.writeStatistics(to: &writer)
        writer.object("connections") { writer in
            writer.member("open", connectionCount.load(ordering: .relaxed))
            writer.member("maximum", options.connections)
        }
    }

    private func awaitJob(_ id: String, before ticket: Int, after sequence: Int64?, for request: Request) {
        let bytes = Self.bytesPerAwait + (request.frame.tag?.count ?? 0)
        let refusal = "This process awaits too many jobs that have not ended. Ask again when some have."
        guard let share = share(bytes, of: awaits, for: request, orElse: refusal) else { return }
        whenApplied(sequence, for: request) {
            request.connection.answer(awaitOf: id, before: ticket, about: request.frame, share)
        }
    }

    /// Calls `body` when the server has applied everything up to that sequence, or refuses the message after some time.
    ///
    /// - Parameter sequence: nil for a message that names none.
    private func whenApplied(_ sequence: Int64?, for request: Request, _ body: @escaping @Sendable () -> Void) {
        guard let sequence else { return body() }
        guard let wait = coordinator.whenApplied(through: sequence, body) else { return body() }
        request.connection.later(.seconds(options.applicationSeconds)) { [coordinator] in
            guard let applied = coordinator.forget(wait) else { return }
            request.send(.notYet(sequence, applied: applied))
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
        job.terms.mayDelete = connection.role == .write
        job.client = connection.activity.name
        if !arrived.isCounted {
            arrived.isCounted = true
            connection.activity.beganJob()
            rates.note(connection.peer.user, at: .now())
        }
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
            connection.activity.ended(outcome)
            log.ended(outcome, of: connection.peer.user, process: connection.peer.process, trace: reply.trace)
            if case .completed = outcome.result, !reply.wantsCompletion { return connection.finish() }
            connection.answer(outcome, about: frame, isBrief: reply.isBrief)
        }
    }

    /// The connection goes on.
    private func refuseChange(_ message: String, for request: Request) {
        request.send(
            WireError(
                .unauthorized,
                "The user with the id \(request.connection.peer.user) may only read here (its role is read), and \(message) "
                    + "changes the store. Nothing was done. Have the operator allow the role insert or write."))
    }

    /// Writes the members of `welcome`.
    private func welcome(_ role: ClientRole, to writer: inout JSONWriter) {
        writer.member("version", ClientEnvelope.protocolVersion)
        writer.member("server", options.serverName)
        writer.member("journal", coordinator.durability == .disk)
        writer.member("durability", coordinator.durability.rawValue)
        writer.member("replica", coordinator.replica)
        writer.strings("features", Broker.Job.features)
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
        writer.strings("entities", coordinator.model.entities.map(\.name))
    }
}

extension WireError {
    fileprivate static let longPing = WireError.unsupported(
        "A `ping` has at most \(MessageWriter.maximumPingCount) bytes. Send a shorter one: its answer has all its fields."
    )
}

// Questions about objects, when the jobs before them have ended.
extension MessageHandler {
    private func subscribe(_ query: CommitQuery, for request: Request) -> Opened {
        let bytes = Self.bytesPerSubscription + (query.entities?.count ?? 0) * Self.bytesPerFollowedEntity
        return .question { [self] ticket in
            let maximum = ConnectionParts.maximumSubscriptions
            guard request.connection.parts.withLock({ $0.reserveSubscription() }) else {
                return request.send(
                    WireError.unsupported(
                        "A connection has at most \(maximum) subscriptions. Name several entities in one, or connect again."
                    ))
            }
            guard let share = share(bytes, for: request) else { return }
            request.connection.subscribe(
                PendingSubscription(query: query, ticket: ticket, frame: request.frame, share: share))
        }
    }

    /// A part of the budget of all fetches and subscriptions; nil when there is no room, and the connection ends.
    private func share(_ bytes: Int, for request: Request) -> BudgetShare? {
        let refusal =
            "Too many fetches and subscriptions of this process wait or are open. Ask again when some have ended."
        return share(bytes, of: fetches, for: request, orElse: refusal)
    }

    private func share(
        _ bytes: Int, of budget: SharedBudget, for request: Request, orElse refusal: String
    ) -> BudgetShare? {
        let process = request.connection.peer.process
        if budget.hasRoom(process) { return BudgetShare(of: budget, bytes, process) }
        request.breakOff(.busy(refusal))
        return nil
    }

    /// Checks a fetch; a fault is sent at once.
    private func fetch(
        _ envelope: ClientEnvelope, after sequence: Int64?, _ content: JSONText, _ memory: JobMemory,
        for request: Request
    ) throws(WireError) -> Opened {
        let fetch = try FetchDescription(envelope.document.root)
        // The names and what they are resolved to.
        guard memory.take(content.count * Self.memoryPerFetchByte) else { return .noRoom }
        do throws(Fault) {
            let fetch = try withExtendedLifetime(envelope) { () throws(Fault) in
                try coordinator.plan.fetchRequest(fetch)
            }
            let bytes = Self.bytesPerFetch + content.count * Self.memoryPerFetchByte
            return .question { [self] ticket in
                guard let share = share(bytes, for: request) else { return }
                whenApplied(sequence, for: request) {
                    request.connection.answer(
                        PendingFetch(request: fetch, ticket: ticket, frame: request.frame, share: share))
                }
            }
        } catch {
            request.send(error)
            return .nothing
        }
    }

    private func bookmark(named name: String, for request: Request) -> Opened {
        .question { [self] ticket in
            guard let share = share(Self.bytesPerFetch, for: request) else { return }
            coordinator.bookmark(named: name, before: ticket, from: request.connection.source) { result in
                withExtendedLifetime(share) {
                    request.send("bookmark", result) { found, writer in
                        writer.member("name", name)
                        if found == nil { writer.member("value", raw: Array("null".utf8)) }
                        writer.member("value", found?.value)
                        if let sequence = found?.sequence { writer.member("sequence", sequence) }
                    }
                }
            }
        }
    }

    /// Bytes that a fetch takes beside its text.
    private static let bytesPerFetch = 4 << 10
    private static let memoryPerFetchByte = 8
    /// Bytes that a subscription takes beside the names of its entities.
    private static let bytesPerSubscription = 1 << 10
    private static let bytesPerFollowedEntity = 160
}

/// A message that is to be answered: its client, and the parts of it that answers repeat.
struct Request: Sendable {
    let connection: Connection
    let frame: FrameReference

    init(_ arrived: ArrivedFrame, id: String? = nil, tag: [UInt8]? = nil) {
        connection = arrived.connection
        frame = FrameReference(ordinal: arrived.ordinal, id: id, tag: tag)
    }

    /// Sends a message of that type; see ``Connection``.
    func send(
        _ type: String, finishing: Bool = true, capacity: Int = 0, _ members: (inout JSONWriter) -> Void = { _ in }
    ) {
        connection.send(type, about: frame, finishing: finishing, capacity: capacity, members)
    }

    /// Sends a message of that type with what the store has answered, or its error.
    func send<Found>(
        _ type: String, _ result: Result<Found, StoreError>, capacity: Int = 0,
        _ members: (Found, inout JSONWriter) -> Void
    ) {
        switch result {
        case .success(let found): send(type, capacity: capacity) { members(found, &$0) }
        case .failure(let error): send(Fault(error.faultCode, error.message))
        }
    }

    /// Sends that an action of the operator is done.
    func done(_ action: String, _ members: (inout JSONWriter) -> Void) {
        send("done") { writer in
            writer.member("action", action)
            members(&writer)
        }
    }

    func send(_ error: WireError) { connection.send(error, about: frame) }
    func send(_ fault: Fault) { connection.send(fault, about: frame) }

    /// Sends an error, and ends the connection after it.
    func breakOff(_ error: WireError) {
        send(error)
        connection.onHandler { $0.breakOff(error) }
    }
}

/// Cancellation, and the operator's commands.
extension MessageHandler {
    private func cancelJob(_ id: String, before ticket: Int, for request: Request) {
        coordinator.cancel(id, before: ticket, as: request.connection.peer.owner) { result in
            switch result {
            case .cancelled: request.send("cancelled") { $0.member("id", id) }
            case .tooLate(let end):
                let reason = Cancellation.explanation(end, of: id)
                var error = WireError(.tooLate, reason.message)
                error.sequence = reason.committedAs
                request.send(error)
            case .unknown: request.send(.unknownJob(id))
            case .failed(let cause): request.send(WireError(.internal, cause.message))
            }
        }
    }

    private func administer(_ action: AdminAction, for request: Request) {
        guard mayAdminister(request, action == .clients ? nil : action.rawValue) else { return }
        let done: @Sendable ((inout JSONWriter) -> Void) -> Void = { request.done(action.rawValue, $0) }
        let failed: @Sendable (Fault) -> Void = { request.send($0) }
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
                case .success(let changes):
                    done { $0.strings("changes", changes) }
                case .failure(let fault): failed(fault)
                }
            }
        case .clients:
            request.connection.onHandler { handler in done { handler.connections.writeClients(to: &$0) } }
        default: failed(.notHere(action.rawValue))
        }
    }

    private func kick(_ message: KickMessage, for request: Request) {
        guard mayAdminister(request, KickMessage.action) else { return }
        request.connection.onHandler { handler in
            let count = handler.connections.kick(message, except: handler)
            guard count > 0 else {
                return request.send(
                    WireError.unsupported("No other connection is that one: the action `clients` lists them."))
            }
            request.done(KickMessage.action) { $0.member("connections", count) }
        }
    }

    private func migrate(_ message: MigrateMessage, for request: Request) {
        let parts: Logger.Metadata = [
            "dryRun": "\(message.isDryRun)", "removedParts": "\(message.removedParts.rawValue)",
            "namedParts": "\(message.kept.count + message.dropped.count)",
        ]
        guard mayAdminister(request, MigrateMessage.action, parts) else { return }
        guard let migrate = options.migrate else {
            return request.send(Fault.notHere(MigrateMessage.action))
        }
        migrate(message) { [options] result in
            switch result {
            case .success(let changes):
                request.done(MigrateMessage.action) { writer in
                    writer.member("dryRun", message.isDryRun)
                    writer.array("changes", of: changes) { $0.write(to: &$1) }
                    guard let store = options.storeFile else { return }
                    writer.strings("modelFiles", options.modelFiles)
                    writer.member("storeFile", store)
                }
            case .failure(let fault): request.send(fault)
            }
        }
    }

    /// Copies the store beside the writer. It does not wait for jobs, which a pause may hold.
    private func backUp(
        to file: String, replaces: Bool, wantsProgress: Bool, for request: Request
    ) {
        guard mayAdminister(request, nil) else { return }
        coordinator.backup(to: file, replaces: replaces, isWanted: { !request.connection.isClosed }) { progress in
            guard wantsProgress, request.connection.bytes == 0 else { return }
            request.send("progress", finishing: false) { writer in
                writer.member("action", ClientMessage.backupAction)
                writer.member("pages", progress.pages)
                writer.member("ofPages", progress.ofPages)
            }
        } notify: { end in
            switch end {
            case .done(let copy):
                request.done(ClientMessage.backupAction) { writer in
                    writer.member("sequence", copy.sequence)
                    writer.member("bytes", copy.bytes)
                }
            case .failed(let fault): request.send(fault)
            case .stopped: request.connection.finish()
            }
        }
    }

    /// Whether the client may; if not, it gets an error.
    ///
    /// - Parameter action: for a line in the log; nil for none.
    private func mayAdminister(_ request: Request, _ action: String?, _ metadata: Logger.Metadata = [:]) -> Bool {
        let peer = request.connection.peer
        if peer.owner.isPrivileged {
            let metadata = peer.metadata.merging(metadata) { $1 }
            if let action { log.logger.notice("\(action) was asked for.", metadata: metadata) }
            return true
        }
        request.send(
            WireError(
                .unauthorized,
                "The user with the id \(peer.user) may not administer this server: only its own user and root may. Nothing "
                    + "was done."))
        return false
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
    private func listJobs(_ message: JobsMessage, for request: Request) {
        let asker = request.connection.peer.owner
        if let id = message.id { return showJob(id, as: asker, for: request) }
        let running = message.lists.contains(.running) ? coordinator.runningJobs(message.limit, as: asker) : nil
        let slow = message.lists.contains(.slow) ? coordinator.slowJobs(message.limit, as: asker) : nil
        let answer: @Sendable (Result<[FailedJob]?, StoreError>) -> Void = { result in
            request.send("jobs", result, capacity: 4_096) { failed, writer in
                writer.list("running", running) { $0.members($1) }
                writer.list("failed", failed) { $0.members($1) }
                writer.list("slow", slow) { $0.members($1) }
            }
        }
        if let code = message.code, FaultCode(rawValue: code) == nil {
            let codes = FaultCode.allCases.map(\.rawValue).listed
            let reason = "There is no code \(code.quotedBriefly); the codes of failed jobs are \(codes)."
            return request.send(WireError.unsupported(reason, at: "/code"))
        }
        guard message.lists.contains(.failed) else { return answer(.success(nil)) }
        guard let turn = turnToList("list of failed jobs", for: request) else { return }
        let filter = FailureFilter(since: message.since, user: message.user, code: message.code)
        coordinator.failedJobs(message.limit, filter, as: asker) { result in
            turn()
            answer(result.map(Optional.some))
        }
    }
}

/// Rejected records that are kept.
extension MessageHandler {
    /// One search of the ledger for each process at a time.
    ///
    /// - Returns: to be called at its end; nil when another one goes on, and the message is refused.
    private func turnToList(_ what: String, for request: Request) -> (@Sendable () -> Void)? {
        let process = request.connection.peer.process
        guard listing.withLock({ $0.insert(process).inserted }) else {
            request.send(Fault.busy("Another \(what) is being made for this process. Ask again when it is there."))
            return nil
        }
        return { [self] in listing.withLock { _ = $0.remove(process) } }
    }

    /// One request of each process at a time.
    private func answer(_ message: RejectsMessage, for request: Request) {
        let asker = request.connection.peer.owner
        guard let turn = turnToList("list", for: request) else { return }
        if message.drops {
            let selection = message.ids.map(RejectSelection.ids) ?? .through(message.through ?? 0)
            return coordinator.dropRejects(selection, as: asker) { result in
                turn()
                request.send("rejects", result) { $1.member("dropped", $0) }
            }
        }
        var query = RejectQuery(limit: message.limit)
        (query.ids, query.before, query.entity) = (message.ids, message.before, message.entity)
        (query.job, query.wantsRequests) = (message.job, message.wantsRequests)
        coordinator.rejects(query, as: asker) { result in
            turn()
            request.send("rejects", result, capacity: 4_096) { found, writer in
                writer.objects("rejects", of: found.0) { $1.members($0) }
                writer.member("more", found.1)
            }
        }
    }
}

extension MessageHandler {
    private func showJob(_ id: String, as asker: JobOwner, for request: Request) {
        let running = coordinator.runningJobs(of: id, as: asker)
        coordinator.endedJobs(of: id, as: asker) { result in
            request.send("jobs", result, capacity: 1_024) { ended, writer in
                writer.list("running", running) { $0.members($1) }
                writer.list("ended", ended) { $0.members($1) }
            }
        }
    }
}

extension JSONWriter {
    fileprivate mutating func members(_ reject: StoredReject) {
        member("id", reject.id)
        member("job", reject.job)
        member("sequence", reject.sequence)
        member("user", reject.owner.user)
        member("acceptedAt", reject.time)
        member("entity", reject.entity)
        member("errors", raw: reject.errors)
        member("request", raw: reject.request)
    }

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

    fileprivate mutating func members(_ ended: EndedJob) {
        job(ended.id, ended.sequence, ended.owner)
        member("failed", ended.isFailed)
        guard let details = ended.details else { return }
        member("client", details.client)
        member("acceptedAt", details.acceptedAt)
        strings("operations", details.operations)
        strings("entities", details.entities)
        member("records", details.records)
        object("microseconds") { writer in
            for (stage, microseconds) in details.times.named { writer.member(stage, microseconds) }
        }
    }
}
