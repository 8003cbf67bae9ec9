internal import BrokerStore

/// A log that several servers share. Each applies all of it to a store of its own, so their stores are equal.
protocol SharedLog: JobLog {
    /// Stored in a store that is fed from it. No journal has such a one.
    var identity: String { get }
    /// For messages, without a password.
    var address: String { get }
    /// The name of this server in it.
    var replica: String { get }
    /// Where an accepted job is.
    var durability: Durability { get }

    /// The first entries of the log. Blocks until they are known.
    ///
    /// - Parameter own: what to begin an empty log with.
    func first(_ own: LogBeginning) throws(StoreError) -> LogBeginning

    /// Begins to read after that position, and to take entries. Called once, before any other use but ``first(_:)``.
    ///
    /// - Parameters:
    ///   - time: that of the entry there.
    ///   - report: called with the reason when entries wait for the log for long, and with nil when they do not any more.
    func begin(after position: Int64, at time: Int64, reporting report: @escaping @Sendable (_ reason: String?) -> Void)

    /// Appends an entry about the servers, in order with the others.
    func append(_ note: ReplicaNote)

    /// Deletes the entries up to that position, some time. Must not block.
    func trim(through position: Int64)

    /// The newest position that is known to be in the log.
    var lastPosition: Int64 { get }

    /// Why entries wait; nil while the log takes them.
    var waiting: String? { get }
}

/// The first entries of a log that is shared: each new store begins with them.
struct LogBeginning: Sendable {
    /// The texts of the limits, the model, and the fingerprint.
    var limits: LoggedLimits
    var model: String
    /// `ApplicationFingerprint.digits`.
    var fingerprint: String
    /// The position of the last of them.
    var position: Int64 = 0
    var time: Int64 = 0
}

/// Where a job is that is `accepted`.
package enum Durability: String, Sendable {
    /// It is in memory.
    case queued
    /// It is on the disk of this machine.
    case disk
    /// Most servers of the log have it in memory, and perhaps on the disk.
    case quorumMemory = "quorum-memory"
    /// Most servers of the log have it on the disk.
    case quorum
}

/// Opens a shared log before the store that it feeds.
package struct SharedLogSource: Sendable {
    /// - Parameter identity: of the log that the store was fed from; nil for a new store.
    typealias Open = @Sendable (_ identity: String?) throws(StoreError) -> any SharedLog

    let open: Open

    init(_ open: @escaping Open) { self.open = open }

    /// How the identities of shared logs begin.
    static let prefix = "nats:"

    /// A store that a shared log feeds is a copy of others: without the log it would become another one.
    ///
    /// - Throws: ``StoreError`` for such a store.
    static func refuse(_ identity: String?, at path: String) throws(StoreError) {
        guard let identity, identity.hasPrefix(prefix) else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) is a replica: a log that several servers share feeds it, and only brokerd --log may change it. To "
                + "make a store of its own of it, copy it by `broker backup`, and use `broker restore` with another path. "
                + "Nothing was touched.")
    }
}
