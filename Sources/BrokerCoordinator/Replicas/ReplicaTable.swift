internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerStore

/// The servers that share a log, according to its entries: each server has the same table at the same position. A pure value.
struct ReplicaTable: Equatable {
    struct Member: Equatable {
        /// When an entry of it was stored last, in milliseconds since 1970, by the log.
        var time: Int64
        var durable: Int64 = 0
        var backup: Int64 = 0
    }

    enum Consequence: Equatable {
        /// It must apply nothing more.
        case halt(String)
        /// It deletes the entries up to there from the log.
        case trim(Int64)
        /// It removes another server from the log.
        case remove(String)
    }

    private(set) var members: [String: Member] = [:]
    /// By position and server: digests that are compared. Not stored: a server that starts compares later ones.
    private var votes: [Int64: [String: String]] = [:]
    private var trimmed: Int64 = 0

    /// A server that appends nothing for that long does not keep entries from being trimmed any more. Milliseconds.
    static let longestSilence: Int64 = 7 * 24 * 3_600 * 1_000
    /// Entries that stay in the log though no server needs them: an attempt to append that was delayed on the network must find the
    /// entry that it repeats.
    static let margin: Int64 = 10_000
    /// Intervals of checkpoints after which servers that differ halt, also when others have not voted.
    private static let patience: Int64 = 2

    // MARK: - As text

    init() {}

    /// Parses ``text``; nil for anything else.
    init?(_ text: String) {
        guard let document = try? JSONDocument(parsing: JSONText(copying: Array(text.utf8))) else { return nil }
        for member in document.root.members {
            guard let name = member.key.string, let time = member.value["time"]?.int64 else { return nil }
            members[name] = Member(
                time: time, durable: member.value["durable"]?.int64 ?? 0, backup: member.value["backup"]?.int64 ?? 0)
        }
    }

    /// The members as a JSON object.
    var text: String {
        var writer = JSONWriter()
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            for (name, member) in members.sorted(by: { $0.key < $1.key }) {
                writer.object(name) { writer in
                    writer.member("time", member.time)
                    writer.member("durable", member.durable)
                    writer.member("backup", member.backup)
                }
            }
        }
    }

    // MARK: - Entries

    /// The log delivers a note.
    ///
    /// - Parameters:
    ///   - own: the name of the server that asks for the consequences.
    ///   - hasJoined: it has taken part before this note.
    mutating func note(
        _ note: ReplicaNote, at mark: LogMark, own: String, hasJoined: Bool
    ) -> [Consequence] {
        switch note {
        case .joined(let name):
            members[name] = Member(
                time: mark.time, durable: members[name]?.durable ?? 0, backup: members[name]?.backup ?? 0)
        case .left(let name):
            members[name] = nil
            for position in votes.keys { votes[position]![name] = nil }
            guard name == own, hasJoined else { return [] }
            return [
                .halt(
                    "This server, \(own), was removed from the log at position \(mark.position). Start it again to take part again."
                )
            ]
        case .checkpoint(let checkpoint): return compare(checkpoint, at: mark, own: own)
        case .upgrade: break
        }
        return []
    }

    private mutating func compare(
        _ checkpoint: ReplicaCheckpoint, at mark: LogMark, own: String
    ) -> [Consequence] {
        // One that was removed, or that began before this store did.
        guard members[checkpoint.replica] != nil else { return [] }
        members[checkpoint.replica] = Member(
            time: mark.time, durable: checkpoint.durable, backup: checkpoint.backup)
        if checkpoint.position > 0 {
            votes[checkpoint.position, default: [:]][checkpoint.replica] =
                "\(checkpoint.digest) (fingerprint \(checkpoint.fingerprint))"
        }
        var consequences: [Consequence] = []
        for position in votes.keys.sorted() {
            let isOverdue = mark.position > position + Self.patience * StateDigest.checkpointInterval
            switch decide(votes[position]!, isOverdue: isOverdue, own: own) {
            case .undecided: continue
            case .equal: break
            case .different(let digest, let why):
                consequences.append(
                    .halt(
                        "At position \(position) the digest of this server, \(own), is \(digest), and \(why). Replace its store by a "
                            + "backup of another server, then start it again."))
            }
            if isOverdue || votes[position]!.count == members.count { votes[position] = nil }
        }
        guard checkpoint.replica == own, consequences.isEmpty else { return consequences }
        return upkeep(at: mark, own: own)
    }

    private enum Decision {
        case undecided, equal
        case different(String, String)
    }

    private func decide(_ votes: [String: String], isOverdue: Bool, own: String) -> Decision {
        guard let digest = votes[own] else { return isOverdue || votes.count == members.count ? .equal : .undecided }
        let counts = Dictionary(votes.values.map { ($0, 1) }, uniquingKeysWith: +)
        if let (most, count) = counts.max(by: { $0.value < $1.value }), count > members.count / 2 {
            return most == digest ? .equal : .different(digest, "that of most others is \(most)")
        }
        guard isOverdue || votes.count == members.count else { return .undecided }
        guard counts.count > 1 else { return .equal }
        let others = votes.filter { $0.key != own }.sorted { $0.key < $1.key }.map {
            "that of \($0.key) is \($0.value)"
        }
        return .different(digest, "\(others.joined(separator: ", ")); no digest is that of most")
    }

    /// After an own checkpoint: servers that are silent, and entries that no server needs.
    private mutating func upkeep(at mark: LogMark, own: String) -> [Consequence] {
        let silent = members.filter { mark.time - $0.value.time > Self.longestSilence }.keys.sorted()
        guard silent.isEmpty else { return silent.map { .remove($0) } }
        // The server that made the newest backup trims.
        let backup = members.values.map(\.backup).max() ?? 0
        let applied = members.values.map(\.durable).min() ?? 0
        let position = min(backup, applied) - Self.margin
        guard members[own]?.backup == backup, position >= trimmed + Self.margin else { return [] }
        trimmed = position
        return [.trim(position)]
    }
}
