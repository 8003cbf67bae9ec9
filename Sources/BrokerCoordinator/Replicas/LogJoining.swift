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
        try LogJoining.refuseJournal(identity, at: store)
        self = identity == nil ? .new : .replica
    }
}

/// A shared log, and what it says about the store that it feeds, before that store is opened.
struct LogJoining {
    let log: any SharedLog
    /// Those in force in the store; those that the log begins with, for a new store.
    let plan: StagingPlan
    let limits: LoggedLimits
    /// Nil for a store that the log feeds already.
    let beginning: LogBeginning?

    /// Opens the log. Blocks until its servers answer. Changes nothing in the store.
    ///
    /// - Parameter wanted: the model that an empty log begins with.
    /// - Returns: nil without a shared log.
    /// - Throws: ``StoreError`` when the store cannot be one of this log's.
    init?(_ options: CoordinatorOptions, _ wanted: StagingPlan) throws(StoreError) {
        guard let source = options.sharedLog else { return nil }
        let path = options.storePath
        let (_, identity) = try Store.journal(path: path)
        try Self.refuseJournal(identity, at: path)
        let log = try source.open(identity)
        do throws(StoreError) {
            self = try identity == nil ? Self(new: log, wanted, options) : Self(present: log, wanted, options)
        } catch {
            log.stop()
            throw error
        }
    }

    /// - Throws: ``StoreError`` for the identity of a journal.
    static func refuseJournal(_ identity: String?, at path: String) throws(StoreError) {
        guard let identity, !identity.hasPrefix(SharedLogSource.prefix) else { return }
        throw StoreError(
            .incompatible,
            "The store \(path) has a journal of its own, and cannot take part in a shared log. Begin with an empty store, or with "
                + "a backup of a replica. Nothing was touched.")
    }

    private init(
        present log: any SharedLog, _ wanted: StagingPlan, _ options: CoordinatorOptions
    ) throws(StoreError) {
        self.log = log
        beginning = nil
        limits = try Store.limitsInForce(path: options.storePath) ?? LoggedLimits(options.store)
        plan = try Store.planInForce(path: options.storePath) ?? wanted
    }

    private init(new log: any SharedLog, _ wanted: StagingPlan, _ options: CoordinatorOptions) throws(StoreError) {
        self.log = log
        let path = options.storePath
        let first = try log.first(
            LogBeginning(
                limits: LoggedLimits(options.store), model: wanted.model.text,
                fingerprint: ApplicationFingerprint(wanted).digits))
        (beginning, limits) = (first, first.limits)
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
    }
}

/// The model and the options that a store is opened with: those in force in its log, which may differ from the wanted ones.
struct CoordinatorOpening {
    /// Nil without a shared log.
    let joining: LogJoining?
    let plan: StagingPlan
    let options: CoordinatorOptions

    /// Blocks while a shared log is opened.
    init(_ wanted: StagingPlan, _ options: CoordinatorOptions) throws(StoreError) {
        joining = try LogJoining(options, wanted)
        var inForce = joining?.plan
        var limits = joining?.limits
        if options.keepsJournal {
            inForce = try Store.planInForce(path: options.storePath, unlike: wanted)
            limits = try Store.limitsInForce(path: options.storePath)
        }
        plan = inForce ?? wanted
        var options = options
        limits?.set(in: &options.store)
        // Parts of the file that are not in that model may be in the wanted one.
        if inForce != nil { options.store.removal = .keep }
        self.options = options
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
        if let reason = try fact(.halt) { return StoreError(.unavailable, reason) }
        let inForce = try fact(.fingerprint).flatMap { ApplicationFingerprint($0) }
        guard let inForce, inForce.digits != fingerprint.digits else {
            _ = try updateFingerprint()
            return nil
        }
        return StoreError(
            .unavailable,
            "The log's fingerprint is \(inForce.digits), and this server has \(fingerprint.digits) "
                + "(\(fingerprint.differences(from: inForce).joined(separator: "; "))): it would apply entries in another way. Install the "
                + "versions with that fingerprint, or change that of all servers by `broker log upgrade`.")
    }
}
