#if Replication
internal import BrokerJSON
internal import CNATS

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
    private static let pullBytes = ReplicatedEntry.largest + (16 << 10)

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
            writer.key("config")
            writer.object { writer in
                writer.member("name", name)
                writer.member("deliver_policy", "by_start_sequence")
                writer.member("opt_start_seq", position + 1)
                writer.member("ack_policy", "none")
                writer.member("replay_policy", "instant")
                writer.member("inactive_threshold", inactiveTime)
                writer.member("num_replicas", 1)
                writer.key("mem_storage")
                writer.bool(true)
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

    /// Waits for messages, and takes all that have arrived, in their order. The caller owns them.
    ///
    /// - Parameter deadline: microseconds of the monotonic clock.
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
