internal import BrokerJSON
internal import BrokerWire

/// A `completed` as the server writes it.
public func completedMessage(
    id: String, sequence: Int64, isDuplicate: Bool, members: [UInt8], tag: [UInt8]? = nil
) -> [UInt8] {
    var writer = JSONWriter(capacity: 0)
    MessageWriter.writeCompleted(
        id: id, sequence: sequence, isDuplicate: isDuplicate, members: members, tag: tag, to: &writer)
    return writer.bytes
}
