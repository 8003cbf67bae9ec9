internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
package import BrokerStore

/// A store, as a start with a shared log would find it. Whether it is of that log is not known.
package enum ReplicaFinding: Sendable {
    case new, replica

    /// - Throws: ``StoreError`` when it cannot be one.
    package init(store: String) throws(StoreError) {
        let (_, identity) = try Store.journal(path: store)
        try CoordinatorOpening.refuseJournal(identity, at: store)
        self = identity == nil ? .new : .replica
    }
}

/// The model and the options that a store is opened with: those in force in its log, which may differ from the wanted ones.
struct CoordinatorOpening {
    /// Nil for a server alone.
    let shared: (any SharedLog)?
    /// Nil for a store that the log feeds already.
    let beginning: LogBeginning?
    let plan: StagingPlan
    let options: CoordinatorOptions

    /// Changes nothing in the store. Blocks while a shared log is opened.
    ///
    /// - Parameter wanted: the model that an empty log begins with.
    /// - Throws: ``StoreError`` when the store cannot be one of the shared log's.
    init(_ wanted: StagingPlan, _ options: CoordinatorOptions) throws(StoreError) {
        let path = options.storePath
        var inForce: StagingPlan?
        var limits: LoggedLimits?
        if let source = options.sharedLog {
            let identity = try Store.journal(path: path).identity
            try Self.refuseJournal(identity, at: path)
            let log = try source.open(identity)
            do throws(StoreError) {
                if identity == nil {
                    let (first, plan) = try Self.begin(log, wanted, options)
                    (beginning, inForce, limits) = (first, plan, first.limits)
                } else {
                    beginning = nil
                    limits = try Store.limitsInForce(path: path) ?? LoggedLimits(options.store)
                    inForce = try Store.planInForce(path: path) ?? wanted
                }
            } catch {
                log.stop()
                throw error
            }
            shared = log
        } else {
            (shared, beginning) = (nil, nil)
            if options.keepsJournal {
                inForce = try Store.planInForce(path: path, unlike: wanted)
                limits = try Store.limitsInForce(path: path)
            }
        }
        plan = inForce ?? wanted
        var options = options
        limits?.set(in: &options.store)
        // Parts of the file that are not in that model may be in the wanted one.
        if inForce != nil { options.store.removal = .keep }
        self.options = options
    }

    /// - Throws: ``StoreError`` for the identity of a journal.
    static func refuseJournal(_ identity: String?, at path: String) throws(StoreError) {
        guard let identity, !identity.hasPrefix(SharedLogSource.prefix) else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) has a journal of its own, and cannot take part in a shared log. Begin with an empty store, or with "
                + "a backup of a replica. Nothing was touched.")
    }

    /// For a new store, which begins as the log does.
    private static func begin(
        _ log: any SharedLog, _ wanted: StagingPlan, _ options: CoordinatorOptions
    ) throws(StoreError) -> (LogBeginning, StagingPlan) {
        let path = options.storePath
        let first = try log.first(
            LogBeginning(
                limits: LoggedLimits(options.store), model: wanted.model.text,
                fingerprint: ApplicationFingerprint(wanted).digits))
        let plan: StagingPlan
        do throws(ModelError) {
            plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(first.model.utf8))))
        } catch {
            throw StoreError(
                .incompatible,
                "The model that the log \(log.address) begins with cannot be read "
                    + "(\(error.faults.first.map(\.description) ?? "")). Start the version of the server that wrote it."
            )
        }
        guard try Store.isUnused(path: path, plan: plan) else {
            throw StoreError(
                .incompatible,
                "The store \(path) has objects or jobs of its own, and cannot take part in the log \(log.address). Begin with an empty "
                    + "store, or with a backup of a replica. Nothing was touched.")
        }
        let fingerprint = ApplicationFingerprint(plan).digits
        guard fingerprint == first.fingerprint else {
            throw StoreError(
                .incompatible,
                "This server has the fingerprint \(fingerprint), and the log \(log.address) began under \(first.fingerprint): it would "
                    + "apply jobs in another way. Install the versions that the other servers have, or begin with a backup "
                    + "of one of them.")
        }
        return (first, plan)
    }
}

extension Store {
    /// The servers that share the store's log, as of its position.
    func replicas() throws(StoreError) -> ReplicaTable {
        try fact(.replicas).flatMap { ReplicaTable($0) } ?? ReplicaTable()
    }

    /// Why the store takes no more entries of its log: it differed from the others, or this server would apply them in another way.
    /// A store that was just begun gets the fingerprint of this server.
    func haltInForce() throws(StoreError) -> StoreError? {
        if let reason = try fact(.halt) { return StoreError.unavailable(reason) }
        let inForce = try fact(.fingerprint).flatMap { ApplicationFingerprint($0) }
        guard let inForce, inForce.digits != fingerprint.digits else {
            _ = try updateFingerprint()
            return nil
        }
        return StoreError.unavailable(
            "The log's fingerprint is \(inForce.digits), and this server has \(fingerprint.digits) "
                + "(\(fingerprint.differences(from: inForce).joined(separator: "; "))): it would apply entries in another way. Install the "
                + "versions with that fingerprint, or change that of all servers by `broker log upgrade`.")
    }
}

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

    /// The log delivers a note. Returns what follows for the server of that name, which has taken part before or not.
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
