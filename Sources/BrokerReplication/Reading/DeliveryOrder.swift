#if Replication
internal import BrokerJSON

/// Where a delivered message is: the tokens of its reply subject,
/// `$JS.ACK.STREAM.CONSUMER.DELIVERIES.POSITION.NUMBER.TIME.PENDING` or, in later versions of the protocol,
/// `$JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.DELIVERIES.POSITION.NUMBER.TIME.PENDING[.RANDOM]`.
struct DeliveryPlace: Equatable {
    var position: Int64
    /// The number of the message among those that the consumer delivered, from 1.
    var number: Int64

    /// nil for other subjects.
    init?(_ reply: UnsafeBufferPointer<UInt8>) {
        guard reply.count > 8, reply[0] == UInt8(ascii: "$"), reply[1] == UInt8(ascii: "J"),
            reply[4] == UInt8(ascii: "A")
        else { return nil }
        var ends: [Int] = []
        ends.reserveCapacity(12)
        for index in reply.indices where reply[index] == UInt8(ascii: ".") { ends.append(index) }
        ends.append(reply.count)
        // $JS and ACK are the first two.
        let first: Int
        switch ends.count {
        case 9: first = 5
        case 11...: first = 7
        default: return nil
        }
        func number(_ token: Int) -> Int64? {
            Int64(decimalDigits: UnsafeBufferPointer(rebasing: reply[(ends[token - 1] + 1)..<ends[token]]))
        }
        guard let position = number(first), let consumed = number(first + 1) else { return nil }
        self.init(position: position, number: consumed)
    }

    init(position: Int64, number: Int64) {
        self.position = position
        self.number = number
    }
}

/// Compares each delivery with the one before. A pure value.
struct DeliveryOrder {
    /// That of the newest entry that was read.
    private(set) var position: Int64
    /// The number of the newest delivery of this consumer.
    private(set) var number: Int64 = 0

    init(after position: Int64) { self.position = position }

    enum Step: Equatable {
        case next
        /// Deliveries were lost between the server and here: read again from ``position``.
        case lostDelivery
        /// Entries are missing in the stream.
        case gap
        case fallingPosition
    }

    /// Another consumer begins, after ``position``.
    mutating func restart() { number = 0 }

    mutating func step(to place: DeliveryPlace) -> Step {
        guard place.number == number + 1 else { return .lostDelivery }
        guard place.position > position else { return .fallingPosition }
        guard place.position == position + 1 else { return .gap }
        number = place.number
        position = place.position
        return .next
    }
}
#endif
