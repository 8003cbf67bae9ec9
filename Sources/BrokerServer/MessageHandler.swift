internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerStaging
internal import BrokerWire
internal import Logging

/// Opens frames on the workers: a job goes on to the coordinator, anything else is answered here.
///
/// Every message that arrives is finished exactly once on its connection: by the last answer to it, or silently.
final class MessageHandler: Sendable {
    let coordinator: Coordinator
    private let codecs: FrameCodecs
    let options: ServerOptions
    let log: ServerLog
    /// What is held for clients that await the ends of jobs.
    private let awaits = SharedBudget(byteLimit: awaitBytes)
    /// What is held for fetches that wait for their turn.
    let fetches = SharedBudget(byteLimit: fetchBytes)

    /// Of the tags of all that await something; with defaults, that is some ten thousand of them.
    private static let awaitBytes = 16 << 20
    /// Of fetches that are not answered; of ordinary ones, that is some thousand.
    private static let fetchBytes = 16 << 20
    /// One that awaits, beside its tag.
    private static let bytesPerAwait = 512

    init(_ coordinator: Coordinator, _ codecs: FrameCodecs, _ options: ServerOptions, _ log: ServerLog) {
        self.coordinator = coordinator
        self.codecs = codecs
        self.options = options
        self.log = log
    }

    /// Answers what is no job, also when it ends the connection.
    ///
    /// - Parameter memory: asked for what the content and its tape take.
    func open(_ payload: UnsafeRawBufferPointer, _ memory: JobMemory, from connection: Connection) -> Opened {
        do throws(FrameRefusal) {
            let content = try codecs.decode(payload, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            return try answer(envelope, content, memory, connection)
        } catch {
            guard case .fault(let error) = error else { return .noRoom }
            refuse(error, on: connection)
            return .nothing
        }
    }

    /// Opens the frame of a job that was accepted before, by an earlier run of the server: nobody is there to be answered.
    func reopen(_ payload: UnsafeRawBufferPointer, _ logged: LoggedJob, _ memory: JobMemory) -> Opened {
        do throws(FrameRefusal) {
            let content = try codecs.decode(payload, memory)
            let envelope = try ClientEnvelope.decode(parsing: content, allowance: memory)
            guard case .job(let message) = envelope.message else { return .nothing }
            return .job(Job(message, of: envelope, from: logged.owner, content: content) { _ in })
        } catch {
            guard case .fault(let error) = error else { return .noRoom }
            log.logger.critical(
                "A job of the journal cannot be read by this server, and is left out: \(error.message)",
                metadata: ["id": "\(logged.id)", "sequence": "\(logged.sequence)"])
            return .nothing
        }
    }

    /// Answers a frame that cannot be opened, or whose message is not understood.
    func refuse(_ error: WireError, on connection: Connection) {
        if !error.endsConnection {
            var metadata = connection.peer.metadata
            metadata["code"] = "\(error.code.rawValue)"
            log.logger.info("A message was not understood: \(error.message)", metadata: metadata)
        }
        connection.send(error.encoded(), tag: error.tag, finishing: true)
        if error.endsConnection { connection.onHandler { $0.breakOff(error) } }
    }

    private func answer(
        _ envelope: ClientEnvelope, _ content: JSONText, _ memory: JobMemory, _ connection: Connection
    ) throws(FrameRefusal) -> Opened {
        let tag = envelope.tag
        switch envelope.message {
        case .job(let job): return .job(self.job(job, envelope, content, connection))
        case .hello(_, let client):
            log.logger.debug("A client said hello.", metadata: ["client": "\((client ?? "").prefix(100))"])
            connection.send(
                ServerMessageWriter.welcome(
                    server: options.serverName, keepsJournal: coordinator.keepsJournal, limits: limits,
                    entities: coordinator.model.entities.map(\.name),
                    tag: tag), finishing: true)
        case .ping:
            // The answer is as long as the question, and there is a frame of it.
            guard memory.take(content.count * 2) else { throw .noRoom }
            connection.send(ServerMessageWriter.pong(to: envelope.document), tag: tag, finishing: true)
        case .stats:
            var writer = JSONWriter(capacity: 2_048)
            coordinator.writeStatistics(to: &writer)
            connection.send(ServerMessageWriter.stats(members: writer.bytes, tag: tag), finishing: true)
        case .model:
            var writer = JSONWriter()
            coordinator.model.write(to: &writer)
            connection.send(ServerMessageWriter.model(writer.bytes, tag: tag), tag: tag, finishing: true)
        case .fetch(let message): return try fetch(message, content, memory, tag, connection)
        case .cancel(let id): return .question { [self] place in cancelJob(id, before: place, tag, connection) }
        // At once, whatever is in front of it: what a pause holds up ends with it.
        case .admin(let action): administer(action, tag, connection)
        case .backup(let backup): backUp(backup, tag, connection)
        case .await(let id): return .question { [self] place in awaitJob(id, before: place, tag, connection) }
        }
        return .nothing
    }

    private func awaitJob(_ id: String, before place: Int, _ tag: [UInt8]?, _ connection: Connection) {
        let bytes = Self.bytesPerAwait + (tag?.count ?? 0)
        guard awaits.hasRoom else {
            var error = WireError.busy("Too many clients await jobs that have not ended. Ask again when some have.")
            error.id = id
            error.tag = tag
            connection.send(error.encoded(), finishing: true)
            return connection.onHandler { [error] in $0.breakOff(error) }
        }
        awaits.add(bytes)
        connection.answer(awaitOf: id, before: place, tag: tag) { [awaits] in awaits.remove(bytes) }
    }

    private func job(
        _ message: JobMessage, _ envelope: ClientEnvelope, _ content: JSONText, _ connection: Connection
    ) -> Job {
        let tag = envelope.tag
        let notify = message.notify
        let isBrief = message.reply == .none
        return Job(message, of: envelope, from: connection.peer.owner, content: content) { [log] event in
            switch event {
            case .accepted(let id, let sequence):
                connection.send(
                    ServerMessageWriter.accepted(id: id, sequence: sequence, tag: tag), finishing: false)
            case .progress(let id, let staged, let merged):
                // Whoever has something to read learns enough from that.
                guard connection.bytes == 0 else { break }
                connection.send(
                    ServerMessageWriter.progress(id: id, staged: staged, merged: merged, tag: tag), finishing: false)
            case .ended(let outcome):
                switch outcome.result {
                case .completed where !notify.contains(.completed): return connection.finish()
                case .completed: break
                case .failed(let error): log.note(failed: outcome.id, error, of: connection.peer)
                }
                connection.answer(outcome, tag: tag, isBrief: isBrief)
            }
        }
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
