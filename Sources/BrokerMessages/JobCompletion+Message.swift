package import BrokerCoordinator
package import BrokerJSON
internal import BrokerModel
internal import BrokerWire

extension JobCompletion {
    /// The `completed` or `failed` message.
    ///
    /// - Parameter isBrief: for `reply: none`.
    package func message(tag: [UInt8]?, isBrief: Bool) -> [UInt8] {
        if case .failed(let error) = result {
            return ServerMessageWriter.failed(id: id.isEmpty ? nil : id, sequence: sequence, error: error, tag: tag)
        }
        var writer = JSONWriter(capacity: 0)
        writeCompleted(tag: tag, isBrief: isBrief, to: &writer)
        return writer.bytes
    }

    /// Writes the `completed` message to an empty writer; writes nothing for a job that failed.
    package func writeCompleted(tag: [UInt8]?, isBrief: Bool, to writer: inout JSONWriter) {
        guard case .completed(let members, let isDuplicate) = result else { return }
        ServerMessageWriter.writeCompleted(
            id: id, sequence: sequence ?? 0, duplicate: isDuplicate, dryRun: isDryRun,
            members: isBrief ? [] : members, objects: objects?.json, tag: tag, to: &writer
        ) { writer in
            guard let timing else { return }
            writer.key("timing")
            timing.write(to: &writer)
        }
    }
}
