#if Replication
internal import BrokerJSON
package import BrokerJournal
internal import CNATS
internal import Synchronization

/// A reader, as an operator sees it.
package struct ReaderState: Sendable {
    /// The server that delivers, from its own copy of the stream.
    package let server: String?
    /// Why nothing can be read now; nil while a server delivers, or would if there was an entry.
    package let waiting: String?
}

/// Reads the entries of all sessions, in the order of their positions, from a position on.
///
/// ``read(bytes:)`` is called by one thread at a time; any thread may call ``stop()`` and read ``state``.
package final class StreamReader: @unchecked Sendable {
    let stream: ReplicatedStream
    private let token = StopToken()
    private let shared = Mutex(Shared())

    private struct Shared {
        var inbox: MessageInbox?
        var isInterrupted = false
        var state = ReaderState(server: nil, waiting: "no server delivers yet")
    }

    // Only the thread that reads touches these.
    private var order: DeliveryOrder
    private var consumer: StreamConsumer?
    private var messages: ArraySlice<NATSMessage> = []

    /// Microseconds between two looks at the connection.
    private static let waitTime: Int64 = 250_000
    /// Microseconds until JetStream is asked again for a consumer.
    private static let pauseTime: Int64 = 200_000

    /// Reads after the newest position that was read before; 0 for none.
    package init(_ stream: ReplicatedStream, after position: Int64) {
        self.stream = stream
        order = DeliveryOrder(after: position)
    }

    deinit { for message in messages { message.destroy() } }

    /// Ends ``read(bytes:)``, for ever.
    package func stop() {
        token.stop()
        stream.connection.wake()
        shared.withLock { $0.inbox }?.wake()
    }

    /// Has the current call of ``read(bytes:)``, or else the next one, return at once, if only an empty list.
    package func interrupt() {
        let inbox = shared.withLock { shared in
            shared.isInterrupted = true
            return shared.inbox
        }
        inbox?.wake()
    }

    private func takeInterrupt() -> Bool {
        shared.withLock { shared in
            defer { shared.isInterrupted = false }
            return shared.isInterrupted
        }
    }

    package var state: ReaderState { shared.withLock { $0.state } }

    /// Waits for the next entries, and returns them. Up to about 34 MiB that were not returned yet are held in memory.
    ///
    /// - Parameter bytes: entries are returned until their payloads have that many, but one at least. Fewer are returned when no
    ///   more have arrived, and none after ``interrupt()``.
    /// - Returns: nil after ``stop()``.
    /// - Throws: A halt, with the first position that was not read in its sentence. The entries before it were returned.
    package func read(bytes: Int) throws(ReplicationError) -> [LogEntry]? {
        do throws(ReplicationError) {
            return try readEntries(bytes)
        } catch {
            guard error.code == .stopped else { throw error }
            return nil
        }
    }

    private func readEntries(_ bytes: Int) throws(ReplicationError) -> [LogEntry] {
        var entries: [LogEntry] = []
        var count = 0
        while true {
            try stream.connection.checkStopped(token)
            while let message = messages.popFirst() {
                // The error of the next entry is thrown by the next call.
                guard let entry = try entry(of: message, throwing: entries.isEmpty) else { continue }
                entries.append(entry)
                count += entry.payload.count
                if count >= bytes { return entries }
            }
            if !entries.isEmpty, consumer.map({ !$0.hasMessages }) ?? true { return entries }
            if takeInterrupt() { return entries }
            let consumer = try liveConsumer()
            consumer.pull()
            messages = consumer.take(until: monotonicMicroseconds() + Self.waitTime) { self.isWoken }[...]
        }
    }

    private var isWoken: Bool { isStopped || shared.withLock { $0.isInterrupted } }

    private var isStopped: Bool { token.isStopped || stream.connection.events.state.withLock { $0.isStopped } }
}

extension StreamReader {
    /// Takes a message: an entry is returned; nil is none.
    ///
    /// - Parameter isFirst: else an error is not thrown, and the message is read again by the next call.
    private func entry(of message: NATSMessage, throwing isFirst: Bool) throws(ReplicationError) -> LogEntry? {
        defer { message.destroy() }
        guard let consumer else { return nil }
        guard let place = DeliveryPlace(message.reply) else {
            switch consumer.status(of: message) {
            case .alive(let number) where number == order.number: break
            case .pullEnded: consumer.pull()
            case .alive, .dead: abandonConsumer()
            }
            return nil
        }
        consumer.received()
        let before = order
        switch order.step(to: place) {
        case .next: break
        case .lostDelivery:
            abandonConsumer()
            return nil
        case .gap, .fallingPosition:
            // From here on it is read again, and the halt is thrown then, unless a consumer was at fault.
            guard isFirst else {
                abandonConsumer()
                return nil
            }
            throw try halt(at: place)
        }
        do throws(ReplicationError) {
            return try EntryEncoding.decode(message.bytes, at: place.position, of: stream.identity)
        } catch {
            order = before
            abandonConsumer()
            guard isFirst else { return nil }
            throw error
        }
    }

