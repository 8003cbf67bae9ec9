import BrokerModel

/// Bytes that no fault's sentence may exceed, whatever it quotes.
private let longestFault = 4_096

func requireSound(_ fault: Fault) throws {
    try require(fault.code != .internal, "a fault of ours: \(fault)")
    try require(!fault.message.isEmpty, "a fault says nothing")
    try require(fault.message.utf8.count <= longestFault, "a fault has \(fault.message.utf8.count) bytes")
}
