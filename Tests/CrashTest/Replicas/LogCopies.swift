#if Replication
import BrokerJournal
import BrokerReplication
#endif
import TestSupport

/// The entries of a log, read from each server's own copy.
struct LogCopies {
    fileprivate struct Entry: Equatable {
        let position: Int
        let isJob: Bool
        let id: String
        let isIDMade: Bool
        /// The payload of a checkpoint.
        let checkpoint: String?
    }

    private let entries: [Entry]

    private var firstPosition: Int { entries.first?.position ?? 1 }

    /// Each job that was reported as accepted is in the log, at its sequence, and none more often than it was sent.
    ///
    /// - Parameters:
    ///   - filled: by id, small jobs that were sent more than once.
    ///   - ledger: of a store that has applied everything.
    func check(_ answers: ClientAnswers, jobs: some Sequence<CrashJob>, filled: [String: Int], ledger: [LedgerLine])
        throws
    {
        let byPosition = Dictionary(uniqueKeysWithValues: entries.filter(\.isJob).map { ($0.position, $0) })
        let hasID = Dictionary(uniqueKeysWithValues: jobs.map { ($0.name, $0.hasID) })
        for (name, sequences) in answers.accepted {
            for sequence in sequences where sequence >= firstPosition {
                guard let entry = byPosition[sequence], entry.isIDMade != hasID[name],
                    entry.isIDMade || entry.id == name
                else {
                    throw Difference(
                        "\(name) was accepted as \(sequence), where the log has \(byPosition[sequence], default: "nothing")."
                    )
                }
            }
        }
        var counts: [String: Int] = [:]
        for entry in byPosition.values { counts[entry.id, default: 0] += 1 }
        let made = Set(byPosition.values.filter(\.isIDMade).map(\.id))
        for (id, count) in counts {
            let sendings = made.contains(id) ? 1 : Filling.isOne(id) ? filled[id] ?? 1 : answers.sendings[id] ?? 0
            guard count <= sendings else {
                throw Difference("\(id) was sent \(sendings) times, and is \(count) times in the log.")
            }
        }
        let ids = Set(ledger.map(\.id))
        for line in ledger where line.sequence >= firstPosition {
            guard byPosition[line.sequence]?.id == line.id else {
                throw Difference(
                    "\(line) is in the ledger, and the log has \(byPosition[line.sequence], default: "nothing") there.")
            }
        }
        guard let missing = byPosition.values.first(where: { !ids.contains($0.id) }) else { return }
        throw Difference("\(missing) is in the log, and not in the ledger.")
    }

    /// The servers have reported the same digests at the same positions.
    ///
    /// - Parameter replica: one that was made to differ, and must have reported another one.
    func checkDigests(differing replica: String?) throws {
        var digests: [String: Set<String>] = [:]
        var others: [String: Set<String>] = [:]
        for text in entries.compactMap(\.checkpoint) {
            let checkpoint = try Message(text: text)
            guard let position = checkpoint["position"], position != "0", let digest = checkpoint["digest"] else {
                continue
            }
            if checkpoint["replica"] == replica {
                others[position, default: []].insert(digest)
            } else {
                digests[position, default: []].insert(digest)
            }
        }
        if let (position, different) = digests.first(where: { $0.value.count > 1 }) {
            throw Difference("At position \(position) the servers have reported the digests \(different).")
        }
        guard replica != nil else { return }
        guard others.contains(where: { position, own in digests[position].map { !own.isSubset(of: $0) } ?? false })
        else {
            throw Difference("The store that was made to differ has reported no other digest.")
        }
    }
}

#if Replication
extension LogCopies {
    /// Bytes that are read at a time.
    private static let batch = 1 << 20

    /// - Parameter servers: whose copies are read.
    init(_ address: String, of servers: [String], _ deadline: ContinuousClock.Instant) throws {
        do {
            let stream = try ReplicatedStream.open(StreamConnection(StreamAddress(address)))
            defer { stream.stop() }
            let status = try stream.status()
            var first: [LogEntry] = []
            var seen: Set<String> = []
            while seen.count < servers.count {
                guard ContinuousClock.now < deadline else {
                    throw Difference("Only \(seen) have delivered their copies.")
                }
                let reader = StreamReader(stream, after: status.firstPosition - 1)
                defer { reader.stop() }
                guard var copy = try reader.read(bytes: 1) else { continue }
                // JetStream chooses the server.
                guard let server = reader.state.server, seen.insert(server).inserted else { continue }
                while copy.last?.position ?? 0 < status.lastPosition, let more = try reader.read(bytes: Self.batch) {
                    copy += more
                }
                guard reader.state.server == server else {
                    seen.remove(server)
                    continue
                }
                if first.isEmpty { first = copy }
                guard copy == first else { throw Difference("The copy of \(server) has other entries.") }
            }
            entries = first.map { Entry($0) }
        } catch let error as ReplicationError {
            throw Difference("The log cannot be read: \(error.message)")
        }
    }
}

extension LogCopies.Entry {
    init(_ entry: LogEntry) {
        self.init(
            position: Int(entry.position), isJob: entry.kind == .job, id: entry.id, isIDMade: entry.isIDMade,
            checkpoint: entry.kind == .checkpoint ? String(decoding: entry.payload, as: UTF8.self) : nil)
    }
}
#else
extension LogCopies {
    init(_ address: String, of servers: [String], _ deadline: ContinuousClock.Instant) throws {
        throw Difference("This program was built without the trait Replication.")
    }
}
#endif