    private func halt(at place: DeliveryPlace) throws(ReplicationError) -> ReplicationError {
        abandonConsumer()
        guard place.position > order.position else {
            return ReplicationError(
                .fallingPosition,
                "The log \(stream.name) delivered position \(place.position) after \(order.position). Nothing of it was applied. "
                    + "Compare the stream's copies, then start again.")
        }
        try checkTrimmed(try stream.info(patience: nil, token).status)
        return ReplicationError(
            .gap,
            "The log \(stream.name) lacks the positions \(order.position + 1) to \(place.position - 1). Nothing after them was "
                + "applied. Compare the stream's copies, and start this replica again from a backup of another.")
    }

    private func checkTrimmed(_ status: StreamStatus) throws(ReplicationError) {
        guard status.firstPosition > order.position + 1 else { return }
        throw ReplicationError(
            .trimmed,
            "The log \(stream.name) begins at position \(status.firstPosition); this replica has applied it up to "
                + "\(order.position) and needs the entries between. Start it again from a backup of another replica.")
    }

    // MARK: - Consumers

    private func abandonConsumer() {
        consumer = nil
        for message in messages { message.destroy() }
        messages = []
    }

    /// The consumer, or a new one after ``order``'s position when it has died.
    private func liveConsumer() throws(ReplicationError) -> StreamConsumer {
        if let consumer, !consumer.isDead { return consumer }
        if consumer != nil {
            shared.withLock { $0.state = ReaderState(server: nil, waiting: "the server that delivered is silent") }
        }
        abandonConsumer()
        var shortSince: (time: Int64, leader: String?)?
        while true {
            let status = try stream.info(patience: nil, token).status
            try checkTrimmed(status)
            let reason: String
            if status.lastPosition < order.position {
                reason = "the leader lacks position \(order.position)"
                let now = monotonicMicroseconds()
                if let since = shortSince, since.leader == status.leader {
                    // A leader that was just elected may not have applied everything yet.
                    guard now - since.time < stream.requirements.settlingTime else {
                        throw stream.endsBefore(order.position, status)
                    }
                } else {
                    shortSince = (now, status.leader)
                }
            } else {
                switch try StreamConsumer.open(stream, after: order.position, token) {
                case .opened(let consumer):
                    order.restart()
                    self.consumer = consumer
                    shared.withLock {
                        $0.inbox = consumer.inbox
                        $0.state = ReaderState(server: consumer.server, waiting: nil)
                    }
                    return consumer
                case .failed(let text): reason = text
                }
            }
            shared.withLock { $0.state = ReaderState(server: nil, waiting: reason) }
            try stream.connection.pause(Self.pauseTime, token)
        }
    }
}

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

/// A pull consumer without acknowledgements: one server of the stream sends its messages, from a position on, as many as were asked
/// for. It lives in the memory of that server, and ends with it.
///
/// Used by one thread; threads of libnats add the messages.
final class StreamConsumer {
    /// The server that delivers, from its own copy.
    let server: String?
    private let connection: StreamConnection
    private let stream: String
    private let id: SessionID
    private let name: String
    let inbox: MessageInbox
    /// The connection that the requests were sent on: the server forgets them with it.
    private let connections: Int
    /// Messages that were asked for and have neither arrived nor been refused.
    private var asked = 0
    private var pulls = 0
    /// When the server was heard of last, in microseconds of the monotonic clock.
    private var heard = monotonicMicroseconds()

    /// Messages that may be on their way.
    private static let mostAsked = 8_192
    /// Microseconds. The server sends something that often, if only a sign of life.
    private static let heartbeat: Int64 = 500_000
    /// Microseconds without a sign of life until the consumer is taken for dead.
    private static let longestSilence: Int64 = 2_000_000
    /// Microseconds that a request for messages is valid.
    private static let pullTime: Int64 = 30_000_000
    /// Nanoseconds until the server forgets a consumer that is not used.
    private static let inactiveTime: Int64 = 60_000_000_000
    /// Bytes of one request: the largest message, with its subjects and headers.
    private static let pullBytes = EntryEncoding.largest + (16 << 10)

