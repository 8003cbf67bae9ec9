#if Replication
internal import BrokerJSON

/// The configuration of a stream: what Broker needs, and how another one differs from it.
///
/// `deny_delete` is set, so that no entry in the middle can be deleted. `deny_purge` is not: nats-server 2.15.1 refuses each purge of
/// such a stream and never lets the flag be taken off again, and its only other way to trim, `discard: old` with `max_msgs` for a
/// moment, removes entries that are appended in that moment. A purge by another program is noticed: readers that have not read what
/// it removed halt.
struct StreamConfiguration {
    static let identityKey = "broker.identity"
    static let copies = 3

    /// The members that matter, as JSON texts; those that an answer lacks have their default.
    private var members: [String: String] = [:]

    /// nil is no configuration at all.
    init(_ config: JSONValue?) {
        guard let config else { return }
        for member in config.members {
            if let key = member.key.string { members[key] = String(decoding: member.value.jsonText, as: UTF8.self) }
        }
    }

    var copies: Int { members["num_replicas"].flatMap { Int($0) } ?? 1 }

    /// The value that each member must have, and its value when an answer lacks it.
    private static func required(_ name: String) -> [(key: String, value: String, absent: String)] {
        [
            ("subjects", "[\"\(name).>\"]", "[]"), ("storage", "\"file\"", "\"file\""),
            ("retention", "\"limits\"", "\"limits\""), ("discard", "\"new\"", "\"old\""),
            ("deny_delete", "true", "false"), ("deny_purge", "false", "false"),
            ("allow_atomic", "true", "false"), ("max_age", "0", "0"), ("max_msgs", "-1", "-1"),
            ("max_msgs_per_subject", "-1", "-1"), ("max_msg_size", "-1", "-1"), ("max_consumers", "-1", "-1"),
            ("allow_rollup_hdrs", "false", "false"), ("allow_msg_ttl", "false", "false"),
            ("allow_msg_counter", "false", "false"),
            ("allow_msg_schedules", "false", "false"), ("sealed", "false", "false"), ("no_ack", "false", "false"),
            ("mirror", "absent", "absent"), ("sources", "absent", "absent"), ("republish", "absent", "absent"),
            ("subject_transform", "absent", "absent"), ("persist_mode", "absent", "absent"),
            ("first_seq", "absent", "absent"),
        ]
    }

    /// The members that differ from what Broker needs, each as a part of a sentence. The number of copies is not compared.
    func differences(from name: String) -> [String] {
        // JetStream escapes the sign in answers.
        let own = members.mapValues { $0.replacing("\\u003e", with: ">") }
        return Self.required(name).compactMap { key, value, absent in
            let found = own[key] ?? absent
            return found == value ? nil : "\(key) is \(found) and must be \(value)"
        }
    }

    /// The text of the request that creates the stream.
    ///
    /// - Parameter maximumBytes: of one copy; nil for as much as the disks have.
    static func request(_ name: String, _ identity: StreamIdentity, copies: Int, maximumBytes: Int64?) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("name", name)
            writer.member("description", "A log of Broker. Do not change, purge or delete it by hand.")
            writer.key("metadata")
            writer.object { $0.member(identityKey, identity.description) }
            writer.member("num_replicas", copies)
            writer.member("max_bytes", maximumBytes ?? -1)
            for (key, value, absent) in required(name) where value != absent {
                writer.key(key)
                writer.raw(value.utf8)
            }
        }
        return writer.bytes
    }
}
#endif
