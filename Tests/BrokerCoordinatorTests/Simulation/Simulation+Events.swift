import BrokerJournal

@testable import BrokerCoordinator

extension Simulation {
    mutating func happen(_ event: Event) {
        server.time += Int64(random(1...50_000))
        switch event.kind {
        case .connect: connect(event.client)
        case .send: send(event.client)
        case .arrive: arrive(event.client)
        case .receive: receive(event.client)
        case .ask: ask(event.client)
        case .drop:
            chances.drops -= 1
            clients[event.client].connection = nil
        case .pause:
            chances.pauses -= 1
            server.jobTable.isPaused = true
        case .resume:
            server.jobTable.isPaused = false
            server.perform(Effects(notifies: server.jobTable.hasWork))
        case .crash: crash()
        default: happenInServer(event.kind)
        }
    }

    private mutating func happenInServer(_ kind: Kind) {
        switch kind {
        case .replay: replay()
        case .open:
            let position = random(0...server.opening.count - 1)
            let frame = server.opening.remove(at: position)
            let message = messages[deliveries[server.deliveries[frame.arrival]!].message]
            server.open(frame, message)
        case .stage:
            let position = random(0...server.staging.count - 1)
            server.stage(position)
        case .search:
            let position = random(0...server.searches.count - 1)
            server.search(position, in: store)
        case .complete:
            let notify = server.completions.removeFirst()
            notify()
        case .take:
            var jobs: [(ReadyJob, Int64, SimulatedStore)] = []
            server.takeBatch(&store) { jobs.append(($0, $1, $2)) }
            for (job, sequence, store) in jobs { checkMerge(job, sequence, store) }
        case .alone:
            var jobs: [(ReadyJob, Int64, SimulatedStore)] = []
            let fails = takeChance(\.storeFaults)
            server.applyAlone(&store, fails: fails) { jobs.append(($0, $1, $2)) }
            for (job, sequence, store) in jobs { checkMerge(job, sequence, store) }
            server.notifyLog(store)
        case .commit:
            let fails = takeChance(\.storeFaults)
            server.commit(&store, fails: fails)
            checkEffects()
        case .settle:
            let microseconds: Int64 = random(0...3) == 0 ? 200_000 : 100
            server.settleTransaction(took: microseconds)
            server.notifyLog(store)
        case .keep: server.recordFailures(&store)
        case .gather: server.gather()
        case .sync:
            if takeChance(\.logFaults) { return reportSynced(isFull: true) }
            disk?.sync(server.stored)
            server.areSynced = true
        case .notifyLog: reportSynced(isFull: false)
        case .trim: disk?.trim(through: server.log?.appliedThrough ?? 0)
        default: break
        }
        if server.isReplaying, server.pending.isEmpty, server.jobTable.count == 0 { server.isReplaying = false }
    }

    private mutating func reportSynced(isFull: Bool) {
        do throws(LogViolation) {
            try server.reportSynced(isFull: isFull)
        } catch {
            violate("the log delivers what cannot be next: \(error)")
        }
    }

    /// Something goes wrong, if it may still.
    private mutating func takeChance(_ chance: WritableKeyPath<Chances, Int>) -> Bool {
        guard chances[keyPath: chance] > 0, random(0...3) == 0 else { return false }
        chances[keyPath: chance] -= 1
        note("fails")
        return true
    }

    // MARK: - Clients

    private mutating func connect(_ number: Int) {
        clients[number].connection = SimulatedConnection(number: nextConnection, client: number)
        nextConnection += 1
        // Whether a job without an id was accepted is unknown: it is not sent again.
        clients[number].inFlight.removeAll { messages[$0].id == nil }
        clients[number].again = clients[number].inFlight
    }

    private mutating func send(_ number: Int) {
        let message: Int
        if clients[number].again.isEmpty {
            message = clients[number].waiting.removeFirst()
            clients[number].inFlight.append(message)
        } else {
            message = clients[number].again.removeFirst()
        }
        note("message \(message) \(messages[message].id ?? "without id")")
        clients[number].connection?.toServer.append(message)
        if messages[message].id != nil, takeChance(\.doubles) {
            clients[number].connection?.toServer.append(message)
        }
    }

    private mutating func ask(_ number: Int) {
        chances.asks -= 1
        let kinds: [SimulatedMessage.Kind] = [.cancel, .cancel, .cancel, .await, .barrier, .nothing]
        let kind = kinds[random(0...kinds.count - 1)]
        var message = SimulatedMessage(kind: kind, client: number, owner: clients[number].owner)
        message.id = messages.compactMap(\.id).randomElement(using: &generator) ?? "unknown"
        note("message \(messages.count) \(kind) \(message.id!)")
        clients[number].connection?.toServer.append(messages.count)
        messages.append(message)
    }

    private mutating func receive(_ number: Int) {
        guard let answered = clients[number].connection?.toClient.removeFirst() else { return }
        clients[number].inFlight.removeAll { $0 == answered }
        clients[number].again.removeAll { $0 == answered }
    }

    // MARK: - The server

    private mutating func arrive(_ number: Int) {
        guard let connection = clients[number].connection else { return }
        guard server.hasRoom(for: connection.number) else {
            clients[number].connection?.waitsForRoom = true
            return
        }
        let message = connection.toServer[0]
        clients[number].connection?.toServer.removeFirst()
        deliveries.append(SimulatedDelivery(message: message, run: server.run, connection: connection.number))
        let ticket = admit(message, from: connection.number)
        note("message \(message) is delivery \(deliveries.count - 1) at ticket \(ticket)")
    }

    /// Admits the newest delivery. Returns its ticket.
    private mutating func admit(_ message: Int, from source: Int, _ job: JournaledJob? = nil) -> Int {
        do throws(LogViolation) {
            let ticket = try server.admit(deliveries.count - 1, message, from: source, job)
            deliveries[deliveries.count - 1].ticket = ticket
            return ticket
        } catch {
            violate("the log delivers what cannot be next: \(error)")
            return -1
        }
    }

    private mutating func replay() {
        let (job, message) = server.pending.removeFirst()
        deliveries.append(SimulatedDelivery(message: message, run: server.run, connection: nil))
        _ = admit(message, from: 0, job)
        note("message \(message) of sequence \(job.sequence) is delivery \(deliveries.count - 1)")
    }

    /// Unsynced data is lost; the beginning of the bytes that were being written may be there.
    private mutating func crash() {
        chances.crashes -= 1
        answers.failed = [:]
        if disk != nil, !server.syncing.isEmpty, !server.areSynced {
            let durable = random(0...server.syncing.count)
            disk?.sync(server.stored.prefix(durable))
            note("of \(server.syncing.count) entries \(durable) are on the disk")
        }
        for number in clients.indices { clients[number].connection = nil }
        server = SimulatedServer(run: server.run + 1, limits, bug, store: &store, disk: disk)
        note("applied \(store.durable.applied), to be replayed: \(server.pending.map(\.job.sequence))")
    }
}
