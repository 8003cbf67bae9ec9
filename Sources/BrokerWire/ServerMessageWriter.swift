package import BrokerJSON

/// Writes the content of the messages from a server to a client, except `error` (``WireError/encoded()``).
///
/// A `tag` is that of the client's message, as JSON text. Members are given as JSON text without braces.
package enum ServerMessageWriter {
    /// - Parameters:
    ///   - keepsJournal: accepted jobs are on the disk of the server.
    ///   - durability: where accepted jobs are, as a word of the protocol.
    ///   - replica: the server's name among those that share its log; nil without such a log.
    ///   - limits: the members of `limits`.
    package static func welcome(
        version: Int = ClientEnvelope.protocolVersion, server: String, keepsJournal: Bool, durability: String,
        replica: String?, limits: [UInt8],
        role: String,
        entities: [String],
        tag: [UInt8]?
    ) -> [UInt8] {
        message("welcome", capacity: limits.count + 32 * entities.count, tag: tag) { writer in
            writer.member("version", version)
            writer.member("server", server)
            writer.member("journal", keepsJournal)
            writer.member("durability", durability)
            if let replica { writer.member("replica", replica) }
            writer.array("features") { writer in
                for feature in JobMessage.features { writer.string(feature) }
            }
            writer.member("role", role)
            writer.object("limits") { $0.rawMembers(limits) }
            writer.array("entities") { writer in
                for entity in entities { writer.string(entity) }
            }
        }
    }

    /// The maximum bytes of the content of a `ping`: its answer has the same size, and is written while other clients
    /// wait.
    package static let maximumPingCount = 64 << 10

    /// The answer to a `ping`: the same fields, including its `tag`.
    package static func pong(to ping: JSONDocument) -> [UInt8] {
        message("pong", capacity: ping.text.count, tag: nil) { writer in
            for (key, value) in ping.root.members {
                let key = String(decoding: key.bytes, as: UTF8.self)
                guard key != "type" else { continue }
                writer.key(key)
                writer.value(value)
            }
        }
    }

    package static func accepted(id: String, sequence: Int64, tag: [UInt8]?) -> [UInt8] {
        message("accepted", capacity: 0, tag: tag) { $0.jobMembers(id: id, sequence: sequence) }
    }

    /// - Parameters:
    ///   - staged: rows of the job that are staged.
    ///   - merged: of these, rows that are merged.
    package static func progress(id: String, staged: Int, merged: Int, tag: [UInt8]?) -> [UInt8] {
        message("progress", capacity: 0, tag: tag) { writer in
            writer.jobMembers(id: id, sequence: nil)
            writer.member("staged", staged)
            writer.member("merged", merged)
        }
    }

    /// - Parameters:
    ///   - dryRun: `dryRun` is written, which is omitted otherwise.
    ///   - members: the outcome; empty for `reply: none`, and then `duplicate` is omitted, too.
    ///   - objects: the array for `reply: objects`.
    ///   - ending: writes further members of the outcome.
    package static func completed(
        id: String, sequence: Int64, duplicate: Bool, dryRun: Bool = false, members: [UInt8],
        objects: [UInt8]? = nil,
        tag: [UInt8]?, ending: (inout JSONWriter) -> Void = { _ in }
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 0)
        writeCompleted(
            id: id, sequence: sequence, duplicate: duplicate, dryRun: dryRun, members: members, objects: objects,
            tag: tag, to: &writer, ending: ending)
        return writer.bytes
    }

    /// Writes ``completed(id:sequence:duplicate:dryRun:members:objects:tag:ending:)`` to an empty writer.
    package static func writeCompleted(
        id: String, sequence: Int64, duplicate: Bool, dryRun: Bool, members: [UInt8],
        objects: [UInt8]?, tag: [UInt8]?, to writer: inout JSONWriter, ending: (inout JSONWriter) -> Void
    ) {
        let capacity = members.count + (objects?.count ?? 0) + timingCount
        write("completed", capacity: capacity, tag: tag, to: &writer) { writer in
            writer.jobMembers(id: id, sequence: sequence)
            if dryRun {
                writer.member("dryRun", true)
            }
            guard !members.isEmpty else { return }
            writer.member("duplicate", duplicate)
            writer.rawMembers(members)
            ending(&writer)
            guard let objects else { return }
            writer.key("objects")
            writer.raw(objects)
        }
    }

    /// - Parameters:
    ///   - sequence: nil for a job that was refused before it had a sequence.
    ///   - error: the `error` object as JSON text, with its braces.
    package static func failed(id: String?, sequence: Int64?, error: [UInt8], tag: [UInt8]?) -> [UInt8] {
        message("failed", capacity: error.count, tag: tag) { writer in
            writer.jobMembers(id: id, sequence: sequence)
            writer.key("error")
            writer.raw(error)
        }
    }

    /// The job of that id was cancelled.
    package static func cancelled(id: String, tag: [UInt8]?) -> [UInt8] {
        message("cancelled", capacity: 0, tag: tag) { $0.member("id", id) }
    }

    /// The store was copied.
    ///
    /// - Parameters:
    ///   - sequence: the copy contains every job up to this one, and no later one.
    ///   - bytes: the size of the file.
    package static func backedUp(sequence: Int64, bytes: Int64, tag: [UInt8]?) -> [UInt8] {
        message("done", capacity: 0, tag: tag) { writer in
            writer.member("action", BackupMessage.action)
            writer.member("sequence", sequence)
            writer.member("bytes", bytes)
        }
    }

    package static func backupProgress(pages: Int, ofPages: Int, tag: [UInt8]?) -> [UInt8] {
        message("progress", capacity: 0, tag: tag) { writer in
            writer.member("action", BackupMessage.action)
            writer.member("pages", pages)
            writer.member("ofPages", ofPages)
        }
    }

    /// - Parameter members: further members after the action.
    package static func done(_ action: AdminAction, members: [UInt8] = [], tag: [UInt8]?) -> [UInt8] {
        message("done", capacity: members.count, tag: tag) { writer in
            writer.member("action", action.rawValue)
            writer.rawMembers(members)
        }
    }

    /// The store was changed to the model, or would be.
    ///
    /// - Parameter changes: the array of changes as JSON text.
    package static func migrated(isDryRun: Bool, changes: [UInt8], tag: [UInt8]?) -> [UInt8] {
        message("done", capacity: changes.count, tag: tag) { writer in
            writer.member("action", MigrateMessage.action)
            writer.member("dryRun", isDryRun)
            writer.key("changes")
            writer.raw(changes)
        }
    }

    /// - Parameters:
    ///   - value: nil when there is no bookmark of that name.
    ///   - sequence: that of the job that wrote it.
    package static func bookmark(name: String, value: String?, sequence: Int64?, tag: [UInt8]?) -> [UInt8] {
        message("bookmark", capacity: name.utf8.count + (value?.utf8.count ?? 0), tag: tag) { writer in
            writer.member("name", name)
            writer.member("value", orNull: value)
            guard let sequence else { return }
            writer.member("sequence", sequence)
        }
    }

    /// A subscription is open.
    ///
    /// - Parameter oldest: the feed can be read after this sequence, and no older one.
    package static func subscribed(after: Int64, oldest: Int64, tag: [UInt8]?) -> [UInt8] {
        message("subscribed", capacity: 0, tag: tag) { writer in
            writer.member("after", after)
            writer.member("oldest", oldest)
        }
    }

    /// A job of the feed.
    ///
    /// - Parameters:
    ///   - changes: the object of changes as JSON text.
    ///   - keys: the object of keys as JSON text.
    package static func committed(
        sequence: Int64, id: String?, changes: [UInt8], keys: [UInt8]?, tag: [UInt8]?
    ) -> [UInt8] {
        message("committed", capacity: changes.count + (keys?.count ?? 0), tag: tag) { writer in
            writer.jobMembers(id: id, sequence: sequence)
            writer.key("changes")
            writer.raw(changes)
            guard let keys else { return }
            writer.key("keys")
            writer.raw(keys)
        }
    }

    package static func stats(members: [UInt8], tag: [UInt8]?) -> [UInt8] {
        message("stats", capacity: members.count, tag: tag) { $0.rawMembers(members) }
    }

    /// - Parameter members: the lists.
    package static func jobs(members: [UInt8], tag: [UInt8]?) -> [UInt8] {
        message("jobs", capacity: members.count, tag: tag) { $0.rawMembers(members) }
    }

    /// - Parameter model: the model as JSON text, with its braces.
    package static func model(_ model: [UInt8], tag: [UInt8]?) -> [UInt8] {
        message("model", capacity: model.count, tag: tag) { writer in
            writer.key("model")
            writer.raw(model)
        }
    }

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
        if let more {
            writer.member("more", more)
        }
        if let last {
            writer.key("last")
            writer.raw(last)
        }
        writer.tag(tag)
        return writer.bytes + [UInt8(ascii: "}")]
    }

    /// - Parameter error: the `error` object as JSON text, with its braces.
    package static func error(_ error: [UInt8], about frame: FrameReference) -> [UInt8] {
        message("error", capacity: error.count + (frame.tag?.count ?? 0), tag: nil) { writer in
            writer.key("error")
            writer.raw(error)
            writer.reference(frame)
        }
    }

    /// Bytes of the `timing` of most jobs.
    private static let timingCount = 96

    private static func message(
        _ type: String, capacity: Int, tag: [UInt8]?, _ members: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 0)
        write(type, capacity: capacity, tag: tag, to: &writer, members)
        return writer.bytes
    }

    private static func write(
        _ type: String, capacity: Int, tag: [UInt8]?, to writer: inout JSONWriter,
        _ members: (inout JSONWriter) -> Void
    ) {
        // With room for what a frame adds, so that StoredFrame needs no copy.
        writer.reserve(160 + capacity + (tag?.count ?? 0) + StoredFrame.addedCount)
        writer.object { writer in
            writer.member("type", type)
            members(&writer)
            writer.tag(tag)
        }
    }
}

extension JSONWriter {
    fileprivate mutating func jobMembers(id: String?, sequence: Int64?) {
        if let id { member("id", id) }
        if let sequence {
            key("sequence")
            integer(sequence)
        }
    }
}
