import BrokerJSON
import BrokerModel
import BrokerStore

@testable import BrokerCoordinator

/// The answers to clients, over all runs of the server.
struct SimulationAnswers {
    /// By sequence: the delivery to which it was sent.
    var sequences: [Int64: Int] = [:]
    /// Sequences of accepted jobs while there is a journal.
    var accepted: Set<Int64> = []
    /// Sequences of jobs that were reported as cancelled.
    var cancelled: Set<Int64> = []
    /// The jobs that failed in this run of the server, by sequence, with their ids. Their lines follow, unless the server
    /// crashes before, a later job of the id replaces the line, or a job of the id is committed.
    var failed: [Int64: String] = [:]
    var completed: [SimulatedStore.Effect] = []
    /// Effects that were looked at already.
    var checkedEffects = 0
    var ids: Set<String> = []
}

extension Simulation {
    private static let cancelledError: [UInt8] = {
        var writer = JSONWriter()
        Fault.cancelled.write(to: &writer)
        return writer.bytes
    }()

    private static let busyError = Array(#"{"code":"busy""#.utf8)

    // MARK: - Of what the server does

    /// A job is about to be applied.
    mutating func checkMerge(_ job: ReadyJob, _ sequence: Int64, _ before: SimulatedStore) {
        note("merges \(job.id) at \(sequence)")
        if let delivery = server.deliveries[job.accepted.arrival], case .steps = job.work,
            deliveries[delivery].wasCancelled || answers.cancelled.contains(sequence)
        {
            violate("\(job.id) was reported cancelled, and is merged at \(sequence)")
        }
        if let newest = before.contents.effects.last?.sequence, newest >= sequence {
            violate("\(sequence) takes effect after \(newest)")
        }
        guard let disk else { return }
        if !disk.holds(sequence) { violate("\(sequence) is merged, and is not in the log") }
        if let missed = disk.jobs(after: before.contents.applied).first?.position, missed < sequence {
            violate("\(sequence) is merged before \(missed), which is in the log and not applied")
        }
    }

    /// Each id takes effect once, and in the order of sequences.
    mutating func checkEffects() {
        let effects = store.durable.effects
        for effect in effects.dropFirst(answers.checkedEffects) {
            if !answers.ids.insert(effect.id).inserted { violate("\(effect.id) takes effect twice") }
        }
        answers.checkedEffects = effects.count
    }

    // MARK: - Checks of answers

    mutating func takeNotices() {
        while violation == nil {
            let notices = server.notices.withLock { notices in
                defer { notices = [] }
                return notices
            }
            if notices.isEmpty { return }
            for notice in notices { take(notice) }
        }
    }

    private mutating func take(_ notice: SimulatedNotice) {
        switch notice {
        case .event(let delivery, .accepted(let id, let sequence)): accepted(delivery, id, sequence)
        case .event(let delivery, .ended(let outcome)): ended(delivery, outcome)
        case .event(_, .progress): break
        case .question(let delivery, let ticket): asked(delivery, ticket)
        case .cancellation(let delivery, let answer):
            note("delivery \(delivery): \(answer)")
            answered(delivery)
        case .awaited(let delivery, let outcome):
            if let outcome, outcome.isCommitted { checkCommitted(outcome) }
            answered(delivery)
        case .passed(let delivery):
            let ticket = deliveries[delivery].ticket
            if messages[deliveries[delivery].message].kind == .barrier, server.begun.contains(where: { $0 < ticket }) {
                violate("a job before ticket \(ticket) has not ended, and its waiters are notified")
            }
            answered(delivery)
        case .reopened(let frame):
            deliveries[server.deliveries[frame.arrival]!].ticket = frame.ticket
            server.opening.append(frame)
        case .room(let connection):
            for number in clients.indices where clients[number].connection?.number == connection {
                clients[number].connection?.waitsForRoom = false
            }
        }
    }

    private mutating func asked(_ delivery: Int, _ ticket: Int) {
        let message = messages[deliveries[delivery].message]
        deliveries[delivery].ticket = ticket
        switch message.kind {
        case .cancel: server.cancel(message.id!, before: ticket, as: message.owner, delivery)
        case .await:
            let notices = server.notices
            server.await(message.id!, before: ticket, as: message.owner) { outcome in
                notices.withLock { $0.append(.awaited(delivery: delivery, outcome)) }
            }
        case .barrier: server.passJobs(before: ticket, delivery)
        case .job, .nothing: violate("delivery \(delivery) is no question")
        }
    }

    /// Gives back whether the answer leaves on a connection.
    @discardableResult private mutating func answered(_ delivery: Int) -> Int? {
        if deliveries[delivery].isAnswered { violate("delivery \(delivery) is answered twice") }
        deliveries[delivery].isAnswered = true
        guard let connection = deliveries[delivery].connection else { return nil }
        guard let client = clients.firstIndex(where: { $0.connection?.number == connection }) else { return nil }
        clients[client].connection?.toClient.append(deliveries[delivery].message)
        return client
    }

    private mutating func accepted(_ delivery: Int, _ id: String, _ sequence: Int64) {
        note("delivery \(delivery): \(id) is accepted at \(sequence)")
        if deliveries[delivery].isAnswered { violate("delivery \(delivery) is accepted after its end") }
        checkSequence(sequence, delivery)
        guard let disk else { return }
        answers.accepted.insert(sequence)
        if !disk.holds(sequence), !store.durable.ended.contains(sequence) {
            violate("\(sequence) is reported accepted, and is not on the disk")
        }
    }

    private mutating func ended(_ delivery: Int, _ outcome: JobCompletion) {
        let client = answered(delivery)
        guard case .completed(_, let isDuplicate) = outcome.result else {
            return failed(delivery, outcome)
        }
        note("delivery \(delivery): \(outcome.id) completed at \(outcome.sequence ?? 0), duplicate: \(isDuplicate)")
        checkCommitted(outcome)
        guard let sequence = outcome.sequence, !isDuplicate else { return }
        checkSequence(sequence, delivery)
        guard let client, let connection = clients[client].connection else { return }
        if connection.newestCompleted >= sequence {
            violate("\(sequence) is sent as completed after \(connection.newestCompleted)")
        }
        clients[client].connection?.newestCompleted = sequence
    }

    private mutating func failed(_ delivery: Int, _ outcome: JobCompletion) {
        guard case .failed(let error) = outcome.result else { return }
        note(
            """
            delivery \(delivery): \(outcome.id) failed at \(outcome.sequence ?? 0): \(String(decoding: error, as: UTF8.self))
            """)
        if let sequence = outcome.sequence { checkSequence(sequence, delivery) }
        if disk != nil, error.starts(with: Self.busyError), outcome.sequence != nil {
            violate("\(outcome.id) failed for want of memory, and the log has it")
        }
        guard error == Self.cancelledError else {
            if let sequence = outcome.sequence { answers.failed[sequence] = outcome.id }
            return
        }
        deliveries[delivery].wasCancelled = true
        guard let sequence = outcome.sequence else { return }
        answers.cancelled.insert(sequence)
        if store.contents.effects.contains(where: { $0.sequence == sequence }) {
            violate("\(outcome.id) is reported cancelled, and has taken effect at \(sequence)")
        }
        if let disk, !disk.cancelled.contains(sequence), !store.durable.ended.contains(sequence) {
            violate("\(sequence) is reported cancelled, and is not so on the disk")
        }
    }

    /// A sequence is sent for one job only, whatever happens.
    private mutating func checkSequence(_ sequence: Int64, _ delivery: Int) {
        if let other = answers.sequences[sequence], other != delivery {
            // A replay sends nothing, and the job is the same; one that was sent again has a sequence of its own.
            let isReplay = deliveries[delivery].connection == nil
            if !isReplay || deliveries[other].message != deliveries[delivery].message {
                violate("\(sequence) is sent for deliveries \(other) and \(delivery)")
            }
        } else {
            answers.sequences[sequence] = delivery
        }
        // With a log, the log has every job that is sent.
        if disk == nil, sequence > store.durable.reservedThrough { violate("\(sequence) is sent, and not reserved") }
    }

    private mutating func checkCommitted(_ outcome: JobCompletion) {
        let effect = SimulatedStore.Effect(sequence: outcome.sequence ?? 0, id: outcome.id)
        if !store.durable.effects.contains(effect) {
            return violate("\(effect.id) is reported completed at \(effect.sequence) before that is durable")
        }
        answers.completed.append(effect)
    }

    // MARK: - When nothing can happen any more

    mutating func checkEnd() {
        checkEffects()
        let jobTable = server.jobTable
        if jobTable.count != 0 || jobTable.jobCount != 0 || jobTable.unopened != 0 || jobTable.bytes != 0 {
            violate(
                "\(jobTable.count) frames are in flight at the end, \(jobTable.jobCount) jobs, \(jobTable.bytes) bytes")
        }
        if !jobTable.admission.isEmpty || !jobTable.application.isEmpty || !jobTable.running.isEmpty
            || !jobTable.cancelled.isEmpty || !jobTable.cancellations.isEmpty || !jobTable.unrecorded.isEmpty
        {
            violate("something is left in the flight at the end")
        }
        if server.isReplaying || !server.pending.isEmpty { violate("the replay does not end") }
        for (number, client) in clients.enumerated() where !client.inFlight.isEmpty || !client.waiting.isEmpty {
            violate("client \(number) waits for \(client.inFlight) and has not sent \(client.waiting)")
        }
        for (number, delivery) in deliveries.enumerated() where delivery.run == server.run && !delivery.isAnswered {
            // The sender of a job of the journal, cancelled before the crash, got the answer then.
            let wasCancelled = delivery.connection == nil && messages[delivery.message].kind == .job
            if !wasCancelled { violate("delivery \(number) of message \(delivery.message) has no answer") }
        }
        let durable = store.durable
        for sequence in answers.accepted.sorted() where !durable.ended.contains(sequence) {
            violate("\(sequence) was reported accepted, and never applied")
        }
        for sequence in answers.cancelled.sorted() where !durable.ended.contains(sequence) && disk != nil {
            violate("\(sequence) was reported cancelled, and lost its ticket")
        }
        for (sequence, id) in answers.failed.sorted(by: { $0.key < $1.key })
        where !durable.ended.contains(sequence) {
            let line = durable.ledger[id]
            if line?.isFailure ?? true, line?.sequence ?? 0 < sequence {
                violate("\(sequence) failed, and has no line")
            }
        }
        let sequences = durable.effects.map(\.sequence)
        if sequences != sequences.sorted() { violate("effects are not in order: \(sequences)") }
        for effect in answers.completed where !durable.effects.contains(effect) {
            violate("\(effect.id) was reported completed at \(effect.sequence), and is gone")
        }
    }
}