    /// Microseconds until another consumer is asked for. JetStream may have chosen a server that has just died: it answers
    /// nothing then, as often as the same one is asked for.
    private static let patience: Int64 = 1_000_000

    /// Creates a consumer on the servers. Blocks until they answer, or for some seconds.
    ///
    /// - Returns: the reason when there is none now.
    static func open(
        _ stream: ReplicatedStream, after position: Int64, _ token: StopToken
    ) throws(ReplicationError) -> Opening {
        let id = SessionID()
        let name = MessageRouter.consumerName(id)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("stream_name", stream.name)
            writer.member("action", "create")
            writer.object("config") { writer in
                writer.member("name", name)
                writer.member("deliver_policy", "by_start_sequence")
                writer.member("opt_start_seq", position + 1)
                writer.member("ack_policy", "none")
                writer.member("replay_policy", "instant")
                writer.member("inactive_threshold", inactiveTime)
                writer.member("num_replicas", 1)
                writer.member("mem_storage", true)
            }
        }
        do throws(ReplicationError) {
            let answer = try stream.connection.call(
                "$JS.API.CONSUMER.CREATE.\(stream.name).\(name)", writer.bytes, patience: patience, token,
                read: { $0["cluster"]?["leader"]?.string })
            switch answer {
            case .failure(let failure): return .failed(failure.text)
            case .success(let server): return .opened(StreamConsumer(stream, id, server))
            }
        } catch {
            guard error.code == .unavailable || error.code == .noJetStream else { throw error }
            return .failed(error.message)
        }
    }

    enum Opening {
        case opened(StreamConsumer)
        case failed(_ reason: String)
    }

    private init(_ stream: ReplicatedStream, _ id: SessionID, _ server: String?) {
        self.server = server
        self.id = id
        connection = stream.connection
        self.stream = stream.name
        name = MessageRouter.consumerName(id)
        connections = connection.state.connections
        inbox = connection.router.open(id)
    }

    deinit {
        connection.router.close(id)
        natsConnection_PublishString(connection.connection, "$JS.API.CONSUMER.DELETE.\(stream).\(name)", "")
    }

    /// Whether the server, or the connection to it, has died.
    var isDead: Bool {
        monotonicMicroseconds() - heard > Self.longestSilence || connection.state.connections != connections
            || !connection.state.isConnected
    }

    /// Asks for messages when few are on their way.
    func pull() {
        guard asked <= Self.mostAsked / 2 else { return }
        pulls += 1
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("batch", Self.mostAsked - asked)
            writer.member("max_bytes", Self.pullBytes)
            writer.member("expires", Self.pullTime * 1_000)
            writer.member("idle_heartbeat", Self.heartbeat * 1_000)
        }
        // Without an answer the consumer is dead after a while.
        natsConnection_PublishRequest(
            connection.connection, "$JS.API.CONSUMER.MSG.NEXT.\(stream).\(name)",
            connection.router.subject(of: id, pulls), writer.bytes,
            Int32(writer.count))
        asked = Self.mostAsked
    }

    /// Waits for messages until a time of the monotonic clock, and takes all that have arrived, in their order. The caller owns
    /// them.
    func take(until deadline: Int64, _ isStopped: () -> Bool) -> [NATSMessage] {
        let messages = inbox.take(until: deadline, isStopped)
        if !messages.isEmpty { heard = monotonicMicroseconds() }
        return messages
    }

    var hasMessages: Bool { !inbox.isEmpty }

    /// A message of the stream has been taken.
    func received() { asked -= 1 }

    enum Status: Equatable {
        /// The number of the newest message that the server has sent.
        case alive(Int64)
        case pullEnded
        case dead
    }

    /// Reads a message that is none of the stream: a sign of life, or the end of a request.
    func status(of message: NATSMessage) -> Status {
        let text = message.header("Description") ?? ""
        switch message.header("Status") {
        case "100": return .alive(message.header("Nats-Last-Consumer").flatMap { Int64($0) } ?? 0)
        case "404", "408": break
        case "409" where text.hasPrefix("Message Size Exceeds") || text.hasPrefix("Batch Completed"): break
        default: return .dead
        }
        asked = max(0, asked - (message.header("Nats-Pending-Messages").flatMap { Int($0) } ?? asked))
        return .pullEnded
    }
}
#endif
