#if Replication
internal import BrokerJSON

/// The newest message of a subject, as the stream's leader has it.
struct LastMessage {
    let position: Int64
    /// Empty for a message of no batch.
    let batch: String
}

extension ReplicatedStream {
    /// nil when the stream has no message of the subject.
    ///
    /// The leader answers: a direct get may be answered by another server, which may not have the newest message yet.
    func lastMessage(of subject: String, _ token: StopToken?) throws(ReplicationError) -> LastMessage? {
        var writer = JSONWriter()
        writer.object { $0.member("last_by_subj", subject) }
        let answer = try connection.call(
            "$JS.API.STREAM.MSG.GET.\(name)", writer.bytes, patience: nil, token,
            read: { answer in
                let message = answer["message"]
                return LastMessage(
                    position: message?["seq"]?.int64 ?? 0, batch: Self.batch(of: message?["hdrs"]?.string ?? ""))
            })
        switch answer {
        case .success(let message): return message
        case .failure(let failure) where failure.code == JetStreamFailure.noMessage: return nil
        case .failure(let failure):
            // Servers that have just started may not know the stream yet.
            guard failure.code == JetStreamFailure.streamNotFound else { throw failure.error(of: connection) }
            _ = try info(patience: nil, token)
            return try lastMessage(of: subject, token)
        }
    }

    /// The id of the batch in headers that are encoded in Base64.
    static func batch(of headers: String) -> String {
        let text = String(decoding: Base64.decode(headers), as: UTF8.self)
        for line in text.split(whereSeparator: { $0.isNewline }) where line.hasPrefix("Nats-Batch-Id:") {
            return String(line.dropFirst("Nats-Batch-Id:".count).drop { $0 == " " })
        }
        return ""
    }
}

private enum Base64 {
    /// The bytes; other characters than those of Base64 are skipped.
    static func decode(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var (bits, count) = (UInt32(0), 0)
        for byte in text.utf8 {
            guard let value = value(of: byte) else { continue }
            bits = bits << 6 | UInt32(value)
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
        return bytes
    }

    private static func value(of byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
#endif
