package import BrokerJSON

/// Writes the content of messages, but for a client's `job`, which `Job` writes. The members are written where they are known.
///
/// A `tag` is JSON text of one value: a client's own, which every answer returns.
package enum MessageWriter {
    /// - Parameter capacity: bytes of the members, about.
    package static func message<Failure: Error>(
        _ type: String, capacity: Int = 0, tag: [UInt8]? = nil,
        _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) -> [UInt8] {
        var writer = JSONWriter(capacity: 0)
        try write(type, capacity: capacity, tag: tag, to: &writer, members)
        return writer.bytes
    }

    /// Writes a message to an empty writer.
    private static func write<Failure: Error>(
        _ type: String, capacity: Int, tag: [UInt8]?, to writer: inout JSONWriter,
        _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        // With room for what a frame adds, so that StoredFrame needs no copy.
        writer.reserve(160 + capacity + (tag?.count ?? 0) + StoredFrame.addedCount)
        try writer.object { writer throws(Failure) in
            writer.member("type", type)
            try members(&writer)
            writer.tag(tag)
        }
    }

    // MARK: - Of a client

    /// - Parameter client: a name for the server's logs.
    package static func hello(client: String?) -> [UInt8] {
        message("hello") { writer in
            writer.member("version", ClientEnvelope.protocolVersion)
            writer.member("client", client)
        }
    }

    // MARK: - Of a server

    /// The maximum bytes of the content of a `ping`: its answer has the same size, and is written while other clients
    /// wait.
    package static let maximumPingCount = 64 << 10

    /// The answer to a `ping`: the same fields, including its `tag`.
    package static func pong(to ping: JSONDocument) -> [UInt8] {
        message("pong", capacity: ping.text.count, tag: nil) { writer in
            for (key, value) in ping.root.members {
                let key = String(decoding: key.bytes, as: UTF8.self)
                guard key != "type" else { continue }
                writer.member(key, value)
            }
        }
    }

    /// Writes a `completed` to an empty writer.
    ///
    /// - Parameters:
    ///   - isDryRun: `dryRun` is written, which is omitted otherwise.
    ///   - members: the outcome; empty for `reply: none`, and then `duplicate` is omitted, too.
    ///   - objects: the array for `reply: objects`.
    ///   - ending: writes further members of the outcome.
    package static func writeCompleted(
        id: String, sequence: Int64, isDuplicate: Bool, isDryRun: Bool = false, members: [UInt8],
        objects: [UInt8]? = nil, tag: [UInt8]?, to writer: inout JSONWriter,
        ending: (inout JSONWriter) -> Void = { _ in }
    ) {
        let capacity = members.count + (objects?.count ?? 0) + timingCount
        write("completed", capacity: capacity, tag: tag, to: &writer) { writer in
            writer.member("id", id)
            writer.member("sequence", sequence)
            if isDryRun { writer.member("dryRun", true) }
            guard !members.isEmpty else { return }
            writer.member("duplicate", isDuplicate)
            writer.rawMembers(members)
            ending(&writer)
            writer.member("objects", raw: objects)
        }
    }

    /// Bytes of the `timing` of most jobs.
    private static let timingCount = 96

    /// The beginning of an `objects` message; the result of the fetch follows, and then
    /// ``objectsEnding(more:last:tag:)``.
    package static let objectsBeginning = Array(#"{"type":"objects","objects":"#.utf8)

    /// - Parameters:
    ///   - more: a limit excluded further objects, or further messages of a stream follow; nil omits it.
    ///   - last: the key of the last object, as JSON text.
    package static func objectsEnding(more: Bool?, last: [UInt8]?, tag: [UInt8]?) -> [UInt8] {
        var writer = JSONWriter(capacity: 32 + (last?.count ?? 0) + (tag?.count ?? 0))
        // A member precedes it.
        writer.raw([] as [UInt8])
        if let more { writer.member("more", more) }
        writer.member("last", raw: last)
        writer.tag(tag)
        return writer.bytes + [UInt8(ascii: "}")]
    }
}

extension JSONWriter {
    /// Writes a member that is JSON text already; writes nothing for nil.
    package mutating func member(_ key: String, raw json: [UInt8]?) {
        guard let json else { return }
        self.key(key)
        raw(json)
    }

    /// Writes the members of an `error` that identify the frame.
    package mutating func reference(_ frame: FrameReference) {
        member("id", frame.id)
        if let ordinal = frame.ordinal { member("frame", ordinal) }
        tag(frame.tag)
    }

    /// The `tag` of a message, returned unchanged; nothing when it had none.
    mutating func tag(_ tag: [UInt8]?) { member("tag", raw: tag) }
}
