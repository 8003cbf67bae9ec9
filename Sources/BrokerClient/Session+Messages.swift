internal import BrokerJSON
internal import BrokerWire

extension Session {
    /// A message came over a connection.
    mutating func received(_ envelope: ServerEnvelope, on connection: Int) -> Effects {
        guard connection == currentConnection else { return Effects() }
        var effects = Effects()
        if let waiter = requests.remove(tag: envelope.tag) {
            effects.deliveries = [.answered(waiter, .success(envelope))]
            return effects
        }
        switch envelope.message {
        case .completed(let completed): finish(completed.id, .success(completed), into: &effects)
        case .failed(let failed):
            if let id = failed.id { finish(id, .failure(.failed(failed)), into: &effects) }
        case .accepted(let id, let sequence):
            if let job = jobs.inFlight(id) { effects.deliveries = [.accepted(job.waiter, sequence: sequence)] }
        case .welcome(let welcome): welcomed(welcome, on: connection, into: &effects)
        case .error(let error): refused(error, into: &effects)
        // Answers to nobody who still waits, and what newer servers say unasked.
        case .pong, .stats, .model, .other: break
        }
        return effects
    }

    /// What came over a connection cannot be read.
    mutating func received(_ error: WireError, on connection: Int) -> Effects {
        var effects = Effects()
        if connection == currentConnection { abandon(.notUnderstood(error), into: &effects) }
        return effects
    }

    /// Everything unanswered is sent (again) in order, and then whatever has room.
    private mutating func welcomed(_ welcome: Welcome, on connection: Int, into effects: inout Effects) {
        guard link == .connecting(connection: connection) else { return }
        effects.write = jobs.allInFlight.map(\.frame) + requests.frames
        effects.deliveries = [.welcomed(.success(welcome))]
        link = .connected(connection: connection)
        wasWelcomed = true
        reconnection = nil
        lastReason = nil
        admit(into: &effects)
    }

    private mutating func finish(
        _ id: String, _ result: Result<CompletedMessage, BrokerError>, into effects: inout Effects
    ) {
        guard let waiter = jobs.remove(id) else { return }
        effects.deliveries.append(.finished(waiter, result))
        admit(into: &effects)
    }

    private mutating func refused(_ error: ErrorMessage, into effects: inout Effects) {
        if let id = error.id, jobs.inFlight(id) != nil {
            finish(id, .failure(.refused(error)), into: &effects)
        } else if error.error.code == WireCode.busy.rawValue, wasWelcomed {
            // The server is full and closes; it may have room when it is tried again.
            lastReason = error.description
        } else if error.error.code == WireCode.malformedJSON.rawValue, let id = firstMalformedJob() {
            finish(id, .failure(.refused(error)), into: &effects)
        } else {
            abandon(.refused(error), into: &effects)
        }
    }

    /// The first job in flight whose content is not JSON: a caller's bytes can make it so, and then the server's error
    /// cannot bear its id. Looked for only when the server has said so, because looking is as dear as what it does.
    private func firstMalformedJob() -> String? {
        var decoder = FrameDecoder()
        for job in jobs.allInFlight {
            let isMalformed = job.frame.withUnsafeBytes { frame in
                do throws(WireError) {
                    let payload = UnsafeRawBufferPointer(rebasing: frame.dropFirst(FrameScanner.prefixCount))
                    _ = try ClientEnvelope.decode(parsing: try decoder.decode(payload))
                    return false
                } catch {
                    return error.code == .malformedJSON
                }
            }
            if isMalformed { return job.id }
        }
        return nil
    }
}
