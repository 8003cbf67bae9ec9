#if Replication
internal import BrokerJSON
internal import CNATS

/// Encoded entries on their way to the stream, as one atomic batch (ADR-50 of NATS): all of them are stored, at contiguous positions,
/// or none.
struct Group {
    /// The name that each attempt to send the group begins its batch's id with: the last message of the subject shows whether the
    /// group is in the stream.
    let name: String
    let entries: [[UInt8]]
    /// It is stored only as the first group of the whole stream.
    var isFirst = false
    /// An id names one batch: nats-server 2.15.1 does not let a batch begin again.
    private var attempts = 0

    init(name: String, entries: [[UInt8]]) {
        self.name = name
        self.entries = entries
    }

    /// The limit of nats-server.
    static let maximumCount = 1_000
    /// Bytes of all entries, or one entry: a server holds a batch in memory until it is complete.
    static let maximumBytes = 32 << 20

    enum Outcome {
        /// The position of the last entry.
        case stored(Int64)
        /// This attempt is not in the stream. An earlier one may be.
        case refused(JetStreamFailure)
        case unknown(String)
        case stopped
    }

    /// Sends the group once, and waits for the answer.
    ///
    /// - Parameters:
    ///   - position: that of the newest message of the subject; 0 if there is none.
    ///   - deadline: microseconds of the monotonic clock.
    mutating func send(
        to subject: String, after position: Int64, on connection: StreamConnection, deadline: Int64, _ token: StopToken
    ) -> Outcome {
        attempts += 1
        guard let (request, reply) = connection.beginRequest() else { return .unknown("there is no connection") }
        do throws(NATSFailure) {
            for index in entries.indices {
                let isLast = index == entries.count - 1
                let message = try NATSMessage(
                    subject, reply: isLast ? reply : nil, entries[index], headers: headers(of: index, after: position))
                defer { message.destroy() }
                try message.publish(on: connection.connection)
            }
        } catch {
            connection.abandonRequest(request)
            return .unknown(error.text)
        }
        connection.flush()
        switch connection.awaitReply(request, deadline: deadline, token) {
        case .message(let bytes): return outcome(of: bytes)
        case .noResponders: return .unknown("the stream has no leader")
        case .disconnected: return .unknown("the connection was lost")
        case .timedOut: return .unknown("there was no answer; the stream may have no quorum")
        case .stopped: return .stopped
        }
    }

    private func headers(of index: Int, after position: Int64) -> [(String, String)] {
        var headers = [("Nats-Batch-Id", "\(name)-\(attempts)"), ("Nats-Batch-Sequence", "\(index + 1)")]
        if index == 0 { headers.append(("Nats-Expected-Last-Subject-Sequence", "\(position)")) }
        if index == 0, isFirst { headers.append(("Nats-Expected-Last-Sequence", "0")) }
        if index == entries.count - 1 { headers.append(("Nats-Batch-Commit", "1")) }
        return headers
    }

    private func outcome(of answer: [UInt8]) -> Outcome {
        let parsed = StreamConnection.parse(answer) { ack in
            (position: ack["seq"]?.int64 ?? 0, count: Int(ack["count"]?.int64 ?? 0))
        }
        switch parsed {
        case .success(let ack) where ack.position >= ack.count && ack.count == entries.count:
            return .stored(ack.position)
        case .success, nil:
            return .unknown("the answer is \"\(String(decoding: answer.prefix(200), as: UTF8.self))\"")
        case .failure(let failure): return .refused(failure)
        }
    }

    /// Whether a batch of that id is an attempt to send this group.
    func isNamed(byBatch id: String) -> Bool { id.hasPrefix("\(name)-") }
}
#endif
