package import BrokerCoordinator
internal import BrokerWire

extension JobCompletion {
    /// The `completed` or `failed` message.
    ///
    /// - Parameter isBrief: for `reply: none`.
    package func message(tag: [UInt8]?, isBrief: Bool) -> [UInt8] {
        switch result {
        case .completed(let members, let isDuplicate):
            ServerMessageWriter.completed(
                id: id, sequence: sequence ?? 0, duplicate: isDuplicate, dryRun: isDryRun,
                members: isBrief ? [] : members,
                objects: objects?.json, tag: tag)
        case .failed(let error):
            ServerMessageWriter.failed(id: id.isEmpty ? nil : id, sequence: sequence, error: error, tag: tag)
        }
    }
}
