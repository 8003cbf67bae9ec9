internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerModel
internal import BrokerStaging
internal import BrokerWire

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
